//! cm-vat: constant-rate audio over a path with less capacity, by a policer and a buffer that drops
//! from its head (Andersen et al. §3.6, figure 2).

mod audio;
mod judge;
mod trial;

use audio::SendMethod;
use trial::{AVAILABLE, Trial};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmVat;

impl Experiment for CmVat {
    fn about(&self) -> About {
        About {
            name: "cm-vat",
            title: "Audio of constant rate over a path that carries less",
            source: "Andersen et al. §3.6, figure 2",
            paper: "A policer matches the rate by dropping ahead of time, a buffer that drops from its head takes the short \
                    variations; delays as long as those of FIFO buffers that drop at their tail do not arise",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "3 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut trials = Vec::new();
        for way in SendMethod::ALL {
            for available in AVAILABLE {
                trials.extend(run.seeds().map(|seed| Trial { way, available, seed }));
            }
        }
        judge::findings(&run.each("calls", &trials, Trial::run))
    }
}
