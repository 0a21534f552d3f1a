//! One bottleneck with CUBIC flows, and a stream or a further CUBIC flow among them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::Options;
use timeous::core::{AduMeta, DropReason, Duration, Fate, FrameId, Instant, Priority, Rate, Rng};
use timeous_cm::Kind;
use timeous_dccp::{Ccid, Config as DccpConfig, Parity};
use timeous_host::sources::{Bulk, Cbr, Frames, OnFull};
use timeous_host::{Dccp, DccpSettings, Feed, Handle, Machine, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit, QueueKind};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::Config as TcpConfig;

use crate::experiments::bloat::outcome::outcome;
use crate::experiments::bloat::stream::{ReferencePattern, stream};

/// Rate of the stream in kbit/s, equal to the even share of each flow.
pub(super) const KBPS: u64 = 1_500;
/// Time from the hand-over of a frame to its deadline.
pub(super) const DEADLINE: Duration = Duration::from_millis(300);
/// Round-trip time without queueing.
pub(super) const RTT: Duration = Duration::from_millis(60);
/// Bytes of a packet of the stream.
const PACKET: usize = 1_100;
/// Start of the stream, start of the measurement, and end.
const BEGIN: Duration = Duration::from_secs(3);
pub(super) const MEASURED_FROM: Duration = Duration::from_secs(10);
pub(super) const END: Duration = Duration::from_secs(60);

/// Measured flow beside the CUBIC flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasuredFlow {
    /// Stream of frames with deadlines.
    Live(Kind),
    /// Greedy flow of packets without deadlines.
    Greedy(Kind),
    /// Further CUBIC flow.
    Tcp,
}

/// Queue of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BottleneckQueue {
    /// Drop-tail, with this length in deadlines.
    Tail(f64),
    /// CoDel, with room for four deadlines.
    Codel,
}

impl BottleneckQueue {
    pub(super) const ALL: [Self; 4] = [Self::Tail(0.25), Self::Tail(1.0), Self::Tail(4.0), Self::Codel];

    pub(super) fn name(self) -> String {
        match self {
            Self::Tail(deadlines) => format!("{deadlines} deadlines"),
            Self::Codel => "CoDel".to_owned(),
        }
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) who: MeasuredFlow,
    pub(super) flows: u8,
    pub(super) queue: BottleneckQueue,
    pub(super) seed: u64,
}

/// Results of a trial.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) trial: Trial,
    /// Received bytes of the measured flow, relative to an even share of all received bytes.
    pub(super) share: f64,
    /// Received bytes of all flows, relative to the link's capacity without headers.
    pub(super) used: f64,
    /// Received bytes of the mean CUBIC flow beside it, relative to an even share of the link.
    pub(super) others: f64,
    /// Queueing delay of a stream: median and 95th percentile, in ms.
    pub(super) queued: [f64; 2],
    /// Share of a live stream's frames that were decodable in time.
    pub(super) decodable: f64,
    /// Packets of a live stream dropped by the sender: too late for their deadline, and with a lost
    /// reference.
    pub(super) given_up: [usize; 2],
    /// Packets that left after their deadline.
    pub(super) late: usize,
}

fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

fn address(side: u8, n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, side, n).into()
}

fn link_rate(flows: u8) -> Rate {
    Rate::from_kbps(KBPS * (u64::from(flows) + 1))
}

fn middle(trial: &Trial) -> LinkConfig {
    let rate = link_rate(trial.flows);
    let (deadlines, kind) = match trial.queue {
        BottleneckQueue::Tail(deadlines) => (deadlines, QueueKind::DropTail),
        BottleneckQueue::Codel => (4.0, QueueKind::Codel(Default::default())),
    };
    LinkConfig {
        capacity: Capacity::Fixed(rate),
        queue: Limit::Bytes(rate.bytes_in(Duration::from_secs_f64(DEADLINE.as_secs_f64() * deadlines))),
        kind,
        delay: RTT / 2,
        ..LinkConfig::default()
    }
}

