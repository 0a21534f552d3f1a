//! Trial: one stream over one path by one protocol, in virtual time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{AduSeq, Duration, Instant, Rate, Rng};
use timeous_choice::{Chain, Deadlines, Dependencies};
use timeous_cm::{Kind, Manager, NewReno};
use timeous_host::{
    Application, Arrivals, Feed, Handle, Journal, Machine, Middlebox, MiddleboxBehaviour, Outlet, SendBuffer, Socket,
    Stream, Tcp, TcpStatus, Udp, stamp,
};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_net::sim::{Network, NodeId};
use timeous_seal::Secret;
use timeous_tcp::{CloseReason, Config, Receiving, Sending, Statistics};

use super::RTT;
use super::offers::{self, Cadence};
use crate::experiment::values;

values! {
    /// Protocols of the paper (table 1), with and without timelines.
    pub(crate) enum Protocol {
        /// A: TCP at both ends.
        Tcp = "A TCP",
        /// B: UDP.
        Udp = "B UDP",
        /// C: datagrams to an unmodified TCP receiver.
        ToTcp = "C uTLTCP to TCP",
        /// D: datagrams to a receiver that delivers them out of order.
        Both = "D uTLTCP",
        /// D with congestion window validation (RFC 7661).
        BothByUse = "D, window by use",
        /// `BothByUse` with bundling: recently sent data is sent once more.
        BothBundled = "the same, bundling",
        /// C with timelines.
        ToTcpTimed = "C, timelines",
        /// D with timelines.
        BothTimed = "D, timelines",
        /// D with timelines and dependencies.
        BothDependent = "D, timelines and dependencies",
        /// D with timelines and congestion window validation (RFC 7661).
        BothTimedByUse = "D, timelines, window by use",
        /// `BothDependent` with congestion window validation (RFC 7661).
        BothPausing = "the same, window by use (RFC 7661)",
    }
}

impl Protocol {
    fn is_timed(self) -> bool {
        matches!(
            self,
            Self::ToTcpTimed | Self::BothTimed | Self::BothTimedByUse | Self::BothDependent | Self::BothPausing
        )
    }

    fn sending(self) -> Sending {
        match self {
            Self::Tcp | Self::Udp => Sending::Stream,
            Self::ToTcp | Self::Both | Self::BothByUse | Self::BothBundled => Sending::Records,
            _ => Sending::LateChoice,
        }
    }

    /// Whether records are the paper's: nothing changes that would need more.
    fn is_plain(self) -> bool {
        self.sending() == Sending::Records
    }

    fn receiving(self) -> Receiving {
        match self {
            Self::Tcp | Self::Udp | Self::ToTcp | Self::ToTcpTimed => Receiving::Stream,
            _ => Receiving::Unordered,
        }
    }

    /// Returns the manager with the protocol's congestion control.
    fn manager(self) -> Manager {
        match self {
            Self::BothPausing | Self::BothTimedByUse | Self::BothByUse | Self::BothBundled => {
                Manager::new(|mtu| Box::new(NewReno::new(mtu).for_streams_that_pause()))
            }
            _ => Manager::new(|mtu| Box::new(NewReno::new(mtu))),
        }
    }

    fn stream(self, source: impl Application, broken: Broken) -> Stream {
        let stream = Stream::new(source).slots(4_096);
        let is_timed = self.is_timed() && !broken.no_timelines;
        match self {
            Self::BothDependent | Self::BothPausing if is_timed && !broken.no_dependencies => {
                stream.choice(Box::new(Chain::default().then(Deadlines).then(Dependencies::default())))
            }
            _ if is_timed => stream.choice(Box::new(Deadlines)),
            _ => stream,
        }
    }
}

/// Offered data.
#[derive(Clone, Debug)]
pub(crate) enum Offers {
    /// Number of datagrams at the paper's cadence.
    Cadence(u64),
    /// The same in chains of five: the first is independent, each other one refers to the one before it.
    Chains(u64),
    /// Groups of pictures over this time.
    Pictures(Duration),
}

