//! The peer's receive window (RFC 9293 §3.8.6), and the segment size worth sending into it (§3.8.6.2.1).

use crate::seq::Seq;

/// The peer's window, in stream offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerWindow {
    /// Window scale of the peer (RFC 7323 §2.2).
    pub(crate) shift: u8,
    /// Right edge: the offset that must not be reached.
    edge: u64,
    size: u64,
    /// Largest window so far.
    greatest: u64,
    /// SND.WL1 and SND.WL2.
    updated_by: Option<(Seq, u64)>,
}

impl PeerWindow {
    /// Creates a window before the first segment.
    pub(crate) fn new() -> Self {
        Self { shift: 0, edge: 0, size: 0, greatest: 0, updated_by: None }
    }

    /// Updates the window by a segment, unless it is older than the last update (§3.10.7.4). Returns whether the window
    /// has changed.
    pub(crate) fn update(&mut self, seq: Seq, ack: u64, window: u64) -> bool {
        let is_newer = self.updated_by.is_none_or(|(wl1, wl2)| seq.is_after(wl1) || (seq == wl1 && wl2 <= ack));
        if !is_newer {
            return false;
        }
        let before = self.size;
        self.updated_by = Some((seq, ack));
        self.size = window;
        self.edge = ack + window;
        self.greatest = self.greatest.max(window);
        self.size != before
    }

    /// Returns the largest window so far.
    pub(crate) fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Returns the number of bytes that fit after `nxt`.
    pub(crate) fn room(&self, nxt: u64) -> u64 {
        self.edge.saturating_sub(nxt)
    }

    /// Returns the segment size worth sending to this peer: `mss`, unless its buffer holds less than two of them.
    pub(crate) fn segment(&self, mss: u64) -> u64 {
        mss.min((self.greatest / 2).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_segment_does_not_move_the_window() {
        let mut window = PeerWindow::new();
        assert!(window.update(Seq::new(10), 100, 5_000));
        assert_eq!(window.room(1_100), 4_000);
        assert!(!window.update(Seq::new(9), 300, 1), "an older sequence number");
        assert!(!window.update(Seq::new(10), 99, 1), "an older acknowledgement");
        assert!(window.update(Seq::new(10), 100, 6_000), "an update of the window alone");
        assert_eq!((window.room(1_100), window.room(9_999)), (5_000, 0));
    }

    #[test]
    fn a_small_buffer_gets_segments_of_half_its_size() {
        let mut window = PeerWindow::new();
        window.update(Seq::new(0), 0, 2_000);
        assert_eq!(window.segment(1_460), 1_000);
        window.update(Seq::new(0), 0, 4_000);
        window.update(Seq::new(0), 0, 500);
        assert_eq!(window.segment(1_460), 1_460, "what it once had room for it will have again");
    }
}
