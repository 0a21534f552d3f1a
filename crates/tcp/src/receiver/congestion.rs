//! Telling the sender of congestion marks (RFC 3168 §6.1.3).

use timeous_core::Ecn;

/// "Once … it sends an ECN-Echo … it continues to send it until it receives a CWR packet".
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Echo {
    on: bool,
}

impl Echo {
    /// A segment with data came; whether it brings a mark that the sender does not know of yet.
    pub(super) fn arrived(&mut self, ecn: Ecn, window_reduced: bool) -> bool {
        if window_reduced {
            self.on = false;
        }
        let is_news = ecn == Ecn::Ce && !self.on;
        self.on |= ecn == Ecn::Ce;
        is_news
    }

    /// Whether acknowledgements carry ECE.
    pub(super) const fn is_on(self) -> bool {
        self.on
    }
}
