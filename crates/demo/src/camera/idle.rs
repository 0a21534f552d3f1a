//! Latency of Timeous itself over an idle link, with immediate playout: from a frame's last byte in to its first byte
//! out.

use serde::Serialize;
use timeous::core::Duration;

use super::judge::Judgement;
use crate::report::round;

/// Delay of the link, each way.
pub(crate) const DELAY: Duration = Duration::from_millis(20);
/// Bound of the 95th percentile, in milliseconds, without the link's delay.
const BOUND_MS: f64 = 5.0;
/// Heads of the table's columns.
pub(crate) const HEAD: [&str; 5] = ["slices", "decodable", "p50, ms", "p95, ms", "max, ms"];

/// Line of the table: one number of slices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Slices of each frame.
    pub(crate) slices: u32,
    pub(crate) frames: usize,
    pub(crate) decodable: usize,
    /// From a frame's last byte in to its first byte out, less the link's delay.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

impl Row {
    /// Of one run.
    pub(crate) fn new(slices: u32, run: &Judgement) -> Self {
        let delays = run.delays(|whole| whole.first);
        let own = |quantile| delays.quantile(quantile).map(|delay| round(delay - DELAY.as_secs_f64() * 1e3));
        Self {
            slices,
            frames: run.frames.len(),
            decodable: run.decodable(),
            p50_ms: own(0.5),
            p95_ms: own(0.95),
            max_ms: own(1.0),
        }
    }

    /// Describes a broken bound, if any.
    pub(crate) fn broken(&self) -> Option<String> {
        let is_short = self.p95_ms.is_some_and(|p95| p95 <= BOUND_MS);
        (!is_short).then(|| format!("p95 at most {BOUND_MS} ms with {} slices a frame: {:?}", self.slices, self.p95_ms))
    }

    /// Its cells.
    pub(crate) fn cells(&self) -> Vec<String> {
        let delay = |delay: Option<f64>| delay.map_or_else(|| "–".to_owned(), |delay| format!("{delay:.1}"));
        let decodable = format!("{} of {}", self.decodable, self.frames);
        vec![self.slices.to_string(), decodable, delay(self.p50_ms), delay(self.p95_ms), delay(self.max_ms)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::CompleteFrame;
    use super::*;

    #[test]
    fn the_links_delay_is_none_of_the_tool_and_nothing_that_came_is_no_short_delay() {
        let whole =
            |millis| Some(CompleteFrame { first: Duration::from_millis(millis), last: Duration::from_millis(500) });
        let row = Row::new(4, &Judgement { frames: [22, 24, 25].map(whole).to_vec() });
        assert_eq!((row.p50_ms, row.p95_ms, row.max_ms, row.broken()), (Some(4.0), Some(5.0), Some(5.0), None));
        assert!(Row::new(1, &Judgement { frames: vec![whole(26)] }).broken().is_some());
        assert!(Row::new(1, &Judgement { frames: vec![None] }).broken().is_some());
    }
}