/// Returns the stream and its receiving end.
fn ends(kind: Kind, is_live: bool, flows: u8, rng: &mut Rng) -> (Dccp, Dccp) {
    let mps = PACKET + DccpConfig::HEADER_ROOM;
    let connection = DccpConfig { mps, ecn: false, ..DccpConfig::default() };
    let (parity, sending) = if is_live {
        let begun = |mut frame: timeous_host::sources::Frame| {
            frame.at += BEGIN;
            frame
        };
        let frames = stream(ReferencePattern::Gop(30), KBPS, END - BEGIN, &mut rng.fork()).into_iter().map(begun);
        let source = Frames::new(frames, PACKET).with_latency(DEADLINE);
        let mut options = Options::default();
        options.latency = DEADLINE;
        let choice = options.choice();
        (Parity::Auto, Stream::new(source).slots(4_096).choice(choice).repair(Priority(1)))
    } else {
        let interval = Duration::from_secs_f64(link_rate(flows).time_for(PACKET as u64).as_secs_f64() / 1.5);
        let one = |n| AduMeta { frame: FrameId(n as u32 + 1), ..AduMeta::default() };
        let source = Cbr::new(interval, PACKET, OnFull::Skip).starting_at(at(BEGIN)).describing(one);
        (Parity::Off, Stream::new(source).slots(64))
    };
    let connection =
        DccpConfig { parity, ..connection }.with_ccids(&[if kind == Kind::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 }]);
    let settings = DccpSettings { connection, ..DccpSettings::default() };
    let there = SocketAddr::new(address(2, 1), 5_004);
    let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
    (Dccp::caller(there, sending, settings, rng.fork()), listener)
}

/// Ends of the measured flow.
enum FlowEnds {
    Stream(Handle<Dccp>, Handle<Dccp>),
    Tcp(Handle<Tcp>),
}

/// Runs a trial.
pub(super) fn run(trial: &Trial) -> Measured {
    let Trial { who, flows, queue, seed } = *trial;
    let place = BottleneckQueue::ALL.iter().position(|one| *one == queue).unwrap_or_default() as u64;
    let mut rng = Rng::from_seed(seed ^ u64::from(flows) << 20 ^ place << 40);
    let mut network: Network<Machine> = Network::new(rng.next_u64());
    let host = |side| move |n| (address(side, n), Machine::new(address(side, n)));
    let rate = link_rate(flows);
    let jitter = Jitter { spread: rate.time_for(1_500) / 2, ..Jitter::default() };
    let access = LinkConfig { jitter, ..LinkConfig::default() };
    let back = LinkConfig { delay: RTT / 2, ..LinkConfig::default() };
    let dumbbell =
        network.dumbbell((1..=flows + 1).map(host(1)), (1..=flows + 1).map(host(2)), &access, middle(trial), back);
    let (left, right) = (dumbbell.left, dumbbell.right);

    let mut callers = Vec::new();
    for n in 1..=usize::from(flows) {
        callers.push((left[n], tcp(&mut network, [left[n], right[n]], n as u8 + 1, &mut rng)));
    }
    let ends = match who {
        MeasuredFlow::Tcp => FlowEnds::Tcp(tcp(&mut network, [left[0], right[0]], 1, &mut rng)),
        MeasuredFlow::Live(kind) | MeasuredFlow::Greedy(kind) => {
            let (caller, listener) = ends(kind, matches!(who, MeasuredFlow::Live(_)), flows, &mut rng);
            let mut add = |node, agent: Dccp| {
                network.with_host(node, |_, machine: &mut Machine| {
                    let own = machine.add_manager(kind);
                    machine.add(5_004, own, agent)
                })
            };
            FlowEnds::Stream(add(left[0], caller), add(right[0], listener))
        }
    };
    let acked = |network: &Network<Machine>, node: NodeId, caller: Handle<Tcp>| {
        network.host(node).agent(caller).session().map_or(0, |session| session.statistics().bytes_acked)
    };
    let theirs =
        |network: &Network<Machine>| callers.iter().map(|&(node, caller)| acked(network, node, caller)).sum::<u64>();
    let own = |network: &Network<Machine>, from, to| match &ends {
        FlowEnds::Tcp(caller) => acked(network, left[0], *caller),
        FlowEnds::Stream(_, receiver) => {
            let session = network.host(right[0]).agent(*receiver).session();
            session.map_or(0, |session| session.arrivals().bytes_between(from, to))
        }
    };
    let (from, to) = (at(MEASURED_FROM), at(END));
    network.run_until(from);
    let before = (theirs(&network), own(&network, from, from));
    network.run_until(to);
    let (theirs, own) = (theirs(&network) - before.0, own(&network, from, to) - before.1);
    let even = rate.bytes_in(END - MEASURED_FROM) as f64 / f64::from(flows + 1);
    let mut measured = Measured {
        trial: *trial,
        share: own as f64 * f64::from(flows + 1) / (own + theirs).max(1) as f64,
        used: (own + theirs) as f64 / even / f64::from(flows + 1),
        others: theirs as f64 / f64::from(flows) / even,
        queued: [f64::NAN; 2],
        decodable: f64::NAN,
        given_up: [0; 2],
        late: 0,
    };
    if let FlowEnds::Stream(sender, receiver) = ends {
        evaluate_stream(&network, (left[0], sender), (right[0], receiver), rate, &mut measured);
    }
    measured
}

