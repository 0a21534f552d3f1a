//! Summary of several runs.

use serde_json::{Value, json};

use super::transfer::Outcome;

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

    fn of_rates(mut rates: Vec<f64>) -> Self {
        rates.sort_by(f64::total_cmp);
        let at = |index: usize| rates.get(index).copied().unwrap_or(f64::NAN);
        let (lower, upper) = (rates.len().saturating_sub(1) / 2, rates.len() / 2);
        Self { least: at(0), median: (at(lower) + at(upper)) / 2.0, most: at(rates.len().saturating_sub(1)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let median = |rates: &[f64]| Summary::of_rates(rates.to_vec()).median;
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
