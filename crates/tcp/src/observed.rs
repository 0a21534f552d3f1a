//! Passive observer of a TCP receiver on its own host: determines which incoming segments the host accepts, and the stream position of
//! their data.

use crate::segment::{Flags, Segment};
use crate::seq::Seq;

/// Acknowledgement numbers are taken up to this many bytes before the newest: those of segments that overtook each other. A kernel takes
/// as many as the peer's largest window (RFC 5961 §5.2); what is older only comes later, by the stream. Chosen by us: a higher value makes
/// a guess easier.
const ACK_AGE: u32 = 1 << 20;
/// Maximum payload of a sent segment, which is captured in part: the kernel's largest bundle (GSO).
const MAX_SENT: u32 = 1 << 16;

/// Receiver state derived from the acknowledgements that the host sends.
///
/// Only data that the host will accept is reported: within its window, with an acceptable acknowledgement (RFC 5961 §5.2), and not older by
/// timestamp than accepted data (RFC 7323 §5.3).
/// Stream positions count from the first acknowledgement that was seen; data before it is ignored.
#[derive(Clone, Debug)]
pub struct ObservedConnection {
    /// Window scale of the host.
    scale: u8,
    window: Option<ReceiveWindow>,
    /// TS.Recent, as far as it can be inferred.
    recent: Option<u32>,
    /// Acceptable acknowledgements: the newest, SND.UNA, and the upper bound of SND.NXT.
    acks: Option<(Seq, Seq)>,
}

#[derive(Clone, Copy, Debug)]
struct ReceiveWindow {
    /// Sequence number of stream position 0.
    base: Seq,
    /// Position up to which all data has arrived.
    next: u64,
    /// Right edge of the window.
    right: u64,
}

impl ObservedConnection {
    /// Creates an observer of a host with window scale `scale` (RFC 7323 §2.2), at most 14.
    pub fn new(scale: u8) -> Self {
        Self { scale: scale.min(14), window: None, recent: None, acks: None }
    }

    /// Processes a segment sent by the host; returns the position up to which all data has arrived.
    pub fn handle_sent(&mut self, segment: &Segment<'_>) -> Option<u64> {
        let ack = segment.header.ack?;
        if segment.has(Flags::RST) || segment.has(Flags::SYN) {
            return None;
        }
        let seq = segment.header.seq;
        let (una, next) = self.acks.unwrap_or((seq, seq));
        // A segment without data tells SND.NXT; of others, more may have been sent than was captured.
        let next = if segment.payload.is_empty() { seq.max(una) } else { next.max(seq + MAX_SENT) };
        self.acks = Some((una, next));
        let window = self.window.get_or_insert(ReceiveWindow { base: ack, next: 0, right: 0 });
        let at = window.next.checked_add_signed(window.offset(ack))?;
        window.next = window.next.max(at);
        window.right = window.right.max(at + (u64::from(segment.header.window) << self.scale));
        Some(window.next)
    }

    /// Processes an incoming segment; returns the position and bytes of its new data. `None`: it has none that the host accepts.
    pub fn handle_arriving<'a>(&mut self, segment: &Segment<'a>) -> Option<(u64, &'a [u8])> {
        let (window, (una, next)) = (self.window?, self.acks?);
        // Handshake and reset are left to the kernels.
        if segment.has(Flags::RST) || segment.has(Flags::SYN) {
            return None;
        }
        let by = window.offset(segment.header.seq);
        let end = window.next.checked_add_signed(by + segment.payload.len() as i64)?;
        // "the ACK value is considered acceptable only if it is in the range" (RFC 5961 §5.2); one without ACK is dropped.
        let ack =
            segment.header.ack.filter(|ack| ack.offset_from(una) >= -(ACK_AGE as i32) && ack.is_at_or_before(next))?;
        self.acks = Some((una.max(ack), next));
        if end > window.right || !self.is_recent(segment, by <= 0) || end <= window.next {
            return None;
        }
        match window.next.checked_add_signed(by) {
            Some(at) => Some((at, segment.payload)),
            // The data begins before the first acknowledgement.
            None => Some((0, &segment.payload[segment.payload.len() - end as usize..])),
        }
    }

    /// PAWS: returns whether the timestamp is not older than that of the last segment in order, which would be an old duplicate.
    fn is_recent(&mut self, segment: &Segment<'_>, in_order: bool) -> bool {
        match (segment.options.timestamps, self.recent) {
            (None, recent) => recent.is_none(),
            (Some(stamp), Some(recent)) if (stamp.value.wrapping_sub(recent) as i32) < 0 => false,
            (Some(stamp), _) => {
                if in_order {
                    self.recent = Some(stamp.value);
                }
                true
            }
        }
    }
}

impl ReceiveWindow {
    /// Returns the distance of `seq` from the next expected byte.
    fn offset(&self, seq: Seq) -> i64 {
        i64::from(seq.offset_from(self.base + self.next as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Header, Options, Timestamps};

    fn sent(ack: u32, window: u16) -> Segment<'static> {
        let header = Header { ack: Some(Seq::new(ack)), window, ..Header::new(2, 1, Seq::new(9)) };
        Segment { header, options: Options::default(), payload: &[] }
    }

    fn arriving(seq: u32, payload: &[u8], stamp: Option<u32>) -> Segment<'_> {
        let timestamps = stamp.map(|value| Timestamps { value, echo: 0 });
        let header = Header { ack: Some(Seq::new(9)), ..Header::new(1, 2, Seq::new(seq)) };
        Segment { header, options: Options { timestamps, ..Options::default() }, payload }
    }

