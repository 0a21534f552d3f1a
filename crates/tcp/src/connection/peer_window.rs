//! The peer's receive window (RFC 9293 §3.8.6): the segment size worth sending into it (§3.8.6.2.1), and probes of a closed one (§3.8.6.1).

use timeous_core::Duration;

use super::timers::backed_off;
use crate::segment::Header;
use crate::seq::Seq;

/// The peer's window, in stream offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerWindow {
    /// Window scale of the peer (RFC 7323 §2.2).
    shift: u8,
    /// Maximum payload of a segment, in bytes.
    payload: u64,
    /// Right edge: the offset that must not be reached.
    edge: u64,
    size: u64,
    /// Largest window so far.
    greatest: u64,
    /// SND.WL1 and SND.WL2.
    updated_by: Option<(Seq, u64)>,
    /// Probes sent since the window closed, and since the peer was last heard.
    probes: u32,
    unanswered: u32,
}

impl PeerWindow {
    /// Creates the window of a peer's `syn`.
    pub(super) fn new(syn: &Header, payload: u64, shift: u8) -> Self {
        let mut window = Self { payload, ..Self::default() };
        // "The window field in a segment where the SYN bit is set … MUST NOT be scaled" (RFC 7323 §2.2).
        window.update(syn, 0);
        Self { shift, ..window }
    }

    /// Updates the window by a segment, unless it is older than the last update (§3.10.7.4). Returns whether the window
    /// has changed.
    pub(super) fn update(&mut self, header: &Header, ack: u64) -> bool {
        self.unanswered = 0;
        let seq = header.seq;
        let is_newer = self.updated_by.is_none_or(|(wl1, wl2)| seq.is_after(wl1) || (seq == wl1 && wl2 <= ack));
        if !is_newer {
            return false;
        }
        let before = self.size;
        self.updated_by = Some((seq, ack));
        self.size = u64::from(header.window) << self.shift;
        self.edge = ack + self.size;
        self.greatest = self.greatest.max(self.size);
        self.size != before
    }

    /// Returns whether an acknowledgement of the offset `ack` is plausible: an ACK older than any window is not accepted
    /// (RFC 5961 §5.2), nor one of data that was not sent.
    pub(super) fn accepts(&self, ack: i64, una: u64, nxt: u64) -> bool {
        ack <= nxt as i64 && ack >= una as i64 - self.greatest as i64
    }

    /// Returns whether a segment fits after `nxt`.
    pub(super) fn fits_segment(&self, nxt: u64) -> bool {
        self.edge.saturating_sub(nxt) >= self.segment()
    }

    /// Returns the segment size worth sending to this peer: the maximum, unless its buffer holds less than two of them.
    pub(super) fn segment(&self) -> u64 {
        self.payload.min((self.greatest / 2).max(1))
    }

    /// Notes that the window is open.
    pub(super) fn opened(&mut self) {
        self.probes = 0;
    }

    /// Counts a probe; returns `false` if it is one more than `limit` without an answer.
    pub(super) fn probe(&mut self, limit: u32) -> bool {
        let may_probe = self.unanswered < limit;
        self.unanswered += u32::from(may_probe);
        self.probes += u32::from(may_probe);
        may_probe
    }

    /// Returns how long to wait before the next probe: `base`, with back-off.
    pub(super) fn probe_timeout(&self, base: Option<Duration>) -> Duration {
        backed_off(base.unwrap_or_default(), self.probes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(seq: u32, window: u16) -> Header {
        Header { window, ..Header::new(1, 2, Seq::new(seq)) }
    }

    #[test]
    fn an_older_segment_does_not_move_the_window() {
        let mut window = PeerWindow { payload: 1_000, ..PeerWindow::default() };
        assert!(window.update(&header(10, 5_000), 100));
        assert!(window.fits_segment(4_100) && !window.fits_segment(4_101));
        assert!(!window.update(&header(9, 1), 300), "an older sequence number");
        assert!(!window.update(&header(10, 1), 99), "an older acknowledgement");
        assert!(window.update(&header(10, 6_000), 100), "an update of the window alone");
        assert!(window.fits_segment(5_100) && !window.fits_segment(9_999));
    }

    #[test]
    fn a_small_buffer_gets_segments_of_half_its_size() {
        let mut window = PeerWindow::new(&header(0, 2_000), 1_460, 0);
        assert_eq!(window.segment(), 1_000);
        window.update(&header(0, 4_000), 0);
        window.update(&header(0, 500), 0);
        assert_eq!(window.segment(), 1_460, "what it once had room for it will have again");
    }
}
