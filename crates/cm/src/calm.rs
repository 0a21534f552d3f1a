//! Rate band within which no rate threshold is crossed.

/// While the rate for a weight of one is between these bounds, no flow needs an event, and none has to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calm {
    pub(crate) above: f64,
    pub(crate) below: f64,
}

/// Empty band: it must be determined anew.
pub(crate) const UNKNOWN: Calm = Calm { above: f64::INFINITY, below: f64::NEG_INFINITY };

impl Default for Calm {
    fn default() -> Self {
        Self { above: f64::NEG_INFINITY, below: f64::INFINITY }
    }
}
