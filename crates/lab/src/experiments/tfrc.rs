//! Shared parts of the experiments with TFRC: bulk flows of several transports over one bottleneck.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::tfrc::equation;
use timeous_cm::{Kind, Manager, NewReno, Steering};
use timeous_dccp::{Ccid, Config as DccpConfig};
use timeous_host::sources::Bulk;
use timeous_host::{Dccp, DccpSettings, Feed, Handle, Machine, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit, QueueKind, RedConfig};
use timeous_net::sim::{Dumbbell, Network, NodeId, Passage, Step};
use timeous_tcp::{Config as TcpConfig, EcnMode, LossDetection};

use super::machines::{Machines, address};
use crate::experiment::values;

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

values! {
    /// Transport and congestion control of a flow.
    pub(crate) enum Flow {
        /// DCCP with TFRC: CCID 3.
        Tfrc = "TFRC",
        /// DCCP with the Congestion Manager's TFRC, which finds loss events at the sender.
        SenderTfrc = "TFRC at the sender",
        /// DCCP with the Congestion Manager's own additive increase and multiplicative decrease.
        Aimd = "AIMD",
        /// TCP.
        Tcp = "TCP",
        /// TCP with pacing: packets are spread over the round trip.
        PacedTcp = "TCP, paced",
        /// TCP with an acknowledgement for each packet.
        QuickTcp = "TCP, each packet acknowledged",
        /// TCP that detects losses by later acknowledgements (RFC 6675), not by time.
        ClassicTcp = "TCP, losses found by RFC 6675",
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
        let net = network.pairs(flows.len() as u8, &access, forward, back);
        let mut topology = Self { network, net, ends: Vec::new() };
        for (number, &flow) in flows.iter().enumerate() {
            let start = Instant::ZERO + Duration::from_nanos(rng.below(BEGINNING.as_nanos()));
            let ends = topology.connect(number, flow, start, &mut rng);
            topology.ends.push(ends);
        }
        topology
    }

    fn connect(&mut self, number: usize, flow: Flow, start: Instant, rng: &mut Rng) -> FlowEnds {
        let (from, to) = (self.net.left[number], self.net.right[number]);
        let remote = SocketAddr::new(address(2, number as u8 + 1), TO);
        if matches!(flow, Flow::Tcp | Flow::PacedTcp | Flow::QuickTcp | Flow::ClassicTcp) {
            let mut config =
                TcpConfig { mss: SIZE as u16, timestamps: false, ecn: EcnMode::Off, ..TcpConfig::default() };
            let mut sender = Manager::from(Kind::NewReno);
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
            let caller = self.network.place(from, FROM, sender, caller);
            return FlowEnds::Tcp(caller, self.network.place(to, TO, Kind::NewReno, listener));
        }
        let kind = if flow == Flow::Aimd { Kind::Aimd } else { Kind::Tfrc };
        let connection = DccpConfig { mps: SIZE + DccpConfig::HEADER_ROOM, ecn: false, ..DccpConfig::default() };
        let ccid = if flow == Flow::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 };
        let connection = connection.with_ccids(&[ccid]);
        let settings = DccpSettings { connection, start, ..DccpSettings::default() };
        let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
        let caller = Dccp::caller(remote, Stream::new(Bulk::endless(SIZE)).slots(64), settings, rng.fork());
        let caller = self.network.place(from, FROM, kind, caller);
        FlowEnds::Dccp(caller, self.network.place(to, TO, kind, listener))
    }

    /// Has every flow over DCCP send at this rate from now on, whatever it meets. CCID 3 would soon overrule that.
    pub(crate) fn steer(&mut self, rate: Rate) {
        let steering = Steering { rate, window: u64::MAX / 4 };
        for (ends, &node) in self.ends.iter().zip(&self.net.left) {
            let FlowEnds::Dccp(sender, _) = *ends else { continue };
            self.network.with_host(node, |now, machine| {
                let (agent, manager) = machine.agent_and_manager(sender);
                let endpoint = agent.endpoint();
                let flow = endpoint.connections().find_map(|id| endpoint.connection(id)?.flow());
                manager.steer(now, flow.expect("the connection is open"), steering).expect("the flow is open");
            });
        }
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
    pub(crate) fn rates(
        &mut self,
        time: Duration,
        slices: u64,
        mut count: impl FnMut(&Self) -> Vec<u64>,
    ) -> Vec<Vec<f64>> {
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

    /// Returns the rates of what arrives in each second, and the flows' means at each end of one.
    pub(crate) fn rates_and_means(&mut self, seconds: u64) -> (Vec<Vec<f64>>, Vec<Vec<SenderStats>>) {
        let mut looks = Vec::new();
        let count = |topology: &Self| {
            looks.push(topology.means());
            topology.received()
        };
        (self.rates(Duration::from_secs(seconds), seconds, count), looks)
    }
}

/// Means of a flow over a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowMeans {
    /// Mean of the smoothed round-trip times, in milliseconds.
    pub(crate) rtt: f64,
    /// Loss event rate: as reported by TFRC's receiver, or TCP's answered loss events per packet
    /// sent.
    pub(crate) p: f64,
    /// Rates by the equation, in kbit/s: for a TCP with an acknowledgement for each packet (RFC
    /// 5348's `b = 1`), and for one with an acknowledgement for every second packet.
    pub(crate) by_equation: [f64; 2],
    /// Timeouts of TCP.
    pub(crate) timeouts: f64,
}

