//! Sequence number variables and validity windows of a connection (RFC 4340 §7).

use crate::features::{Feature, Features};
use crate::packet::PacketType;
use crate::seq::Seq;

/// Sequence Window of new connections, in packets (RFC 4340 §7.5.2).
pub(crate) const INITIAL_WINDOW: u64 = 100;

/// Maximum Sequence Window, in packets. Chosen by us: 2^22 of 1200 bytes are 5 GB in flight. A higher value would only
/// help an attacker who guesses numbers (RFC 4340 §7.5.5).
pub(super) const MAX_SEQUENCE_WINDOW: u64 = 1 << 22;

/// Packets after which the validity windows are no longer cut off at the initial numbers (RFC 4340 §7.5.1): later the
/// numbers may wrap round to them. Chosen by us, far from both.
const CUTOFF_PACKETS: u64 = 1 << 32;

/// ISS, GSS, GAR; ISR, GSR, OSR; the widths of the validity windows.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    sent: Reach,
    received: Option<Reach>,
    gar: Seq,
    /// OSR: the number of the packet that opened the connection (RFC 4340 §8.5).
    opened: Option<Seq>,
    /// W': our Sequence Window, which bounds the Acknowledgement Numbers accepted here.
    window_sent: u64,
    /// W: the peer's Sequence Window, which bounds the Sequence Numbers accepted here.
    window_received: u64,
    /// Consecutive packets sent without data, for NDP Count (§7.7).
    ndp_run: u64,
}

/// Initial and greatest sequence number of one direction.
#[derive(Clone, Copy, Debug)]
struct Reach {
    initial: Seq,
    greatest: Seq,
    is_beginning: bool,
}

impl Reach {
    fn advance(&mut self, seq: Seq) {
        self.greatest = self.greatest.max(seq);
        if self.greatest.distance_from(self.initial) > CUTOFF_PACKETS && self.greatest != self.initial.prev() {
            self.is_beginning = false;
        }
    }

    /// `max(low, initial)`, at the beginning of the connection.
    fn cut_off(&self, low: Seq) -> Seq {
        if self.is_beginning { low.max(self.initial) } else { low }
    }
}

impl Sequence {
    /// Creates the variables of a connection whose first packet gets the number `iss`.
    pub(crate) fn new(iss: Seq) -> Self {
        Self {
            sent: Reach { initial: iss, greatest: iss.prev(), is_beginning: true },
            received: None,
            gar: iss,
            opened: None,
            window_sent: INITIAL_WINDOW,
            window_received: INITIAL_WINDOW,
            ndp_run: 0,
        }
    }

    /// Allocates the next packet's number, which becomes GSS.
    pub(crate) fn next(&mut self) -> Seq {
        let seq = self.sent.greatest.next();
        self.sent.advance(seq);
        seq
    }

    /// Number that the next packet will get.
    pub(crate) fn upcoming(&self) -> Seq {
        self.sent.greatest.next()
    }

    /// ISS and, once a packet has arrived, ISR.
    pub(crate) fn initials(&self) -> (Seq, Option<Seq>) {
        (self.sent.initial, self.received.map(|received| received.initial))
    }

    pub(crate) fn ndp_run(&self) -> u64 {
        self.ndp_run
    }

    pub(crate) fn count_ndp(&mut self, carries_data: bool) {
        self.ndp_run = if carries_data { 0 } else { self.ndp_run + 1 };
    }

    pub(crate) fn set_windows(&mut self, features: &Features) {
        self.window_sent = features.local(Feature::SequenceWindow);
        self.window_received = features.remote(Feature::SequenceWindow);
    }

    /// Returns a Sequence Window wider than `current` if that is too narrow: "about five times the maximum number of
    /// packets it expects to send in a round-trip time" (RFC 4340 §7.5.2), estimated by the unacknowledged packets,
    /// pure acknowledgements included. Early, since the answer takes a round trip; never narrower: a pause should not
    /// desynchronize the connection later.
    pub(crate) fn wider_window(&self, current: u64) -> Option<u64> {
        let open = self.sent.greatest.distance_from(self.gar);
        let wanted = (open * 5).next_power_of_two().min(MAX_SEQUENCE_WINDOW);
        (open * 4 > current && wanted > current).then_some(wanted)
    }

    /// Whether more packets in flight than those of `span` numbers could push their acknowledgements out of the window
    /// (§7.5.1).
    pub(crate) fn is_full(&self, span: u64) -> bool {
        span >= self.window_sent * 3 / 4
    }

    /// Whether an acknowledgement sent now will be in the peer's window on arrival (§7.5.1), even if the peer sends up
    /// to three round trips' worth, of `pace` numbers each, meanwhile. Linux keeps windows too small for its own
    /// acknowledgements and drops data with one outside of them; it always takes data without one.
    pub(crate) fn is_ack_timely(&self, pace: u64) -> bool {
        pace * 3 < self.window_received
    }

    /// Notes the number of the packet that opened the connection.
    pub(crate) fn open(&mut self, by: Seq) {
        self.opened = Some(by);
    }

    /// Whether a packet is no older than the one that opened the connection.
    pub(crate) fn is_after_opening(&self, seq: Seq) -> bool {
        self.opened.is_some_and(|opened| !seq.is_before(opened))
    }

