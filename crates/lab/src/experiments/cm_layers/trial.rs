//! Trial: one stream over the path, and its choice of layers.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_host::{Handle, Machine};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, RateTrace};
use timeous_net::sim::{LinkId, Network, NodeId};

use super::super::cm::{AckPolicy, OVERHEAD, Receiver, Sender};
use super::super::machines::Machines;
use super::video::{GrantedVideo, LAYERS, RateCallbackVideo, SIZE, Video};
use crate::experiment::{Sabotage, sabotages, values};

/// Round-trip time without queueing.
pub(super) const RTT: Duration = Duration::from_millis(75);
/// Queue of the bottleneck, in packets.
pub(super) const QUEUE: usize = 40;
/// Rate of the path in kbit/s, for `STEP` each: some between the rates of the layers, some
/// exactly at one.
pub(super) const STEPS: [u64; 7] = [4_000, 2_200, 1_300, 3_200, 1_100, 1_600, 4_000];
pub(super) const STEP: Duration = Duration::from_secs(12);
/// Lowest and highest of these rates.
pub(super) const EXTREMES: [u64; 2] = [1_100, 4_000];

/// Returns the times at which the path has this rate, in seconds, without the start of the first of them.
pub(super) fn times_at(rate: u64) -> impl Iterator<Item = (f64, f64)> {
    let begin = |step: usize| (STEP * step as u64).max(BEGIN).as_secs_f64();
    let steps = STEPS.into_iter().enumerate().filter(move |&(_, kbps)| kbps == rate);
    steps.map(move |(step, _)| (begin(step), (STEP * (step as u64 + 1)).as_secs_f64()))
}

/// Random variation around that, as a share to either side, drawn anew every `WAVER_EVERY`.
pub(super) const WAVER: f64 = 0.1;
pub(super) const WAVER_EVERY: Duration = Duration::from_millis(500);
/// Acknowledgement delay of late feedback: packets, and time.
pub(super) const LATE: (u32, Duration) = (500, Duration::from_secs(2));
/// Start of the measurement.
pub(super) const BEGIN: Duration = Duration::from_secs(4);
/// Sampling interval of the figures.
const SAMPLE: Duration = Duration::from_millis(250);

sabotages! {
    pub(super) SILENT = "silent", "the application never asks for a grant"
        => [
            "changes of layers", "change of the reported rate", "what arrives with late feedback",
            "share of the path that ALF uses", "rate of the layers by",
            "time with more layers than the path carries by rate callbacks",
            "longest time with more layers than the manager reports",
        ];
    pub(super) DEAF = "deaf", "the application ignores every callback and stays at one layer"
        => ["rate of the layers by", "changes of layers"];
    pub(super) GREEDY = "greedy", "the application ignores every callback and sends all four layers"
        => [
            "rate of the layers by", "changes of layers",
            "time with more layers than the path carries by rate callbacks",
            "longest time with more layers than the manager reports",
        ];
    pub(super) PROMPT = "prompt", "late feedback comes at once" => ["change of the reported rate"];
}

values! {
    /// API of the manager that the application uses.
    pub(super) enum Api {
        /// Request and callback: layers are chosen at each grant.
        Alf = "ALF",
        /// Rate callbacks: layers are chosen at each.
        Rate = "rate callbacks",
        /// Rate callbacks with late feedback.
        Late = "rate callbacks, late feedback",
    }
}

/// Outcome of a trial. Times are in seconds, rates in bit/s.
pub(super) struct Outcome {
    /// Rate of the path.
    pub(super) available: Steps,
    /// Rate that the manager reported.
    pub(super) reported: Steps,
    /// Smoothed round-trip time of the manager, in seconds.
    pub(super) rtt: Steps,
    /// Number of layers sent.
    pub(super) layers: Steps,
    /// Received rate.
    pub(super) arrived: Vec<(f64, f64)>,
    /// Share of sent packets that the path dropped.
    pub(super) dropped: f64,
    pub(super) end: f64,
}