impl FlowMeans {
    /// Computes the means for flows of one kind over all samples.
    pub(crate) fn of(looks: &[Vec<SenderStats>], flows: std::ops::Range<usize>) -> Self {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let each = || looks.iter().flat_map(|look| &look[flows.clone()]);
        let rtt = mean(each().filter_map(|means| Some(means.rtt?.as_secs_f64())).collect());
        let told: Vec<f64> = each().filter_map(|means| means.p).collect();
        let (first, last) = (looks.first(), looks.last());
        let counted = |of: fn(&SenderStats) -> u64| {
            let sum = |look: Option<&Vec<SenderStats>>| {
                look.map_or(0, |look| look[flows.clone()].iter().map(of).sum::<u64>())
            };
            (sum(last) - sum(first)) as f64
        };
        let answered = counted(|means| means.recoveries + means.timeouts);
        let p = if told.is_empty() { answered / counted(|means| means.packets).max(1.0) } else { mean(told) };
        let path = Duration::from_secs_f64(rtt);
        let by_equation = [1, 2].map(|b| kbps(equation::rate_of(SIZE as u64, path, p, path * 4, b)));
        Self { rtt: rtt * 1e3, p, by_equation, timeouts: counted(|means| means.timeouts) }
    }
}

fn kbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e3
}

values! {
    /// Single change to the flows or the bottleneck.
    pub(crate) enum Variation {
        Nothing = "as above",
        /// TCP in place of TFRC.
        Tcps = "a TCP in TFRC's place",
        /// Paced TCP in place of TFRC.
        OnePacedTcp = "a paced TCP in TFRC's place",
        PacedTcp = "TCP paced",
        ClassicTcp = "TCP finds losses by RFC 6675, not by RACK's clock",
        QuickTcp = "each packet of TCP acknowledged",
        /// No jitter before the queue.
        NoJitter = "no jitter",
        Jitter = "± 15 ms before the queue, or a quarter of the round trip",
        LongQueue = "a queue four times as long",
        Red = "RED",
    }
}

/// Jitter that scatters packets before the queue, as far as the round trip permits.
const SCATTER: Duration = Duration::from_millis(15);

impl Variation {
    /// Returns the flows and the bottleneck, derived from `plain`.
    fn setup(self, plain: &Bottleneck) -> ([Flow; 2], Bottleneck) {
        let mut bottleneck = plain.clone();
        let [mut first, mut tcp] = [Flow::Tfrc, Flow::Tcp];
        match self {
            Self::Nothing => {}
            Self::PacedTcp => tcp = Flow::PacedTcp,
            Self::QuickTcp => tcp = Flow::QuickTcp,
            Self::Tcps => first = Flow::Tcp,
            Self::OnePacedTcp => first = Flow::PacedTcp,
            Self::ClassicTcp => tcp = Flow::ClassicTcp,
            Self::NoJitter => bottleneck.jitter = Duration::ZERO,
            Self::Jitter => bottleneck.jitter = SCATTER.min(plain.rtt / 4),
            Self::LongQueue => bottleneck.queue *= 4,
            Self::Red => bottleneck.kind = QueueKind::Red(RedConfig { ecn: false, ..RedConfig::default() }),
        }
        ([first, tcp], bottleneck)
    }
}

