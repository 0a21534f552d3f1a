//! What a segment carries: fresh data, pulled at the instant of sending, and what a retransmission repeats.

use std::collections::VecDeque;
use std::ops::Range;

use timeous_core::{AduSource, Duration, Instant, PathState, PulledAdu};

use super::spurious::millis;

/// So long most receivers hold an acknowledgement back that nothing else brings about (Linux's `TCP_DELACK_MIN`).
pub(super) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Decides what segments carry.
///
/// It is asked at the instant of each transmission, the first one and the repeated ones, and whoever implements it may
/// answer differently each time: TCP itself looks only at the length, which a retransmission has to keep.
pub(crate) trait Payload: std::fmt::Debug + Send {
    /// Whether there may be data for a new segment.
    fn has_fresh(&mut self, now: Instant, source: &mut dyn AduSource) -> bool {
        source.has_queued(now)
    }

    /// How large the next new segment is thought to be, if it can be smaller than the largest.
    fn next_size(&self, source: &dyn AduSource) -> Option<u64>;

    /// Appends the data of a new segment to `packet`; `None` if there is nothing to send now. What it appends follows the
    /// stream's end so far.
    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: Room,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Fresh>;

    /// Appends what the segment of these stream offsets carries this time: exactly as many bytes as the range is long.
    /// Gives an ADU that leaves for the first time by that.
    fn again(
        &mut self,
        now: Instant,
        path: &PathState,
        span: Range<u64>,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu>;

    /// Whether what this stretch carries is worth sending once more beside what follows it, before anything is known of it.
    fn may_bundle(&mut self, now: Instant, path: &PathState, span: Range<u64>, source: &mut dyn AduSource) -> bool {
        let _ = (now, path, span, source);
        true
    }

    /// Appends the data of these stream offsets as they left last.
    fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>);

    /// The peer says that it holds this range, which need not be that of whole segments.
    fn is_held(&mut self, span: Range<u64>) {
        let _ = span;
    }

    /// A segment has arrived.
    fn arrived(&mut self, arrived: &Arrived) {
        let _ = arrived;
    }

    /// Everything below this stream offset has arrived for good.
    fn release(&mut self, below: u64);

    /// The next ADU whose fate is known, besides those whose tokens it gave with segments.
    fn poll_settled(&mut self) -> Option<Settled> {
        None
    }

    /// What was sent again as something else.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// The connection ends: nobody will hear of anything that has no fate yet.
    fn give_up(&mut self) {}
}

/// How much a new segment may carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes, as far as the peer and the path's packets go.
    pub(crate) segment: usize,
    /// Bytes, as far as the congestion window goes. A datagram that turns out to be longer leaves all the same.
    pub(crate) window: usize,
}

/// The data of a new segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    /// How many bytes of the stream they take.
    pub(crate) len: usize,
    /// The ADU that leaves for the first time with them.
    pub(crate) adu: Option<PulledAdu>,
    /// The source's name for what is acknowledged with this segment, whatever else happens.
    pub(crate) token: Option<u64>,
}

/// What was sent again as something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Segments that got another datagram.
    pub(crate) replaced: u64,
    /// Segments that got padding.
    pub(crate) padded: u64,
    /// The path does not bear it: nothing is changed any more.
    pub(crate) refused: bool,
}

/// An ADU and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) token: u64,
    pub(crate) arrived: bool,
}

/// A segment has arrived, and what there is to tell by which of its transmissions it was.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) span: Range<u64>,
    /// When the acknowledgement came, and the one before it.
    pub(crate) now: Instant,
    pub(crate) before: Instant,
    /// The least round trip there was.
    pub(crate) least: Duration,
    /// What was acknowledged before.
    pub(crate) una: u64,
    /// Its arrival is what the peer answered, at once.
    pub(crate) is_prompt: bool,
    /// The time that the peer echoed, to the millisecond (RFC 7323): when that left which moved its acknowledgement.
    pub(crate) echo: Option<Duration>,
}

