//! arrivals: predicted arrival of each packet at the instant at which it leaves, beside its actual arrival.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use timeous::core::{Duration, Fate, Instant, LateChoice, PathState, Queue, Rate, Rng};
use timeous_choice::Deadlines;
use timeous_cm::Kind;
use timeous_host::sources::Frames;
use timeous_host::{Dccp, DccpSettings, Sink, Stream};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_net::sim::Network;
use timeous_testbed::report::plot::Series;

use super::bloat::setup::{HEADERS, PACKET};
use super::bloat::stream::{ReferencePattern, stream};
use super::bloat::trial::with_stamp_room;
use super::machines::Machines;
use crate::experiment::{
    Chart, Choice, Claim, Experiment, Extent, Figure, Findings, Forms, Grid, Metric, Run, RunError, Sabotage, Sorted,
    metric, most, sabotages, setup,
};

/// Time from a frame's capture to its deadline.
const DEADLINE: Duration = Duration::from_millis(200);
/// Bounds of the median error and of the 95th percentile of its size, in ms: 2 and 10 % of the deadline.
const MEDIAN: f64 = 4.0;
const P95: f64 = 20.0;
/// Start of the measurement; the link's rate falls to half, comes back; the end.
const MEASURED_FROM: Duration = Duration::from_secs(5);
const SLOWER: Duration = Duration::from_secs(15);
const BACK: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(25);

const KBPS: [u64; 4] = [300, 1_000, 5_000, 20_000];
const RTTS: [u64; 3] = [10, 50, 200];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.05];
/// Rate of the stream, relative to the link's.
const OFFERED: [f64; 2] = [0.4, 1.3];

/// Parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
struct Cell {
    kbps: u64,
    rtt_ms: u64,
    loss: f64,
    offered: f64,
}

/// Predicted minus actual arrival, in ms.
#[derive(Clone, Debug)]
struct Measured {
    /// At a constant rate: median, and 95th percentile of the size.
    steady: [f64; 2],
    /// From two round trips after each step of the rate on, for a second.
    stepped: [f64; 2],
    packets: f64,
    /// Time of departure in seconds, and error, of each packet.
    errors: Vec<(f64, f64)>,
}

const METRICS: [Metric<Measured>; 5] = [
    metric("median, ms", 2, |one| one.steady[0]),
    metric("95 % of sizes, ms", 2, |one| one.steady[1]),
    metric("after a step: median, ms", 2, |one| one.stepped[0]),
    metric("after a step: 95 % of sizes, ms", 2, |one| one.stepped[1]),
    metric("packets", 0, |one| one.packets),
];

type Trials = Grid<Cell, Measured>;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "arrivals",
    title: "When a packet will arrive, as its sender predicts, and when it does",
    source: "ours",
    paper: "none: McQuistin (§3.2) and Hasan et al. take half of the smoothed round trip",
    forms: Forms::Virtual,
    seeds: 3,
    takes: "30 s",
    sabotages: &[SMOOTHED],
    run,
};

sabotages! {
    SMOOTHED = "smoothed", "predictions by the smoothed round trip" => [STEADY_P95];
}

