//! RACK: a segment sent well before one that has arrived is lost (RFC 8985 §6).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::feedback::Feedback;
use super::scoreboard::Scoreboard;
use super::sent::Sent;
use super::spurious::millis;

/// Number of SACKed segments that prove a loss without a reordering window (`DupThresh`, RFC 8985 §6.2).
const DUP_THRESH: usize = 3;
/// Recoveries for which a widened window is kept: "RACK.reo_wnd_persist = 16" (RFC 8985 §6.2).
const PERSIST: u32 = 16;

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    at: Instant,
    order: u64,
    start: u64,
    end: u64,
    /// Its number among the transmissions of its segment.
    number: u16,
}

/// The state of RFC 8985 §5.2.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// All transmissions in order of time, including finished ones.
    log: VecDeque<Transmission>,
    /// The most recently sent transmission that arrived, and its RTT. The RFC compares times, and sequence numbers at equal times; here the
    /// order of transmissions is known, which differs if a retransmission is sent after new data at one instant.
    latest: Option<(u64, Duration)>,
    /// Highest offset that arrived (`RACK.fack`).
    highest: u64,
    reordering_seen: bool,
    /// Reordering window, in quarters of the minimum RTT.
    multiplier: u32,
    persist: u32,
    /// Offset until which DSACKs do not widen the window further (`RACK.dsack_round`).
    dsack_round: Option<u64>,
}

impl Rack {
    pub(super) fn transmitted(&mut self, now: Instant, order: u64, start: u64, end: u64, number: u16) {
        self.log.push_back(Transmission { at: now, order, start, end, number });
    }

    /// Rebuilds the log after a spurious timeout: all segments in flight can be found lost from now on.
    pub(super) fn restore(&mut self, board: &Scoreboard) {
        self.log.clear();
        self.log.extend(board.under_way().map(
            |&Sent { sent_at: at, order, start, end, transmissions: number, .. }| Transmission {
                at,
                order,
                start,
                end,
                number,
            },
        ));
        self.log.make_contiguous().sort_unstable_by_key(|one| one.order);
    }

    /// Processes arrivals: steps 1 to 3 of §6.2. `echo` is the echoed time, to the millisecond, for data acknowledged below `ack`.
    pub(super) fn on_delivered(
        &mut self,
        now: Instant,
        feedback: &Feedback,
        min_rtt: Duration,
        (ack, echo): (u64, Option<Duration>),
    ) {
        if feedback.lowest_clean.is_some_and(|end| end < self.highest) {
            self.reordering_seen = true;
        }
        let Some(newest) = feedback.newest else { return };
        self.highest = self.highest.max(newest.end);
        let rtt = now - newest.sent_at;
        // An acknowledgement faster than the minimum RTT, or with an earlier echo, is for an earlier transmission. For data beyond a gap
        // the echo has no meaning.
        let echoes_earlier = newest.end <= ack && echo.is_some_and(|echo| echo < millis(newest.sent_at));
        if newest.resent && (rtt < min_rtt || echoes_earlier) {
            return;
        }
        if self.latest.is_none_or(|(order, _)| order < newest.order) {
            self.latest = Some((newest.order, rtt));
        }
    }

    /// Processes a DSACK, step 4 of §6.2: a retransmission was needless, so that the window was too small.
    pub(super) fn on_duplicate(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_none_or(|round| una >= round) {
            self.dsack_round = Some(nxt);
            self.multiplier = self.multiplier.max(1) + 1;
            self.persist = PERSIST;
        }
    }

    /// Notes the end of a recovery.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// Returns the send time up to which segments are lost when the retransmission timer expires now (`RACK_mark_losses_on_RTO`, §6.3).
    pub(super) fn recent(&self, now: Instant, recovering: bool, sacked: usize, rtts: (Duration, Duration)) -> Instant {
        let rtt = self.latest.map_or(rtts.1, |(_, rtt)| rtt);
        now.saturating_sub(rtt + self.window(sacked, recovering, rtts.0, rtts.1))
    }

