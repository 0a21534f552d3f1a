//! Times in which a path stands still, as a radio link does at a handover: what is under way waits for that, and not for each other.

use timeous_core::{Duration, Instant};

/// From one packet to the next a round trip grows by the time of a packet where a queue grows. By this much and so many of them it
/// grows where nothing moved.
const LEAST: Duration = Duration::from_millis(50);
const PACKETS: u64 = 4;

/// Finds standstills by round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standstill {
    /// The latest news, and the round trip that came with it.
    heard: Option<(Instant, Duration)>,
    /// From when to when nothing moved.
    still: Option<(Instant, Instant)>,
}

impl Standstill {
    /// A round trip without what its packet waited for the path to go on; `base` at least. A packet takes `packet_time` of the
    /// path.
    pub(super) fn taken_out(&mut self, now: Instant, rtt: Duration, base: Duration, packet_time: Duration) -> Duration {
        let sent = now.saturating_sub(rtt);
        // What left after the latest news may have met a queue that others filled meanwhile. What was under way by then has not.
        if let Some((heard, before)) = self.heard.filter(|&(heard, _)| sent < heard) {
            let jump = rtt.saturating_sub(before).min(now.saturating_since(heard));
            if jump > LEAST + packet_time * PACKETS {
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

    /// Packets that left and came then, over a path of 50 ms and 5 ms a packet.
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
        // It stands still from 60 to 260.
        let seen = without(&[(0, 50), (5, 55), (10, 260), (15, 265), (100, 270), (230, 285), (275, 325)]);
        assert_eq!(seen, [50, 50, 50, 50, 50, 50, 50]);
        // What had left before and behind it stood in a queue besides.
        assert_eq!(without(&[(0, 80), (5, 85), (10, 290), (20, 300), (30, 310), (240, 340)])[2..], [80, 80, 80, 50]);
    }

    #[test]
    fn a_queue_that_grows_is_none_and_neither_is_one_that_others_filled_while_nothing_was_sent() {
        let growing: Vec<(u64, u64)> = (0..40).map(|n| (10 * n, 50 + 35 * n)).collect();
        assert_eq!(without(&growing), (0..40).map(|n| 50 + 25 * n).collect::<Vec<_>>());
        assert_eq!(without(&[(0, 50), (100, 350), (101, 351)]), [50, 250, 250]);
    }
}
