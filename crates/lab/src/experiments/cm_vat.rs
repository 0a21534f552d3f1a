//! cm-vat: constant-rate audio over a path with less capacity, by a policer and a buffer that drops
//! from its head (Andersen et al. §3.6, figure 2).

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::json;
use timeous::core::{Duration, Instant, PathState, Rate, Rng};
use timeous_cm::Kind;
use timeous_host::Udp;
use timeous_host::sources::{Cbr, OnFull};
use timeous_net::LinkConfig;
use timeous_net::link::{Jitter, Limit};
use timeous_net::sim::Network;
use timeous_testbed::report::plot::{Series, cumulative};

use super::cm::{AckPolicy, Application, Flow, HEADER, OVERHEAD, Packet, Receiver, Sender};
use super::machines::Machines;
use crate::experiment::{
    At, Chart, Choice, Claim, Experiment, Figure, Findings, Forms, Run, RunError, Sabotage, Sorted, cross, least, mean,
    most, sabotages, setup, values,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-vat",
    title: "Audio of constant rate over a path that carries less",
    source: "Andersen et al. §3.6, figure 2",
    paper: "A policer matches the rate by dropping ahead of time, a buffer that drops from its head takes the short \
            variations; delays as long as those of FIFO buffers that drop at their tail do not arise",
    forms: Forms::Virtual,
    seeds: 5,
    takes: "3 s",
    sabotages: &[SILENT, BOUNDLESS, WASTEFUL],
    run,
};

sabotages! {
    SILENT = "silent", "the application sends nothing"
        => [P99_IN_SENDER, P99_AGE, STALE, GROWTH, HEARD_OF_FIT, HEARD_WHERE_FIT, FIFO];
    BOUNDLESS = "boundless", "no policer, and a buffer that drops nothing" => [P99_IN_SENDER, P99_AGE, STALE, FIFO];
    WASTEFUL = "wasteful", "the application drops a frame in place of sending it at every second grant"
        => [HEARD_WHERE_FIT];
}

const P99_IN_SENDER: &str = "p99 of the time in the sender, the worst of all rates, ms";
const P99_AGE: &str = "p99 of the age at arrival over what buffer and path explain, the worst of all rates";
const STALE: &str = "frames heard that were older than that";
const GROWTH: &str = "mean age in the last third of a call over that in the first, the worst of all rates";
const HEARD_OF_FIT: &str = "least share heard of what fits";
const HEARD_WHERE_FIT: &str = "least share heard where the path carries all";
const FIFO: &str = "p99 with a queue that drops at its tail over that, the least below 64 kbit/s";

/// Least share of the frames that the path carries and that are heard.
const HEARD: f64 = 0.9;

/// All seeds of one way over one path.
type Cell<'a> = At<'a, (SendMethod, u64), Outcome>;

fn ages(cell: &Cell<'_>) -> Sorted {
    cell.outcomes.iter().flat_map(|outcome| outcome.ages.iter().map(|&(_, age)| age)).collect()
}

fn waited(cell: &Cell<'_>) -> Sorted {
    cell.outcomes.iter().flat_map(|outcome| outcome.waited.iter().copied()).collect()
}

/// Returns the age that buffer and path explain, in milliseconds.
fn explained(cell: &Cell<'_>) -> f64 {
    1e3 * (BUFFER + path_delay(cell.point.1)).as_secs_f64()
}

/// Returns the share of received frames, of those made that fit the path.
fn received_share(cell: &Cell<'_>) -> f64 {
    let frames = cell.outcomes.len() as f64 * TIME.as_secs_f64() / INTERVAL.as_secs_f64();
    ages(cell).values().len() as f64 / (frames * (cell.point.1 as f64 / 64.0).min(1.0))
}

