//! Choice of a link's queue discipline.

use std::str::FromStr;

use timeous_core::units::{UnitError, parse_duration, parse_share};
use timeous_core::{Rate, Rng};

use super::codel::{Codel, CodelConfig};
use super::mark::Markable;
use super::queue::{Discipline, DropTail, Limit};
use super::red::{Red, RedConfig};

/// Queue discipline. All kinds drop packets beyond the queue's limit.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum QueueKind {
    /// Drops only when full.
    #[default]
    DropTail,
    /// RED: marks or drops at random, by mean queue length.
    Red(RedConfig),
    /// CoDel: marks or drops by queueing delay.
    Codel(CodelConfig),
}

impl QueueKind {
    /// Creates an empty queue of this kind before a transmitter of `rate` (`None`: unlimited).
    pub fn build<P: Markable + Send + 'static>(
        self,
        limit: Limit,
        rate: Option<Rate>,
        rng: Rng,
    ) -> Box<dyn Discipline<P> + Send> {
        let queue = DropTail::new(limit, rate);
        match self {
            Self::DropTail => Box::new(queue),
            Self::Red(config) => Box::new(Red::new(config, queue, rate, rng)),
            Self::Codel(config) => Box::new(Codel::new(config, queue, rate)),
        }
    }
}

impl FromStr for QueueKind {
    type Err = UnitError;

    /// Parses `drop-tail`, `red[,MIN[,MAX[,MAX_P]]]` with shares, or `codel[,TARGET[,INTERVAL]]` with times; `noecn` at
    /// the end drops instead of marking.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error = || {
            UnitError::new(
                text,
                "a kind of queue: drop-tail, red, codel, or with parameters such as red,10%,50%,5% (least and largest \
                 mean length, share marked between them) or codel,5ms,100ms (target, interval); ,noecn drops only",
            )
        };
        let (text, ecn) = text.strip_suffix(",noecn").map_or((text, true), |text| (text, false));
        let mut words = text.split(',').map(str::trim);
        let name = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        match (name, words.len()) {
            ("drop-tail", 0) if ecn => Ok(Self::DropTail),
            ("red", 0..=3) => {
                let shares: Vec<f64> = words.iter().map(|word| parse_share(word)).collect::<Result<_, _>>()?;
                let given = |index: usize, otherwise| shares.get(index).copied().unwrap_or(otherwise);
                let RedConfig { min, max, max_p, weight, .. } = RedConfig::default();
                let config = RedConfig { min: given(0, min), max: given(1, max), max_p: given(2, max_p), weight, ecn };
                if config.min < config.max { Ok(Self::Red(config)) } else { Err(error()) }
            }
            ("codel", 0..=2) => {
                let times: Vec<_> = words.iter().map(|word| parse_duration(word)).collect::<Result<_, _>>()?;
                let given = |index: usize, otherwise| times.get(index).copied().unwrap_or(otherwise);
                let CodelConfig { target, interval, .. } = CodelConfig::default();
                let config = CodelConfig { target: given(0, target), interval: given(1, interval), ecn };
                if config.interval.is_zero() { Err(error()) } else { Ok(Self::Codel(config)) }
            }
            _ => Err(error()),
        }
    }
}
