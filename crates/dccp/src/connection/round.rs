//! Windows of data, one after the other (RFC 4341 §6.1.2).

use crate::seq::Seq;

/// One window of data, from its first packet until that has been acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Its first packet.
    start: Option<Seq>,
    /// Data packets sent in it.
    data: u64,
}

impl Round {
    pub(super) fn on_data_sent(&mut self, seq: Seq) {
        self.start.get_or_insert(seq);
        self.data += 1;
    }

    /// Whether `ack` ends the window: gives the data packets sent in it then, and begins the next.
    pub(super) fn end(&mut self, ack: Seq) -> Option<u64> {
        self.start.filter(|&start| !ack.is_before(start))?;
        Some(std::mem::take(self).data)
    }
}
