//! ECN echo: the receiver reports congestion marks to the sender (RFC 3168 §6.1.3).

use timeous_core::Ecn;

/// State of the ECN echo: ECE is set from the first mark until a CWR arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    on: bool,
}

impl Echo {
    /// Takes a data segment; returns whether its mark is the first since the last CWR.
    pub(super) fn arrived(&mut self, ecn: Ecn, window_reduced: bool) -> bool {
        if window_reduced {
            self.on = false;
        }
        let is_news = ecn == Ecn::Ce && !self.on;
        self.on |= ecn == Ecn::Ce;
        is_news
    }

    /// Returns whether acknowledgements carry ECE.
    pub(super) const fn is_on(self) -> bool {
        self.on
    }
}
