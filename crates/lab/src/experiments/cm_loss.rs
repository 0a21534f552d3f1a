//! cm-loss: TCP as a client of the Congestion Manager beside plain TCP, on a path with loss
//! (Andersen et al., figure 3).

use std::net::{IpAddr, SocketAddr};

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};
use timeous_net::sim::{Host, Network};
use timeous_tcp::Config;

use super::fault::Fault;
use super::tcp::alone::Alone;
use super::tcp::end::End;
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Findings, Forms, Grid, Rows, Run, RunError, Sabotage, Stats, cross,
    sabotages, setup, values,
};

/// Loss rates of the path.
const LOSSES: [f64; 8] = [0.0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05];
const RATE: Rate = Rate::from_bps(10_000_000);
const RTT: Duration = Duration::from_millis(60);
/// Queue in full segments: one round trip's worth.
const QUEUE: usize = 50;
/// Uncounted start: the effect of slow start depends on the length of a transfer.
const WARM_UP: Duration = Duration::from_secs(10);
/// Number of losses for which a flow is measured.
const LOST: f64 = 300.0;
/// Bounds on the measured time.
const LEAST: Duration = Duration::from_secs(40);
const MOST: Duration = Duration::from_secs(150);
/// Accepted difference in throughput at each point, as a share.
const PASS: f64 = 0.10;
/// Target for that difference.
const AIM: f64 = 0.03;
/// Standard errors shown to either side.
const ERRORS: f64 = 2.0;

values! {
    /// Congestion control of the flow.
    enum FlowController {
        /// TCP's own, as standardised.
        Plain = "TCP",
        /// Congestion Manager with its default controller.
        Managed = "TCP/CM",
        /// A TCP of foreign code, which has no manager.
        Alone = "TCP without a manager",
    }
}

/// Results of a run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Measured {
    /// Throughput of in-order data, in kbit/s.
    throughput: f64,
    /// Timeouts per minute.
    timeouts: f64,
}

/// Results by loss rate and congestion control.
type Flows = Grid<(f64, FlowController), Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-loss",
    title: "TCP by the Congestion Manager beside plain TCP, with losses",
    source: "Andersen et al. §4, figure 3",
    paper: "TCP/CM and TCP/Linux have the same throughput at each loss rate from 0 to 5 %",
    forms: Forms::Virtual,
    seeds: 8,
    takes: "10 s",
    sabotages: &[FIXED, DOUBLED],
    run,
};

sabotages! {
    FIXED = "fixed", "the manager's window stays at 50 packets, whatever is lost" => FALL;
    DOUBLED = "doubled", "the manager's window is twice that of its controller" => FALL;
}

const FALL: [&str; 4] = [
    "throughput of TCP/CM over that of TCP at 2 % loss",
    "throughput of TCP/CM over that of TCP at 5 % loss",
    "throughput of TCP/CM over that of TCP without a manager at 2 % loss",
    "throughput of TCP/CM over that of TCP without a manager at 5 % loss",
];

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let losses = if run.extent == Extent::Least { &[0.02, 0.05][..] } else { &LOSSES };
    let losses = || losses.iter().copied();
    let flows: Flows =
        run.grid("flows", cross(losses(), FlowController::ALL), |&(loss, by), seed| flow(loss, by, seed, run.sabotage));
    let rate = |&loss: &f64, by| flows.stats(&(loss, by), |one| one.throughput);
    let with_error = |stats: Stats| format!("{:.0}{}", stats.mean, spread(stats.error, 0));
    let timeouts = |&loss: &f64, by| flows.mean(&(loss, by), |one| one.timeouts);
    let table = Rows::of(losses())
        .column("loss, %", |loss| 100.0 * loss)
        .column("TCP, kbit/s", |loss| with_error(rate(loss, FlowController::Plain)))
        .column("TCP/CM, kbit/s", |loss| with_error(rate(loss, FlowController::Managed)))
        .column("TCP without a manager, kbit/s", |loss| with_error(rate(loss, FlowController::Alone)))
        .column("TCP/CM over TCP", |&loss| ratio(&flows, loss, FlowController::Plain).1)
        .column("over TCP without a manager", |&loss| ratio(&flows, loss, FlowController::Alone).1)
        .number("timeouts a minute, TCP", 2, |loss| timeouts(loss, FlowController::Plain))
        .number("TCP/CM", 2, |loss| timeouts(loss, FlowController::Managed))
        .number("TCP without a manager", 2, |loss| timeouts(loss, FlowController::Alone))
        .table("Throughput (± two standard errors over the seeds)");
    let chart = Chart {
        title: "Throughput of TCP and TCP/CM against loss",
        x: "packets that the path loses, %",
        y: "throughput, Mbit/s",
        caption: "10 Mbit/s, 60 ms round trip. As figure 3 of the paper: two curves that should be one.",
    };
    let claim = |loss: f64, than| {
        let (ratio, measured) = ratio(&flows, loss, than);
        let what = format!("throughput of TCP/CM over that of {} at {} % loss", than.name(), 100.0 * loss);
        Claim::new(what, "1: the same curve", measured, ratio).pass(1.0 - PASS..=1.0 + PASS)
    };
    let own = losses().map(|loss| claim(loss, FlowController::Plain).aim(1.0 - AIM..=1.0 + AIM));
    let claims = own.chain(losses().map(|loss| claim(loss, FlowController::Alone)));
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![chart.of(
            flows.points(),
            |at| at.point.1.name().to_owned(),
            |at| (100.0 * at.point.0, at.mean(|one| one.throughput) / 1e3),
        )?],
        claims: claims.collect(),
        notes: vec![
            "What is left of a difference at much loss is pacing: the manager spreads a window of a few packets over the round \
             trip, and a receiver that acknowledges every other segment answers the first of a pair later than if both had \
             come together. Without the pace both curves are the same to the third digit."
                .to_owned(),
        ],
        data: flows.data(),
    })
}