impl Arrived {
    /// When it arrived at the earliest: half of the least round trip before its acknowledgement, and as much earlier as the peer
    /// may have held that back. But it was not there when the acknowledgement before left, which would have told of it.
    pub(crate) fn earliest(&self) -> Instant {
        let back = self.least / 2;
        let held = if self.is_prompt { Duration::ZERO } else { DELAYED_ACK };
        self.now.saturating_sub(back + held).max(self.before.saturating_sub(back))
    }

    /// Whether a transmission arrived that left at `since` or later, of what begins at `start`; `None`: that is not known.
    ///
    /// Less than the least round trip ago it cannot have been. Else the echo tells (as RFC 3522 has it), if this is what
    /// the acknowledgement stood before; of what lies beyond a gap there is none.
    pub(crate) fn was_sent_since(&self, since: Instant, start: u64) -> Option<bool> {
        let echo = self.echo.filter(|_| start <= self.una)?;
        let is_later = echo >= millis(since);
        // What is too soon after `since` to be its answer, and echoes its millisecond, may have left just before.
        (!is_later || since + self.least <= self.now).then_some(is_later)
    }
}

/// TCP as it is: the source's bytes, kept until they are acknowledged and repeated as they were.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: VecDeque<u8>,
    /// The stream offset of the first byte.
    start: u64,
}

impl Payload for Kept {
    /// Only the last one may be small: else segments would stay small for ever (RFC 1122 §4.2.3.4).
    fn next_size(&self, source: &dyn AduSource) -> Option<u64> {
        source.waiting_bytes()
    }

    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: Room,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Fresh> {
        let header = packet.len();
        let mut adu = source.pull(now, path, room.segment.min(room.window), packet)?;
        adu.gather(source, packet);
        self.bytes.extend(&packet[header..]);
        Some(Fresh { len: adu.len, adu: Some(adu), token: Some(adu.token) })
    }

    fn again(
        &mut self,
        _: Instant,
        _: &PathState,
        span: Range<u64>,
        _: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu> {
        self.bundle(&span, packet);
        None
    }

    fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>) {
        let at = |offset: u64| usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let (from, to) = (at(span.start), at(span.end).min(self.bytes.len()));
        let (front, back) = self.bytes.as_slices();
        packet.extend_from_slice(&front[from.min(front.len())..to.min(front.len())]);
        packet.extend_from_slice(&back[from.saturating_sub(front.len())..to.saturating_sub(front.len())]);
    }

    fn release(&mut self, below: u64) {
        let gone = below.saturating_sub(self.start).min(self.bytes.len() as u64);
        self.bytes.drain(..gone as usize);
        self.start += gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamBuffer;

    fn pull(kept: &mut Kept, source: &mut StreamBuffer, room: usize) -> Vec<u8> {
        let mut packet = b"header".to_vec();
        let room = Room { segment: room, window: room };
        let fresh = kept.fresh(Instant::ZERO, &PathState::default(), room, source, &mut packet).unwrap();
        assert_eq!(fresh.len, packet.len() - 6);
        packet.split_off(6)
    }

    fn repeat(kept: &mut Kept, span: Range<u64>) -> Vec<u8> {
        let mut packet = Vec::new();
        let pulled = kept.again(Instant::ZERO, &PathState::default(), span, &mut StreamBuffer::new(0), &mut packet);
        assert_eq!(pulled, None);
        packet
    }

    #[test]
    fn what_was_pulled_can_be_repeated_until_it_is_released() {
        let (mut kept, mut source) = (Kept::default(), StreamBuffer::new(64));
        source.write(b"abcdefgh");
        assert_eq!(pull(&mut kept, &mut source, 3), b"abc");
        assert_eq!(pull(&mut kept, &mut source, 9), b"defgh");
        kept.release(2);
        assert_eq!(repeat(&mut kept, 2..5), b"cde");
        // Over the end of the ring inside, again and again.
        for n in 0..100_u64 {
            source.write(&[n as u8; 5]);
            assert_eq!(pull(&mut kept, &mut source, 5), [n as u8; 5]);
            assert_eq!(repeat(&mut kept, 8 + 5 * n..13 + 5 * n), [n as u8; 5]);
            kept.release(3 + 5 * n);
        }
    }
}
