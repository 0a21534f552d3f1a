//! Summary of several runs.

use serde_json::{Value, json};

use super::transfer::Outcome;
use crate::experiment::Sorted;

/// Rates in Mbit/s. An unfinished run counts with rate zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) least: f64,
    /// Median rate; the mean of the middle two for an even number of runs.
    pub(super) median: f64,
    pub(super) most: f64,
}

impl Summary {
    /// Summarises transfers of `len` bytes.
    pub(super) fn of(runs: &[Result<Outcome, String>], len: usize) -> Self {
        let rate = |run: &Result<Outcome, String>| match run {
            Ok(outcome) => outcome.rate(len).as_bps() as f64 / 1e6,
            Err(_) => 0.0,
        };
        Self::of_rates(runs.iter().map(rate).collect())
    }

    fn of_rates(rates: Sorted) -> Self {
        Self { least: rates.percentile(0.0), median: rates.median(), most: rates.percentile(100.0) }
    }
}

/// Formats the range.
pub(super) fn spread(summary: &Summary) -> String {
    format!("{:.2} to {:.2}", summary.least, summary.most)
}

/// Returns a run as JSON.
pub(super) fn record(run: &Result<Outcome, String>) -> Value {
    match run {
        Ok(outcome) => {
            let [forward, back] = outcome.links;
            let link = |counters: timeous_net::Counters| {
                json!({
                    "packets": counters.packets_in,
                    "queue_drops": counters.queue_drops,
                    "losses": counters.losses,
                    "reordered": counters.reordered,
                    "duplicates": counters.duplicates,
                })
            };
            let repairs = outcome.repairs;
            json!({
                "same": outcome.same,
                "seconds": outcome.took.as_secs_f64(),
                "forward": link(forward),
                "back": link(back),
                "sender": {
                    "timeouts": repairs.timeouts,
                    "probes": repairs.probes,
                    "recoveries": repairs.recoveries,
                    "undone": repairs.undone,
                },
                "our_retransmissions": outcome.ours.map(|ours| ours.retransmissions),
            })
        }
        Err(why) => json!({ "failed": why }),
    }
}
