//! HyStart++ (RFC 9406): ends the first slow start when RTTs increase, not only at packet loss.

use timeous_core::Duration;

/// `MIN_RTT_DIVISOR` (RFC 9406 §4.3): divisor of the last round's minimum RTT, for the increase that means queueing.
const MIN_RTT_DIVISOR: u64 = 8;
/// `MIN_RTT_THRESH` (RFC 9406 §4.3): lower bound of that increase.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// `MAX_RTT_THRESH` (RFC 9406 §4.3): upper bound of that increase.
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// `N_RTT_SAMPLE` (RFC 9406 §4.3): RTT samples needed for a round's minimum.
const N_RTT_SAMPLE: u32 = 8;
/// `CSS_GROWTH_DIVISOR` (RFC 9406 §4.3): factor by which conservative slow start grows more slowly.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// `CSS_ROUNDS` (RFC 9406 §4.3): rounds of conservative slow start, including the one in which it begins.
const CSS_ROUNDS: u32 = 5;

/// State of HyStart++. A round ends when everything in flight at its start is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    phase: Phase,
    /// Bytes to be acknowledged until the round ends.
    left: u64,
    samples: u32,
    least: Option<Duration>,
    least_before: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Standard,
    Conservative {
        baseline: Duration,
        rounds: u32,
    },
}

/// Advice for slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Grow by the acknowledged bytes divided by this number.
    Grow(u64),
    /// End slow start: the threshold becomes the window.
    Stop,
}

impl HyStart {
    /// Takes an acknowledgement of `bytes`, with `outstanding` bytes in flight after it.
    pub(super) fn on_acked(&mut self, bytes: u64, outstanding: u64, rtt: Option<Duration>) -> Advice {
        if let Some(rtt) = rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        self.look();
        if self.left > bytes {
            self.left -= bytes;
        } else {
            self.begin_round(outstanding);
            if let Phase::Conservative { rounds: CSS_ROUNDS.., .. } = self.phase {
                return Advice::Stop;
            }
        }
        match self.phase {
            Phase::Standard => Advice::Grow(1),
            Phase::Conservative { .. } => Advice::Grow(CSS_GROWTH_DIVISOR),
        }
    }

    fn begin_round(&mut self, outstanding: u64) {
        self.left = outstanding;
        self.least_before = self.least.take();
        self.samples = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
        }
    }

    fn look(&mut self) {
        let Some(least) = self.least.filter(|_| self.samples >= N_RTT_SAMPLE) else { return };
        match (self.phase, self.least_before) {
            (Phase::Standard, Some(before)) if least >= before + growth(before) => {
                self.phase = Phase::Conservative { baseline: least, rounds: 0 };
            }
            // The RTT fell again, so that the increase was not this flow's queue: resume slow start.
            (Phase::Conservative { baseline, .. }, _) if least < baseline => self.phase = Phase::Standard,
            _ => {}
        }
    }
}

fn growth(before: Duration) -> Duration {
    (before / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledges rounds of sixteen packets with one RTT each, in milliseconds; returns the advice at the end of each.
    fn rounds(rtts: &[u64]) -> Vec<Advice> {
        let mut start = HyStart::default();
        // Packets sent before the first acknowledgement are a round of their own.
        start.on_acked(0, 16, None);
        let round = |&rtt: &u64| {
            let acks = (0..16).map(|_| start.on_acked(1, 16, Some(Duration::from_millis(rtt)))).collect::<Vec<_>>();
            if acks.contains(&Advice::Stop) { Advice::Stop } else { acks[14] }
        };
        rtts.iter().map(round).collect()
    }

    const FULL: Advice = Advice::Grow(1);
    const SLOW: Advice = Advice::Grow(4);

    #[test]
    fn a_round_longer_by_an_eighth_slows_the_start_and_five_such_rounds_end_it() {
        assert_eq!(rounds(&[80, 89, 100, 113]), [FULL, FULL, FULL, SLOW]);
        assert_eq!(
            rounds(&[80, 80, 91, 92, 93, 94, 95, 96, 97]),
            [FULL, FULL, SLOW, SLOW, SLOW, SLOW, Advice::Stop, Advice::Stop, Advice::Stop]
        );
    }

    #[test]
    fn short_paths_need_four_milliseconds_and_long_ones_sixteen() {
        assert_eq!(rounds(&[10, 13, 17]), [FULL, FULL, SLOW]);
        assert_eq!(rounds(&[400, 415, 431]), [FULL, FULL, SLOW]);
    }

    #[test]
    fn a_shorter_round_lets_it_go_on_as_before() {
        assert_eq!(rounds(&[80, 91, 92, 85, 86]), [FULL, SLOW, SLOW, FULL, FULL]);
    }
}
