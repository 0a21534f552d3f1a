//! Goodput of a macroflow: the rate at which its data recently arrived.

use timeous_core::{Duration, Instant, Rate};

/// Time constant of the average. Chosen by us: longer than a sawtooth or a pause between keyframes. A higher value
/// follows a change of the rate later.
const TIME_CONSTANT: Duration = Duration::from_secs(2);

/// Decaying average of arrived bytes, over sawtooth and pauses alike: the rate that was achieved, where
/// [`DeliveryRate`](crate::delivery::DeliveryRate) is what the path can do. Bytes and time decay equally, so that a new
/// flow's rate is not underestimated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Goodput {
    bytes: f64,
    nanos: f64,
    at: Option<Instant>,
}

impl Goodput {
    /// Counts arrived bytes.
    pub(crate) fn arrived(&mut self, now: Instant, bytes: u64) {
        // The send time of the first bytes is unknown, so that they do not count.
        let counts = self.at.is_some();
        (self.bytes, self.nanos) = self.faded(now);
        self.at = Some(now);
        if counts {
            self.bytes += bytes as f64;
        }
    }

    /// Average rate.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        let (bytes, nanos) = self.faded(now);
        if nanos > 0.0 { Rate::from_bps((bytes * 8e9 / nanos) as u64) } else { Rate::ZERO }
    }

    fn faded(&self, now: Instant) -> (f64, f64) {
        let whole = TIME_CONSTANT.as_nanos() as f64;
        let passed = self.at.map_or(0.0, |at| now.saturating_since(at).as_nanos() as f64);
        let left = whole / (whole + passed);
        (self.bytes * left, self.nanos * left + passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_rate_from_the_beginning_and_fades() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut goodput = Goodput::default();
        let kbps = |goodput: &Goodput, millis| goodput.rate(at(millis)).as_bps() / 1_000;
        for n in 0..1_000 {
            goodput.arrived(at(10 * n), 1_000);
            assert!(n < 5 || (780..=820).contains(&kbps(&goodput, 10 * n)), "{}", kbps(&goodput, 10 * n));
        }
        assert!(kbps(&goodput, 11_990) <= 400);
    }
}
