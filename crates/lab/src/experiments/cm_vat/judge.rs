//! Age and delivery of frames: tables and claims.

use serde_json::json;

use super::audio::{BUFFER, BURST, FRAME, INTERVAL, SIZE, SOCKET, SendMethod};
use super::trial::{AVAILABLE, DELAY, JITTER, Outcome, QUEUE, TIME, WARM_UP, path_delay};
use crate::experiment::{Bound, Choice, Claim, Figure, Findings, LabError, Table};
use crate::report::plot::{Lines, Series, cumulative};

/// Returns the value below which a share of the values lies.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = (share * values.len().saturating_sub(1) as f64).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// All seeds of one way over one path.
struct Cell<'a> {
    way: SendMethod,
    available: u64,
    outcomes: Vec<&'a Outcome>,
}

impl Cell<'_> {
    fn ages(&self) -> Vec<f64> {
        self.outcomes.iter().flat_map(|outcome| outcome.ages.iter().map(|&(_, age)| age)).collect()
    }

    fn waited(&self) -> Vec<f64> {
        self.outcomes.iter().flat_map(|outcome| outcome.waited.iter().copied()).collect()
    }

    /// Returns the share of received frames, of those made that fit the path.
    fn received_share(&self) -> f64 {
        let frames = self.outcomes.len() as f64 * TIME.as_secs_f64() / INTERVAL.as_secs_f64();
        self.ages().len() as f64 / (frames * (self.available as f64 / 64.0).min(1.0))
    }

    /// Returns the number of frames that arrived later than buffer and path explain.
    fn stale(&self) -> usize {
        let most = 1e3 * (BUFFER + path_delay(self.available)).as_secs_f64();
        self.ages().into_iter().filter(|&age| age > most).count()
    }

    fn share(&self, of: impl Fn(&Outcome) -> u64) -> f64 {
        let made: u64 = self.outcomes.iter().map(|outcome| outcome.counted.made).sum();
        self.outcomes.iter().map(|outcome| of(outcome)).sum::<u64>() as f64 / made as f64
    }
}

fn cells(outcomes: &[Outcome]) -> Vec<Cell<'_>> {
    let cell = |way, available| {
        let of = outcomes.iter().filter(|outcome| outcome.way == way && outcome.available == available);
        Cell { way, available, outcomes: of.collect() }
    };
    SendMethod::ALL.iter().flat_map(|&way| AVAILABLE.map(|available| cell(way, available))).collect()
}

pub(super) fn findings(outcomes: &[Outcome]) -> Result<Findings, LabError> {
    let cells = cells(outcomes);
    let data = cells.iter().map(|cell| {
        json!({
            "way": cell.way,
            "available_kbps": cell.available,
            "p99_age_ms": quantile(cell.ages(), 0.99),
            "heard": cell.received_share(),
        })
    });
    Ok(Findings {
        setup: choices(),
        tables: vec![table(&cells)],
        figures: vec![by_rate(&cells)?, distribution(&cells, 32)?],
        claims: claims(&cells),
        notes: Vec::new(),
        data: json!({ "calls": data.collect::<Vec<_>>() }),
    })
}

