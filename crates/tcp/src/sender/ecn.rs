//! ECN at the sender: one reduction per window, and the CWR that reports it (RFC 3168 §6.1.2).

/// ECN state: negotiated or not, and the extent of the last reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnSender {
    agreed: bool,
    /// Offset behind which the next reduction is allowed: "the TCP sender should not react again to an indication of
    /// congestion within the same window of data".
    reduced_to: u64,
    /// The window was reduced, and the next new data carries CWR.
    owes_cwr: bool,
}

impl EcnSender {
    pub(super) fn new(agreed: bool) -> Self {
        Self { agreed, reduced_to: 0, owes_cwr: false }
    }

    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Processes ECE in an acknowledgement of `una`. Returns whether the window has to be reduced.
    pub(super) fn on_ack(&mut self, ece: bool, una: u64, nxt: u64) -> bool {
        let reduces = self.agreed && ece && una > self.reduced_to;
        if reduces {
            self.reduced(nxt);
        }
        reduces
    }

    /// "When an ECN-Capable TCP sender reduces its congestion window for any reason … the TCP sender sets the CWR flag
    /// in the TCP header of the first new data packet sent after the window reduction".
    pub(super) fn reduced(&mut self, nxt: u64) {
        self.reduced_to = nxt;
        self.owes_cwr = self.agreed;
    }

    /// Returns whether the latest reduction covers the window of the data at `start`.
    pub(super) fn is_answered(&self, start: u64) -> bool {
        start < self.reduced_to
    }

    /// Returns whether new data carries CWR, once per reduction.
    pub(crate) fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.owes_cwr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_reduced_once_and_the_peer_told_once() {
        let mut ecn = EcnSender::new(true);
        assert!(ecn.on_ack(true, 1_000, 9_000));
        assert!(!ecn.on_ack(true, 9_000, 12_000), "still of the window that was reduced");
        assert!(ecn.take_cwr() && !ecn.take_cwr());
        assert!(ecn.on_ack(true, 9_001, 15_000));
        assert!(!EcnSender::new(false).on_ack(true, 5, 9), "not agreed");
    }
}
