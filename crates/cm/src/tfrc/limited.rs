//! Detection of data-limited intervals: whether the sender was data-limited in all of a report's interval (RFC 5348 §8.2.1).

use timeous_core::{Duration, Instant};

/// Instants at which the sender had used all of its allowance. `None` means never, and precedes every instant.
#[derive(Clone, Debug, Default)]
pub(super) struct DataLimited {
    not_limited_1: Option<Instant>,
    not_limited_2: Option<Instant>,
    new: Option<Instant>,
    next: Option<Instant>,
}

impl DataLimited {
    /// Notes that a segment was sent that used all of the sender's allowance so far.
    pub(super) fn sent_all(&mut self, now: Instant) {
        if self.not_limited_1 <= self.new {
            self.not_limited_1 = Some(now);
        } else if self.not_limited_2 <= self.next {
            self.not_limited_2 = Some(now);
        }
    }

    /// Processes feedback at `now` about data sent up to `sent_at`; returns whether that interval was data-limited.
    pub(super) fn on_feedback(&mut self, now: Instant, sent_at: Instant, rtt: Duration) -> bool {
        // The clock starts at zero: an interval that would begin earlier has no lower bound.
        let old = (sent_at.as_nanos().checked_sub(rtt.as_nanos())).map(Instant::from_nanos);
        let new = Some(sent_at);
        (self.new, self.next) = (new, Some(now));
        let covers = |at: Option<Instant>| at.is_some() && old < at && at <= new;
        let limited = !covers(self.not_limited_1) && !covers(self.not_limited_2);
        if self.not_limited_1 <= new && self.not_limited_2 > new {
            self.not_limited_1 = self.not_limited_2;
        }
        limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn one_instant_of_sending_all_is_enough_for_its_interval_and_no_other() {
        let mut state = DataLimited::default();
        state.sent_all(at(130));
        assert!(!state.on_feedback(at(300), at(200), RTT), "130 is in (100, 200]");
        assert!(state.on_feedback(at(400), at(300), RTT), "nothing in (200, 300]");
    }

    #[test]
    fn the_interval_is_open_where_it_begins() {
        let mut state = DataLimited::default();
        state.sent_all(at(100));
        assert!(state.clone().on_feedback(at(300), at(200), RTT), "100 is not in (100, 200]");
        assert!(!state.on_feedback(at(200), at(100), RTT), "but in (0, 100]");
    }

    #[test]
    fn the_second_instant_stands_for_the_interval_after_the_next() {
        let mut state = DataLimited::default();
        state.sent_all(at(50));
        assert!(!state.on_feedback(at(150), at(100), RTT));
        // t_new is 100 and t_next is 150: 120 counts for the first interval, 180 for the second.
        state.sent_all(at(120));
        state.sent_all(at(180));
        assert!(!state.on_feedback(at(220), at(170), RTT), "120 is in (70, 170]");
        assert!(!state.on_feedback(at(320), at(270), RTT), "180 is in (170, 270]");
        assert!(state.on_feedback(at(420), at(370), RTT));
    }

    #[test]
    fn what_is_sent_at_the_drivers_zero_counts() {
        let mut state = DataLimited::default();
        state.sent_all(at(0));
        assert!(!state.on_feedback(at(100), at(0), RTT));
    }
}
