//! Trial: one stream over one link.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{AduMeta, Duration, FrameId, Instant, Priority, Rate, Rng};
use timeous_cm::Steering;
use timeous_dccp::{Config as DccpConfig, Parity};
use timeous_host::sources::{Frame, Frames};
use timeous_host::{Application, Arrivals, Dccp, DccpSettings, Handle, Journal, Machine, Outlet, Sink, Stream, stamp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};
use timeous_net::sim::{LinkId, Network, NodeId};
use timeous_seal::{OVERHEAD, Secret};
use timeous_testbed::bound::{Bound, Job, Rates, bound};

use super::super::machines::Machines;
use super::setup::{Cell, HEADERS, LASTING, PACKET, RateProfile, WARM_UP};
use super::stream::{SenderKind, stream};
use crate::experiment::values;

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    pub(crate) cell: Cell,
    pub(crate) seed: u64,
    pub(crate) way: SenderKind,
    pub(crate) encryption: Encryption,
    /// The sender knows no deadlines, on purpose.
    pub(crate) is_patient: bool,
}

values! {
    /// Encryption of a stream.
    pub(crate) enum Encryption {
        Plain = "plain",
        /// At the instant of sending, behind late choice.
        AtSending = "encrypted",
        /// Before the send queue, as by TLS above a socket: what is queued can neither be changed nor withdrawn.
        BeforeQueue = "encrypted before the queue",
    }
}

impl Encryption {
    /// Returns the secret of both ends of encrypted packets.
    pub(crate) fn secret(self) -> Option<Secret> {
        (self != Self::Plain).then(|| Secret::new([7; 32]))
    }
}

pub(super) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(super) const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const PORT: u16 = 6_511;
/// Start of the stream: its connection is open by then.
pub(super) const BEGIN: Duration = Duration::from_secs(3);
/// Bytes of UDP and IP in [`HEADERS`].
const UDP: u64 = 20 + 8;
/// Time after the stream's end for packets in flight to arrive.
pub(super) const AFTER: Duration = Duration::from_secs(3);

/// Returns the stream and the link's rates. They depend on the cell and the seed alone, so that all
/// senders meet the same.
pub(super) fn given(cell: &Cell, seed: u64) -> (Vec<Frame>, Rates) {
    let mut rng = Rng::from_seed(seed ^ 0x626c_6f61_7400);
    let mut frames = stream(cell.shape, cell.offered, LASTING, &mut rng.fork());
    frames.iter_mut().for_each(|frame| frame.bytes = with_stamp_room(frame.bytes));
    (frames, course(cell.course, cell.rate(), BEGIN + LASTING + AFTER, &mut rng))
}

/// Returns a frame size whose last packet has room for the arrival stamp: up to a few bytes more
/// than `bytes`.
pub(crate) fn with_stamp_room(bytes: usize) -> usize {
    match bytes % PACKET {
        0 => bytes,
        last => bytes - last + last.max(stamp::LEN),
    }
}

/// Runs a trial.
pub(crate) fn run(trial: &Trial) -> Outcome {
    let Trial { cell, seed, way, encryption, is_patient } = *trial;
    let (frames, rates) = given(&cell, seed);
    let source = Frames::new(frames, PACKET);
    let knows_deadlines = encryption != Encryption::BeforeQueue && !is_patient;
    let source = if knows_deadlines { source.with_latency(cell.deadline) } else { source };
    let mut topology = Topology::encrypted(&cell, seed, (way, encryption), rates.capacity(), source);
    if way == SenderKind::Told {
        topology.apply_rates(&rates, cell.losses.share());
    }
    topology.network.run_until(Instant::ZERO + BEGIN + LASTING + AFTER);
    if knows_deadlines {
        topology.outcome(WARM_UP)
    } else {
        topology.outcome_by(WARM_UP, |meta, at| at > meta.enqueued + cell.deadline)
    }
}