const STEADY_MEDIAN: &str = "median error in the worst cell, ms";
const STEADY_P95: &str = "95th percentile of the error's size in the worst cell, ms";
const STEPPED_P95: &str = "the same from two round trips after a step on, ms";

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let is_least = run.extent == Extent::Least;
    let kbps = if is_least { &KBPS[..2] } else { &KBPS[..] };
    let losses = if is_least { &LOSSES[..1] } else { &LOSSES[..] };
    let mut cells = Vec::new();
    for &kbps in kbps {
        for rtt_ms in RTTS {
            for &loss in losses {
                cells.extend(OFFERED.map(|offered| Cell { kbps, rtt_ms, loss, offered }));
            }
        }
    }
    let trials: Trials = run.grid("streams", cells, |cell, seed| trial(cell, seed, run.sabotage));
    let worst = |of: fn(&Measured) -> f64| most(trials.of(|_| true).map(of));
    let rows = trials.rows().axis("link", |cell| {
        format!(
            "{} kbit/s, {} ms, {} % loss, {} times offered",
            cell.kbps,
            cell.rtt_ms,
            cell.loss * 100.0,
            cell.offered
        )
    });
    let figures = figures(&trials)?;
    Ok(Findings {
        setup: choices(),
        figures,
        tables: vec![rows.means(&METRICS).table("Predicted minus actual arrival: mean of the seeds")],
        claims: vec![
            Claim::number(STEADY_MEDIAN, "—", 1, worst(|one| one.steady[0].abs())).pass(..=MEDIAN),
            Claim::number(STEADY_P95, "—", 1, worst(|one| one.steady[1])).pass(..=P95),
            Claim::number(STEPPED_P95, "—", 1, worst(|one| one.stepped[1])).pass(..=P95),
        ],
        data: trials.numbers(&METRICS),
        ..Findings::default()
    })
}

/// Plots the errors of the first seed's streams at 1.3 times the link's rate, without loss: over time, and their distribution.
fn figures(trials: &Trials) -> Result<Vec<Figure>, RunError> {
    let lines = |points: fn(&Measured) -> Vec<(f64, f64)>| {
        let of = move |kbps: &u64| {
            let one =
                trials.first(|cell| *cell == Cell { kbps: *kbps, rtt_ms: RTTS[1], loss: 0.0, offered: OFFERED[1] })?;
            Some(Series::new(&format!("{kbps} kbit/s"), points(one)))
        };
        KBPS.iter().filter_map(of).collect::<Vec<_>>()
    };
    let caption =
        "The first seed, 50 ms, no loss, 1.3 times the link's rate offered, which halves at 15 s and is back at 20 s.";
    let over_time = Chart {
        title: "Error of predicted arrivals over time",
        x: "departure, s",
        y: "predicted minus actual arrival, ms",
        caption,
    };
    let shares = Chart {
        title: "Distribution of the errors",
        x: "size of the error, ms, at most 50",
        y: "% of the packets",
        caption: "The same streams.",
    };
    Ok(vec![
        over_time.draw(lines(|one| one.errors.clone()))?,
        shares.draw(lines(|one| {
            let sizes: Sorted = one.errors.iter().map(|(_, error)| error.abs()).collect();
            (0..=100_u8).map(|percent| (sizes.percentile(percent.into()).min(50.0), percent.into())).collect()
        }))?,
    ])
}

fn choices() -> Vec<Choice> {
    setup! {
        ours "links": "0.3 to 20 Mbit/s; 10 to 200 ms; no, 1 and 5 % random loss; a queue of a second"
            => "from a poor mobile link to a good one";
        ours "stream": "25 frames a second, groups of 30, at 0.4 and 1.3 times the link's rate; deadline 200 ms"
            => "an idle link, and one that limits the stream";
        ours "time": "25 s; from 5 s on it counts; at 15 s the rate halves, at 20 s it is back"
            => "as a mobile link does";
        ours "which packets": "first copies that arrived" => "a repair has no prediction of its own";
    }
}

/// Predictions for the packets that left, by number.
type Predictions = Arc<Mutex<Vec<Option<Instant>>>>;

/// Late choice by deadlines that notes the prediction for the packet that leaves next.
struct Recorder {
    predictions: Predictions,
    by_round_trip: bool,
    choice: Deadlines,
}

impl LateChoice for Recorder {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        self.choice.choose(now, path, queue);
        let Some((meta, len)) = (0..queue.len()).find_map(|at| queue.get(at)) else { return };
        let path = PathState { arrivals: path.arrivals.filter(|_| !self.by_round_trip), ..*path };
        let mut predictions = self.predictions.lock().expect("nothing panics with it");
        let place = meta.seq.0 as usize;
        if predictions.len() <= place {
            predictions.resize(place + 1, None);
        }
        predictions[place] = Some(path.arrival(now, len as u64 + HEADERS).median);
    }
}

