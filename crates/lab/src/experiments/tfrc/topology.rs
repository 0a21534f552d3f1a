//! Bulk flows over a dumbbell: greedy, each between two hosts of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{Duration, Instant, Rng};
use timeous_cm::{Kind, Manager, NewReno};
use timeous_dccp::{Ccid, Config as DccpConfig};
use timeous_host::sources::Bulk;
use timeous_host::{Agent, Dccp, DccpSettings, Feed, Handle, Machine, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit, QueueKind};
use timeous_net::sim::{Dumbbell, Network, NodeId, Passage, Step};
use timeous_tcp::{Config as TcpConfig, EcnMode, LossDetection};

/// Bytes of data in a packet.
pub(crate) const SIZE: usize = 1_000;
/// One-way delay of a host's access link.
pub(crate) const ACCESS: Duration = Duration::from_millis(1);
/// Half of the delay variation on an access link.
pub(crate) const JITTER: Duration = Duration::from_millis(1);
/// Time within which flows start.
const BEGINNING: Duration = Duration::from_secs(1);
/// Largest spacing of packets that count as one burst.
const AT_ONCE: Duration = Duration::from_micros(100);
const FROM: u16 = 5_000;
const TO: u16 = 6_000;

/// Transport and congestion control of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flow {
    /// DCCP with TFRC: CCID 3.
    Tfrc,
    /// DCCP with the Congestion Manager's TFRC, which finds loss events at the sender.
    SenderTfrc,
    /// DCCP with the Congestion Manager's own additive increase and multiplicative decrease.
    Aimd,
    /// TCP.
    Tcp,
    /// TCP with pacing: packets are spread over the round trip.
    PacedTcp,
    /// TCP with an acknowledgement for each packet.
    QuickTcp,
    /// TCP that detects losses by later acknowledgements (RFC 6675), not by time.
    ClassicTcp,
}

impl Flow {
    /// Returns the name for output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tfrc => "TFRC",
            Self::SenderTfrc => "TFRC at the sender",
            Self::Aimd => "AIMD",
            Self::Tcp => "TCP",
            Self::PacedTcp => "TCP, paced",
            Self::QuickTcp => "TCP, each packet acknowledged",
            Self::ClassicTcp => "TCP, losses found by RFC 6675",
        }
    }
}

#[derive(Clone, Copy)]
enum FlowEnds {
    Dccp(Handle<Dccp>, Handle<Dccp>),
    Tcp(Handle<Tcp>, Handle<Tcp>),
}

/// Network with its flows.
pub(crate) struct Topology {
    pub(crate) network: Network<Machine>,
    net: Dumbbell,
    ends: Vec<FlowEnds>,
}

/// Measurements of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderStats {
    /// Smoothed round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// Loss event rate last reported by a TFRC receiver.
    pub(crate) p: Option<f64>,
    /// Packets of a TCP, retransmissions included; its numbers of recoveries and timeouts.
    pub(crate) packets: u64,
    pub(crate) recoveries: u64,
    pub(crate) timeouts: u64,
}

/// Records of packets.
pub(crate) struct PacketRecords {
    /// Drops at the bottleneck, by time and flow.
    pub(crate) drops: Vec<(Instant, usize)>,
    /// Packets of each flow that arrived at the bottleneck.
    pub(crate) arrived: Vec<u64>,
    /// Sizes of each flow's bursts on leaving its host, in packets.
    pub(crate) bursts: Vec<Vec<u64>>,
}

/// Bottleneck that the flows share.
#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    pub(crate) capacity: Capacity,
    /// Round-trip time without queueing.
    pub(crate) rtt: Duration,
    /// Queue length in packets.
    pub(crate) queue: usize,
    pub(crate) kind: QueueKind,
    /// Half of the delay variation on each host's access link.
    pub(crate) jitter: Duration,
}

impl Bottleneck {
    /// Creates a drop-tail bottleneck with little jitter before it.
    pub(crate) fn plain(capacity: Capacity, rtt: Duration, queue: usize) -> Self {
        Self { capacity, rtt, queue, kind: QueueKind::DropTail, jitter: JITTER }
    }
}