/// Returns the upper bound of a cell, over the same frames as its trials count.
pub(super) fn limit(cell: &Cell, seed: u64) -> Bound {
    let (frames, rates) = given(cell, seed);
    // An ideal schedule knows which packets will be lost and sends others instead: on this link
    // losses occur before the queue and cost no time.
    let job = |frame: &Frame| {
        let packets = frame.bytes.div_ceil(PACKET) as u64;
        let due = frame.at + cell.deadline - cell.rtt / 2;
        let begin = BEGIN.as_nanos();
        Job {
            release: begin + frame.at.as_nanos(),
            deadline: begin + due.as_nanos(),
            bytes: frame.bytes as u64 + packets * HEADERS,
            needs: frame.meta.references.iter().map(|frame| frame.0 as usize - 1).collect(),
            value: u64::from(frame.at >= WARM_UP),
        }
    };
    let jobs: Vec<Job> = frames.iter().map(job).collect();
    bound(&jobs, &rates)
}

/// Source that begins at [`BEGIN`].
pub(super) struct DelayedSource<A> {
    source: A,
    begun: bool,
}

impl<A> DelayedSource<A> {
    pub(super) fn new(source: A) -> Self {
        Self { source, begun: false }
    }
}

impl<A: Application> Application for DelayedSource<A> {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        self.begun |= now >= Instant::ZERO + BEGIN;
        if self.begun {
            self.source.run(now, outlet);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.begun { self.source.poll_timeout() } else { Some(Instant::ZERO + BEGIN) }
    }
}

/// Two hosts and the link between them.
pub(super) struct Topology {
    pub(super) network: Network<Machine>,
    pub(super) link: LinkId,
    here: NodeId,
    there: NodeId,
    sender: Handle<Dccp>,
    receiver: Handle<Dccp>,
}

impl Topology {
    /// Builds the bed: `source` over the cell's link, at `capacity`.
    pub(super) fn new(cell: &Cell, seed: u64, way: SenderKind, capacity: Capacity, source: impl Application) -> Self {
        Self::encrypted(cell, seed, (way, Encryption::Plain), capacity, source)
    }

    fn encrypted(
        cell: &Cell,
        seed: u64,
        (way, encryption): (SenderKind, Encryption),
        capacity: Capacity,
        source: impl Application,
    ) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let (here, there) = (network.machine(HERE), network.machine(THERE));
        let forward = LinkConfig {
            capacity,
            queue: Limit::Bytes(cell.rate().bytes_in(cell.queue)),
            delay: cell.rtt / 2,
            loss: cell.losses.of_link(),
            ..LinkConfig::default()
        };
        let back = LinkConfig::with_delay(cell.rtt / 2);
        let (link, _) = network.connect(here, there, forward, back);