/// Results of a pair: TFRC's first, then TCP's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairResult {
    /// Mean rate, in kbit/s.
    rate: [f64; 2],
    /// Percentage of packets dropped at the bottleneck.
    pub(crate) dropped: [f64; 2],
    /// Loss events per second, each of at most one round trip (RFC 5348 §5.2).
    pub(crate) events: [f64; 2],
    pub(crate) drops_an_event: [f64; 2],
    /// Share of queue overflows that hit only one flow, by flow; and share that hit both.
    pub(crate) alone: [f64; 2],
    pub(crate) both: f64,
    /// Largest burst of TCP in packets; number of bursts of more than three packets, and number of
    /// all bursts.
    pub(crate) at_once: u64,
    pub(crate) more_than_three: (usize, usize),
}

impl PairResult {
    /// Returns TFRC's rate relative to TCP's.
    pub(crate) fn share(&self) -> f64 {
        self.rate[0] / self.rate[1]
    }

    pub(crate) fn run(seed: u64, plain: &Bottleneck, otherwise: Variation, warm_up: Duration, seconds: u64) -> Self {
        let (flows, bottleneck) = otherwise.setup(plain);
        let mut topology = Topology::new(seed, &bottleneck, &flows);
        topology.network.run_until(Instant::ZERO + warm_up);
        topology.network.record_journeys();
        let (rates, looks) = topology.rates_and_means(seconds);
        let means = [0..1, 1..2].map(|flow| FlowMeans::of(&looks, flow));
        let PacketRecords { drops, arrived, bursts } = topology.take_journeys();
        let of = |flow: usize| drops.iter().filter(move |(_, of)| *of == flow).map(|(at, _)| *at);
        let rtt = means.map(|means| Duration::from_secs_f64(means.rtt / 1e3));
        let own = [0, 1].map(|flow| events(of(flow), rtt[flow]).len());
        let times = events(drops.iter().map(|(at, _)| *at), rtt[0].max(rtt[1]));
        let hit = |flow: usize, time: &(Instant, Instant)| of(flow).any(|at| at >= time.0 && at <= time.1);
        let share = |like: &dyn Fn(&(Instant, Instant)) -> bool| {
            times.iter().filter(|time| like(time)).count() as f64 / times.len().max(1) as f64
        };
        Self {
            rate: [0, 1].map(|flow| rates[flow].iter().sum::<f64>() / seconds as f64),
            dropped: [0, 1].map(|flow| 100.0 * of(flow).count() as f64 / arrived[flow].max(1) as f64),
            events: own.map(|events| events as f64 / seconds as f64),
            drops_an_event: [0, 1].map(|flow| of(flow).count() as f64 / own[flow].max(1) as f64),
            alone: [0, 1].map(|flow| share(&|time| hit(flow, time) && !hit(1 - flow, time))),
            both: share(&|time| hit(0, time) && hit(1, time)),
            at_once: bursts[1].iter().copied().max().unwrap_or(0),
            more_than_three: (bursts[1].iter().filter(|&&burst| burst > 3).count(), bursts[1].len()),
        }
    }
}

/// Groups drops into loss events: the first drop, and the last within a round trip of it.
fn events(drops: impl Iterator<Item = Instant>, rtt: Duration) -> Vec<(Instant, Instant)> {
    let mut events: Vec<(Instant, Instant)> = Vec::new();
    for at in drops {
        match events.last_mut().filter(|(first, _)| at <= *first + rtt) {
            Some((_, last)) => *last = at,
            None => events.push((at, at)),
        }
    }
    events
}