impl Topology {
    pub(crate) fn new(seed: u64, bottleneck: &Bottleneck, flows: &[Flow]) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let side = |n: u8| {
            let hosts = (1..=flows.len() as u8).map(move |host| IpAddr::V4(Ipv4Addr::new(10, 0, n, host)));
            hosts.map(|at| (at, Machine::new(at)))
        };
        let jitter = Jitter { spread: bottleneck.jitter, ..Jitter::default() };
        let delay = ACCESS.max(bottleneck.jitter);
        let access = LinkConfig { delay, jitter, queue: Limit::Packets(usize::MAX), ..LinkConfig::default() };
        let forward = LinkConfig {
            capacity: bottleneck.capacity.clone(),
            queue: Limit::Packets(bottleneck.queue),
            kind: bottleneck.kind,
            delay: (bottleneck.rtt / 2).saturating_sub(delay * 2),
            ..LinkConfig::default()
        };
        let back = LinkConfig {
            capacity: Capacity::Unlimited,
            queue: Limit::Packets(usize::MAX),
            kind: QueueKind::DropTail,
            ..forward.clone()
        };
        let net = network.dumbbell(side(1), side(2), &access, forward, back);
        let mut topology = Self { network, net, ends: Vec::new() };
        for (number, &flow) in flows.iter().enumerate() {
            let start = Instant::ZERO + Duration::from_nanos(rng.below(BEGINNING.as_nanos()));
            let ends = topology.connect(number, flow, start, &mut rng);
            topology.ends.push(ends);
        }
        topology
    }

    fn add<A: Agent>(&mut self, node: NodeId, port: u16, manager: Manager, agent: A) -> Handle<A> {
        self.network.with_host(node, |_, machine| {
            let own = machine.add_manager_of(manager);
            machine.add(port, own, agent)
        })
    }

    fn connect(&mut self, number: usize, flow: Flow, start: Instant, rng: &mut Rng) -> FlowEnds {
        let (from, to) = (self.net.left[number], self.net.right[number]);
        let remote: SocketAddr = (Ipv4Addr::new(10, 0, 2, number as u8 + 1), TO).into();
        let manager = |kind: Kind| Manager::new(kind.constructor());
        if matches!(flow, Flow::Tcp | Flow::PacedTcp | Flow::QuickTcp | Flow::ClassicTcp) {
            let mut config =
                TcpConfig { mss: SIZE as u16, timestamps: false, ecn: EcnMode::Off, ..TcpConfig::default() };
            let mut sender = manager(Kind::NewReno);
            match flow {
                Flow::PacedTcp => sender = Manager::new(|mtu| Box::new(NewReno::new(mtu).with_pacing())),
                Flow::QuickTcp => config.delayed_ack.delay = Duration::ZERO,
                Flow::ClassicTcp => {
                    (config.loss_detection, config.tail_loss_probe) = (LossDetection::DupThresh, false);
                }
                _ => {}
            }
            let listener = Tcp::listener(Feed::none, config.clone(), rng.fork());
            let caller = Tcp::caller(remote, start, Socket::new(Bulk::endless(SIZE)), config, rng.fork());
            let caller = self.add(from, FROM, sender, caller);
            return FlowEnds::Tcp(caller, self.add(to, TO, manager(Kind::NewReno), listener));
        }
        let kind = if flow == Flow::Aimd { Kind::Aimd } else { Kind::Tfrc };
        let connection = DccpConfig { mps: SIZE + DccpConfig::HEADER_ROOM, ecn: false, ..DccpConfig::default() };
        let ccid = if flow == Flow::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 };
        let connection = connection.with_ccids(&[ccid]);
        let settings = DccpSettings { connection, start, ..DccpSettings::default() };
        let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
        let caller = Dccp::caller(remote, Stream::new(Bulk::endless(SIZE)).slots(64), settings, rng.fork());
        let caller = self.add(from, FROM, manager(kind), caller);
        FlowEnds::Dccp(caller, self.add(to, TO, manager(kind), listener))
    }

    /// Returns the records since recording began, or since the last call.
    pub(crate) fn take_journeys(&mut self) -> PacketRecords {
        let forward = self.net.bottleneck.0;
        let (mut flows, mut drops, mut arrived) = (BTreeMap::new(), Vec::new(), vec![0; self.ends.len()]);
        let mut bursts = vec![(Instant::ZERO, Vec::new()); self.ends.len()];
        for Step { at, packet, what } in self.network.take_journeys() {
            match what {
                Passage::Sent(node) => {
                    if let Some(flow) = self.net.left.iter().position(|left| *left == node) {
                        flows.insert(packet, flow);
                        let (last, bursts) = &mut bursts[flow];
                        match bursts.last_mut().filter(|_| at.saturating_since(*last) < AT_ONCE) {
                            Some(burst) => *burst += 1,
                            None => bursts.push(1),
                        }
                        *last = at;
                    }
                }
                Passage::Entered(link) if link == forward => {
                    flows.get(&packet).into_iter().for_each(|&flow: &usize| arrived[flow] += 1);
                }
                Passage::Dropped(link, _) if link == forward => {
                    drops.extend(flows.get(&packet).map(|&flow| (at, flow)));
                }
                _ => {}
            }
        }
        PacketRecords { drops, arrived, bursts: bursts.into_iter().map(|(_, bursts)| bursts).collect() }
    }

    /// Returns the received bytes of data, by flow.
    pub(crate) fn received(&self) -> Vec<u64> {
        let of = |(ends, &node): (&FlowEnds, &NodeId)| {
            let machine = self.network.host(node);
            let arrivals = match *ends {
                FlowEnds::Dccp(_, end) => machine.agent(end).session().map(|session| session.arrivals()),
                FlowEnds::Tcp(_, end) => machine.agent(end).session().map(|session| session.arrivals()),
            };
            arrivals.map_or(0, |arrivals| arrivals.total())
        };
        self.ends.iter().zip(&self.net.right).map(of).collect()
    }

    /// Returns the sent bytes of data, by flow, retransmissions included.
    pub(crate) fn sent(&self) -> Vec<u64> {
        let of = |(ends, &node): (&FlowEnds, &NodeId)| {
            let machine = self.network.host(node);
            let journal = match *ends {
                FlowEnds::Dccp(end, _) => machine.agent(end).session().map(|session| session.journal()),
                FlowEnds::Tcp(end, _) => machine.agent(end).session().map(|session| session.journal()),
            };
            journal.map_or(0, |journal| (journal.copies() * SIZE) as u64)
        };
        self.ends.iter().zip(&self.net.left).map(of).collect()
    }

    /// Returns the current measurements of each flow's sender.
    pub(crate) fn means(&self) -> Vec<SenderStats> {
        let of = |(ends, &node): (&FlowEnds, &NodeId)| {
            let machine = self.network.host(node);
            match *ends {
                FlowEnds::Dccp(end, _) => {
                    let agent = machine.agent(end);
                    let endpoint = agent.endpoint();
                    let connection = endpoint.connections().next().and_then(|id| endpoint.connection(id));
                    let rtt = agent.session().and_then(|session| session.path().srtt);
                    SenderStats {
                        rtt,
                        p: connection.and_then(|connection| connection.loss_event_rate()),
                        ..SenderStats::default()
                    }
                }
                FlowEnds::Tcp(end, _) => machine.agent(end).session().map_or_else(SenderStats::default, |session| {
                    let statistics = session.statistics();
                    SenderStats {
                        rtt: session.path().srtt,
                        p: None,
                        packets: statistics.data_sent,
                        recoveries: statistics.recoveries,
                        timeouts: statistics.timeouts,
                    }
                }),
            }
        };
        self.ends.iter().zip(&self.net.left).map(of).collect()
    }

    /// Returns the increase of `count` in each of `slices` slices of `time` from now on, in kbit/s.
    pub(crate) fn rates(&mut self, time: Duration, slices: u64, count: impl Fn(&Self) -> Vec<u64>) -> Vec<Vec<f64>> {
        let begin = self.network.now();
        let mut before = count(self);
        let mut rates = vec![Vec::new(); before.len()];
        for slice in 1..=slices {
            self.network.run_until(begin + time / slices * slice);
            let after = count(self);
            for ((rates, before), after) in rates.iter_mut().zip(&before).zip(&after) {
                rates.push((8 * (after - before)) as f64 / 1e3 / (time / slices).as_secs_f64());
            }
            before = after;
        }
        rates
    }
}