/// Returns a share of the frames made, in percent.
fn percent(cell: &Cell<'_>, of: impl Fn(&Outcome) -> u64) -> f64 {
    let made: u64 = cell.outcomes.iter().map(|outcome| outcome.counted.made).sum();
    100.0 * (cell.outcomes.iter().map(|outcome| of(outcome)).sum::<u64>() as f64 / made as f64)
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let grid = run.grid("calls", cross(SendMethod::ALL, AVAILABLE), |at, seed| trial(at, seed, run.sabotage));
    let table = grid
        .rows()
        .axis("way", |at| at.0.name())
        .axis("available, kbit/s", |at| at.1)
        .number("policed, %", 1, |cell| percent(cell, |outcome| outcome.counted.policed))
        .number("dropped in the buffer, %", 1, |cell| percent(cell, |outcome| outcome.counted.dropped))
        .number("heard, % of what fits", 1, |cell| 100.0 * received_share(cell))
        .number("in the sender p50, ms", 0, |cell| waited(cell).nearest(50.0))
        .number("p99, ms", 0, |cell| waited(cell).nearest(99.0))
        .number("age at arrival p50, ms", 0, |cell| ages(cell).nearest(50.0))
        .number("p99, ms", 0, |cell| ages(cell).nearest(99.0))
        .number("most, ms", 0, |cell| ages(cell).nearest(100.0))
        .table("Audio of 64 kbit/s (all seeds)");
    let by_rate = Chart {
        title: "Age of audio at arrival, 99th percentile",
        x: "available for audio, kbit/s",
        y: "age, ms",
        caption: "64 kbit/s are made. To the left of that the path carries less.",
    };
    let cells = grid.points();
    let name = |cell: &&Cell<'_>| cell.point.0.name().to_owned();
    let data = cells.iter().map(|cell| {
        let (way, available) = cell.point;
        json!({ "way": way, "available_kbps": available, "p99_age_ms": ages(cell).nearest(99.0), "heard": received_share(cell) })
    });
    Ok(Findings {
        setup: choices(),
        tables: vec![table],
        figures: vec![
            by_rate.of(&cells, name, |cell| (cell.point.1 as f64, ages(cell).nearest(99.0)))?,
            distribution(&cells, 32)?,
        ],
        claims: claims(&cells),
        notes: Vec::new(),
        data: json!({ "calls": data.collect::<Vec<_>>() }),
    })
}