fn table(cells: &[Cell<'_>]) -> Table {
    let head = [
        "way",
        "available, kbit/s",
        "policed, %",
        "dropped in the buffer, %",
        "heard, % of what fits",
        "in the sender p50, ms",
        "p99, ms",
        "age at arrival p50, ms",
        "p99, ms",
        "most, ms",
    ];
    let mut table = Table::new("Audio of 64 kbit/s (all seeds)", &head);
    for cell in cells {
        let millis = |values: &Vec<f64>, share: f64| format!("{:.0}", quantile(values.clone(), share));
        let (waited, ages) = (cell.waited(), cell.ages());
        table.row([
            cell.way.name().to_owned(),
            cell.available.to_string(),
            format!("{:.1}", 100.0 * cell.share(|outcome| outcome.counted.policed)),
            format!("{:.1}", 100.0 * cell.share(|outcome| outcome.counted.dropped)),
            format!("{:.1}", 100.0 * cell.received_share()),
            millis(&waited, 0.5),
            millis(&waited, 0.99),
            millis(&ages, 0.5),
            millis(&ages, 0.99),
            millis(&ages, 1.0),
        ]);
    }
    table
}

fn claims(cells: &[Cell<'_>]) -> Vec<Claim> {
    let of = |way: SendMethod| cells.iter().filter(move |cell| cell.way == way);
    let worst = |way: SendMethod, value: fn(&Cell<'_>) -> f64| of(way).map(value).fold(0.0, f64::max);
    let buffer = 1e3 * BUFFER.as_secs_f64();
    let in_sender = worst(SendMethod::Vat, |cell| quantile(cell.waited(), 0.99));
    let stale: usize = of(SendMethod::Vat).map(Cell::stale).sum();
    let beyond = worst(SendMethod::Vat, |cell| {
        quantile(cell.ages(), 0.99) / (1e3 * (BUFFER + path_delay(cell.available)).as_secs_f64())
    });
    let growth = worst(SendMethod::Vat, growth);
    let least = of(SendMethod::Vat).map(Cell::received_share).fold(f64::INFINITY, f64::min);
    let others = of(SendMethod::Tail).zip(of(SendMethod::Vat));
    let longer = others
        .filter(|(tail, _)| tail.available < 64)
        .map(|(tail, vat)| quantile(tail.ages(), 0.99) / quantile(vat.ages(), 0.99))
        .fold(f64::INFINITY, f64::min);
    vec![
        Claim::new(
            "p99 of the time in the sender, the worst of all rates, ms",
            "bounded by the buffer",
            format!("{in_sender:.0}, buffer {buffer:.0}"),
            in_sender,
        )
        .pass(Bound::AtMost(buffer)),
        Claim::new(
            "p99 of the age at arrival over what buffer and path explain, the worst of all rates",
            "bounded by the buffer",
            format!("{beyond:.2}"),
            beyond,
        )
        .pass(Bound::AtMost(1.0)),
        Claim::new("frames heard that were older than that", "nothing stale is heard", stale.to_string(), stale as f64)
            .pass(Bound::AtMost(0.0)),
        Claim::new(
            "mean age in the last third of a call over that in the first, the worst of all rates",
            "no queue builds up",
            format!("{growth:.2}"),
            growth,
        )
        .pass(Bound::AtMost(1.1)),
        Claim::new("least share heard of what fits", "", format!("{least:.2}"), least),
        Claim::new(
            "p99 with a queue that drops at its tail over that, the least below 64 kbit/s",
            "FIFO buffers result in long delay",
            format!("{longer:.1}"),
            longer,
        ),
    ]
}

/// Returns the mean age in the last third over that in the first.
fn growth(cell: &Cell<'_>) -> f64 {
    let (begin, third) = (WARM_UP.as_secs_f64(), TIME.as_secs_f64() / 3.0);
    let mean = |from: f64| {
        let ages = cell.outcomes.iter().flat_map(|outcome| &outcome.ages);
        let ages: Vec<f64> =
            ages.filter(|(made, _)| (from..from + third).contains(made)).map(|&(_, age)| age).collect();
        ages.iter().sum::<f64>() / ages.len() as f64
    };
    mean(begin + 2.0 * third) / mean(begin)
}

fn by_rate(cells: &[Cell<'_>]) -> Result<Figure, LabError> {
    let line = |way: SendMethod| {
        let of = cells.iter().filter(|cell| cell.way == way);
        Series::new(way.name(), of.map(|cell| (cell.available as f64, quantile(cell.ages(), 0.99))).collect())
    };
    let lines = Lines {
        title: "Age of audio at arrival, 99th percentile",
        x: "available for audio, kbit/s",
        y: "age, ms",
        series: SendMethod::ALL.map(line).to_vec(),
    };
    Ok(Figure::new(lines.draw()?, "64 kbit/s are made. To the left of that the path carries less."))
}

fn distribution(cells: &[Cell<'_>], available: u64) -> Result<Figure, LabError> {
    let of = cells.iter().filter(|cell| cell.available == available);
    let title = format!("Age at arrival where {available} kbit/s are available");
    let series = of.map(|cell| Series::new(cell.way.name(), thinned(&cell.ages()))).collect();
    let lines = Lines { title: &title, x: "age, ms", y: "share of the frames that arrive", series };
    Ok(Figure::new(lines.draw()?, "Cumulative distributions, all seeds."))
}

/// Returns a distribution thinned to a visible number of points.
fn thinned(values: &[f64]) -> Vec<(f64, f64)> {
    let points = cumulative(values);
    let step = (points.len() / 400).max(1);
    let last = points.last().copied();
    points.into_iter().step_by(step).chain(last).collect()
}

fn choices() -> Vec<Choice> {
    vec![
        Choice::paper("audio", "64 kbit/s, constant", "§3.6: vat"),
        Choice::paper(
            "policer",
            format!("a token bucket of the rate that the manager reports, {BURST} packets deep"),
            "figure 2; its depth is our choice",
        ),
        Choice::paper(
            "buffer",
            format!("{} ms, drops from its head", BUFFER.as_millis()),
            "figure 2; its length is our choice: what a talk bears",
        ),
        Choice::ours(
            "frames",
            format!("{FRAME} bytes each {} ms, {SIZE} with the application's header", INTERVAL.as_millis()),
            "PCM as vat sends it",
        ),
        Choice::ours(
            "available",
            format!("{} to {} kbit/s of audio; the link carries the headers besides", AVAILABLE[0], AVAILABLE[6]),
            "64 kbit/s fit exactly where 64 are available",
        ),
        Choice::ours(
            "path",
            format!("{} ± {} ms one way, {QUEUE} packets drop-tail", DELAY.as_millis(), JITTER.as_millis()),
            "a queue of the path's own would hide the sender's: at 16 kbit/s three packets take 240 ms",
        ),
        Choice::ours(
            "drop at tail",
            format!("a congestion-controlled socket with a queue of {SOCKET} packets"),
            "what the paper warns of",
        ),
        Choice::ours(
            "counted",
            format!("{} s after {} s", TIME.as_secs_f64(), WARM_UP.as_secs_f64()),
            "a queue that builds up has built up by then",
        ),
        Choice::ours("by seed", "jitter, and when the first frame is made", "the rest is not random"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        assert_eq!([0.0, 0.5, 1.0].map(|share| quantile(vec![3.0, 1.0, 2.0], share)), [1.0, 2.0, 3.0]);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }
}
