//! lai-age: age of packets at departure and on arrival (Lai & Kohler §4.2, figures 9 and 10).

use super::lai::{ages, real, simulated};
use crate::experiment::{Experiment, Findings, Forms, LabError, Run};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lai-age",
    title: "Age of data over a narrow link shared with TCP",
    source: "Lai & Kohler §4.2, figures 9 and 10",
    paper: "DCCP's delays are distributed almost as UDP's; TCP's average is twice DCCP's; about 40 % of DCCP's packets beat \
            every packet of UDP; the time in the sender dominates TCP's delay",
    forms: Forms::BothBySeed,
    seeds: 5,
    takes: "5 s; real 4 min",
    run,
};

fn run(run: &Run<'_>) -> Result<Findings, LabError> {
    match run.real {
        true => ages::findings(&real::ages(run)?, real::ages_choices()),
        false => ages::findings(&simulated::ages(run), simulated::ages_choices()),
    }
}
