//! CCID 3 and 4 options of a received acknowledgement (RFC 4342 §8, RFC 5622 §8.7).

use super::options::{
    LOSS_EVENT_RATE, LOSS_INTERVALS, LossInterval, RECEIVE_RATE, loss_event_rate, loss_intervals, receive_rate,
};
use crate::ccid4::options::{DROPPED_PACKETS, drop_counts};

/// Feedback options of one packet; bounded by the size of its header.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Heard {
    pub(super) receive_rate: Option<u32>,
    pub(super) loss_event_rate: Option<f64>,
    pub(super) skip: u8,
    /// Loss intervals, newest first.
    pub(super) intervals: Vec<LossInterval>,
    /// Packets lost in each interval.
    pub(super) lost: Vec<u32>,
}

impl Heard {
    /// Takes in one option; ignores foreign or malformed ones (RFC 4340 §5.8). Returns whether it was understood.
    pub(crate) fn take(&mut self, kind: u8, data: &[u8]) -> bool {
        match kind {
            RECEIVE_RATE => self.receive_rate = receive_rate(data).or(self.receive_rate),
            LOSS_EVENT_RATE => self.loss_event_rate = loss_event_rate(data).or(self.loss_event_rate),
            LOSS_INTERVALS => {
                let Some((skip, intervals)) = loss_intervals(data) else { return false };
                // "the Skip Lengths of the second and subsequent options MUST equal zero; such options with nonzero
                // Skip Lengths MUST be ignored" (RFC 4342 §8.6.1).
                if self.intervals.is_empty() {
                    self.skip = skip;
                } else if skip != 0 {
                    return false;
                }
                self.intervals.extend(intervals);
            }
            DROPPED_PACKETS => {
                let Some(counts) = drop_counts(data) else { return false };
                self.lost.extend(counts);
            }
            _ => return false,
        }
        true
    }

    /// Whether the acknowledgement is feedback (RFC 4342 §6). A Loss Event Rate is accepted in place of Loss Intervals,
    /// which Linux does not send.
    pub(crate) fn is_feedback(&self) -> bool {
        self.receive_rate.is_some() && (!self.intervals.is_empty() || self.loss_event_rate.is_some())
    }

    /// Whether it tells which packets arrived.
    pub(crate) fn has_intervals(&self) -> bool {
        !self.intervals.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_option_goes_on_where_the_first_ended_unless_it_skips() {
        let mut heard = Heard::default();
        let one = [2, 0, 0, 10, 0, 0, 1, 0, 0, 10];
        assert!(heard.take(LOSS_INTERVALS, &one) && !heard.is_feedback());
        assert!(!heard.take(LOSS_INTERVALS, &one));
        assert!(heard.take(LOSS_INTERVALS, &[0, 0, 0, 8, 0, 0, 0, 0, 0, 9]));
        assert_eq!((heard.skip, heard.intervals.len(), heard.intervals[1].data), (2, 2, 9));
        assert!(heard.take(RECEIVE_RATE, &[0, 0, 1, 0]) && heard.is_feedback());
        assert!(!heard.take(196, &[]) && !heard.take(DROPPED_PACKETS, &[1]));
    }

    #[test]
    fn a_rate_without_intervals_will_do() {
        let mut heard = Heard::default();
        heard.take(RECEIVE_RATE, &[0, 0, 1, 0]);
        assert!(!heard.is_feedback());
        heard.take(LOSS_EVENT_RATE, &[0, 0, 0, 100]);
        assert!(heard.is_feedback() && !heard.has_intervals());
    }
}
