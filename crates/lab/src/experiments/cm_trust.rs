//! cm-trust: users who do not trust each other, one of whom gives false feedback (Andersen et al.
//! §5).

mod judge;
mod sender;
mod trial;

use sender::FalseFeedback;
use trial::{Setting, Trial};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmTrust;

impl Experiment for CmTrust {
    fn about(&self) -> About {
        About {
            name: "cm-trust",
            title: "A user who lies about his packets",
            source: "Andersen et al. §5, \"Trust issues\"",
            paper: "Applications feed back what they learnt of their packets, and could lie; it is left open what of it",
            forms: Forms::Virtual,
            seeds: 5,
            takes: "5 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut trials = Vec::new();
        for setting in Setting::ALL {
            for lie in FalseFeedback::ALL {
                trials.extend(run.seeds().map(|seed| Trial { lie, setting, seed }));
            }
        }
        Ok(judge::findings(&run.each("hosts", &trials, Trial::run)))
    }
}