    #[test]
    fn places_are_counted_from_the_first_acknowledgement_and_around_the_end_of_numbers() {
        let mut overheard = ObservedConnection::new(0);
        assert_eq!(overheard.handle_arriving(&arriving(7, b"before", None)), None);
        let first = u32::MAX - 5;
        assert_eq!(overheard.handle_sent(&sent(first, 1_000)), Some(0));
        assert_eq!(overheard.handle_arriving(&arriving(first, b"0123456789", None)), Some((0, &b"0123456789"[..])));
        assert_eq!(overheard.handle_arriving(&arriving(first.wrapping_sub(3), b"xyz01", None)), Some((0, &b"01"[..])));
        assert_eq!(overheard.handle_sent(&sent(first.wrapping_add(10), 1_000)), Some(10));
        assert_eq!(overheard.handle_arriving(&arriving(first.wrapping_add(5), b"56789", None)), None, "it is there");
        assert_eq!(overheard.handle_arriving(&arriving(14, b"a", None)), Some((20, &b"a"[..])));
        assert_eq!(overheard.handle_sent(&sent(first, 1_000)), Some(10), "an older acknowledgement takes nothing back");
    }

    #[test]
    fn the_stream_may_go_round_many_times() {
        let mut overheard = ObservedConnection::new(14);
        let step = 1_u32 << 29;
        for n in 0..40_u64 {
            let seq = (n as u32).wrapping_mul(step);
            assert_eq!(overheard.handle_sent(&sent(seq, u16::MAX)), Some(n << 29));
            let at = seq.wrapping_add(100);
            assert_eq!(overheard.handle_arriving(&arriving(at, b"x", None)), Some(((n << 29) + 100, &b"x"[..])));
        }
    }

    #[test]
    fn what_lies_outside_the_window_is_not_taken_and_the_window_is_shifted() {
        let mut overheard = ObservedConnection::new(2);
        overheard.handle_sent(&sent(1_000, 25));
        assert_eq!(overheard.handle_arriving(&arriving(1_099, b"x", None)), Some((99, &b"x"[..])));
        assert_eq!(overheard.handle_arriving(&arriving(1_099, b"xy", None)), None);
        assert_eq!(overheard.handle_arriving(&arriving(1_000_000, b"x", None)), None);
        assert_eq!(overheard.handle_arriving(&arriving(1_000_u32.wrapping_sub(1 << 30), b"x", None)), None);
        overheard.handle_sent(&sent(1_010, 10));
        assert_eq!(overheard.handle_arriving(&arriving(1_099, b"x", None)), Some((99, &b"x"[..])), "it never shrinks");
    }

    #[test]
    fn an_old_duplicate_within_the_window_is_known_by_its_timestamp() {
        let mut overheard = ObservedConnection::new(0);
        overheard.handle_sent(&sent(0, 60_000));
        assert!(overheard.handle_arriving(&arriving(0, b"x", Some(5))).is_some());
        assert!(overheard.handle_arriving(&arriving(100, b"x", Some(9))).is_some());
        assert!(
            overheard.handle_arriving(&arriving(50, b"x", Some(7))).is_some(),
            "overtaken, and not before the last"
        );
        assert_eq!(overheard.handle_arriving(&arriving(200, b"x", Some(4))), None);
        assert_eq!(overheard.handle_arriving(&arriving(200, b"x", None)), None, "they have timestamps");
    }

    #[test]
    fn a_segment_whose_acknowledgement_the_kernel_refuses_is_not_taken() {
        let mut overheard = ObservedConnection::new(0);
        overheard.handle_sent(&sent(0, 60_000));
        let with_ack = |ack: Option<u32>, stamp| {
            let mut segment = arriving(0, b"x", stamp);
            segment.header.ack = ack.map(Seq::new);
            segment
        };
        for ack in [None, Some(10), Some(1 << 31), Some(9_u32.wrapping_sub((1 << 20) + 1))] {
            assert_eq!(overheard.handle_arriving(&with_ack(ack, Some(1 << 30))), None, "{ack:?}");
        }
        assert!(overheard.handle_arriving(&with_ack(Some(9), Some(5))).is_some(), "nor is its timestamp");
        // The host sends data, of which the capture shows a part, and then an acknowledgement alone.
        let mut data = sent(0, 60_000);
        data.payload = b"part";
        overheard.handle_sent(&data);
        assert!(overheard.handle_arriving(&with_ack(Some(9 + 60_000), Some(5))).is_some());
        assert!(overheard.handle_arriving(&with_ack(Some(9), Some(5))).is_some(), "overtaken");
        assert!(overheard.handle_arriving(&with_ack(Some(9 + 66_000), Some(5))).is_none());
    }

    #[test]
    fn beginning_and_end_are_between_the_kernels() {
        let mut overheard = ObservedConnection::new(0);
        overheard.handle_sent(&sent(0, 60_000));
        for flag in [Flags::SYN, Flags::RST] {
            let mut segment = arriving(0, b"x", None);
            segment.header.flags = flag;
            assert_eq!(overheard.handle_arriving(&segment), None);
            let mut segment = sent(500, 60_000);
            segment.header.flags = flag;
            assert_eq!(overheard.handle_sent(&segment), None);
        }
    }
}