/// Returns the end of the experiment.
pub(super) fn end() -> Duration {
    STEP * STEPS.len() as u64
}

/// Returns the steps of the path's rate with their variation.
fn trace(rng: &mut Rng) -> Vec<(Duration, Rate)> {
    let count = end().as_nanos() / WAVER_EVERY.as_nanos();
    let at = |n: u64| WAVER_EVERY * n;
    let mut rate = |n: u64| {
        let base = STEPS[(at(n).as_nanos() / STEP.as_nanos()) as usize] * 1_000;
        let share = rng.below(2_001) as f64 / 1_000.0 - 1.0;
        Rate::from_bps((base as f64 * (1.0 + WAVER * share)) as u64)
    };
    (0..count).map(|n| (at(n), rate(n))).collect()
}

/// Runs a trial.
pub(super) fn run(api: Api, seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let fixed = match sabotage {
        Some(DEAF) => Some(1),
        Some(GREEDY) => Some(LAYERS.len()),
        _ => None,
    };
    let is_silent = sabotage == Some(SILENT);
    let feedback = if sabotage == Some(PROMPT) { Api::Rate } else { api };
    match api {
        Api::Alf => with(feedback, seed, GrantedVideo::new(fixed, is_silent)),
        Api::Rate | Api::Late => with(feedback, seed, RateCallbackVideo::new(fixed, is_silent)),
    }
}

fn with<V: Video>(api: Api, seed: u64, video: V) -> Outcome {
    let mut rng = Rng::from_seed(seed);
    let steps = trace(&mut rng);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into());
    let (from, to) = (network.machine(here.ip()), network.machine(there.ip()));
    let way = LinkConfig::with_delay(RTT / 2);
    let narrow = LinkConfig {
        capacity: Capacity::Trace(RateTrace::new(steps.clone()).expect("the steps are in order")),
        queue: Limit::Packets(QUEUE),
        ..way.clone()
    };
    let (link, _) = network.connect(from, to, narrow, way);
    let (when, late) = match api {
        Api::Late => (AckPolicy::Late(LATE.0, LATE.1), LATE.1),
        Api::Alf | Api::Rate => (AckPolicy::Soon, Duration::ZERO),
    };
    let start = Instant::ZERO + Duration::from_nanos(rng.below(WAVER_EVERY.as_nanos()));
    let sender = network.place(from, here.port(), Kind::Aimd, Sender::new(there, SIZE, start, late, video));
    let receiver = network.place(to, there.port(), Kind::Aimd, Receiver::new(when));
    network.run_until(Instant::ZERO + end());
    outcome(&steps, &network, link, (from, sender), (to, receiver))
}

fn outcome<V: Video>(
    steps: &[(Duration, Rate)],
    network: &Network<Machine>,
    link: LinkId,
    (from, sender): (NodeId, Handle<Sender<V>>),
    (to, receiver): (NodeId, Handle<Receiver>),
) -> Outcome {
    let sender = network.host(from).agent(sender);
    let seconds = |at: &Instant| at.saturating_since(Instant::ZERO).as_secs_f64();
    let layers = sender.application().chosen().list();
    let arrivals = network.host(to).agent(receiver).arrivals();
    let count = end().as_nanos() / SAMPLE.as_nanos();
    let mut bytes = vec![0; count as usize];
    for arrival in arrivals {
        let slot = arrival.at.saturating_since(Instant::ZERO).as_nanos() / SAMPLE.as_nanos();
        if let Some(sum) = bytes.get_mut(slot as usize) {
            *sum += arrival.packet.len + OVERHEAD;
        }
    }
    let sample = SAMPLE.as_secs_f64();
    let arrived = bytes.iter().enumerate().map(|(n, &sum)| ((n as f64 + 0.5) * sample, 8.0 * sum as f64 / sample));
    let counters = network.link(link).counters();
    Outcome {
        available: Steps::new(steps.iter().map(|(at, rate)| (at.as_secs_f64(), rate.as_bps() as f64))),
        reported: Steps::new(sender.reported().iter().map(|report| (seconds(&report.at), report.rate))),
        rtt: Steps::new(sender.reported().iter().map(|report| (seconds(&report.at), report.rtt.as_secs_f64()))),
        layers: Steps::new(layers.iter().map(|(at, layers)| (seconds(at), *layers as f64))),
        arrived: arrived.collect(),
        dropped: counters.queue_drops as f64 / counters.packets_in.max(1) as f64,
        end: end().as_secs_f64(),
    }
}