/// Parts of a trial that are broken on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Broken {
    /// The sender of D and its receiver agree on delivery in order.
    pub(crate) in_order: bool,
    /// Senders know no deadlines.
    pub(crate) no_timelines: bool,
    /// Senders know no dependencies.
    pub(crate) no_dependencies: bool,
    /// The sender that knows dependencies takes every datagram for too late.
    pub(crate) hopeless: bool,
    /// The receiver changes a byte of each hundredth datagram.
    pub(crate) garbled: bool,
    /// After a reset the program does not call again.
    pub(crate) gives_up: bool,
}

/// Parameters of a trial.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) protocol: Protocol,
    pub(crate) offers: Offers,
    pub(crate) way: LinkConfig,
    /// Useful life of a datagram after its hand-over.
    pub(crate) playout: Duration,
    pub(crate) behaviour: MiddleboxBehaviour,
    pub(crate) seed: u64,
    /// Secret of encrypted records.
    pub(crate) secret: Option<Secret>,
    pub(crate) broken: Broken,
}

/// Rate of the link.
pub(crate) const WIDE: Rate = Rate::from_kbps(2_000);

/// Returns the link of all experiments, with this loss.
pub(crate) fn link(loss: Loss) -> LinkConfig {
    link_over(RTT, loss)
}

/// Returns the link with another round-trip time.
pub(crate) fn link_over(round_trip: Duration, loss: Loss) -> LinkConfig {
    LinkConfig::with_delay(round_trip / 2).with_rate(WIDE, Limit::Packets(50)).with_loss(loss)
}

/// Returns the link without losses, but with an outage at the start of each period.
pub(crate) fn standing_still(still: Duration, period: Duration) -> LinkConfig {
    let trace = RateTrace::new(vec![(Duration::ZERO, Rate::ZERO), (still, WIDE)]);
    let trace = trace.and_then(|trace| trace.repeating(period)).expect("it lets something pass in each period");
    LinkConfig { capacity: Capacity::Trace(trace), ..link(Loss::None) }
}

/// Outcome of a trial.
pub(crate) struct Outcome {
    pub(crate) journal: Journal,
    /// Delivery time of each datagram to the application.
    pub(crate) arrived: Vec<Option<Instant>>,
    /// Useful life of a datagram, and the path's delay.
    pub(crate) playout: Duration,
    pub(crate) passage: Duration,
    /// Bytes that reached the receiving host, with headers, framing and repeats.
    pub(crate) carried: u64,
    /// Time from the hand-over of the first datagram to the last delivery.
    pub(crate) lasted: Duration,
    /// Padding bytes handed to the network, besides those of the datagrams.
    pub(crate) framing: u64,
    /// Datagrams that arrived altered or twice.
    pub(crate) corrupt: u64,
    pub(crate) statistics: Statistics,
    pub(crate) changes_refused: bool,
    /// Number of connections used.
    pub(crate) connections: u32,
    /// Time and length of the datagrams offered to the second connection, after those of the
    /// journal.
    pub(crate) later: Vec<(Instant, usize)>,
}

type SimNetwork = Network<Middlebox<Machine>>;

/// Receiving application that checks that datagrams arrive unaltered.
#[derive(Default)]
pub(crate) struct Checker {
    lens: Vec<(AduSeq, usize)>,
    corrupt: u64,
    expected: Vec<u8>,
    garbles: bool,
}

impl Application for Checker {
    fn run(&mut self, _: Instant, _: &mut dyn Outlet) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_received(&mut self, _: Instant, bytes: &[u8]) {
        let seq = stamp::read(bytes).unwrap_or_default();
        stamp::write(seq, bytes.len(), &mut self.expected);
        if self.garbles && self.lens.len().is_multiple_of(100) {
            self.expected[bytes.len() - 1] ^= 1;
        }
        self.corrupt += u64::from(self.expected != bytes);
        self.lens.push((seq, bytes.len()));
    }
}

impl Checker {
    /// Returns the number of datagrams that arrived altered or twice.
    fn corrupt(&self, journal: &Journal) -> u64 {
        let mut seen = vec![false; journal.adus().len()];
        let mut wrong = |&(seq, len): &(AduSeq, usize)| {
            let is_right = journal.adu(seq).is_some_and(|adu| adu.len == len);
            !is_right || std::mem::replace(&mut seen[seq.0 as usize], true)
        };
        self.corrupt + self.lens.iter().filter(|one| wrong(one)).count() as u64
    }
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1));
const PORT: u16 = 6_000;
/// Time limit for a trial.
const HORIZON: Duration = Duration::from_secs(3_600);

