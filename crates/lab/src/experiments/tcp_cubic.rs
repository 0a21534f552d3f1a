//! tcp-cubic: CUBIC in its Reno-friendly region (RFC 9438 §4.3), and on its curve (§4.2).

mod beside;
mod curve;
mod friendly;

use serde_json::json;

use crate::experiment::{Experiment, Findings, Forms, LabError, Run};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcp-cubic",
    title: "CUBIC beside Reno, and its curve",
    source: "RFC 9438 §4.2, §4.3, §5.1",
    paper: "Where Reno does well, CUBIC \"achieves approximately the same average window size as Reno\"; on fast and \
            long paths its window is W_cubic(t) = C (t − K)³ + W_max",
    forms: Forms::Virtual,
    seeds: 2,
    takes: "3 s",
    run,
};

fn run(run: &Run<'_>) -> Result<Findings, LabError> {
    let alone = friendly::run(run);
    let beside = beside::run(run);
    let curve = curve::run(run.seed);
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
