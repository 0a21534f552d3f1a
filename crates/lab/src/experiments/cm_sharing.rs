//! cm-sharing: repeated fetches of a file, each over a new connection (Andersen et al. §4.3, figure
//! 7).

mod fetches;
mod judge;
mod real;
mod server;

use fetches::{SharedState, Trial};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmSharing;

impl Experiment for CmSharing {
    fn about(&self) -> About {
        About {
            name: "cm-sharing",
            title: "A file fetched nine times, each time by a new connection",
            source: "Andersen et al. §4.3, figure 7",
            paper: "Later fetches are 40 % faster where the server's connections share what is known of the path",
            forms: Forms::Both,
            seeds: 5,
            takes: "1 s; real 40 s, as root, built with the feature bpf",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run);
        }
        let trials: Vec<Trial> =
            SharedState::ALL.iter().flat_map(|&memory| run.seeds().map(move |seed| Trial { memory, seed })).collect();
        judge::findings(&run.each("clients", &trials, Trial::run))
    }
}
