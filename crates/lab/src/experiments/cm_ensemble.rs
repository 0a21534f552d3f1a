//! cm-ensemble: aggressiveness of a macroflow's flows together, like one TCP flow's, and fairness
//! among them.

mod judge;
mod real;
mod trial;

use trial::{Case, Trial};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmEnsemble;

impl Experiment for CmEnsemble {
    fn about(&self) -> About {
        About {
            name: "cm-ensemble",
            title: "The flows of a macroflow beside one TCP flow",
            source: "Andersen et al. §1, §2; RFC 3124 §2",
            paper: "An ensemble of concurrent flows is no more aggressive than one TCP flow would be, and its flows do not compete",
            forms: Forms::Both,
            seeds: 8,
            takes: "10 s; real 90 s, as root, built with the feature bpf",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run);
        }
        let trials: Vec<Trial> =
            Case::ALL.iter().flat_map(|&case| run.seeds().map(move |seed| Trial { case, seed })).collect();
        judge::findings(&run.each("bottlenecks", &trials, Trial::run))
    }
}