impl Trial {
    pub(crate) fn run(&self) -> Outcome {
        let mut network = SimNetwork::new(self.seed);
        let here = network.add_host(HERE, Middlebox::new(Machine::new(HERE), self.behaviour));
        let there = network.add_host(THERE, Middlebox::new(Machine::new(THERE), MiddleboxBehaviour::Pass));
        let back = self.way.clone().with_loss(Loss::None);
        let (forward, _) = network.connect(here, there, self.way.clone(), back);
        let outcome = match self.protocol {
            Protocol::Udp => self.by_udp(&mut network, here, there),
            _ => self.by_tcp(&mut network, here, there),
        };
        let carried = network.link(forward).counters().bytes_out;
        Outcome { playout: self.playout, passage: self.way.delay, carried, ..outcome }
    }

    fn by_udp(&self, network: &mut SimNetwork, here: NodeId, there: NodeId) -> Outcome {
        let sink = network.with_host(there, |_, host| {
            let own = host.host_mut().add_manager(Kind::NewReno);
            host.host_mut().add(PORT, own, Udp::sink())
        });
        let source = network.with_host(here, |_, host| {
            let own = host.host_mut().add_manager(Kind::NewReno);
            let remote = SocketAddr::new(THERE, PORT);
            let udp = match &self.offers {
                Offers::Cadence(count) => Udp::sender(remote, Cadence::new(*count, None)),
                Offers::Chains(count) => Udp::sender(remote, Cadence::new(*count, None).in_chains()),
                Offers::Pictures(lasting) => {
                    Udp::sender(remote, offers::video(&offers::pictures(self.seed, *lasting), None))
                }
            };
            host.host_mut().add(9_000, own, udp)
        });
        network.run_until(Instant::ZERO + HORIZON);
        let journal = network.host(here).host().agent(source).journal().clone();
        let arrivals = network.host(there).host().agent(sink).arrivals();
        let arrived = arrivals.first_by_seq(journal.adus().len());
        outcome(journal, arrived)
    }

    fn by_tcp(&self, network: &mut SimNetwork, here: NodeId, there: NodeId) -> Outcome {
        let (plain_records, secret) = (self.protocol.is_plain(), self.secret.clone());
        let config = Config { receive_buffer: 1 << 20, plain_records, secret, ..Config::default() };
        let receiving = if self.broken.in_order { Receiving::Stream } else { self.protocol.receiving() };
        let receiver = Config { receiving, ..config.clone() };
        let protocol = self.protocol;
        let listener = network.with_host(there, |_, host| {
            let own = host.host_mut().add_manager(Kind::NewReno);
            let garbles = self.broken.garbled;
            let feed = move || Feed::from(Socket::new(Checker { garbles, ..Checker::default() }));
            let tcp = Tcp::listener(feed, receiver, Rng::from_seed(self.seed ^ 0x7e57));
            let tcp = if protocol == Protocol::Tcp { tcp } else { tcp.expecting_records() };
            host.host_mut().add(PORT, own, tcp)
        });
        let bundling = protocol == Protocol::BothBundled;
        let config = Config { sending: protocol.sending(), bundling, ..config };
        let caller = self.call(network, here, 0, config.clone());
        let end = Instant::ZERO + HORIZON;
        let mut calls = vec![caller];
        network.run_while(end, |network| !was_reset(network, here, caller));
        if was_reset(network, here, caller) && !self.broken.gives_up {
            // A user of such a path opens a new connection without changed retransmissions.
            let offered = session(network, here, caller).journal().adus().len() as u64;
            calls.push(self.call(network, here, offered, Config { sending: Sending::Records, ..config }));
            network.run_until(end);
        }
        self.judge(network, (here, there), &calls, listener)
    }

