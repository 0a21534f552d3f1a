//! ldc-rate: throughput cost of late choice over TCP (Birkedal et al. §6, table 1).

use serde_json::json;
use timeous::core::Duration;

use super::ldc::{RATES, SECONDS, START_UPS, Sender, Trial, ViewerOutcome, choices, real, run as trial};
use crate::experiment::{About, Bound, Claim, Experiment, Findings, Forms, LabError, Run, Table};

pub(crate) struct LdcRate;

/// Rates received in the paper, in kbit/s: plain, and with late choice.
const PAPER: [(f64, f64); 3] = [(862.47, 851.96), (457.72, 456.30), (235.88, 235.24)];
/// Largest accepted cost in percent: the paper's worst.
const PASS: f64 = 1.25;

impl Experiment for LdcRate {
    fn about(&self) -> About {
        About {
            name: "ldc-rate",
            title: "Throughput of TCP with late choice",
            source: "Birkedal et al. §6, table 1",
            paper: "862, 458 and 236 kbit/s received over 1024, 512 and 256 kbit/s with 5 % loss; with late choice 1.22, 0.31 and 0.27 % \
                    less",
            forms: Forms::BothBySeed,
            seeds: 10,
            takes: "10 s; real 8 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run, &START_UPS[..1], |viewed| Ok(findings(viewed)));
        }
        let of_seed = |seed| {
            START_UPS.into_iter().flat_map(move |start_up| {
                RATES.into_iter().flat_map(move |rate| {
                    [Sender::Plain, Sender::LateChoice].map(|sender| Trial { sender, rate, start_up, seed })
                })
            })
        };
        let trials: Vec<Trial> = run.seeds().flat_map(of_seed).collect();
        let viewed = run.each("streams", &trials, trial);
        Ok(findings(&viewed))
    }
}

fn findings(viewed: &[ViewerOutcome]) -> Findings {
    let head = ["start-up, s", "link, kbit/s", "plain, kbit/s", "late choice, kbit/s", "less, %", "paper: less, %"];
    let mut table = Table::new("Received in 60 s (means over the seeds)", &head);
    let mut claims = Vec::new();
    for start_up in START_UPS {
        for (rate, (paper_plain, paper_late)) in RATES.into_iter().zip(PAPER) {
            let kbps = rate.as_bps() / 1_000;
            let [plain, late] = [Sender::Plain, Sender::LateChoice].map(|sender| mean(viewed, start_up, kbps, sender));
            if plain.is_nan() {
                // This cell was not run.
                continue;
            }
            let less = 100.0 * (plain - late) / plain;
            let paper_less = 100.0 * (paper_plain - paper_late) / paper_plain;
            let numbers = [(plain, 1), (late, 1), (less, 2), (paper_less, 2)];
            let cells = numbers.map(|(value, digits)| format!("{value:.digits$}"));
            table.row([(start_up.as_millis() / 1_000).to_string(), kbps.to_string()].into_iter().chain(cells));
            if start_up == START_UPS[0] {
                let what = format!("percent less received with late choice at {kbps} kbit/s");
                let claim = Claim::new(&what, &format!("{paper_less:.2}"), format!("{less:.2}"), less);
                claims.push(claim.pass(Bound::AtMost(PASS)).aim(Bound::AtMost(0.0)));
            }
        }
    }
    let notes = vec![
        "Held to the shortest start-up. There each second's data have to arrive as the next second's are made: the source is live, and \
         plays when the next second is there. With 10 s nothing is lost. The bounds hold since the sender is told of the playout itself. \
         Told of deadlines that count from when the data were made, which are earlier by the first packet's way, ten seeds received 1.52, \
         2.01 and 3.36 % less than plain TCP: what could have come in that time at the end of each second was given up."
            .to_owned(),
    ];
    let (setup, data) = (choices(), json!({ "streams": viewed }));
    Findings { setup, tables: vec![table], claims, notes, data, ..Findings::default() }
}

fn mean(viewed: &[ViewerOutcome], start_up: Duration, kbps: u64, sender: Sender) -> f64 {
    let those: Vec<f64> = viewed
        .iter()
        .filter(|one| one.start_up == start_up.as_millis() / 1_000 && one.kbps == kbps && one.sender == sender)
        .map(|one| one.received as f64 * 8e-3 / SECONDS as f64)
        .collect();
    those.iter().sum::<f64>() / those.len() as f64
}