fn claims(cells: &[Cell<'_>]) -> Vec<Claim> {
    let of = |way: SendMethod| cells.iter().filter(move |cell| cell.point.0 == way);
    let worst = |value: fn(&Cell<'_>) -> f64| most(of(SendMethod::Vat).map(value));
    let buffer = 1e3 * BUFFER.as_secs_f64();
    let in_sender = worst(|cell| waited(cell).nearest(99.0));
    let beyond = worst(|cell| ages(cell).nearest(99.0) / explained(cell));
    let stale =
        of(SendMethod::Vat).map(|cell| ages(cell).values().iter().filter(|&&age| age > explained(cell)).count());
    let all: usize = of(SendMethod::Vat).map(|cell| ages(cell).values().len()).sum();
    let heard = least(of(SendMethod::Vat).map(received_share));
    let whole = least(of(SendMethod::Vat).filter(|cell| cell.point.1 >= 64).map(received_share));
    let others = of(SendMethod::Tail).zip(of(SendMethod::Vat)).filter(|(tail, _)| tail.point.1 < 64);
    let longer = least(others.map(|(tail, vat)| ages(tail).nearest(99.0) / ages(vat).nearest(99.0)));
    let bounded = "bounded by the buffer";
    vec![
        Claim::new(P99_IN_SENDER, bounded, format!("{in_sender:.0}, buffer {buffer:.0}"), in_sender).pass(..=buffer),
        Claim::number(P99_AGE, bounded, 2, beyond).pass(..=1.0),
        Claim::count(STALE, "nothing stale is heard", stale.sum::<usize>() as u64).among(all).pass(..=0.0),
        Claim::number(GROWTH, "no queue builds up", 2, worst(growth)).pass(..=1.1),
        Claim::number(HEARD_OF_FIT, "", 2, heard).pass(HEARD..),
        Claim::number(HEARD_WHERE_FIT, "", 2, whole).pass(HEARD..),
        // Twice: long beside a buffer that is as long as the call can bear.
        Claim::number(FIFO, "FIFO buffers result in long delay", 1, longer).pass(2.0..),
    ]
}

/// Returns the mean age in the last third over that in the first.
fn growth(cell: &Cell<'_>) -> f64 {
    let (begin, third) = (WARM_UP.as_secs_f64(), TIME.as_secs_f64() / 3.0);
    let mean_from = |from: f64| {
        let ages = cell.outcomes.iter().flat_map(|outcome| &outcome.ages);
        mean(ages.filter(|(made, _)| (from..from + third).contains(made)).map(|&(_, age)| age))
    };
    mean_from(begin + 2.0 * third) / mean_from(begin)
}

fn distribution(cells: &[Cell<'_>], available: u64) -> Result<Figure, RunError> {
    let line = |cell: &Cell<'_>| {
        // Thinned to a visible number of points.
        let points = cumulative(ages(cell).values());
        let step = (points.len() / 400).max(1);
        Series::new(cell.point.0.name(), points.iter().step_by(step).chain(points.last()).copied().collect())
    };
    let title = format!("Age at arrival where {available} kbit/s are available");
    let (y, caption) = ("share of the frames that arrive", "Cumulative distributions, all seeds.");
    let chart = Chart { title: &title, x: "age, ms", y, caption };
    chart.draw(cells.iter().filter(|cell| cell.point.1 == available).map(line))
}

fn choices() -> Vec<Choice> {
    setup! {
        paper "audio": "64 kbit/s, constant" => "§3.6: vat";
        paper "policer": "a token bucket of the rate that the manager reports, {BURST} packets deep"
            => "figure 2; its depth is our choice";
        paper "buffer": "{} ms, drops from its head", BUFFER.as_millis()
            => "figure 2; its length is our choice: what a talk bears";
        ours "frames": "{FRAME} bytes each {} ms, {SIZE} with the application's header", INTERVAL.as_millis()
            => "PCM as vat sends it";
        ours "available": "{} to {} kbit/s of audio; the link carries the headers besides", AVAILABLE[0], AVAILABLE[6]
            => "64 kbit/s fit exactly where 64 are available";
        ours "path": "{} ± {} ms one way, {QUEUE} packets drop-tail", DELAY.as_millis(), JITTER.as_millis()
            => "a queue of the path's own would hide the sender's: at 16 kbit/s three packets take 240 ms";
        ours "drop at tail": "a congestion-controlled socket with a queue of {SOCKET} packets"
            => "what the paper warns of";
        ours "counted": "{} s after {} s", TIME.as_secs_f64(), WARM_UP.as_secs_f64()
            => "a queue that builds up has built up by then";
        ours "by seed": "jitter, and when the first frame is made" => "the rest is not random";
    }
}

/// Interval between frames.
const INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of audio per frame: 64 kbit/s.
const FRAME: usize = 160;
/// Packet size in bytes.
const SIZE: usize = FRAME + HEADER;
/// Length of the buffer, in time.
const BUFFER: Duration = Duration::from_millis(200);
/// Burst of the policer, in packets.
const BURST: f64 = 3.0;
/// Length of a plain socket's buffer, in packets.
const SOCKET: usize = 50;

values! {
    /// Way to send the audio.
    enum SendMethod {
        /// Policer, buffer that drops from its head, request and callback (figure 2).
        Vat = "policer, drop from head",
        /// `Vat` without the policer.
        Head = "drop from head alone",
        /// Congestion-controlled socket whose queue drops at its tail.
        Tail = "drop at tail",
        /// Plain UDP without congestion control.
        Plain = "plain UDP",
    }
}

/// Frame counts of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct FrameCounts {
    made: u64,
    /// Dropped by the policer.
    policed: u64,
    /// Dropped from the buffer: too old, or no room.
    dropped: u64,
}

/// Token bucket whose rate is the manager's.
#[derive(Debug, Default)]
struct Policer {
    tokens: f64,
    last: Option<Instant>,
}

impl Policer {
    /// Returns whether a packet of `SIZE` bytes may pass.
    fn passes(&mut self, now: Instant, path: &PathState) -> bool {
        let full = BURST * SIZE as f64;
        // Without a round-trip sample there is no rate to enforce.
        let known = path.srtt.is_some();
        let earned = match self.last {
            Some(last) if known => path.rate.as_bps() as f64 / 8.0 * now.saturating_since(last).as_secs_f64(),
            _ => full,
        };
        self.last = Some(now);
        self.tokens = (self.tokens + earned).min(full);
        let passes = self.tokens >= SIZE as f64;
        if passes {
            self.tokens -= SIZE as f64;
        }
        passes
    }
}

/// Application, as a client of the manager.
struct Vat {
    way: SendMethod,
    sabotage: Option<Sabotage>,
    grants: u64,
    next: Option<Instant>,
    policer: Policer,
    waiting: VecDeque<Packet>,
    counted: FrameCounts,
    /// Waiting time of each sent packet, in milliseconds.
    waited: Vec<f64>,
}

impl Vat {
    fn new(way: SendMethod, sabotage: Option<Sabotage>) -> Self {
        let (policer, waiting) = (Policer::default(), VecDeque::new());
        let (counted, waited) = (FrameCounts::default(), Vec::new());
        Self { way, sabotage, grants: 0, next: None, policer, waiting, counted, waited }
    }

    /// Whether it is the judged application, with this sabotage.
    fn is_broken(&self, sabotage: Sabotage) -> bool {
        self.way == SendMethod::Vat && self.sabotage == Some(sabotage)
    }

    fn counted(&self) -> FrameCounts {
        self.counted
    }

    /// Returns the waiting time of each sent packet, in milliseconds.
    fn waited(&self) -> &[f64] {
        &self.waited
    }

    fn enqueue_frame(&mut self, now: Instant, made: Instant, path: &PathState) {
        self.counted.made += 1;
        if self.is_broken(SILENT) {
            return;
        }
        if self.way == SendMethod::Vat && !self.is_broken(BOUNDLESS) && !self.policer.passes(now, path) {
            self.counted.policed += 1;
            return;
        }
        if self.way == SendMethod::Tail && self.waiting.len() >= SOCKET {
            self.counted.dropped += 1;
            return;
        }
        self.waiting.push_back(Packet { made, tag: 0, len: SIZE });
        self.drop_stale(now);
    }

    /// Drops packets from the head that have waited longer than the buffer's length.
    fn drop_stale(&mut self, now: Instant) {
        while self.way != SendMethod::Tail
            && !self.is_broken(BOUNDLESS)
            && self.waiting.front().is_some_and(|head| now.saturating_since(head.made) > BUFFER)
        {
            self.waiting.pop_front();
            self.counted.dropped += 1;
        }
    }
}

impl Application for Vat {
    fn run(&mut self, now: Instant, flow: &mut Flow<'_>) {
        let mut next = self.next.unwrap_or(now);
        while next <= now {
            self.enqueue_frame(now, next, &flow.query());
            next += INTERVAL;
        }
        self.next = Some(next);
        if !self.waiting.is_empty() && !flow.is_waiting() {
            flow.request();
        }
    }

    fn granted(&mut self, now: Instant, _: &PathState) -> Option<Packet> {
        self.drop_stale(now);
        self.grants += 1;
        if self.is_broken(WASTEFUL) && self.grants.is_multiple_of(2) {
            self.waiting.pop_front();
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.waited.push(1e3 * now.saturating_since(packet.made).as_secs_f64());
        Some(packet)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// Capacity of the path for audio, in kbit/s.
const AVAILABLE: [u64; 7] = [16, 24, 32, 48, 64, 96, 128];
/// One-way delay without queueing.
const DELAY: Duration = Duration::from_millis(50);
/// Random variation of the delay.
const JITTER: Duration = Duration::from_millis(5);
/// Queue of the bottleneck, in packets.
const QUEUE: usize = 3;
const WARM_UP: Duration = Duration::from_secs(10);
const TIME: Duration = Duration::from_secs(120);

/// Outcome of a trial. Times are in milliseconds.
struct Outcome {
    /// Waiting time of each packet in the sender.
    waited: Vec<f64>,
    /// Creation time of each received frame in seconds, and its age on arrival.
    ages: Vec<(f64, f64)>,
    counted: FrameCounts,
}

/// Returns the rate of the narrow link, headers included.
fn rate(available: u64) -> Rate {
    Rate::from_bps(available * 1_000 * (SIZE + OVERHEAD) as u64 / FRAME as u64)
}

/// Returns the largest age of a frame that waited only on the path: its delay, queue and
/// transmission.
fn path_delay(available: u64) -> Duration {
    DELAY + JITTER + rate(available).time_for((SIZE + OVERHEAD) as u64) * (QUEUE as u64 + 2)
}

/// Runs a trial.
fn trial(&(way, available): &(SendMethod, u64), seed: u64, sabotage: Option<Sabotage>) -> Outcome {
    let mut rng = Rng::from_seed(seed);
    let mut network = Network::new(rng.next_u64());
    let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into());
    let (from, to) = (network.machine(here.ip()), network.machine(there.ip()));
    let jitter = Jitter { spread: JITTER, ..Jitter::default() };
    let back = LinkConfig { delay: DELAY, jitter, ..LinkConfig::default() };
    let narrow = back.clone().with_rate(rate(available), Limit::Packets(QUEUE));
    network.connect(from, to, narrow, back);
    let start = Instant::ZERO + Duration::from_nanos(rng.below(INTERVAL.as_nanos()));
    let end = Instant::ZERO + WARM_UP + TIME;
    let age = |made: Instant, at: Instant| {
        (made.saturating_since(Instant::ZERO).as_secs_f64(), 1e3 * at.saturating_since(made).as_secs_f64())
    };
    let (ages, waited, counted): (Vec<_>, Vec<f64>, FrameCounts) = if way == SendMethod::Plain {
        let source = Cbr::new(INTERVAL, SIZE, OnFull::Skip).starting_at(start).until(end);
        let sender = network.place(from, here.port(), Kind::Aimd, Udp::sender(there, source));
        let receiver = network.place(to, there.port(), Kind::Aimd, Udp::sink());
        network.run_until(end + DELAY);
        let journal = network.host(from).agent(sender).journal();
        let arrived = network.host(to).agent(receiver).arrivals().first_by_seq(journal.adus().len());
        let adus = journal.adus().iter().zip(arrived);
        let ages = adus.filter_map(|(adu, at)| Some(age(adu.meta.enqueued, at?))).collect();
        let made = journal.adus().len() as u64;
        (ages, vec![0.0; journal.adus().len()], FrameCounts { made, ..FrameCounts::default() })
    } else {
        let sender = Sender::new(there, SIZE, start, Duration::ZERO, Vat::new(way, sabotage));
        let sender = network.place(from, here.port(), Kind::Aimd, sender);
        let receiver = network.place(to, there.port(), Kind::Aimd, Receiver::new(AckPolicy::Soon));
        network.run_until(end);
        let application = network.host(from).agent(sender).application();
        let arrivals = network.host(to).agent(receiver).arrivals();
        let ages = arrivals.iter().map(|arrival| age(arrival.packet.made, arrival.at)).collect();
        (ages, application.waited().to_vec(), application.counted())
    };
    let ages = ages.into_iter().filter(|&(made, _)| made >= WARM_UP.as_secs_f64()).collect();
    Outcome { waited, ages, counted }
}

#[cfg(test)]
mod tests {
    use timeous::core::Rate;

    use super::*;

    #[test]
    fn the_policer_passes_what_the_rate_allows() {
        let mut policer = Policer::default();
        let half = Rate::from_bytes_in(SIZE as u64, INTERVAL * 2);
        let path = PathState { rate: half, srtt: Some(INTERVAL), ..PathState::default() };
        let passed = (0..203).filter(|&n| policer.passes(Instant::ZERO + INTERVAL * n, &path)).count();
        assert!((100..=104).contains(&passed), "{passed}");
    }
}
