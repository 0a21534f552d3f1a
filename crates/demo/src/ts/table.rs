//! The table: one line for each link and tool, for a terminal, as markdown and as JSON.

use serde::Serialize;

use super::judge::Judgement;
use crate::compared::Tool;
use crate::link::LinkName;
use crate::report::round;

/// Heads of its columns.
pub(super) const HEAD: [&str; 11] = [
    "link",
    "by",
    "pictures intact",
    "shown damaged",
    "decoder errors",
    "audio frames missing",
    "audio gaps",
    "p50, ms",
    "p95, ms",
    "continuity errors",
    "longest without clock, ms",
];

/// Line of the table: all seeds of one link and tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    link: &'static str,
    tool: &'static str,
    #[serde(skip)]
    titles: [&'static str; 2],
    seeds: usize,
    pictures: usize,
    intact: usize,
    damaged: usize,
    decoder_errors: usize,
    audio_frames: usize,
    audio_missing: usize,
    audio_gaps: usize,
    audio_gaps_ms: f64,
    /// From the last packet of a PES packet in to its last one out, in the mean over the seeds.
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    continuity_errors: usize,
    clock_gap_ms: f64,
}

impl Row {
    /// Of all runs of a tool over a link.
    pub(super) fn new(link: LinkName, tool: Tool, runs: &[Judgement]) -> Self {
        let sum = |of: fn(&Judgement) -> usize| runs.iter().map(of).sum();
        let mean = |quantile| {
            let values: Vec<f64> = runs.iter().filter_map(|run| run.delay_ms(quantile)).collect();
            (!values.is_empty()).then(|| round(timeous_testbed::mean(values)))
        };
        Self {
            link: link.name(),
            tool: tool.name(),
            titles: [link.title(), tool.title()],
            seeds: runs.len(),
            pictures: sum(|run| run.pictures),
            intact: sum(|run| run.intact),
            damaged: sum(|run| run.damaged),
            decoder_errors: sum(|run| run.decoder_errors),
            audio_frames: sum(|run| run.audio_frames),
            audio_missing: sum(|run| run.audio_missing),
            audio_gaps: sum(|run| run.audio_gaps_ms.len()),
            audio_gaps_ms: round(runs.iter().flat_map(|run| &run.audio_gaps_ms).sum()),
            p50_ms: mean(0.5),
            p95_ms: mean(0.95),
            continuity_errors: sum(|run| run.continuity_errors),
            clock_gap_ms: round(runs.iter().map(|run| run.clock_gap_ms).fold(0.0, f64::max)),
        }
    }

    /// Its cells.
    pub(super) fn cells(&self) -> Vec<String> {
        let delay = |delay: Option<f64>| delay.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.0}"));
        let [link, tool] = self.titles;
        let gaps = match self.audio_gaps {
            0 => "none".to_owned(),
            gaps => format!("{gaps}, {:.0} ms", self.audio_gaps_ms),
        };
        vec![
            link.to_owned(),
            tool.to_owned(),
            format!("{} of {}", self.intact, self.pictures),
            self.damaged.to_string(),
            self.decoder_errors.to_string(),
            format!("{} of {}", self.audio_missing, self.audio_frames),
            gaps,
            delay(self.p50_ms),
            delay(self.p95_ms),
            self.continuity_errors.to_string(),
            format!("{:.0}", self.clock_gap_ms),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_all_seeds_and_an_empty_run_has_no_delay() {
        let run = |delays_ms: Vec<f64>, audio_gaps_ms: Vec<f64>| Judgement {
            pictures: 50,
            intact: 40,
            delays_ms,
            audio_gaps_ms,
            ..Judgement::default()
        };
        let runs = [run(vec![300.0; 3], vec![20.0]), run(vec![310.0; 3], vec![40.0, 20.0])];
        let cells = Row::new(LinkName::Half, Tool::Srt, &runs).cells();
        assert_eq!(cells[1..3], ["SRT", "80 of 100"]);
        assert_eq!(cells[6..9], ["3, 80 ms", "305", "305"]);
        let cells = Row::new(LinkName::Half, Tool::Timeous, &[run(vec![], vec![])]).cells();
        assert_eq!(cells[6..9], ["none", "–", "–"]);
    }
}
