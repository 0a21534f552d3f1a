//! The table: one line for each link and tool, for a terminal, as markdown and as JSON.

use serde::Serialize;

use super::judge::Judgement;

use crate::compared::Tool;
use crate::link::LinkName;
use crate::report::round;

/// Heads of its columns.
pub(crate) const HEAD: [&str; 7] =
    ["link", "by", "decodable", "p50, ms", "p95, ms", "furthest from p50, ms", "over 40 ms from p50"];

/// Line of the table: all seeds of one link and tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) link: &'static str,
    pub(crate) tool: &'static str,
    #[serde(skip)]
    titles: [&'static str; 2],
    pub(crate) seeds: usize,
    pub(crate) frames: usize,
    /// Frames that came out whole, as all to which they refer did.
    pub(crate) decodable: usize,
    /// From a frame's last byte in to its last byte out, in the mean over the seeds.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
    /// Largest distance of a delay from the median of its run.
    pub(crate) spread_ms: f64,
    /// Frames further from the median of their run than one frame interval.
    pub(crate) strays: usize,
}

impl Row {
    /// Of all runs of a tool over a link.
    pub(crate) fn new(link: LinkName, tool: Tool, runs: &[Judgement]) -> Self {
        let delays: Vec<_> = runs.iter().map(|run| run.delays(|whole| whole.last)).collect();
        let mean = |quantile| {
            let values: Vec<f64> = delays.iter().filter_map(|delays| delays.quantile(quantile)).collect();
            (!values.is_empty()).then(|| round(timeous_testbed::mean(values)))
        };
        Self {
            link: link.name(),
            tool: tool.name(),
            titles: [link.title(), tool.title()],
            seeds: runs.len(),
            frames: runs.iter().map(|run| run.frames.len()).sum(),
            decodable: runs.iter().map(Judgement::decodable).sum(),
            p50_ms: mean(0.5),
            p95_ms: mean(0.95),
            spread_ms: round(delays.iter().map(super::judge::Delays::spread).fold(0.0, f64::max)),
            strays: delays.iter().map(super::judge::Delays::strays).sum(),
        }
    }

    /// Its cells.
    pub(crate) fn cells(&self) -> Vec<String> {
        let delay = |delay: Option<f64>| delay.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.0}"));
        let [link, tool] = self.titles;
        vec![
            link.to_owned(),
            tool.to_owned(),
            format!("{} of {}", self.decodable, self.frames),
            delay(self.p50_ms),
            delay(self.p95_ms),
            delay(self.p50_ms.map(|_| self.spread_ms)),
            self.strays.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use timeous::core::Duration;

    use super::super::judge::CompleteFrame;
    use super::*;

    #[test]
    fn a_row_holds_all_seeds_and_an_empty_run_has_no_delay() {
        let whole = |millis| Some(CompleteFrame { first: Duration::ZERO, last: Duration::from_millis(millis) });
        let run = |delays: [u64; 3]| Judgement { frames: delays.map(whole).to_vec() };
        let row = Row::new(LinkName::Loss, Tool::Srt, &[run([100, 110, 120]), run([210, 200, 260])]);
        assert_eq!((row.frames, row.decodable, row.p50_ms), (6, 6, Some(160.0)), "the mean of 110 and 210");
        assert_eq!((row.spread_ms, row.strays), (50.0, 1), "from the median of its own run");
        let empty = Row::new(LinkName::Far, Tool::Timeous, &[Judgement { frames: vec![None] }]);
        assert_eq!(row.cells()[..4], ["2 % loss", "SRT", "6 of 6", "160"]);
        assert_eq!(empty.cells(), ["round trip of 150 ms", "Timeous", "0 of 1", "–", "–", "–", "0"]);
    }
}
