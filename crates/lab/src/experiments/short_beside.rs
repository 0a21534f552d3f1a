//! short-beside: a live stream beside queue-filling flows: its share, its frames, and its cost to
//! the other flows.

mod grid;
mod judge;
mod trial;

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct ShortBeside;

impl Experiment for ShortBeside {
    fn about(&self) -> About {
        About {
            name: "short-beside",
            title: "A live stream beside one and four CUBIC flows, by controller",
            source: "Arun & Balakrishnan (Copa) §2.2, §4; the grid is ours",
            paper: "Copa in its competitive mode has about the share of a TCP flow",
            forms: Forms::Virtual,
            seeds: 3,
            takes: "2 min",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let trials = grid::trials(run);
        let measured = run.each("bottlenecks", &trials, trial::run);
        Ok(judge::findings(&measured))
    }
}