fn trial(cell: &Cell, seed: u64, sabotage: Option<Sabotage>) -> Measured {
    let &Cell { kbps, rtt_ms, loss, offered } = cell;
    let (rate, rtt) = (Rate::from_kbps(kbps), Duration::from_millis(rtt_ms));
    let mut rng =
        Rng::from_seed(seed ^ kbps << 32 ^ rtt_ms << 16 ^ ((loss * 1e3) as u64) << 8 ^ (offered * 10.0) as u64);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_004).into(), ([10, 0, 0, 2], 5_004).into());
    let (from, to) = (network.machine(here.ip()), network.machine(there.ip()));
    let half = Rate::from_bps(rate.as_bps() / 2);
    let trace = RateTrace::new(vec![(Duration::ZERO, rate), (SLOWER, half), (BACK, rate)]);
    let forward = LinkConfig {
        capacity: Capacity::Trace(trace.expect("times increase")),
        queue: Limit::Bytes(rate.bytes_in(Duration::from_secs(1))),
        delay: rtt / 2,
        loss: if loss > 0.0 { Loss::Bernoulli { p: loss } } else { Loss::None },
        ..LinkConfig::default()
    };
    network.connect(from, to, forward, LinkConfig::with_delay(rtt / 2));
    let frames = stream(ReferencePattern::Gop(30), (kbps as f64 * offered) as u64, END, &mut rng.fork());
    let frames = frames.into_iter().map(|mut frame| {
        frame.bytes = with_stamp_room(frame.bytes);
        frame
    });
    let predictions = Predictions::default();
    let by_round_trip = sabotage == Some(SMOOTHED);
    let recorder = Recorder { predictions: Arc::clone(&predictions), by_round_trip, choice: Deadlines };
    let stream =
        Stream::new(Frames::new(frames, PACKET).with_latency(DEADLINE)).slots(4_096).choice(Box::new(recorder));
    let settings = DccpSettings::default();
    let caller = Dccp::caller(there, stream, settings.clone(), rng.fork());
    let listener = Dccp::listener(|| Stream::new(Sink), settings, rng.fork());
    let sender = network.place(from, 5_004, Kind::Live, caller);
    let receiver = network.place(to, 5_004, Kind::Live, listener);
    network.run_until(Instant::ZERO + END + DEADLINE);

    let session = network.host(from).agent(sender).session();
    let journal = session.map(|session| session.journal().clone()).unwrap_or_default();
    let arrivals = network.host(to).agent(receiver).session().map(|session| session.arrivals());
    let came = arrivals.map(|arrivals| arrivals.first_by_seq(journal.adus().len())).unwrap_or_default();
    let predictions = predictions.lock().expect("nothing panics with it");
    let after =
        |step: Duration| Instant::ZERO + step + rtt * 2..Instant::ZERO + step + rtt * 2 + Duration::from_secs(1);
    let (mut steady, mut stepped, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (adu, came)) in journal.adus().iter().zip(came).enumerate() {
        let (&[left], Some(came), Some(Fate::Acked)) = (adu.left.as_slice(), came, adu.fate) else { continue };
        let Some(expected) = predictions.get(place).copied().flatten() else { continue };
        let off = expected.saturating_since(came).as_secs_f64() - came.saturating_since(expected).as_secs_f64();
        errors.push(((left - Instant::ZERO).as_secs_f64(), off * 1e3));
        if (Instant::ZERO + MEASURED_FROM..Instant::ZERO + SLOWER).contains(&left) {
            steady.push(off * 1e3);
        } else if [SLOWER, BACK].iter().any(|&step| after(step).contains(&left)) {
            stepped.push(off * 1e3);
        }
    }
    let of = |errors: &[f64]| {
        let (signed, sizes): (Sorted, Sorted) =
            (errors.iter().copied().collect(), errors.iter().map(|error| error.abs()).collect());
        [signed.after(50), sizes.after(95)]
    };
    Measured { steady: of(&steady), stepped: of(&stepped), packets: steady.len() as f64, errors }
}
