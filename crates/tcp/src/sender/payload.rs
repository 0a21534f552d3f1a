//! Payload of segments: fresh data, pulled at the instant of sending, and the content of retransmissions.

use std::collections::VecDeque;
use std::ops::Range;

use timeous_core::{AduSource, Duration, Instant, PathState, PulledAdu};

use super::spurious::millis;

/// Delayed acknowledgement timeout of most receivers (Linux's `TCP_DELACK_MIN`).
pub(super) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// Chooses the content of segments.
///
/// Called at the instant of each transmission, and free to choose different content each time: TCP itself looks only at the length, which a
/// retransmission has to keep.
pub(crate) trait Payload: std::fmt::Debug + Send {
    /// Returns whether there may be data for a new segment.
    fn has_fresh(&mut self, now: Instant, source: &mut dyn AduSource) -> bool {
        source.has_queued(now)
    }

    /// Returns the expected size of the next new segment, if it can be smaller than the largest.
    fn next_size(&self, source: &dyn AduSource) -> Option<u64>;

    /// Appends the data of a new segment to `packet`; `None` if there is nothing to send now. The data follows the end of the stream so
    /// far.
    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: Room,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Fresh>;

    /// Appends the content of a retransmission of these stream offsets: exactly as many bytes as the range is long. Returns an ADU that is
    /// sent for the first time by that.
    fn again(
        &mut self,
        now: Instant,
        path: &PathState,
        span: Range<u64>,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu>;

    /// Returns whether this range is worth bundling with the data behind it, before its fate is known.
    fn may_bundle(&mut self, now: Instant, path: &PathState, span: Range<u64>, source: &mut dyn AduSource) -> bool {
        let _ = (now, path, span, source);
        true
    }

    /// Appends the data of these stream offsets as last sent.
    fn bundle(&self, span: &Range<u64>, packet: &mut Vec<u8>);

    /// Notes that the peer has this range, which need not consist of whole segments.
    fn is_held(&mut self, span: Range<u64>) {
        let _ = span;
    }

    /// Notes that a segment has arrived.
    fn arrived(&mut self, arrived: &Arrived) {
        let _ = arrived;
    }

    /// Releases everything below this stream offset, which is acknowledged.
    fn release(&mut self, below: u64);

    /// Returns the next ADU whose fate is known, besides those whose tokens were returned with segments.
    fn poll_settled(&mut self) -> Option<Settled> {
        None
    }

    /// Returns the counters of changed retransmissions.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// Ends the connection: fates not known yet are never reported.
    fn give_up(&mut self) {}
}

/// Maximum size of a new segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Limit in bytes by the peer's window and the segment size.
    pub(crate) segment: usize,
    /// Limit in bytes by the congestion window. A datagram that turns out to be longer is sent all the same.
    pub(crate) window: usize,
}

/// Data of a new segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    /// Length in the stream, in bytes.
    pub(crate) len: usize,
    /// The ADU that is sent with it for the first time.
    pub(crate) adu: Option<PulledAdu>,
    /// The source's token that this segment's acknowledgement settles in any case.
    pub(crate) token: Option<u64>,
}

/// Counters of changed retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Segments changed to another datagram.
    pub(crate) replaced: u64,
    /// Segments changed to padding.
    pub(crate) padded: u64,
    /// The path rejects changes: no more are made.
    pub(crate) refused: bool,
}

/// An ADU and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) token: u64,
    pub(crate) arrived: bool,
}

/// An arrived segment, with the evidence for which of its transmissions it was.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) span: Range<u64>,
    /// Time of this acknowledgement, and of the previous one.
    pub(crate) now: Instant,
    pub(crate) before: Instant,
    /// Minimum RTT.
    pub(crate) least: Duration,
    /// SND.UNA before the acknowledgement.
    pub(crate) una: u64,
    /// Its arrival triggered the acknowledgement, without delay.
    pub(crate) is_prompt: bool,
    /// Echoed time, to the millisecond (RFC 7323): the send time of the segment that advanced the peer's acknowledgement.
    pub(crate) echo: Option<Duration>,
}

impl Arrived {
    /// Returns the earliest possible arrival time: half of the minimum RTT before its acknowledgement, less the delay of a delayed
    /// acknowledgement; but after the previous acknowledgement was sent, which would have covered it.
    pub(crate) fn earliest(&self) -> Instant {
        let back = self.least / 2;
        let held = if self.is_prompt { Duration::ZERO } else { DELAYED_ACK };
        self.now.saturating_sub(back + held).max(self.before.saturating_sub(back))
    }

    /// Returns whether a transmission sent at `since` or later has arrived, of the data at `start`; `None`: unknown.
    ///
    /// The timestamp echo decides (as in RFC 3522), if the data begins at SND.UNA or below; beyond a gap there is no echo for it.
    pub(crate) fn was_sent_since(&self, since: Instant, start: u64) -> Option<bool> {
        let echo = self.echo.filter(|_| start <= self.una)?;
        let is_later = echo >= millis(since);
        // An echo of the same millisecond, too soon after `since` for an answer, may be for a transmission just before.
        (!is_later || since + self.least <= self.now).then_some(is_later)
    }
}

/// Ordinary TCP: the source's bytes, kept until they are acknowledged and retransmitted unchanged.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: VecDeque<u8>,
    /// Stream offset of the first byte.
    start: u64,
}

impl Payload for Kept {
    /// Only the last segment may be small: else segments would stay small for ever (RFC 1122 §4.2.3.4).
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
        // Across the end of the ring buffer, repeatedly.
        for n in 0..100_u64 {
            source.write(&[n as u8; 5]);
            assert_eq!(pull(&mut kept, &mut source, 5), [n as u8; 5]);
            assert_eq!(repeat(&mut kept, 8 + 5 * n..13 + 5 * n), [n as u8; 5]);
            kept.release(3 + 5 * n);
        }
    }
}
