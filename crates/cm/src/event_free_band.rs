//! Rate band within which no rate threshold is crossed.

/// While the rate for a weight of one is between these bounds, no flow needs an event, and none has to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFreeBand {
    pub(crate) above: f64,
    pub(crate) below: f64,
}

/// Empty band: it must be determined anew.
pub(crate) const UNKNOWN: EventFreeBand = EventFreeBand { above: f64::INFINITY, below: f64::NEG_INFINITY };

impl Default for EventFreeBand {
    fn default() -> Self {
        Self { above: f64::NEG_INFINITY, below: f64::INFINITY }
    }
}
