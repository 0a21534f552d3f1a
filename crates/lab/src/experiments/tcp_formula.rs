//! tcp-formula: sending rate of TCP with loss, compared with Padhye et al. and RFC 5348 §3.1.

mod judge;
pub(crate) mod path;

use timeous_cm::Kind;

use path::{Cell, LOSSES, Pattern, ROUND_TRIPS, Variant};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct TcpFormula;

impl Experiment for TcpFormula {
    fn about(&self) -> About {
        About {
            name: "tcp-formula",
            title: "The rate of a TCP beside the formula of Padhye et al.",
            source: "Padhye, Firoiu, Towsley & Kurose 1998, the full model; RFC 5348 §3.1",
            paper: "The rate follows from the share of loss indications, the round-trip time and the timeout alone",
            forms: Forms::Virtual,
            seeds: 3,
            takes: "5 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut cells = Vec::new();
        for variant in Variant::ALL {
            for rtt in ROUND_TRIPS {
                for loss in LOSSES {
                    cells.extend(run.seeds().map(|seed| Cell {
                        variant,
                        controller: Kind::NewReno,
                        rtt,
                        loss,
                        pattern: Pattern::Random,
                        seed,
                    }));
                }
            }
        }
        let measured = run.each("flows", &cells, path::run);
        judge::findings(&measured)
    }
}
