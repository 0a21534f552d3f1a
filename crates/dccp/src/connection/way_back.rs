//! Delay of acknowledgements on their way back, beyond the least: a queue there, or a busy host, holds up no data.

use timeous_core::{Duration, Instant};

use crate::options::Ticks;

/// Time in which the least delay may rise by a tick, in ticks: clocks differ by at most 500 ppm (the kernel's bound, adjtimex(2)).
const TICKS_PER_DRIFT: u32 = 2_000;

/// The least delay of acknowledgements seen, by the clocks of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WayBack {
    /// Its difference between the clocks, in ticks, and when that was true.
    least: Option<(u32, Instant)>,
}

impl WayBack {
    /// Returns how much longer an acknowledgement took that left at `sent` by the peer's clock.
    pub(super) fn excess(&mut self, arrived: Instant, sent: Ticks) -> Duration {
        let difference = Ticks::timestamp(arrived).get().wrapping_sub(sent.get());
        let (least, since) = self.least.unwrap_or((difference, arrived));
        let drift = Ticks::elapsed(arrived.saturating_since(since)).get() / TICKS_PER_DRIFT;
        let excess = i64::from(difference.wrapping_sub(least).cast_signed()) - i64::from(drift);
        if excess <= 0 {
            self.least = Some((difference, arrived));
        } else if drift > 0 {
            self.least = Some((least.wrapping_add(drift), arrived));
        }
        Ticks::new(u32::try_from(excess).unwrap_or(0)).to_duration()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Excess of an acknowledgement that leaves `sent` ms after the begin, and takes `took` ms; the peer's clock is ahead by `ahead` ms.
    fn excess(back: &mut WayBack, sent: u64, took: u64, ahead: u64) -> Duration {
        let by_peer = Ticks::timestamp(Instant::ZERO + ms(sent + ahead));
        back.excess(Instant::ZERO + ms(sent + took), by_peer)
    }

    #[test]
    fn what_takes_longer_than_the_least_is_excess_whatever_the_clocks() {
        // Ticks wrap after 42 949 673 ms.
        for ahead in [0, 5_000, 42_949_672, 30_000_000] {
            let mut back = WayBack::default();
            let took = [30, 50, 20, 20, 320];
            let told: Vec<_> = (0..5).map(|n| excess(&mut back, 100 * n as u64, took[n], ahead)).collect();
            for (told, excess) in told.into_iter().zip([0, 20, 0, 0, 300]) {
                assert!(
                    told <= ms(excess) && told + Duration::from_micros(300) >= ms(excess),
                    "{ahead}: {told:?} of {excess} ms"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_goes_slower_or_faster_is_no_queue() {
        for per_second in [-500_i64, 500] {
            let mut back = WayBack::default();
            for second in 0..3_600 {
                let sent = Instant::ZERO + ms(1_000) * (second + 10);
                let by_peer = sent.as_nanos().cast_signed() + per_second * 1_000 * second.cast_signed();
                let by_peer = Ticks::timestamp(Instant::ZERO + Duration::from_nanos(by_peer.cast_unsigned()));
                assert!(
                    back.excess(sent + ms(20), by_peer) < Duration::from_micros(20),
                    "{per_second} ppm after {second} s"
                );
            }
        }
    }

    #[test]
    fn a_queue_of_minutes_stays_excess_for_the_most_part() {
        let mut back = WayBack::default();
        excess(&mut back, 0, 20, 7);
        for second in 1..120 {
            let told = excess(&mut back, second * 1_000, 320, 7);
            assert!(told > ms(240) && told <= ms(300), "{told:?} after {second} s");
        }
    }
}
