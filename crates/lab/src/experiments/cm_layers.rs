//! cm-layers: a stream of four layers that adapts to the rate of its path (Andersen et al. §4.4,
//! figures 8, 9 and 10).

mod judge;
mod series;
mod trial;
mod video;

use trial::{Api, Trial};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmLayers;

impl Experiment for CmLayers {
    fn about(&self) -> About {
        About {
            name: "cm-layers",
            title: "A stream of four layers over a path that changes",
            source: "Andersen et al. §4.4, figures 8, 9 and 10",
            paper: "ALF follows small changes of the rate, rate callbacks oscillate less, delayed feedback makes the reported rate \
                    bursty, and all of them work",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "5 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let trials: Vec<Trial> =
            Api::ALL.iter().flat_map(|&api| run.seeds().map(move |seed| Trial { api, seed })).collect();
        judge::findings(&run.each("streams", &trials, Trial::run))
    }
}
