//! lai-iframes: share of I-frames that arrive when the sender exceeds the link (Lai & Kohler §4.3,
//! table 1).

use super::lai::{real, shares, simulated};
use crate::experiment::{Experiment, Findings, Forms, Run, RunError, sabotages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "lai-iframes",
    title: "I-frames among what arrives over a narrow link",
    source: "Lai & Kohler §4.3, table 1",
    paper: "I-frames are 10 % of what is sent, and 23.8, 12.8 and 10.1 % of what arrives over DCCP at 10, 20 and 25 ms, while UDP \
            loses 62, 37 and 11 % in the link and DCCP at most 0.7 %",
    forms: Forms::Both,
    seeds: 3,
    takes: "5 s; real 1 min",
    sabotages: &[NO_CHOICE, UNCONTROLLED],
    run,
};

sabotages! {
    /// The claims are those of `shares`.
    NO_CHOICE = "no-choice", "Timeous sends the oldest packets first, whatever they are"
        => [
            "every 10 ms: I-frames", "every 20 ms: I-frames", "own choice, every 10 ms: I-frames",
            "own choice, every 20 ms: I-frames",
        ];
    UNCONTROLLED = "uncontrolled", "Timeous's packets leave at once, as UDP's"
        => [
            "every 10 ms", "every 20 ms", "every 25 ms: packets", "own choice, every 10 ms", "own choice, every 20 ms",
            "own choice, every 25 ms: packets",
        ];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    match run.real {
        true => shares::findings(&[real::shares(run)?], real::shares_choices()),
        false => {
            let broken = simulated::Broken {
                no_choice: run.breaks(NO_CHOICE),
                uncontrolled: run.breaks(UNCONTROLLED),
                ..simulated::Broken::default()
            };
            shares::findings(&simulated::shares(run, broken), simulated::shares_choices())
        }
    }
}
