//! Maximum delivered rate within a time span.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, Rate};

/// Spacing within which samples are merged. Chosen by us: it bounds memory at high rates; a higher value measures more
/// coarsely.
const SAMPLE_SPACING: Duration = Duration::from_millis(10);

/// Delivered rates and their times.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentDeliveryRates(VecDeque<(Instant, Rate)>);

impl RecentDeliveryRates {
    /// Adds a sample, if known, and drops those older than `span`.
    pub(super) fn add(&mut self, now: Instant, rate: Option<Rate>, span: Duration) {
        self.0.retain(|&(at, _)| now.saturating_since(at) <= span);
        let Some(rate) = rate else { return };
        match self.0.back_mut().filter(|(at, _)| now.saturating_since(*at) < SAMPLE_SPACING) {
            Some((_, last)) => *last = rate.max(*last),
            None => self.0.push_back((now, rate)),
        }
    }

    /// Maximum of the samples.
    pub(super) fn most(&self) -> Option<Rate> {
        self.0.iter().map(|&(_, rate)| rate).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_counts_for_a_span() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut lately = RecentDeliveryRates::default();
        let mut most = |millis, kbps: Option<u64>| {
            lately.add(at(millis), kbps.map(Rate::from_kbps), Duration::from_millis(100));
            lately.most().map(|rate| rate.as_bps() / 1_000)
        };
        assert_eq!(most(0, None), None);
        assert_eq!([most(10, Some(400)), most(50, Some(180)), most(110, None)], [Some(400); 3]);
        assert_eq!([most(111, None), most(150, None), most(151, None)], [Some(180), Some(180), None]);
        assert_eq!([most(200, Some(100)), most(209, Some(120)), most(301, None)], [Some(100), Some(120), None]);
    }
}
