//! Table of the runs, for a terminal, a page, and programs.

use timeous::core::{Duration, Rate};
use timeous_testbed::report::columns::columns;

use super::judge::Row;

/// The heads of its columns.
pub(crate) const HEAD: [&str; 9] = [
    "run",
    "frames in time",
    "I frames in time",
    "decodable in time",
    "p50, ms",
    "p95, ms",
    "p99, ms",
    "lost in the link",
    "left after deadline",
];

/// A row's cells.
pub(crate) fn cells(row: &Row) -> Vec<String> {
    let delay = |of: fn(&super::judge::Delays) -> f64| {
        row.delay_ms.as_ref().map_or_else(|| "–".to_owned(), |delays| format!("{:.0}", of(delays)))
    };
    vec![
        row.run.title().to_owned(),
        format!("{} of {}", row.frames_in_time, row.frames),
        format!("{} of {}", row.i_frames_in_time, row.i_frames),
        format!("{} of {}", row.decodable_in_time, row.frames),
        delay(|delays| delays.p50),
        delay(|delays| delays.p95),
        delay(|delays| delays.p99),
        format!("{:.2} %", row.link_loss * 100.0),
        format!("{} of {}", row.left_late, row.link_packets),
    ]
}

/// As lines of text.
pub(crate) fn text(rows: &[Row]) -> String {
    columns(&HEAD, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// Complete result, for programs.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Outcome<'a> {
    /// The link's rate, in bits per second.
    pub(crate) link_bps: u64,
    /// Latency from capture to playout, in milliseconds.
    pub(crate) latency_ms: f64,
    /// Seed of the link's randomness.
    pub(crate) seed: u64,
    /// The runs.
    pub(crate) runs: &'a [Row],
    /// Broken promises.
    pub(crate) broken_promises: &'a [String],
}

impl<'a> Outcome<'a> {
    /// With these runs.
    pub(crate) fn new(rate: Rate, latency: Duration, seed: u64, runs: &'a [Row], broken: &'a [String]) -> Self {
        let latency_ms = latency.as_secs_f64() * 1e3;
        Self { link_bps: rate.as_bps(), latency_ms, seed, runs, broken_promises: broken }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{Approach, Delays};
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_an_empty_run_has_no_delay() {
        let row = |run, delay_ms| Row {
            run,
            frames: 540,
            frames_in_time: 200,
            i_frames: 14,
            i_frames_in_time: 14,
            decodable_in_time: 199,
            delay_ms,
            link_packets: 2_000,
            link_dropped: 5,
            link_loss: 0.0025,
            left_late: 0,
        };
        let delays = Delays { p50: 91.4, p95: 480.0, p99: 700.6 };
        let text = text(&[row(Approach::Udp, None), row(Approach::Timeous, Some(delays))]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("–") && lines[2].contains("0.25 %") && lines[2].contains(" 701 "), "{text}");
        let ends = |line: &str| line.chars().count();
        assert!(ends(lines[0]) == ends(lines[1]) && ends(lines[1]) == ends(lines[2]), "{text}");
    }
}
