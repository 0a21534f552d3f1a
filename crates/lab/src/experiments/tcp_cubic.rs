//! tcp-cubic: CUBIC in its Reno-friendly region (RFC 9438 §4.3), and on its curve (§4.2).

mod beside;
mod curve;
mod friendly;

use serde_json::json;
use timeous_cm::Kind;

use super::fault::Fault;
use crate::experiment::{Experiment, Findings, Forms, Run, RunError, sabotages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-cubic",
    title: "CUBIC beside Reno, and its curve",
    source: "RFC 9438 §4.2, §4.3, §5.1",
    paper: "Where Reno does well, CUBIC \"achieves approximately the same average window size as Reno\"; on fast and \
            long paths its window is W_cubic(t) = C (t − K)³ + W_max",
    forms: Forms::Virtual,
    seeds: 2,
    takes: "3 s",
    sabotages: &[DOUBLED, RENO],
    run,
};

sabotages! {
    DOUBLED = "doubled", "CUBIC's window is twice that of its controller"
        => [
            "average window of CUBIC over NewReno's, 0.3 % lost evenly",
            "average window of CUBIC over that of figure 3, 0.3 % lost evenly",
            "average window of CUBIC over NewReno's, 1 % lost evenly",
            "average window of CUBIC over that of figure 3, 1 % lost evenly", "rate of CUBIC over NewReno's",
        ];
    RENO = "reno", "the flow on the fast and long path is NewReno's"
        => ["greatest distance of the window from its curve"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    let fault = run.breaks(DOUBLED).then_some(Fault::Doubled);
    let alone = friendly::run(run, fault);
    let beside = beside::run(run, fault);
    let curve = curve::run(run.seed, if run.breaks(RENO) { Kind::NewReno } else { Kind::Cubic });
    let claims = [friendly::claims(&alone), beside::claims(&beside), curve.claims()].concat();
    Ok(Findings {
        setup: [friendly::choices(), beside::choices(), curve::choices()].concat(),
        tables: vec![friendly::table(&alone), beside::table(&beside), curve.table()],
        figures: vec![curve.figure()?],
        claims,
        notes: Vec::new(),
        data: json!({ "alone": alone, "beside": beside }),
    })
}
