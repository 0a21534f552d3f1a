//! cm-loss: TCP as a client of the Congestion Manager beside plain TCP, on a path with loss
//! (Andersen et al., figure 3).

mod flow;
mod judge;

use flow::{Cell, FlowController, LOSSES};

use crate::experiment::{About, Experiment, Findings, Forms, LabError, Run};

pub(crate) struct CmLoss;

impl Experiment for CmLoss {
    fn about(&self) -> About {
        About {
            name: "cm-loss",
            title: "TCP by the Congestion Manager beside plain TCP, with losses",
            source: "Andersen et al. §4, figure 3",
            paper: "TCP/CM and TCP/Linux have the same throughput at each loss rate from 0 to 5 %",
            forms: Forms::Virtual,
            seeds: 8,
            takes: "10 s",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut cells = Vec::new();
        for loss in LOSSES {
            for side in FlowController::ALL {
                cells.extend(run.seeds().map(|seed| Cell { side, loss, seed }));
            }
        }
        judge::findings(&run.each("flows", &cells, flow::run))
    }
}