fn tcp(network: &mut Network<Machine>, [left, right]: [NodeId; 2], n: u8, rng: &mut Rng) -> Handle<Tcp> {
    let (seed, start) = (rng.next_u64(), at(Duration::from_nanos(rng.below(1_000_000_000))));
    network.with_host(right, |_, host| {
        let own = host.add_manager(Kind::Cubic);
        host.add(6_000, own, Tcp::listener(Feed::none, TcpConfig::default(), Rng::from_seed(seed)))
    });
    let remote = SocketAddr::new(address(2, n), 6_000);
    network.with_host(left, |_, host| {
        let own = host.add_manager(Kind::Cubic);
        let feed = Socket::new(Bulk::endless(1_448));
        host.add(9_000, own, Tcp::caller(remote, start, feed, TcpConfig::default(), Rng::from_seed(!seed)))
    })
}

/// Evaluates the stream's packets and frames.
fn evaluate_stream(
    network: &Network<Machine>,
    (here, sender): (NodeId, Handle<Dccp>),
    (there, receiver): (NodeId, Handle<Dccp>),
    rate: Rate,
    measured: &mut Measured,
) {
    let sender = network.host(here).agent(sender).session();
    let receiver = network.host(there).agent(receiver).session();
    let (Some(sender), Some(receiver)) = (sender, receiver) else { return };
    let journal = sender.journal();
    let own_time = RTT / 2 + rate.time_for(PACKET as u64 + 40);
    let came = receiver.arrivals().first_by_seq(journal.adus().len());
    let mut queued: Vec<f64> = Vec::new();
    for (adu, came) in journal.adus().iter().zip(came) {
        let (Some(left), Some(came)) = (adu.left.first(), came) else { continue };
        if came >= at(MEASURED_FROM) {
            queued.push(came.saturating_since(*left).saturating_sub(own_time).as_secs_f64() * 1e3);
        }
    }
    queued.sort_by(f64::total_cmp);
    measured.queued = [50, 95].map(|percent| queued.get(queued.len() * percent / 100).copied().unwrap_or(f64::NAN));
    measured.late = journal.late().count();
    if matches!(measured.trial.who, MeasuredFlow::Live(_)) {
        let outcome = outcome(journal, receiver.arrivals(), MEASURED_FROM - BEGIN, 0);
        measured.decodable = outcome.decodable as f64 / outcome.frames.max(1) as f64;
        measured.given_up =
            [DropReason::TooLate, DropReason::ReferenceLost].map(|reason| journal.count(Fate::Dropped(reason)));
    }
}
