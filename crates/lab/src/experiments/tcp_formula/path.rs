//! One flow over one path that loses packets, and what is measured of it.

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
/// Shares of the packets that the path loses.
pub(super) const LOSSES: [f64; 5] = [0.001, 0.003, 0.01, 0.02, 0.05];
/// Bytes of a segment, with its timestamps. The models count packets, and so does this.
pub(super) const SEGMENT: u16 = 112;
/// Loss indications that pass before anything is counted: slow start is not part of the models.
pub(super) const SKIPPED: u64 = 10;
/// Of loss indications that are counted, about so many at least.
const INDICATIONS: f64 = 30.0;
/// Packets that are counted at least.
const PACKETS: u64 = 6_000;
/// So fast that a window leaves in no time, and yet one packet after the other.
const RATE: Rate = Rate::from_bps(1_000_000_000);
/// A flow that is not done by then will not be.
const HORIZON: Duration = Duration::from_secs(100_000);

/// How a TCP repairs losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Variant {
    /// As it is unless told otherwise: SACK, RACK, tail loss probes.
    Default,
    /// Three duplicate acknowledgements and the timer, nothing selective: RFC 6582.
    NewReno,
}

impl Variant {
    pub(super) const ALL: [Self; 2] = [Self::Default, Self::NewReno];

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Default => "SACK, RACK, TLP",
            Self::NewReno => "RFC 6582",
        }
    }

    fn config(self) -> Config {
        let mut config = Config { mss: SEGMENT, ..Config::default() };
        // Every segment is acknowledged at once: a delay would be part of some round trips and not of others.
        config.delayed_ack.delay = Duration::ZERO;
        match self {
            Self::Default => config,
            Self::NewReno => {
                Config { sack: false, loss_detection: LossDetection::DupThresh, tail_loss_probe: false, ..config }
            }
        }
    }
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    /// Each with the same probability.
    Random,
    /// As many packets lie between any two.
    Regular,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) variant: Variant,
    pub(crate) controller: Kind,
    /// Milliseconds.
    pub(crate) rtt: u64,
    pub(crate) loss: f64,
    pub(crate) pattern: Pattern,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Measured {
    pub(crate) variant: Variant,
    /// Milliseconds.
    pub(crate) rtt: u64,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
    /// Packets sent, those sent again among them.
    pub(crate) packets: u64,
    /// Seconds in which they were.
    pub(crate) seconds: f64,
    /// Loss indications by duplicate acknowledgements or what stands for them.
    pub(crate) losses: u64,
    /// Those by a timeout, the first of a series counted.
    pub(crate) timeouts: u64,
}

impl Measured {
    /// Packets a second.
    pub(crate) fn rate(&self) -> f64 {
        self.packets as f64 / self.seconds
    }

    /// Loss indications a packet sent: what Padhye et al. measured as `p`.
    pub(crate) fn indications(&self) -> f64 {
        (self.losses + self.timeouts) as f64 / self.packets as f64
    }
}

/// The sender's counters at a moment.
#[derive(Clone, Copy)]
struct Count {
    at: Instant,
    packets: u64,
    losses: u64,
    timeouts: u64,
}

fn count(at: Instant, end: &End) -> Count {
    let (statistics, answered) = (end.statistics(), end.answered());
    let packets = statistics.data_sent + statistics.retransmissions;
    Count { at, packets, losses: answered.losses, timeouts: answered.timeouts }
}

/// Runs a flow for as long as it takes to count enough.
pub(crate) fn run(cell: &Cell) -> Measured {
    let &Cell { variant, controller, rtt, loss, pattern, seed } = cell;
    // Each cell has losses of its own: they would else come at the same packets whatever the path.
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
