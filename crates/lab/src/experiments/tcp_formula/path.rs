//! One flow over one path with loss, and its measurements.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::Network;
use timeous_tcp::{Config, LossDetection};

use super::super::tcp::end::End;

/// Round-trip times in milliseconds.
pub(super) const ROUND_TRIPS: [u64; 3] = [20, 60, 200];
/// Loss rates of the path.
pub(super) const LOSSES: [f64; 5] = [0.001, 0.003, 0.01, 0.02, 0.05];
/// Bytes of a segment, timestamps included. Models and measurements count packets.
pub(super) const SEGMENT: u16 = 112;
/// Loss indications before the count starts: slow start is not part of the models.
pub(super) const SKIPPED: u64 = 10;
/// Least number of counted loss indications, approximately.
const INDICATIONS: f64 = 30.0;
/// Least number of counted packets.
const PACKETS: u64 = 6_000;
/// Link rate at which the transmission time of a window is negligible, and packets still stay in
/// order.
const RATE: Rate = Rate::from_bps(1_000_000_000);
/// Time limit of a flow.
const HORIZON: Duration = Duration::from_secs(100_000);

/// Loss recovery of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Variant {
    /// Default: SACK, RACK, tail loss probes.
    Default,
    /// Three duplicate acknowledgements and the timer, without SACK: RFC 6582.
    NewReno,
}

impl Variant {
    pub(super) const ALL: [Self; 2] = [Self::Default, Self::NewReno];

    /// Returns the name for output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "SACK, RACK, TLP",
            Self::NewReno => "RFC 6582",
        }
    }

    fn config(self) -> Config {
        let mut config = Config { mss: SEGMENT, ..Config::default() };
        // Every segment is acknowledged at once: a delay would be part of only some round trips.
        config.delayed_ack.delay = Duration::ZERO;
        match self {
            Self::Default => config,
            Self::NewReno => {
                Config { sack: false, loss_detection: LossDetection::DupThresh, tail_loss_probe: false, ..config }
            }
        }
    }
}

/// Loss pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    /// Independent losses of equal probability.
    Random,
    /// Losses at a constant interval of packets.
    Regular,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) variant: Variant,
    pub(crate) controller: Kind,
    /// Round-trip time in milliseconds.
    pub(crate) rtt: u64,
    pub(crate) loss: f64,
    pub(crate) pattern: Pattern,
    pub(crate) seed: u64,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Measured {
    pub(crate) variant: Variant,
    /// Round-trip time in milliseconds.
    pub(crate) rtt: u64,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
    /// Packets sent, retransmissions included.
    pub(crate) packets: u64,
    /// Time in which they were sent, in seconds.
    pub(crate) seconds: f64,
    /// Loss indications by duplicate acknowledgements or their equivalents.
    pub(crate) losses: u64,
    /// Loss indications by timeout, counting the first of each series.
    pub(crate) timeouts: u64,
}

impl Measured {
    /// Returns the rate in packets per second.
    pub(crate) fn rate(&self) -> f64 {
        self.packets as f64 / self.seconds
    }

    /// Returns the loss indications per packet sent: Padhye et al.'s measured `p`.
    pub(crate) fn indications(&self) -> f64 {
        (self.losses + self.timeouts) as f64 / self.packets as f64
    }
}

/// Counters of the sender at one time.
#[derive(Clone, Copy)]
struct SenderCounters {
    at: Instant,
    packets: u64,
    losses: u64,
    timeouts: u64,
}

fn count(at: Instant, end: &End) -> SenderCounters {
    let (statistics, answered) = (end.statistics(), end.answered());
    let packets = statistics.data_sent + statistics.retransmissions;
    SenderCounters { at, packets, losses: answered.losses, timeouts: answered.timeouts }
}

/// Runs a flow until enough is counted.
pub(crate) fn run(cell: &Cell) -> Measured {
    let &Cell { variant, controller, rtt, loss, pattern, seed } = cell;
    // Each cell has its own random losses: otherwise they would hit the same packets on every path.
    let mut rng = Rng::from_seed(seed ^ (rtt << 16) ^ ((loss * 1e6) as u64) << 32);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 1_000).into(), ([10, 0, 0, 2], 2_000).into());
    let sender = End::sender(Instant::ZERO, controller, variant.config(), (here, there), rng.fork());
    let receiver = End::receiver(variant.config(), (there, here), rng.fork());
    let (receiver, by_chance) = match pattern {
        Pattern::Random => (receiver, Loss::Bernoulli { p: loss }),
        Pattern::Regular => (receiver.losing_every((1.0 / loss).round() as u64), Loss::None),
    };
    let (from, to) = (network.add_host(here.ip(), sender), network.add_host(there.ip(), receiver));
    let way = LinkConfig {
        capacity: Capacity::Fixed(RATE),
        queue: Limit::Packets(usize::MAX),
        delay: Duration::from_micros(rtt * 500),
        ..LinkConfig::default()
    };
    network.connect(from, to, LinkConfig { loss: by_chance, ..way.clone() }, way);

    let now = |network: &Network<End>| count(network.now(), network.host(from));
    let until = Instant::ZERO + HORIZON;
    network.run_while(until, |network| {
        let count = now(network);
        count.losses + count.timeouts < SKIPPED
    });
    let began = now(&network);
    let enough = began.packets + PACKETS.max((INDICATIONS / loss) as u64);
    network.run_while(until, |network| now(network).packets < enough);
    let ended = now(&network);
    Measured {
        variant,
        rtt,
        loss,
        seed,
        packets: ended.packets - began.packets,
        seconds: (ended.at - began.at).as_secs_f64(),
        losses: ended.losses - began.losses,
        timeouts: ended.timeouts - began.timeouts,
    }
}
