//! One flow over the path, and its throughput.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::Network;
use timeous_tcp::Config;

use super::super::tcp::end::End;

/// Loss rates of the path.
pub(super) const LOSSES: [f64; 8] = [0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05];
pub(super) const RATE: Rate = Rate::from_bps(10_000_000);
pub(super) const RTT: Duration = Duration::from_millis(60);
/// Queue in full segments: one round trip's worth.
pub(super) const QUEUE: usize = 50;
/// Uncounted start: the effect of slow start depends on the length of a transfer.
pub(super) const WARM_UP: Duration = Duration::from_secs(10);
/// Number of losses for which a flow is measured.
pub(super) const LOST: f64 = 300.0;
/// Bounds on the measured time.
const LEAST: Duration = Duration::from_secs(40);
const MOST: Duration = Duration::from_secs(150);

/// Congestion control of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FlowController {
    /// TCP's own, as standardised.
    Plain,
    /// Congestion Manager with its default controller.
    Managed,
}

impl FlowController {
    pub(super) const ALL: [Self; 2] = [Self::Plain, Self::Managed];

    /// Returns the name for output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "TCP",
            Self::Managed => "TCP/CM",
        }
    }

    fn controller(self) -> Kind {
        match self {
            Self::Plain => Kind::NewReno,
            Self::Managed => Kind::Aimd,
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) side: FlowController,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Measured {
    pub(crate) side: FlowController,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
    /// Throughput of in-order data, in kbit/s.
    pub(crate) throughput: f64,
    /// Timeouts per minute.
    pub(crate) timeouts: f64,
}

/// Returns the measured time of a flow: an estimate improves with the number of losses.
fn lasting(loss: f64) -> Duration {
    // By the square-root law, a path with loss rate `p` carries 1.22 / √p packets per round trip.
    let rounds = LOST / (1.22 * loss.max(1e-9).sqrt());
    Duration::from_millis((RTT.as_millis() as f64 * rounds) as u64).clamp(LEAST, MOST)
}

/// Runs a flow.
pub(crate) fn run(cell: &Cell) -> Measured {
    let &Cell { side, loss, seed } = cell;
    let mut rng = Rng::from_seed(seed ^ (((loss * 1e6) as u64) << 32));
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 1_000).into(), ([10, 0, 0, 2], 2_000).into());
    let config = Config::default();
    let sender = End::sender(Instant::ZERO, side.controller(), config.clone(), (here, there), rng.fork());
    let from = network.add_host(here.ip(), sender);
    let to = network.add_host(there.ip(), End::receiver(config, (there, here), rng.fork()));
    let way = LinkConfig {
        capacity: Capacity::Fixed(RATE),
        queue: Limit::Packets(QUEUE),
        delay: RTT / 2,
        ..LinkConfig::default()
    };
    network.connect(from, to, LinkConfig { loss: Loss::Bernoulli { p: loss }, ..way.clone() }, way);

    let begin = Instant::ZERO + WARM_UP;
    network.run_until(begin);
    let (received, timeouts) = (network.host(to).received(), network.host(from).answered().timeouts);
    let time = lasting(loss);
    network.run_until(begin + time);
    let bits = 8 * (network.host(to).received() - received);
    let timeouts = network.host(from).answered().timeouts - timeouts;
    Measured {
        side,
        loss,
        seed,
        throughput: bits as f64 / 1e3 / time.as_secs_f64(),
        timeouts: timeouts as f64 * 60.0 / time.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_losses_the_longer_a_flow_is_counted() {
        assert_eq!(lasting(0.0), MOST);
        assert!(lasting(0.005) > lasting(0.02) && lasting(0.05) >= LEAST);
    }
}
