//! One TFRC beside one TCP, as they are and with single changes: which flow's packets the
//! bottleneck drops, and when.

use std::cell::RefCell;

use timeous::core::{Duration, Instant};
use timeous_net::link::{QueueKind, RedConfig};

use super::path_means::FlowMeans;
use super::topology::{Bottleneck, Flow, PacketRecords, Topology};

/// Single change to the flows or the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variation {
    Nothing,
    /// TCP in place of TFRC.
    Tcps,
    /// Paced TCP in place of TFRC.
    OnePacedTcp,
    ClassicTcp,
    PacedTcp,
    QuickTcp,
    /// No jitter before the queue.
    NoJitter,
    Jitter,
    LongQueue,
    Red,
}

/// Jitter that scatters packets before the queue, as far as the round trip permits.
const SCATTER: Duration = Duration::from_millis(15);

impl Variation {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Tcps,
        Self::OnePacedTcp,
        Self::PacedTcp,
        Self::ClassicTcp,
        Self::QuickTcp,
        Self::NoJitter,
        Self::Jitter,
        Self::LongQueue,
        Self::Red,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "as above",
            Self::Tcps => "a TCP in TFRC's place",
            Self::OnePacedTcp => "a paced TCP in TFRC's place",
            Self::PacedTcp => "TCP paced",
            Self::ClassicTcp => "TCP finds losses by RFC 6675, not by RACK's clock",
            Self::NoJitter => "no jitter",
            Self::QuickTcp => "each packet of TCP acknowledged",
            Self::Jitter => "± 15 ms before the queue, or a quarter of the round trip",
            Self::LongQueue => "a queue four times as long",
            Self::Red => "RED",
        }
    }

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
        let looks = RefCell::new(Vec::new());
        let count = |topology: &Topology| {
            looks.borrow_mut().push(topology.means());
            topology.received()
        };
        let rates = topology.rates(Duration::from_secs(seconds), seconds, count);
        let looks = looks.into_inner();
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
