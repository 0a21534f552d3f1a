//! Congestion control of acknowledgements: lost packets of the peer, and the Ack Ratio (RFC 4341 §6.1).

use super::sender::NUMDUPACK;
use crate::seq::Seq;

/// Maximum number of gaps tracked; further ones are ignored. Chosen by us: a higher value takes more memory, and one
/// loss is enough to know.
const MAX_GAPS: usize = 16;

/// Loss detection on the peer's sequence numbers (RFC 4341 §6.1.1).
///
/// "The sender SHOULD assume, for the purpose of Ack Ratio calculation, that every lost packet was a non-data packet"
/// unless NDP Counts say better.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerGaps {
    /// First and last missing number, and number of later packets that have arrived.
    gaps: Vec<(Seq, Seq, usize)>,
}

impl PeerGaps {
    /// Notes a received packet; `newest` is the greatest number before it. Returns whether a loss is certain now.
    pub(crate) fn on_packet(&mut self, seq: Seq, newest: Seq) -> bool {
        self.gaps.retain(|&(first, last, _)| !(first == seq && last == seq));
        for (first, last, later) in &mut self.gaps {
            if seq == *first {
                *first = first.next();
            } else if seq == *last {
                *last = last.prev();
            } else if seq.is_after(*last) {
                *later += 1;
            }
        }
        if seq.is_after(newest.next()) && self.gaps.len() < MAX_GAPS {
            self.gaps.push((newest.next(), seq.prev(), 1));
        }
        let before = self.gaps.len();
        self.gaps.retain(|&(_, _, later)| later < NUMDUPACK);
        self.gaps.len() < before
    }
}

/// Ack Ratio: data packets per acknowledgement that the sender asks for.
#[derive(Clone, Debug)]
pub(crate) struct AckRatio {
    ratio: u64,
    /// Whether each packet is to be acknowledged, since the peer may not acknowledge fewer than the ratio.
    each: bool,
    /// Consecutive windows without a lost acknowledgement.
    clean_windows: u64,
    lost_in_window: bool,
    /// First data packet of the current window of data, which ends when that is acknowledged (RFC 4341 §6.1.2).
    window_start: Option<Seq>,
    /// Data packets sent in the window.
    window_data: u64,
}

impl Default for AckRatio {
    fn default() -> Self {
        let (each, lost_in_window) = (false, false);
        Self { ratio: Self::INITIAL, each, clean_windows: 0, lost_in_window, window_start: None, window_data: 0 }
    }
}

impl AckRatio {
    /// Initial ratio, in data packets per acknowledgement (RFC 4341 §3.1: "Ack Ratio defaults to two").
    pub(crate) const INITIAL: u64 = 2;
    /// Window from which the data in flight are sure to complete a pair that the peer acknowledges, in packets: two
    /// pairs. Chosen by us: a higher value asks for each acknowledgement for longer (docs/design/dccp.md).
    const MIN_PAIRED_WINDOW: u64 = 4;

    /// Notes a sent data packet.
    pub(crate) fn on_data_sent(&mut self, seq: Seq) {
        self.window_start.get_or_insert(seq);
        self.window_data += 1;
    }

    /// Notes an acknowledgement. Returns the ratio from now on.
    pub(crate) fn on_ack(&mut self, ack: Seq) -> u64 {
        if self.window_start.is_some_and(|start| !ack.is_before(start)) {
            self.window_start = None;
            let window = std::mem::take(&mut self.window_data);
            self.on_window(window);
        }
        self.ratio()
    }

    /// Notes a lost packet of the peer's, or an acknowledgement with an ECN mark.
    pub(crate) fn on_lost_ack(&mut self) {
        self.lost_in_window = true;
    }

    fn ratio(&self) -> u64 {
        if self.each { 1 } else { self.ratio }
    }

    /// Notes a timeout with `open` data packets in flight. A peer should acknowledge fewer than the ratio after a delay
    /// (RFC 4340 §11.3), but Linux does not: a window of one packet would time out again and again.
    pub(crate) fn on_timeout(&mut self, open: usize) {
        self.each |= (open as u64) < self.ratio;
    }

    /// Notes an acknowledged window of `window` data packets (RFC 4341 §6.1.2).
    fn on_window(&mut self, window: u64) {
        let old = self.ratio;
        if std::mem::take(&mut self.lost_in_window) {
            self.ratio = old.saturating_mul(2);
            self.clean_windows = 0;
        } else if old > Self::INITIAL {
            self.clean_windows += 1;
            if self.clean_windows >= window / (old * old - old) {
                self.ratio -= 1;
                self.clean_windows = 0;
            }
        }
        self.each &= window < Self::MIN_PAIRED_WINDOW;
        // "Ack Ratio does not exceed cwnd/2, rounded up, except that Ack Ratio 2 is always acceptable"; 2 is also the
        // minimum for a peer with a delayed-acknowledgement timer.
        self.ratio = self.ratio.min(window.div_ceil(2)).clamp(Self::INITIAL, u64::from(u16::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_certain_after_three_later_packets() {
        let mut gaps = PeerGaps::default();
        let seq = Seq::new;
        assert!(!gaps.on_packet(seq(5), seq(3)), "4 is missing");
        assert!(!gaps.on_packet(seq(6), seq(5)));
        assert!(gaps.on_packet(seq(7), seq(6)));
        assert!(!gaps.on_packet(seq(8), seq(7)), "told once");
    }

    #[test]
    fn a_gap_that_is_filled_in_time_is_none() {
        let mut gaps = PeerGaps::default();
        let seq = Seq::new;
        gaps.on_packet(seq(6), seq(3));
        assert!(!gaps.on_packet(seq(4), seq(6)));
        assert!(!gaps.on_packet(seq(5), seq(6)));
        for n in 7..20 {
            assert!(!gaps.on_packet(seq(n), seq(n - 1)));
        }
    }

    fn after_window(ratio: &mut AckRatio, window: u64) -> u64 {
        ratio.on_window(window);
        ratio.ratio()
    }

    #[test]
    fn lost_acknowledgements_double_the_ratio_and_clean_windows_lower_it() {
        let mut ratio = AckRatio::default();
        ratio.on_lost_ack();
        assert_eq!(after_window(&mut ratio, 24), 4);
        // cwnd / (R² - R) = 24 / 12 windows.
        assert_eq!(after_window(&mut ratio, 24), 4);
        assert_eq!(after_window(&mut ratio, 24), 3);
        for _ in 0..3 {
            assert_eq!(after_window(&mut ratio, 24), 3);
        }
        assert_eq!(after_window(&mut ratio, 24), 2);
        assert_eq!(after_window(&mut ratio, 24), 2);
    }

    #[test]
    fn a_peer_that_waits_for_another_packet_is_asked_to_acknowledge_each() {
        let mut ratio = AckRatio::default();
        ratio.on_timeout(2);
        assert_eq!(ratio.ratio(), 2, "two packets are enough for an acknowledgement: they were lost, or it was");
        ratio.on_timeout(1);
        assert_eq!(ratio.ratio(), 1);
        assert_eq!(after_window(&mut ratio, 3), 1);
        assert_eq!(after_window(&mut ratio, 4), 2);
    }

    #[test]
    fn the_ratio_never_exceeds_half_the_window() {
        let mut ratio = AckRatio::default();
        for _ in 0..9 {
            ratio.on_lost_ack();
            ratio.on_window(15);
        }
        assert_eq!(ratio.ratio(), 8);
        assert_eq!(after_window(&mut ratio, 3), 2, "two is always acceptable");
    }
}
