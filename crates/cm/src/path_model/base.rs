//! Minimum round trip of a path, and the search for a longer path.

use timeous_core::{Duration, Instant};

/// Time for which a minimum round trip counts at least, so that a changed route is noticed (Arun & Balakrishnan §2.1).
const BASE_PERIOD: Duration = Duration::from_secs(10);
/// A jump of the round trip is of a longer path if it is longer than the mean error of predictions by this factor, and stays the same, to
/// one part in as many, for so many packets and twice the jump (docs/decisions/path-model.md): a queue varies, and others' bytes that come
/// at once are gone after the jump's time. With lower values a queue is taken for a longer path; with higher ones it is noticed later.
const JUMP_RATIO: u64 = 4;
const JUMP_PACKETS: u32 = 16;
/// Minimum jump. Chosen by us: less makes no picture late that has some milliseconds.
const MIN_JUMP: Duration = Duration::from_millis(10);

/// Minimum round trip of this period and of the one before, without the packet's own time on the link, and the longest time by which
/// packets overtook others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    least: [Option<Least>; 2],
    overtaken: [Duration; 2],
    began: Instant,
}

/// The packet with the minimum round trip: with its size, and the link's time for a byte in nanoseconds, once it is known.
#[derive(Clone, Copy, Debug)]
struct Least {
    rtt: Duration,
    bytes: u64,
    nanos_per_byte: Option<f64>,
}

impl Least {
    fn base(&self) -> Duration {
        let nanos = self.bytes as f64 * self.nanos_per_byte.unwrap_or_default();
        self.rtt.saturating_sub(Duration::from_nanos(nanos as u64))
    }
}

impl Base {
    /// Takes the round trip of a packet of `bytes`, each of which takes so long on the link, if that is known.
    pub(super) fn sample(&mut self, now: Instant, rtt: Duration, bytes: u64, nanos_per_byte: Option<f64>) {
        if now - self.began >= BASE_PERIOD {
            (self.least, self.overtaken) = ([None, self.least[0]], [Duration::ZERO, self.overtaken[0]]);
            self.began = now;
        }
        let new = Least { rtt, bytes, nanos_per_byte };
        if self.least[0].is_none_or(|least| new.base() < least.base()) {
            self.least[0] = Some(new);
        }
    }

    /// A byte takes at most so long on the link: if more was taken off a minimum, it was too much. A minimum from before the rate was
    /// known has this one.
    pub(super) fn limit(&mut self, nanos_per_byte: f64) {
        for least in self.least.iter_mut().flatten() {
            least.nanos_per_byte = Some(least.nanos_per_byte.map_or(nanos_per_byte, |known| known.min(nanos_per_byte)));
        }
    }

    /// Minimum round trip without the time on the link.
    pub(super) fn get(&self) -> Option<Duration> {
        self.least.into_iter().flatten().map(|least| least.base()).min()
    }

    /// Begins anew, on another path.
    pub(super) fn replace(&mut self, now: Instant, rtt: Duration) {
        (self.least, self.began) = ([Some(Least { rtt, bytes: 0, nanos_per_byte: None }), None], now);
    }

    /// Notes that a packet arrived `by` later than one sent after it.
    pub(super) fn overtaken(&mut self, by: Duration) {
        self.overtaken[0] = self.overtaken[0].max(by);
    }

    /// Jitter that is no queue: a queue keeps the order.
    pub(super) fn jitter(&self) -> Duration {
        self.overtaken[0].max(self.overtaken[1])
    }
}

/// Search for a longer path: a round trip that jumped and stays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longer {
    latest: Option<Duration>,
    jump: Option<Jump>,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Instant,
    by: Duration,
    rtt: Duration,
    least: Duration,
    packets: u32,
}

impl Longer {
    /// Takes a round trip, where `error` is the mean error of predictions, and `base` the minimum; returns that of a longer path, once
    /// it is one.
    pub(super) fn sample(&mut self, now: Instant, rtt: Duration, error: Duration, base: Duration) -> Option<Duration> {
        let before = self.latest.replace(rtt)?;
        if let Some(jump) = &mut self.jump {
            if rtt.abs_diff(jump.rtt) <= jump.by / JUMP_RATIO {
                (jump.least, jump.packets) = (jump.least.min(rtt), jump.packets + 1);
                let is_longer = jump.packets >= JUMP_PACKETS && now.saturating_since(jump.at) >= jump.by * 2;
                return is_longer.then_some(jump.least);
            }
            self.jump = None;
        }
        let by = rtt.saturating_sub(before);
        if by > (error * JUMP_RATIO).max(MIN_JUMP) && before.saturating_sub(base) <= by / JUMP_RATIO {
            self.jump = Some(Jump { at: now, by, rtt, least: rtt, packets: 0 });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Takes round trips in milliseconds, 20 ms apart, over a path of 40 ms; returns the number after which it is longer, and its minimum.
    fn found(rtts: impl IntoIterator<Item = u64>) -> Option<(usize, Duration)> {
        let mut longer = Longer::default();
        let samples = rtts.into_iter().enumerate();
        let mut at = |n: usize, rtt| longer.sample(Instant::ZERO + MS * 20 * n as u64, MS * rtt, MS, MS * 40);
        samples.into_iter().find_map(|(n, rtt)| Some((n, at(n, rtt)?)))
    }

    fn then(rtts: impl Iterator<Item = u64> + Clone) -> impl Iterator<Item = u64> {
        std::iter::repeat_n(40, 10).chain(rtts)
    }

    #[test]
    fn a_round_trip_that_jumps_and_stays_is_of_a_longer_path() {
        let stays = (0..100).map(|n| 140 + n % 7);
        assert_eq!(found(then(stays)), Some((10 + 16, MS * 140)));
        // Twice the jump.
        assert_eq!(found(then(std::iter::repeat_n(440, 100))), Some((10 + 40, MS * 440)));
    }

    #[test]
    fn a_queue_is_no_longer_path() {
        let drains = (0..100_u64).map(|n| 40 + 100_u64.saturating_sub(n * 10));
        assert_eq!(found(then(drains)), None, "that came at once");
        let grows = (0..100).map(|n| 40 + n * 3);
        assert_eq!(found(then(grows)), None, "that grows");
        let varies = (0..100).map(|n| 60 + n % 9 * 10);
        assert_eq!(found(then(varies)), None, "that varies");
    }

    #[test]
    fn a_jump_within_the_error_of_predictions_is_none() {
        assert_eq!(found(then(std::iter::repeat_n(49, 100))), None);
    }
}