    /// Opens a connection for the datagrams that were not offered yet.
    fn call(&self, network: &mut SimNetwork, here: NodeId, offered: u64, config: Config) -> Handle<Tcp> {
        network.with_host(here, |now, host| {
            let own = host.host_mut().add_manager_of(self.protocol.manager());
            let is_hopeless = self.broken.hopeless && self.protocol == Protocol::BothDependent;
            let playout = if is_hopeless { Duration::ZERO } else { self.playout };
            let latency = (self.protocol.is_timed() && !self.broken.no_timelines).then_some(playout);
            let feed = match &self.offers {
                Offers::Cadence(count) => {
                    self.feed(Cadence::new(count.saturating_sub(offered), latency).numbered_from(offered))
                }
                Offers::Chains(count) => self.feed(Cadence::new(*count, latency).in_chains()),
                Offers::Pictures(lasting) => self.feed(offers::video(&offers::pictures(self.seed, *lasting), latency)),
            };
            let port = 9_000 + offered.min(1) as u16;
            let rng = Rng::from_seed(self.seed ^ 0xca11 ^ offered);
            host.host_mut().add(port, own, Tcp::caller(SocketAddr::new(THERE, PORT), now, feed, config, rng))
        })
    }

    fn feed(&self, source: impl Application) -> Feed {
        match self.protocol {
            Protocol::Tcp => Socket::new(source).buffer(SendBuffer::Fixed(u64::MAX >> 1)).into(),
            protocol => protocol.stream(source, self.broken).into(),
        }
    }

    fn judge(
        &self,
        network: &SimNetwork,
        (here, there): (NodeId, NodeId),
        calls: &[Handle<Tcp>],
        listener: Handle<Tcp>,
    ) -> Outcome {
        let first = session(network, here, calls[0]);
        let journal = first.journal().clone();
        let received: Vec<_> = network.host(there).host().agent(listener).sessions().collect();
        let count = journal.adus().len();
        let arrivals: &Arrivals = received[0].arrivals();
        let arrived = match self.protocol {
            Protocol::Tcp => arrivals.of_stream(&journal),
            _ => arrivals.first_by_seq(count),
        };
        let mut outcome = outcome(journal, arrived);
        outcome.framing = first.padding();
        outcome.statistics = *first.statistics();
        outcome.changes_refused = first.changes_refused();
        outcome.connections = calls.len() as u32;
        if self.protocol != Protocol::Tcp {
            let journals = calls.iter().map(|&call| session(network, here, call).journal());
            let checked = received.iter().zip(journals);
            let corrupt = checked.map(|(session, journal)| {
                session.application::<Checker>().map_or(0, |checker| checker.corrupt(journal))
            });
            outcome.corrupt = corrupt.sum();
        }
        if let Offers::Cadence(offered) = self.offers {
            // Datagrams that are not offered after a reset do not arrive.
            outcome.arrived.resize(if self.broken.gives_up { offered as usize } else { count }, None);
        }
        // Arrivals of the second connection follow those of the first.
        for (&call, received) in calls.iter().zip(&received).skip(1) {
            let journal = session(network, here, call).journal();
            outcome.arrived.extend(received.arrivals().first_by_seq(journal.adus().len()));
            outcome.later = journal.adus().iter().map(|adu| (adu.meta.enqueued, adu.len)).collect();
        }
        outcome
    }
}

fn session(network: &SimNetwork, here: NodeId, call: Handle<Tcp>) -> &timeous_host::TcpSession {
    network.host(here).host().agent(call).session().expect("a caller has called")
}

fn was_reset(network: &SimNetwork, here: NodeId, call: Handle<Tcp>) -> bool {
    let tcp = network.host(here).host().agent(call);
    tcp.session().is_some_and(|session| session.status() == TcpStatus::Closed(CloseReason::Reset))
}

fn outcome(journal: Journal, arrived: Vec<Option<Instant>>) -> Outcome {
    let began = journal.adus().first().map_or(Instant::ZERO, |adu| adu.meta.enqueued);
    let ended = arrived.iter().flatten().max().copied().unwrap_or(began);
    Outcome {
        journal,
        arrived,
        playout: Duration::ZERO,
        passage: Duration::ZERO,
        carried: 0,
        lasted: ended - began,
        framing: 0,
        corrupt: 0,
        statistics: Statistics::default(),
        changes_refused: false,
        connections: 1,
        later: Vec::new(),
    }
}
