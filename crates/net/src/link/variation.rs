//! Delay variation and reordering of packets in flight.

use std::str::FromStr;

use timeous_core::units::{UnitError, parse_duration, parse_share};
use timeous_core::{Duration, Rng};

/// Maximum of [`Distribution::Heavy`], in multiples of its mean. Chosen by us: a higher value makes rare delays longer.
const MAX_HEAVY: f64 = 100.0;

/// Distribution of the delay variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Uniform within plus or minus the spread.
    #[default]
    Uniform,
    /// Approximately normal with the spread as standard deviation (a sum of twelve uniform numbers).
    Normal,
    /// Additional delay with the spread as mean and a heavy tail: Pareto distribution of shape 2, up to a hundred times
    /// the spread.
    Heavy,
}

impl Distribution {
    /// Draws a deviation, in units of the spread.
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Uniform => 2.0 * rng.unit() - 1.0,
            Self::Normal => (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0,
            Self::Heavy => (1.0 / (1.0 - rng.unit()).sqrt() - 1.0).min(MAX_HEAVY),
        }
    }
}

/// Delay variation. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Jitter {
    /// Size of the variation.
    pub spread: Duration,
    /// Distribution of the variation.
    pub distribution: Distribution,
    /// Whether packets may overtake each other; otherwise a packet waits behind the one before, as in a queue.
    pub reorders: bool,
}

impl Jitter {
    /// Draws a delay around `delay`.
    pub(super) fn apply(&self, delay: Duration, rng: &mut Rng) -> Duration {
        if self.spread.is_zero() {
            return delay;
        }
        let nanos = self.distribution.draw(rng) * self.spread.as_nanos() as f64;
        let by = Duration::from_nanos(nanos.abs() as u64);
        if nanos < 0.0 { delay - by } else { delay + by }
    }
}

impl FromStr for Jitter {
    type Err = UnitError;

    /// Parses `TIME[,uniform|normal|heavy][,reorder]`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let mut words = text.split(',').map(str::trim);
        let mut jitter = Self { spread: parse_duration(words.next().unwrap_or_default())?, ..Self::default() };
        for word in words {
            match word {
                "uniform" => jitter.distribution = Distribution::Uniform,
                "normal" => jitter.distribution = Distribution::Normal,
                "heavy" => jitter.distribution = Distribution::Heavy,
                "reorder" => jitter.reorders = true,
                _ => {
                    let wanted = "a delay variation such as 5ms or 5ms,normal,reorder (uniform, normal or heavy; \
                                  reorder: packets may overtake)";
                    return Err(UnitError::new(text, wanted));
                }
            }
        }
        Ok(jitter)
    }
}

/// Reordering of a share of the packets, besides that from jitter. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Reorder {
    /// Share of packets that are reordered, independently.
    pub share: f64,
    /// Additional delay, so that others overtake them; `None`: they skip the propagation delay and overtake others (as
    /// in Linux's netem).
    pub by: Option<Duration>,
}

impl FromStr for Reorder {
    type Err = UnitError;

    /// Parses `SHARE[,TIME]`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some((share, by)) = text.split_once(',') else {
            return Ok(Self { share: parse_share(text)?, by: None });
        };
        Ok(Self { share: parse_share(share)?, by: Some(parse_duration(by)?) })
    }
}
