//! How much of what a macroflow sent has arrived of late.

use timeous_core::{Duration, Instant, Rate};

/// What came so long ago has faded to a third or so.
const FADES_IN: Duration = Duration::from_secs(2);

/// A fading average of the bytes that arrive, over sawtooth and pauses alike: where
/// [`DeliveryRate`](crate::delivery::DeliveryRate) says what the path can do, this says what was had of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Goodput {
    level: f64,
    at: Instant,
}

impl Goodput {
    /// Bytes arrived.
    pub(crate) fn arrived(&mut self, now: Instant, bytes: u64) {
        (self.level, self.at) = (self.faded(now) + bytes as f64, now);
    }

    /// Bytes a second.
    pub(crate) fn rate(&self, now: Instant) -> Rate {
        Rate::from_bps((self.faded(now) * 8.0 / FADES_IN.as_secs_f64()) as u64)
    }

    fn faded(&self, now: Instant) -> f64 {
        let whole = FADES_IN.as_nanos() as f64;
        self.level * whole / (whole + now.saturating_since(self.at).as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_to_the_rate_and_fades() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut goodput = Goodput::default();
        for n in 0..1_000 {
            goodput.arrived(at(10 * n), 1_000);
        }
        let kbps = goodput.rate(at(9_990)).as_bps() / 1_000;
        assert!((770..=800).contains(&kbps), "{kbps}");
        assert!(goodput.rate(at(11_990)).as_bps() / 1_000 <= kbps / 2);
    }
}