/// Returns the throughput of TCP/CM divided by that of another TCP, and as text with its error.
fn ratio(flows: &Flows, loss: f64, than: FlowController) -> (f64, String) {
    let [plain, managed] = [than, FlowController::Managed].map(|by| flows.stats(&(loss, by), |one| one.throughput));
    let value = managed.mean / plain.mean;
    let error = value * (managed.error / managed.mean).hypot(plain.error / plain.mean);
    (value, format!("{value:.3}{}", spread(error, 3)))
}

/// Formats an error as `± 1.2`; empty with a single seed.
fn spread(error: f64, digits: usize) -> String {
    if error.is_finite() { format!(" ± {:.digits$}", ERRORS * error) } else { String::new() }
}

/// Returns the measured time of a flow: an estimate improves with the number of losses.
fn lasting(loss: f64) -> Duration {
    // By the square-root law, a path with loss rate `p` carries 1.22 / √p packets per round trip.
    let rounds = LOST / (1.22 * loss.max(1e-9).sqrt());
    Duration::from_millis((RTT.as_millis() as f64 * rounds) as u64).clamp(LEAST, MOST)
}

/// Runs a flow.
fn flow(loss: f64, by: FlowController, seed: u64, sabotage: Option<Sabotage>) -> Measured {
    let mut rng = Rng::from_seed(seed ^ (((loss * 1e6) as u64) << 32));
    let network_seed = rng.next_u64();
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 1_000).into(), ([10, 0, 0, 2], 2_000).into());
    if by == FlowController::Alone {
        let ends = [(here.ip(), Alone::sender(here, there)), (there.ip(), Alone::receiver(there, here))];
        return measure(network_seed, loss, ends, Alone::received, Alone::timeouts);
    }
    let (config, kind) = (Config::default(), if by == FlowController::Plain { Kind::NewReno } else { Kind::Aimd });
    let sender = End::sender(Instant::ZERO, kind, config.clone(), (here, there), rng.fork());
    let fault = match sabotage {
        Some(FIXED) => Some(Fault::Fixed),
        Some(DOUBLED) => Some(Fault::Doubled),
        _ => None,
    };
    let sender = if by == FlowController::Managed { sender.with_fault(kind, fault) } else { sender };
    let receiver = End::receiver(config, (there, here), rng.fork());
    let ends = [(here.ip(), sender), (there.ip(), receiver)];
    measure(network_seed, loss, ends, End::received, |end| end.answered().timeouts)
}

/// Measures a flow between two hosts; `received` counts at the second, `timeouts` at the first.
fn measure<H: Host>(
    seed: u64,
    loss: f64,
    [sender, receiver]: [(IpAddr, H); 2],
    received: impl Fn(&H) -> u64,
    timeouts: impl Fn(&H) -> u64,
) -> Measured {
    let mut network = Network::new(seed);
    let (from, to) = (network.add_host(sender.0, sender.1), network.add_host(receiver.0, receiver.1));
    let way = LinkConfig::with_delay(RTT / 2).with_rate(RATE, Limit::Packets(QUEUE));
    network.connect(from, to, way.clone().with_loss(Loss::Bernoulli { p: loss }), way);

    let counts = |network: &Network<H>| (received(network.host(to)), timeouts(network.host(from)));
    let begin = Instant::ZERO + WARM_UP;
    network.run_until(begin);
    let before = counts(&network);
    let time = lasting(loss);
    network.run_until(begin + time);
    let after = counts(&network);
    Measured {
        throughput: 8.0 * (after.0 - before.0) as f64 / 1e3 / time.as_secs_f64(),
        timeouts: (after.1 - before.1) as f64 * 60.0 / time.as_secs_f64(),
    }
}

fn choices() -> Vec<Choice> {
    setup! {
        paper "path": "10 Mbit/s, 60 ms round trip, 0 to 5 % loss" => "figure 3";
        paper "controllers": "TCP/CM: the manager's own, AIMD that counts bytes; TCP: NewReno of RFC 5681"
            => "§4: the paper compares the CM's AIMD with byte counting to the kernel's own congestion control";
        ours "TCP without a manager": "code of its own: NewReno, SACK, tail loss probes, a later segment tells of a loss"
            => "both others share their code with the manager, and a fault of it would be in either";
        ours "TCP": "one code for both: SACK, RACK, tail loss probes, delayed acknowledgements"
            => "what differs is who controls congestion";
        ours "loss": "of each data packet independently" => "the paper does not say how its loss was made";
        ours "queue": "{QUEUE} packets, drop-tail"
            => "a round trip's worth; without losses of the path it is what drops";
        ours "counted": "after {} s, until the path has lost about {LOST} packets, 40 to 150 s", WARM_UP.as_secs_f64()
            => "slow start would count the more the shorter a transfer is; a mean over too few losses says little";
        ours "seeds": "the path's losses, and the connection's numbers"
            => "the mean of the seeds is judged, its standard error shown";
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

    #[test]
    fn an_error_is_shown_if_there_are_two() {
        let spread = |values: &[f64]| spread(Stats::of(values.iter().copied()).error, 1);
        assert_eq!((spread(&[1.0, 3.0]), spread(&[1.0])), (" ± 2.0".to_owned(), String::new()));
    }
}
