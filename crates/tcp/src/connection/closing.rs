//! Close of this end's sending direction: the request, and the FIN (RFC 9293 §3.6, §3.10.4).

/// Close of the sending direction. Numbers are stream offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closing {
    /// The application has closed: nothing is sent beyond the queued data.
    is_requested: bool,
    /// Offset that acknowledges the FIN, once it was sent.
    fin: Option<u64>,
}

impl Closing {
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// Notes that the FIN was sent, and is acknowledged by `end`.
    pub(super) fn sent_fin(&mut self, end: u64) {
        self.fin = Some(end);
    }

    pub(super) fn is_fin_acked(&self, una: u64) -> bool {
        self.fin.is_some_and(|fin| una >= fin)
    }

    /// Returns the number of data bytes between two offsets: a FIN takes a sequence number, but is no byte.
    pub(super) fn data_bytes(&self, from: u64, to: u64) -> u64 {
        let end = self.fin.map_or(u64::MAX, |fin| fin - 1);
        to.min(end) - from.min(end)
    }
}
