//! short-queues: queue length, link utilisation and recovery time with each congestion controller.

mod grid;
mod judge;
mod trial;

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct ShortQueues;

impl Experiment for ShortQueues {
    fn about(&self) -> About {
        About {
            name: "short-queues",
            title: "Queues, use of the link and returned capacity, by controller",
            source: "Arun & Balakrishnan (Copa); RFC 8298 and its successor; the grid is ours",
            paper: "Copa keeps two packets or so in a queue and the link full; SCReAM stays below 60 ms of queue",
            forms: Forms::Virtual,
            seeds: 3,
            takes: "2 min",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let trials = grid::trials(run);
        let measured = run.each("flows", &trials, trial::run);
        Ok(judge::findings(&measured))
    }
}
