//! Detection of link outages, as at a radio handover: packets in flight wait for the link, not in a queue.

use timeous_core::{Duration, Instant};

/// Minimum jump between consecutive RTT samples that means a link outage, in addition to `MIN_RTT_JUMP_PACKETS`. Chosen
/// by us. A higher value takes short outages for a queue; a lower one takes bursts of cross traffic for outages.
const MIN_RTT_JUMP: Duration = Duration::from_millis(50);
/// Minimum jump in packet transmission times, in addition to `MIN_RTT_JUMP`. Chosen by us: a growing queue adds about
/// one. A higher value takes outages of slow links for a queue.
const MIN_RTT_JUMP_PACKETS: u64 = 4;

/// Detector of link outages from RTT samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill {
    /// Time of the latest RTT sample, and its value.
    heard: Option<(Instant, Duration)>,
    /// Start and end of the latest outage.
    still: Option<(Instant, Instant)>,
}

impl Standstill {
    /// Returns the RTT sample without the time that its packet waited for the link, but at least `base`. `packet_time`
    /// is a packet's transmission time.
    pub(super) fn taken_out(&mut self, now: Instant, rtt: Duration, base: Duration, packet_time: Duration) -> Duration {
        let sent = now.saturating_sub(rtt);
        // A packet sent after the latest sample may have met a queue of cross traffic; one in flight by then has not.
        if let Some((heard, before)) = self.heard.filter(|&(heard, _)| sent < heard) {
            let jump = rtt.saturating_sub(before).min(now.saturating_since(heard));
            if jump > MIN_RTT_JUMP + packet_time * MIN_RTT_JUMP_PACKETS {
                self.still = Some((now.saturating_sub(jump), now));
            }
        }
        self.heard = Some((now, rtt));
        let Some((from, to)) = self.still else { return rtt };
        let stood = to.saturating_since(sent.max(from));
        rtt.saturating_sub(stood).max(base.min(rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Applies the filter to packets with these send and arrival times, over a path of 50 ms and 5 ms per packet.
    fn without(packets: &[(u64, u64)]) -> Vec<u64> {
        let mut standstill = Standstill::default();
        let of = |&(left, came): &(u64, u64)| {
            let now = Instant::ZERO + ms(came);
            standstill.taken_out(now, ms(came - left), ms(50), ms(5)).as_millis()
        };
        packets.iter().map(of).collect()
    }

    #[test]
    fn what_waited_for_the_path_to_go_on_waited_for_nothing_else() {
        // The link is down from 60 to 260.
        let seen = without(&[(0, 50), (5, 55), (10, 260), (15, 265), (100, 270), (230, 285), (275, 325)]);
        assert_eq!(seen, [50, 50, 50, 50, 50, 50, 50]);
        // The first packets also waited in a queue: before the outage and behind it.
        assert_eq!(without(&[(0, 80), (5, 85), (10, 290), (20, 300), (30, 310), (240, 340)])[2..], [80, 80, 80, 50]);
    }

    #[test]
    fn a_queue_that_grows_is_none_and_neither_is_one_that_others_filled_while_nothing_was_sent() {
        let growing: Vec<(u64, u64)> = (0..40).map(|n| (10 * n, 50 + 35 * n)).collect();
        assert_eq!(without(&growing), (0..40).map(|n| 50 + 25 * n).collect::<Vec<_>>());
        assert_eq!(without(&[(0, 50), (100, 350), (101, 351)]), [50, 250, 250]);
    }
}