        let parity = if way.repairs() { Parity::Auto } else { Parity::Off };
        let secret = encryption.secret();
        let mps = PACKET + DccpConfig::HEADER_ROOM + if secret.is_some() { OVERHEAD } else { 0 };
        let connection = DccpConfig { mps, ecn: false, parity, ..DccpConfig::default() };
        let connection = connection.with_ccids(&[way.ccid()]);
        let settings = DccpSettings { connection, secret, ..DccpSettings::default() };
        let stream = Stream::new(DelayedSource::new(source)).slots(4_096);
        let chooses = encryption != Encryption::BeforeQueue;
        let stream = if chooses { stream.choice(way.choice()) } else { stream };
        let stream = if chooses && way.repairs() { stream.repair(Priority(1)) } else { stream };
        let listener = Dccp::listener(|| Stream::new(Sink), settings.clone(), rng.fork());
        let caller = Dccp::caller(SocketAddr::new(THERE, PORT), stream, settings, rng.fork());
        let receiver = network.place(there, PORT, way.controller(), listener);
        let sender = network.place(here, 9_000, way.controller(), caller);
        Self { network, link, here, there, sender, receiver }
    }

    /// Tells the sender each rate of the link when it takes effect, from the stream's beginning on.
    fn apply_rates(&mut self, rates: &Rates, lost: f64) {
        let begin = Duration::from_millis(BEGIN.as_millis() - 100);
        let now = rates.each().filter(|&(from, _)| from <= begin).last().map(|(_, rate)| (begin, rate));
        let later = rates.each().filter(|&(from, _)| from > begin && from < BEGIN + LASTING);
        for (from, rate) in now.into_iter().chain(later) {
            self.network.run_until(Instant::ZERO + from);
            let sender = self.sender;
            self.network.with_host(self.here, |now, machine| {
                let (agent, manager) = machine.agent_and_manager(sender);
                let endpoint = agent.endpoint();
                let flow = endpoint.connections().find_map(|id| endpoint.connection(id)?.flow());
                // The sender counts DCCP's bytes of each packet; lost packets take no capacity of
                // the link.
                let counted = PACKET as u64 + HEADERS - UDP;
                let rate = Rate::from_bps((rate.as_bps() * counted) / (counted + UDP));
                let rate = Rate::from_bps((rate.as_bps() as f64 / (1.0 - lost)) as u64);
                let steering = Steering { rate, window: u64::MAX / 4 };
                manager.steer(now, flow.expect("it is open"), steering).expect("the flow is open");
            });
        }
    }

    /// Returns the outcome, without frames captured in the first `warm_up` of the stream.
    pub(super) fn outcome(&self, warm_up: Duration) -> Outcome {
        self.outcome_by(warm_up, |meta, at| meta.is_expired(at))
    }

    /// Returns the outcome, with these deadlines.
    fn outcome_by(&self, warm_up: Duration, is_late: impl Fn(&AduMeta, Instant) -> bool) -> Outcome {
        let sender = self.network.host(self.here).agent(self.sender).session();
        let receiver = self.network.host(self.there).agent(self.receiver).session();
        let (Some(sender), Some(receiver)) = (sender, receiver) else { return Outcome::default() };
        let bytes = self.network.link(self.link).counters().bytes_in;
        judged(sender.journal(), receiver.arrivals(), (warm_up, bytes), is_late)
    }
}

/// Outcome of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Outcome {
    /// Captured frames after the warm-up.
    pub(crate) frames: u64,
    /// Frames among them that arrived before their deadline, with all their references.
    pub(crate) decodable: u64,
    /// Packets that left, and those among them that left after their deadline.
    #[serde(skip)]
    pub(crate) sent: u64,
    pub(crate) late: u64,
    /// Bytes of packets that came, and of those among them that came after their deadline.
    #[serde(skip)]
    pub(crate) came: u64,
    #[serde(skip)]
    pub(crate) came_late: u64,
    /// Bytes on the link, headers included.
    pub(crate) bytes: u64,
    /// Whether each frame after the warm-up was decodable in time.
    #[serde(skip)]
    pub(crate) timeline: Vec<bool>,
}

struct FrameArrival {
    captured: Instant,
    references: Vec<FrameId>,
    whole: bool,
}

/// Judges a stream by the sender's journal, the receiver's arrivals, and these deadlines.
pub(crate) fn outcome_by(
    journal: &Journal,
    arrivals: &Arrivals,
    warm_up: Duration,
    is_late: impl Fn(&AduMeta, Instant) -> bool,
) -> Outcome {
    judged(journal, arrivals, (warm_up, 0), is_late)
}