/// Steps in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Vec<(f64, f64)>);

impl Steps {
    pub(super) fn new(steps: impl Iterator<Item = (f64, f64)>) -> Self {
        Self(steps.collect())
    }

    /// Returns the steps from `from` on.
    pub(super) fn since(&self, from: f64) -> impl Iterator<Item = (f64, f64)> {
        self.0.iter().copied().filter(move |&(at, _)| at >= from)
    }

    /// Returns the value at a time; none before the first step.
    pub(super) fn at(&self, time: f64) -> Option<f64> {
        let after = self.0.partition_point(|&(at, _)| at <= time);
        Some(self.0[after.checked_sub(1)?].1)
    }

    /// Returns the corners of its line, up to `end`.
    pub(super) fn line(&self, end: f64) -> Vec<(f64, f64)> {
        let ends = self.0.iter().skip(1).map(|&(at, _)| at).chain([end]);
        self.0.iter().zip(ends).flat_map(|(&(at, value), until)| [(at, value), (until, value)]).collect()
    }

    /// Returns the stretches within `from..to` in which `over` holds of this value and the other's,
    /// each as start and length.
    pub(super) fn stretches(
        &self,
        other: &Self,
        (from, to): (f64, f64),
        over: impl Fn(f64, f64) -> bool,
    ) -> Vec<(f64, f64)> {
        let mut times: Vec<f64> =
            self.0.iter().chain(&other.0).map(|&(at, _)| at).filter(|at| (from..to).contains(at)).collect();
        times.extend([from, to]);
        times.sort_unstable_by(f64::total_cmp);
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        for pair in times.windows(2) {
            let (Some(own), Some(others)) = (self.at(pair[0]), other.at(pair[0])) else { continue };
            let len = pair[1] - pair[0];
            if !over(own, others) || len <= 0.0 {
                continue;
            }
            match stretches.last_mut() {
                Some((at, lasted)) if (*at + *lasted - pair[0]).abs() < 1e-9 => *lasted += len,
                _ => stretches.push((pair[0], len)),
            }
        }
        stretches
    }

    /// Returns the mean over `from..to`.
    pub(super) fn mean(&self, (from, to): (f64, f64)) -> f64 {
        let line = self.0.iter().zip(self.0.iter().skip(1).map(|&(at, _)| at).chain([f64::INFINITY]));
        let sum: f64 = line.map(|(&(at, value), until)| value * (until.min(to) - at.max(from)).max(0.0)).sum();
        sum / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(list: &[(f64, f64)]) -> Steps {
        Steps::new(list.iter().copied())
    }

    #[test]
    fn values_hold_until_the_next() {
        let a = steps(&[(1.0, 10.0), (3.0, 20.0)]);
        assert_eq!([0.5, 1.0, 2.9, 9.0].map(|t| a.at(t)), [None, Some(10.0), Some(10.0), Some(20.0)]);
        assert_eq!(a.line(5.0), [(1.0, 10.0), (3.0, 10.0), (3.0, 20.0), (5.0, 20.0)]);
        assert_eq!(a.mean((2.0, 4.0)), 15.0);
        assert_eq!(a.since(2.0).count(), 1);
    }

    #[test]
    fn stretches_join_where_nothing_changed_that_matters() {
        let a = steps(&[(0.0, 5.0), (2.0, 6.0), (4.0, 1.0)]);
        let b = steps(&[(0.0, 4.0), (1.0, 3.0), (3.0, 7.0)]);
        assert_eq!(a.stretches(&b, (0.5, 9.0), |a, b| a > b), [(0.5, 2.5)]);
    }
}
