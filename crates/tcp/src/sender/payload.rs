//! What a segment carries: fresh data, pulled at the instant of sending, and what a retransmission repeats.

use std::collections::VecDeque;
use std::ops::Range;

use timeous_core::{AduSource, Instant, PathState, PulledAdu};

/// Decides what segments carry.
///
/// It is asked at the instant of each transmission, the first one and the repeated ones, and whoever implements it may
/// answer differently each time: TCP itself looks only at the length, which a retransmission has to keep.
pub(crate) trait Payload: std::fmt::Debug + Send {
    /// Appends the data of a new segment to `packet`, at most `room` bytes; `None` if there is nothing to send now.
    /// What it appends follows the stream's end so far.
    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu>;

    /// Appends what the segment of these stream offsets carries this time: exactly as many bytes as the range is long.
    fn again(&mut self, span: Range<u64>, packet: &mut Vec<u8>);

    /// Everything below this stream offset has arrived for good.
    fn release(&mut self, below: u64);
}

/// TCP as it is: the source's bytes, kept until they are acknowledged and repeated as they were.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: VecDeque<u8>,
    /// The stream offset of the first byte.
    start: u64,
}

impl Payload for Kept {
    fn fresh(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<PulledAdu> {
        let header = packet.len();
        let mut adu = source.pull(now, path, room, packet)?;
        adu.gather(source, packet);
        self.bytes.extend(&packet[header..]);
        Some(adu)
    }

    fn again(&mut self, span: Range<u64>, packet: &mut Vec<u8>) {
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
        let adu = kept.fresh(Instant::ZERO, &PathState::default(), room, source, &mut packet).unwrap();
        assert_eq!(adu.len, packet.len() - 6);
        packet.split_off(6)
    }

    #[test]
    fn what_was_pulled_can_be_repeated_until_it_is_released() {
        let (mut kept, mut source) = (Kept::default(), StreamBuffer::new(64));
        source.write(b"abcdefgh");
        assert_eq!(pull(&mut kept, &mut source, 3), b"abc");
        assert_eq!(pull(&mut kept, &mut source, 9), b"defgh");
        kept.release(2);
        let mut again = Vec::new();
        kept.again(2..5, &mut again);
        assert_eq!(again, b"cde");
        // Over the end of the ring inside, again and again.
        for n in 0..100_u64 {
            source.write(&[n as u8; 5]);
            assert_eq!(pull(&mut kept, &mut source, 5), [n as u8; 5]);
            let mut again = Vec::new();
            kept.again(8 + 5 * n..13 + 5 * n, &mut again);
            assert_eq!(again, [n as u8; 5]);
            kept.release(3 + 5 * n);
        }
    }
}
