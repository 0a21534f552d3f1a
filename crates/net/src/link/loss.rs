//! Random packet loss, independent of the queue: independent losses, or bursts (Gilbert-Elliott).

use std::str::FromStr;

use timeous_core::Rng;
use timeous_core::units::{UnitError, parse_share};

/// How packets are lost at random. Probabilities are shares of one.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Loss {
    /// None is.
    #[default]
    None,
    /// Each with the same probability, whatever befell the others.
    Bernoulli {
        /// The probability.
        p: f64,
    },
    /// In bursts (Gilbert 1960, Elliott 1963): the link is in a good or a bad state, and may change it after each
    /// packet. It begins in the good one. Parameters as for Linux's `netem loss gemodel`.
    GilbertElliott {
        /// From good to bad.
        p: f64,
        /// From bad to good: the mean stay in the bad state is `1 / r` packets.
        r: f64,
        /// Loss in the bad state (`1 - h`).
        bad_loss: f64,
        /// Loss in the good state (`1 - k`).
        good_loss: f64,
    },
}

impl Loss {
    /// Reads `p[,r[,1-h[,1-k]]]`, each a share such as `1%` or `0.01`. Left out, `r` is `1 - p`, `1-h` is 100 % and
    /// `1-k` is 0, as with netem.
    pub fn parse_burst(text: &str) -> Result<Self, UnitError> {
        let shares: Vec<f64> = text.split(',').map(parse_share).collect::<Result<_, _>>()?;
        let given = |index: usize, otherwise: f64| shares.get(index).copied().unwrap_or(otherwise);
        if shares.len() > 4 {
            return Err(UnitError::new(text, "one to four shares p,r,1-h,1-k such as 1%,25%"));
        }
        let p = given(0, 0.0);
        Ok(Self::GilbertElliott { p, r: given(1, 1.0 - p), bad_loss: given(2, 1.0), good_loss: given(3, 0.0) })
    }

    /// The share of all packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Bernoulli { p } => p,
            Self::GilbertElliott { p: 0.0, good_loss, .. } => good_loss,
            Self::GilbertElliott { p, r, bad_loss, good_loss } => (p * bad_loss + r * good_loss) / (p + r),
        }
    }
}

impl FromStr for Loss {
    type Err = UnitError;

    /// One share is independent loss, several are [`Loss::parse_burst`].
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.contains(',') {
            true => Self::parse_burst(text),
            false => Ok(Self::Bernoulli { p: parse_share(text)? }),
        }
    }
}

/// A [`Loss`] at work.
#[derive(Clone, Debug)]
pub(super) struct LossProcess {
    loss: Loss,
    rng: Rng,
    bad: bool,
}

impl LossProcess {
    pub(super) fn new(loss: Loss, rng: Rng) -> Self {
        Self { loss, rng, bad: false }
    }

    /// Whether the next packet is lost.
    pub(super) fn strikes(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli { p } => self.rng.chance(p),
            Loss::GilbertElliott { p, r, bad_loss, good_loss } => {
                let (lost, change) = if self.bad { (bad_loss, r) } else { (good_loss, p) };
                let strikes = self.rng.chance(lost);
                self.bad ^= self.rng.chance(change);
                strikes
            }
        }
    }
}
