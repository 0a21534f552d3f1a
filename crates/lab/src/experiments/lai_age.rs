//! lai-age: age of packets at departure and on arrival (Lai & Kohler §4.2, figures 9 and 10).

use super::lai::{ages, real, simulated};
use crate::experiment::{Experiment, Findings, Forms, Run, RunError, sabotages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lai-age",
    title: "Age of data over a narrow link shared with TCP",
    source: "Lai & Kohler §4.2, figures 9 and 10",
    paper: "DCCP's delays are distributed almost as UDP's; TCP's average is twice DCCP's; about 40 % of DCCP's packets beat \
            every packet of UDP; the time in the sender dominates TCP's delay",
    forms: Forms::BothBySeed,
    seeds: 5,
    takes: "5 s; real 4 min",
    sabotages: &[NO_CHOICE, UNHURRIED],
    run,
};

sabotages! {
    /// The claims are those of `ages`.
    NO_CHOICE = "no-choice", "no packet of Timeous is ever too old"
        => [
            "Timeous's median delay", "Timeous's 90th percentile over", "TCP's average delay", "packets of Timeous",
            "own choice: Timeous's median delay", "own choice: Timeous's 90th percentile over",
            "own choice: TCP's average delay", "own choice: packets of Timeous", "overwritten: Timeous's median delay",
            "overwritten: Timeous's 90th percentile over", "overwritten: TCP's average delay",
            "overwritten: packets of Timeous",
        ];
    UNHURRIED = "unhurried", "TCP is given a packet each 300 ms"
        => [
            "TCP's average delay", "own choice: TCP's average delay", "overwritten: TCP's average delay",
            "in-sender delay", "packets that arrive over Timeous",
        ];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    match run.real {
        true => ages::findings(&real::ages(run)?, real::ages_choices()),
        false => {
            let broken = simulated::Broken {
                no_choice: run.breaks(NO_CHOICE),
                unhurried: run.breaks(UNHURRIED),
                ..simulated::Broken::default()
            };
            ages::findings(&simulated::ages(run, broken), simulated::ages_choices())
        }
    }
}
