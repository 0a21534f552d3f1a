//! What befalls packets under way: delays that vary, reordering, duplication.

use std::str::FromStr;

use timeous_core::units::{UnitError, parse_duration, parse_share};
use timeous_core::{Duration, Rng};

/// The most by which [`Distribution::Heavy`] exceeds its mean.
const HEAVIEST: f64 = 100.0;

/// How the delay varies around the link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    /// By at most the spread, either way, each as likely.
    #[default]
    Uniform,
    /// About a bell curve of which the spread is the standard deviation (a sum of twelve uniform numbers).
    Normal,
    /// Only ever longer, seldom much: by the spread in the mean, with the tail of a Pareto distribution of shape 2, and
    /// by at most a hundred times the spread.
    Heavy,
}

impl Distribution {
    /// A deviation, in spreads.
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Uniform => 2.0 * rng.unit() - 1.0,
            Self::Normal => (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0,
            Self::Heavy => (1.0 / (1.0 - rng.unit()).sqrt() - 1.0).min(HEAVIEST),
        }
    }
}

/// Delay variation. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Jitter {
    /// How much the delay varies.
    pub spread: Duration,
    /// In which way.
    pub distribution: Distribution,
    /// Whether a packet may so overtake another; otherwise it waits behind it, as in a queue.
    pub reorders: bool,
}

impl Jitter {
    /// A delay around `delay`.
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

    /// `TIME[,uniform|normal|heavy][,reorder]`.
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

/// Reordering of a share of the packets, whatever the delay's variation does. The default is none.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Reorder {
    /// How many packets, each for itself.
    pub share: f64,
    /// By how much longer they are under way, so that others overtake them; `None`: they skip the link's delay and
    /// overtake others (as with Linux's netem).
    pub by: Option<Duration>,
}

impl FromStr for Reorder {
    type Err = UnitError;

    /// `SHARE[,TIME]`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let Some((share, by)) = text.split_once(',') else {
            return Ok(Self { share: parse_share(text)?, by: None });
        };
        Ok(Self { share: parse_share(share)?, by: Some(parse_duration(by)?) })
    }
}