fn judged(
    journal: &Journal,
    arrivals: &Arrivals,
    (warm_up, bytes): (Duration, u64),
    is_late: impl Fn(&AduMeta, Instant) -> bool,
) -> Outcome {
    let first = arrivals.first_by_seq(journal.adus().len());
    let mut frames: BTreeMap<FrameId, FrameArrival> = BTreeMap::new();
    let (mut came, mut came_late) = (0, 0);
    for (adu, at) in journal.adus().iter().zip(first) {
        let meta = &adu.meta;
        let in_time = at.is_some_and(|at| !is_late(meta, at));
        came += at.map_or(0, |_| adu.len as u64);
        came_late += at.filter(|_| !in_time).map_or(0, |_| adu.len as u64);
        let (captured, references) = (meta.enqueued, meta.references.iter().collect());
        let seen = frames.entry(meta.frame).or_insert(FrameArrival { captured, references, whole: true });
        seen.whole &= in_time;
    }
    // References point backwards.
    let mut decodable: BTreeMap<FrameId, bool> = BTreeMap::new();
    for (&frame, seen) in &frames {
        let refers_well = seen.references.iter().all(|reference| decodable.get(reference) == Some(&true));
        decodable.insert(frame, seen.whole && refers_well);
    }
    let begin = frames.values().next().map_or(Instant::ZERO, |seen| seen.captured) + warm_up;
    let counts = frames.iter().filter(|(_, seen)| seen.captured >= begin);
    let timeline: Vec<bool> = counts.map(|(frame, _)| decodable[frame]).collect();
    Outcome {
        frames: timeline.len() as u64,
        decodable: timeline.iter().filter(|&&decodable| decodable).count() as u64,
        sent: journal.copies() as u64,
        late: journal.adus().iter().filter(|adu| adu.left.iter().any(|&left| is_late(&adu.meta, left))).count() as u64,
        came,
        came_late,
        bytes,
        timeline,
    }
}

/// Interval between rate changes of a mobile link.
const STEP: Duration = Duration::from_millis(100);
/// Standard deviation of the log rate per step, and the share of its distance to the mean that it
/// regains per step.
const WANDERS: f64 = 0.2;
const RETURNS: f64 = 0.06;
/// Lowest and highest rate, as multiples of the mean.
const LEAST: f64 = 0.2;
const MOST: f64 = 2.5;
/// Probability per step that an outage (handover) begins, and its longest duration in steps.
const OUTAGE: f64 = 0.005;
const OUTAGE_STEPS: u64 = 3;

/// Returns the rates of a link with this mean rate over `lasting`.
fn course(course: RateProfile, mean: Rate, lasting: Duration, rng: &mut Rng) -> Rates {
    if course == RateProfile::Steady {
        return Rates::fixed(mean);
    }
    let (mut log, mut out) = (0.0_f64, 0);
    let steps = lasting.as_nanos() / STEP.as_nanos();
    let mut share = || {
        // Approximately normal, with unit variance.
        let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        log = (log * (1.0 - RETURNS) + normal * WANDERS).clamp(LEAST.ln(), MOST.ln());
        if out == 0 && rng.chance(OUTAGE) {
            out = 1 + rng.below(OUTAGE_STEPS);
        }
        let stands = out > 0;
        out = out.saturating_sub(1);
        if stands { 0.0 } else { log.exp() }
    };
    let shares: Vec<f64> = (0..steps).map(|_| share()).collect();
    let scale = shares.len() as f64 / shares.iter().sum::<f64>();
    let rate = |share: &f64| Rate::from_bps((mean.as_bps() as f64 * share * scale) as u64);
    let steps: Vec<_> = shares.iter().enumerate().map(|(n, share)| (STEP * n as u64, rate(share))).collect();
    Rates::steps(&steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::bloat::setup::with_room;

    #[test]
    fn every_packet_of_a_stream_tells_when_it_came() {
        assert_eq!([0, 1, 7, 8, 1_100, 1_101, 1_109].map(with_stamp_room), [0, 8, 8, 8, 1_100, 1_108, 1_109]);
        let (frames, _) = given(&with_room()[0], 1);
        assert!(frames.iter().all(|frame| frame.bytes % PACKET == 0 || frame.bytes % PACKET >= stamp::LEN));
    }
}
