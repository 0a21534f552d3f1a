//! Within what rates nobody has to be told of them.

/// As long as the rate for a share of one is between these, no flow has to be told, and none has to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    pub(crate) above: f64,
    pub(crate) below: f64,
}

/// To be found anew.
pub(crate) const UNKNOWN: Calm = Calm { above: f64::INFINITY, below: f64::NEG_INFINITY };

impl Default for Calm {
    fn default() -> Self {
        Self { above: f64::NEG_INFINITY, below: f64::INFINITY }
    }
}