    /// Returns the reordering window (`RACK_update_reo_wnd`).
    fn window(&self, sacked: usize, recovering: bool, min_rtt: Duration, srtt: Duration) -> Duration {
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        (min_rtt * u64::from(self.multiplier.max(1)) / 4).min(srtt)
    }

    /// Marks lost segments, step 5 of §6.2. Returns when more will be lost, if nothing arrives before.
    pub(super) fn detect(
        &mut self,
        now: Instant,
        board: &mut Scoreboard,
        recovering: bool,
        rtts: (Duration, Duration),
        feedback: &mut Feedback,
    ) -> Option<Instant> {
        let (latest, rtt) = self.latest?;
        let window = self.window(board.sacked_segments(), recovering, rtts.0, rtts.1);
        while let Some(&first) = self.log.front() {
            let at = board.find(first.start);
            let stands = board.get(at).is_some_and(|sent| {
                sent.end == first.end && sent.transmissions == first.number && !sent.sacked && sent.copies > 0
            });
            if stands {
                if first.order >= latest {
                    return None;
                }
                let due = first.at + rtt + window;
                if due > now {
                    return Some(due);
                }
                // The last transmission is lost, and earlier ones were sent before it.
                board.lose_entirely(at, feedback);
            }
            self.log.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_data_that_left_before_a_retransmission_at_the_same_instant_do_not_make_it_lost() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let rtts = (Duration::from_millis(200), Duration::from_millis(300));
        let (mut board, mut rack, mut feedback) = (Scoreboard::default(), Rack::default(), Feedback::default());
        for number in 0..5 {
            board.push(at(0), 100, Some(number));
            rack.transmitted(at(0), board.latest_order(), 100 * number, 100 * number + 100, 1);
        }
        board.lose(0, &mut feedback);
        board.push(at(300), 100, Some(5));
        rack.transmitted(at(300), board.latest_order(), 500, 600, 1);
        board.resent(at(300), 0);
        rack.transmitted(at(300), board.latest_order(), 0, 100, 2);

        feedback = Feedback::default();
        board.sack(100..600, &mut feedback);
        rack.on_delivered(at(600), &feedback, rtts.0, (0, None));
        assert_eq!(rack.detect(at(600), &mut board, true, rtts, &mut feedback), None);
        assert_eq!(feedback.newest_lost, None, "it may arrive yet");

        // The arrival of a segment sent later shows that it is lost.
        board.push(at(601), 100, Some(6));
        rack.transmitted(at(601), board.latest_order(), 600, 700, 1);
        feedback = Feedback::default();
        board.sack(600..700, &mut feedback);
        rack.on_delivered(at(901), &feedback, rtts.0, (0, None));
        rack.detect(at(901), &mut board, true, rtts, &mut feedback);
        assert_eq!(feedback.newest_lost_again, Some(at(300)));
    }

    #[test]
    fn an_answer_to_an_earlier_transmission_says_nothing_of_the_latest() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let rtts = (Duration::from_millis(40), Duration::from_millis(40));
        for (echo, lost) in [(0, false), (300, true)] {
            let (mut board, mut rack, mut feedback) = (Scoreboard::default(), Rack::default(), Feedback::default());
            for number in 0..3 {
                board.push(at(0), 100, Some(number));
                rack.transmitted(at(0), board.latest_order(), 100 * number, 100 * number + 100, 1);
            }
            board.resent(at(300), 0);
            rack.transmitted(at(300), board.latest_order(), 0, 100, 2);
            board.acknowledge(100, &mut feedback);
            rack.on_delivered(at(420), &feedback, rtts.0, (100, Some(Duration::from_millis(echo))));
            rack.detect(at(420), &mut board, false, rtts, &mut feedback);
            assert_eq!(board.next_waiting().is_some(), lost, "RFC 8985 §6.2, step 2; the echo was {echo}");
        }
    }
}
