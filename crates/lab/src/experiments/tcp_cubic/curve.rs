//! One flow with a large bandwidth-delay product: its window compared with `W_cubic` (RFC 9438
//! §4.2).

use timeous::core::{Duration, Instant};
use timeous_cm::Kind;
use timeous_testbed::report::plot::Series;

use super::super::tcp::shared::{Bottleneck, Shared, segment};
use crate::experiment::{Bound, Chart, Choice, Claim, Figure, Rows, RunError, Table, most, setup};

/// Bottleneck with a bandwidth-delay product of 200 packets.
const BOTTLENECK: Bottleneck = Bottleneck { packets: 1_000, rtt: Duration::from_millis(200), queue: 100 };
const TIME: Duration = Duration::from_secs(60);
/// Sampling interval of the window.
const STEP: Duration = Duration::from_millis(10);
/// CUBIC's `C` and `β_cubic` (RFC 9438 §4.6, §5.1).
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Accepted distance from the curve as a share of `W_max`: the window grows in steps of one
/// acknowledgement.
const PASS: Bound = Bound::AtMost(0.02);
const AIM: Bound = Bound::AtMost(0.01);

/// Sample of the window.
#[derive(Clone, Copy)]
struct WindowSample {
    /// Time in seconds.
    at: f64,
    /// Window in packets.
    window: f64,
    /// Smoothed round-trip time in seconds.
    srtt: f64,
}

/// Stage from the start of the window's growth after a loss until the next loss.
struct Epoch {
    looks: Vec<WindowSample>,
    /// Window before the loss.
    before: f64,
    /// Window `W_max` of the curve's plateau.
    plateau: f64,
}

impl Epoch {
    /// Returns `K`, the time until the plateau.
    fn until_plateau(&self) -> f64 {
        ((self.plateau - self.looks[0].window) / C).max(0.0).cbrt()
    }

    /// Returns `W_cubic` at this time after the stage's start.
    fn at(&self, elapsed: f64) -> f64 {
        let from_plateau = elapsed - self.until_plateau();
        C * from_plateau * from_plateau * from_plateau + self.plateau
    }

    /// Returns the distance of a window from the curve. The window targets the curve's value one
    /// round trip ahead, so every value between now and then counts as on the curve.
    fn distance(&self, look: &WindowSample) -> f64 {
        let elapsed = look.at - self.looks[0].at;
        let (now, then) = (self.at(elapsed), self.at(elapsed + look.srtt));
        (now - look.window).max(look.window - then).max(0.0)
    }

    fn farthest(&self) -> f64 {
        most(self.looks.iter().map(|look| self.distance(look))) / self.plateau
    }
}

/// Stages of the flow, without slow start.
pub(super) struct Curve {
    stages: Vec<Epoch>,
}

pub(super) fn run(seed: u64, controller: Kind) -> Curve {
    let mut shared = Shared::new(seed, BOTTLENECK, &[(controller, None)]);
    let mut looks = Vec::new();
    for step in 1..=TIME.as_nanos() / STEP.as_nanos() {
        let at = Instant::ZERO + STEP * step;
        shared.network.run_until(at);
        let path = shared.sender(0).path();
        let srtt = path.srtt.unwrap_or_default().as_secs_f64();
        let window = path.window as f64 / f64::from(segment());
        looks.push(WindowSample { at: (at - Instant::ZERO).as_secs_f64(), window, srtt });
    }
    Curve { stages: stages(&looks) }
}

/// Splits samples into stages: each ends where the window falls; the next begins where it grows
/// again.
fn stages(looks: &[WindowSample]) -> Vec<Epoch> {
    let mut stages: Vec<Epoch> = Vec::new();
    let mut falls =
        looks.windows(2).enumerate().filter(|(_, pair)| pair[1].window < pair[0].window).map(|(i, _)| i + 1);
    let mut fall = falls.next();
    while let Some(from) = fall {
        fall = falls.next();
        let until = fall.unwrap_or(looks.len());
        let before = looks[from - 1].window;
        // Fast convergence (§4.7): a loss below the last plateau lowers the next.
        let sooner = stages.last().is_some_and(|last| before < last.plateau);
        let plateau = if sooner { before * (1.0 + BETA) / 2.0 } else { before };
        let floor = looks[from].window;
        let grows = looks[from..until].iter().position(|look| look.window > floor).unwrap_or(until - from);
        // Last sample before the growth: the epoch begins with the next acknowledgement.
        let begins = from + grows.saturating_sub(1);
        stages.push(Epoch { looks: looks[begins..until].to_vec(), before, plateau });
    }
    stages
}

impl Curve {
    /// Returns the stages of at least a second: congestion events in quick succession show no
    /// curve.
    fn long(&self) -> impl Iterator<Item = &Epoch> {
        self.stages.iter().filter(|stage| stage.looks.len() as u64 * STEP.as_millis() >= 1_000)
    }

    pub(super) fn table(&self) -> Table {
        let last = |stage: &&Epoch| stage.looks[stage.looks.len() - 1].at - stage.looks[0].at;
        Rows::of(self.long())
            .number("from, s", 1, |stage| stage.looks[0].at)
            .number("window before, packets", 1, |stage| stage.before)
            .number("W_max", 1, |stage| stage.plateau)
            .number("window after", 1, |stage| stage.looks[0].window)
            .number("K, s", 2, |stage| stage.until_plateau())
            .number("lasted, s", 1, last)
            .number("from the curve, % of W_max", 2, |stage| 100.0 * stage.farthest())
            .table("One CUBIC flow, bandwidth-delay product of 200 packets: from loss to loss")
    }

    pub(super) fn claims(&self) -> Vec<Claim> {
        let farthest = most(self.long().map(Epoch::farthest));
        let paper = "the window is to be W_cubic(t + RTT) a round trip later (§4.2, §4.4, §4.5)";
        let measured = format!("{farthest:.4}, in {} stages", self.long().count());
        let claim = Claim::new(
            "greatest distance of the window from its curve, as a share of W_max",
            paper,
            measured,
            farthest,
        );
        vec![claim.pass(PASS).aim(AIM)]
    }

    pub(super) fn figure(&self) -> Result<Figure, RunError> {
        let window =
            self.stages.iter().flat_map(|stage| stage.looks.iter().step_by(5)).map(|look| (look.at, look.window));
        let curve = self.long().flat_map(|stage| {
            let began = stage.looks[0].at;
            stage.looks.iter().step_by(20).map(move |look| (look.at, stage.at(look.at - began)))
        });
        let series = vec![Series::new("window", window.collect()), Series::new("W_cubic", curve.collect())];
        let caption = "The window, and the function that it is to follow in each stage.";
        Chart { title: "The window of one CUBIC flow", x: "time, s", y: "packets", caption }.draw(series)
    }
}

pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "bottleneck, for the curve": "1000 packets/s, 200 ms, drop-tail, queue of 100 packets; one flow"
            => "where the cubic function is above what Reno would do";
        paper "C, β_cubic": "0.4, 0.7" => "§5.1, §4.6";
    }
}