    /// GSS.
    pub(crate) fn gss(&self) -> Seq {
        self.sent.greatest
    }

    /// GSR, or zero before the first packet has arrived (RFC 4340 §8.1.1).
    pub(crate) fn gsr(&self) -> Seq {
        self.received.map_or(Seq::new(0), |received| received.greatest)
    }

    /// Notes the number of the peer's first packet (steps 3 and 4 of RFC 4340 §8.5).
    pub(crate) fn begin_receiving(&mut self, isr: Seq) {
        self.received = Some(Reach { initial: isr, greatest: isr, is_beginning: true });
    }

    /// Whether `ack` is in AWL..=AWH (RFC 4340 §7.5.1).
    pub(crate) fn is_ack_valid(&self, ack: Seq) -> bool {
        let low = self.sent.cut_off(self.sent.greatest + 1 - self.window_sent);
        ack.is_in_window(low, self.sent.greatest)
    }

    /// Whether a packet passes steps 5 and 6 of RFC 4340 §8.5. On an `active` connection Syncs are checked like other
    /// packets (§7.5.3).
    pub(crate) fn is_valid(&self, packet: PacketType, seq: Seq, ack: Option<Seq>, active: bool) -> bool {
        let Some(received) = &self.received else { return false };
        let gsr = received.greatest;
        let low = received.cut_off(gsr + 1 - self.window_received / 4);
        let high = gsr + (3 * self.window_received).div_ceil(4);
        let ack_valid = ack.is_none_or(|ack| self.is_ack_valid(ack));
        match packet {
            PacketType::CloseReq | PacketType::Close | PacketType::Reset => {
                let not_old = ack.is_none_or(|ack| !ack.is_before(self.gar));
                seq.is_after(gsr) && seq.is_in_window(low, high) && ack_valid && not_old
            }
            PacketType::Sync | PacketType::SyncAck if !active => !seq.is_before(low) && ack_valid,
            _ => seq.is_in_window(low, high) && ack_valid,
        }
    }

    /// Updates the variables for a valid packet: GSR, and GAR unless it is a Sync.
    pub(crate) fn accept(&mut self, packet: PacketType, seq: Seq, ack: Option<Seq>) {
        if let Some(received) = &mut self.received {
            received.advance(seq);
        }
        if let Some(ack) = ack.filter(|_| packet != PacketType::Sync) {
            self.gar = self.gar.max(ack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(gss: u64, gsr: u64) -> Sequence {
        let mut sequence = Sequence::new(Seq::new(gss));
        sequence.next();
        sequence.begin_receiving(Seq::new(gsr));
        sequence
    }

    #[test]
    fn the_window_is_a_quarter_before_and_three_quarters_after() {
        let mut sequence = at(1, 1_000);
        sequence.accept(PacketType::Data, Seq::new(1_070), None);
        let data = |seq| sequence.is_valid(PacketType::Data, Seq::new(seq), None, true);
        // W = 100: GSR - 24 up to GSR + 75.
        assert!(data(1_046) && data(1_145));
        assert!(!data(1_045) && !data(1_146));
    }

    #[test]
    fn at_the_beginning_nothing_before_the_initial_numbers_is_valid() {
        let sequence = at(50, 1_000);
        assert!(!sequence.is_valid(PacketType::Data, Seq::new(999), None, true));
        assert!(!sequence.is_ack_valid(Seq::new(49)));
        assert!(sequence.is_ack_valid(Seq::new(50)));
        assert!(!sequence.is_ack_valid(Seq::new(51)));
    }

    #[test]
    fn what_ends_a_connection_must_be_newer_than_all_else() {
        let mut sequence = at(1, 1_000);
        sequence.next();
        sequence.accept(PacketType::Ack, Seq::new(1_001), Some(Seq::new(2)));
        for packet in [PacketType::Close, PacketType::CloseReq, PacketType::Reset] {
            assert!(!sequence.is_valid(packet, Seq::new(1_001), Some(Seq::new(2)), true));
            assert!(!sequence.is_valid(packet, Seq::new(1_002), Some(Seq::new(1)), true), "before GAR");
            assert!(sequence.is_valid(packet, Seq::new(1_002), Some(Seq::new(2)), true));
        }
    }

    #[test]
    fn only_an_idle_connection_takes_a_sync_from_far_ahead() {
        let sequence = at(1, 1_000);
        let far = Seq::new(1_000_000);
        for packet in [PacketType::Sync, PacketType::SyncAck] {
            assert!(sequence.is_valid(packet, far, Some(Seq::new(1)), false));
            assert!(!sequence.is_valid(packet, far, Some(Seq::new(1)), true));
            assert!(!sequence.is_valid(packet, Seq::new(900), Some(Seq::new(1)), false), "before SWL");
            assert!(!sequence.is_valid(packet, far, Some(Seq::new(7)), false), "never sent");
        }
    }

    #[test]
    fn a_sync_does_not_move_gar() {
        let mut sequence = at(1, 1_000);
        sequence.next();
        sequence.accept(PacketType::Sync, Seq::new(1_001), Some(Seq::new(2)));
        assert!(sequence.is_valid(PacketType::Close, Seq::new(1_002), Some(Seq::new(1)), true));
    }
}
