//! Records on the wire, as a stream was last sent: which of them each segment completes.

use std::collections::VecDeque;

use timeous_tcp::record::{Datagram, Framing, Limits, Ordered};

/// Bytes of the stream that are kept, for retransmissions: more than the greatest receive window of any experiment.
const KEPT: usize = 8 << 20;

/// The stream as last sent, from `start` on.
#[derive(Debug, Default)]
pub(super) struct SentRecords {
    start: u64,
    bytes: VecDeque<u8>,
}

impl SentRecords {
    /// Notes the segment at this offset, and delivers each datagram whose record ends in it, wherever it begins.
    pub(super) fn sent(&mut self, from: u64, segment: &[u8], framing: Framing, deliver: impl FnMut(Datagram<'_>)) {
        let Some(at) = from.checked_sub(self.start).and_then(|at| usize::try_from(at).ok()) else { return };
        let end = at + segment.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        for (place, byte) in self.bytes.range_mut(at..end).zip(segment) {
            *place = *byte;
        }
        let zero = self.bytes.range(..at).rposition(|&byte| byte == 0).unwrap_or(0);
        let begun: Vec<u8> = self.bytes.range(zero..end).copied().collect();
        Ordered::new(framing, Limits::default().longest).push(&begun, deliver);
        let excess = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..excess);
        self.start += excess as u64;
    }
}

#[cfg(test)]
mod tests {
    use timeous_tcp::record::numbered;

    use super::*;

    /// Found by reading: with one place for a record that was cut, a retransmission between its two segments lost it.
    #[test]
    fn a_record_in_two_segments_leaves_with_the_second_each_time_that_is_sent() {
        let mut wire = Vec::new();
        (0..4).for_each(|number| numbered(2, number, &[number as u8; 290], &mut wire));
        let segments: Vec<&[u8]> = wire.chunks(500).collect();
        let mut sent = SentRecords::default();
        let mut left = |index: usize| {
            let mut numbers = Vec::new();
            let deliver = |datagram: Datagram<'_>| numbers.extend(datagram.number);
            sent.sent(500 * index as u64, segments[index], Framing::Numbered, deliver);
            numbers
        };
        assert_eq!([left(0), left(1)], [vec![0], vec![1, 2]]);
        assert_eq!([left(0), left(2)], [vec![0], vec![3]], "the first again, and what ends in the third");
        assert_eq!([left(1), left(1), left(2)], [vec![1, 2], vec![1, 2], vec![3]]);
    }
}
