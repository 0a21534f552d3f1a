//! Link capture of a stream: for each stretch of bytes that arrived at the link, the datagram or
//! padding it belongs to. Bytes that the link then dropped are included: the sender has sent them.

use std::collections::VecDeque;
use std::path::Path;

use etherparse::{PacketHeaders, TransportHeader};
use timeous::core::{Duration, Instant};
use timeous_host::stamp;
use timeous_tcp::record::{Framing, Ordered};
use timeous_testbed::machine::arrivals;

use super::plan::PORT;
use crate::experiment::RunError;

/// Content of a stretch of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamContent {
    /// Record of a datagram, by its number.
    Datagram(u64),
    /// Padding, and zeros between records.
    Padding,
    /// Invalid record: mixed from two versions, or never finished.
    Torn,
}

/// Bytes of the stream that arrived at the link, for the first time or as a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedBytes {
    pub(crate) at: Instant,
    pub(crate) what: StreamContent,
    pub(crate) bytes: u64,
    /// Whether it is a retransmission.
    pub(crate) again: bool,
}

/// Reads a capture whose clock is `ahead` of ours, of connections with these framings.
///
/// # Errors
/// [`RunError::Machine`] if the file is no capture.
pub(super) fn read(path: &Path, ahead: Duration, framings: Vec<Framing>) -> Result<Vec<CarriedBytes>, RunError> {
    let mut stream = Stream { framings: framings.into(), ..Stream::default() };
    arrivals(path, ahead, |at, packet, _| stream.packet(at, packet))?;
    Ok(stream.finish())
}

/// Byte stream as in the segments that arrived last.
#[derive(Debug, Default)]
struct Stream {
    /// Sequence number of the first byte.
    first: Option<u32>,
    /// Framing of this connection, and of the following ones.
    framing: Framing,
    framings: VecDeque<Framing>,
    image: Vec<u8>,
    /// Start of each unfinished record, and its stretches so far.
    unfinished: Vec<(usize, CarriedBytes)>,
    carried: Vec<CarriedBytes>,
}

impl Stream {
    fn packet(&mut self, at: Instant, packet: &[u8]) {
        let Ok(headers) = PacketHeaders::from_ip_slice(packet) else { return };
        let Some(TransportHeader::Tcp(header)) = &headers.transport else { return };
        if header.destination_port != PORT {
            return;
        }
        if header.syn && self.first != Some(header.sequence_number.wrapping_add(1)) {
            // A SYN starts another connection.
            self.first = Some(header.sequence_number.wrapping_add(1));
            self.carried.extend(self.unfinished.drain(..).map(|(_, carried)| carried));
            self.image.clear();
            self.framing = self.framings.pop_front().unwrap_or_default();
        }
        // A stream is far shorter than 4 GB.
        let Some(first) = self.first else { return };
        self.segment(at, header.sequence_number.wrapping_sub(first) as usize, headers.payload.slice());
    }

    fn segment(&mut self, at: Instant, offset: usize, data: &[u8]) {
        // A window probe precedes the sent data. The capture has all packets, so there are no holes.
        if data.is_empty() || offset > self.image.len() {
            return;
        }
        let (end, known) = (offset + data.len(), self.image.len());
        self.image.resize(known.max(end), 0);
        self.image[offset..end].copy_from_slice(data);
        let again = offset < known;
        self.judge_unfinished();
        let mut from = offset;
        while from < end {
            let to = match self.image[from] {
                0 => from + 1,
                _ => self.end_of_record(from).min(end),
            };
            let bytes = (to - from) as u64;
            match self.record_at(from) {
                Some(what) => self.carried.push(CarriedBytes { at, what, bytes, again }),
                None => {
                    let start = self.start_of_record(from);
                    self.unfinished.push((start, CarriedBytes { at, what: StreamContent::Torn, bytes, again }));
                }
            }
            from = to;
        }
    }

    fn start_of_record(&self, at: usize) -> usize {
        self.image[..at].iter().rposition(|byte| *byte == 0).map_or(0, |zero| zero + 1)
    }

    /// Returns the position of the next zero, or the end of the data.
    fn end_of_record(&self, at: usize) -> usize {
        self.image[at..].iter().position(|byte| *byte == 0).map_or(self.image.len(), |zero| at + zero)
    }

    /// Returns the record at a position; `None` if its end has not arrived.
    fn record_at(&self, at: usize) -> Option<StreamContent> {
        if self.image[at] == 0 {
            return Some(StreamContent::Padding);
        }
        let (start, end) = (self.start_of_record(at), self.end_of_record(at));
        if end == self.image.len() {
            return None;
        }
        let mut what = None;
        let mut reader = Ordered::new(self.framing.clone(), self.image.len());
        let whole = [&[0], &self.image[start..end], &[0]].concat();
        reader.push(&whole, |datagram| what = stamp::read(datagram.payload).map(|seq| StreamContent::Datagram(seq.0)));
        let counts = reader.counts();
        let torn = counts.damaged + counts.overlong > 0;
        Some(what.unwrap_or(if torn { StreamContent::Torn } else { StreamContent::Padding }))
    }

    fn judge_unfinished(&mut self) {
        for (start, carried) in std::mem::take(&mut self.unfinished) {
            match self.record_at(start) {
                Some(what) => self.carried.push(CarriedBytes { what, ..carried }),
                None => self.unfinished.push((start, carried)),
            }
        }
    }

    fn finish(mut self) -> Vec<CarriedBytes> {
        self.carried.extend(self.unfinished.drain(..).map(|(_, carried)| carried));
        self.carried.sort_by_key(|carried| carried.at);
        self.carried
    }
}

#[cfg(test)]
mod tests {
    use timeous::core::AduSeq;
    use timeous_tcp::record;

    use super::*;

    fn record_of(seq: u64) -> Vec<u8> {
        let (mut payload, mut bytes) = (Vec::new(), Vec::new());
        stamp::write(AduSeq(seq), 100, &mut payload);
        record::numbered(record::TIMED, seq as u32, &payload, &mut bytes);
        bytes
    }

    fn carried(segments: &[(usize, &[u8])]) -> Vec<(StreamContent, u64)> {
        let mut stream = Stream::default();
        for (offset, bytes) in segments {
            stream.segment(Instant::ZERO, *offset, bytes);
        }
        let mut sums: Vec<(StreamContent, u64)> = Vec::new();
        for one in stream.finish().into_iter().filter(|one| one.what != StreamContent::Padding) {
            match sums.iter_mut().find(|(what, _)| *what == one.what) {
                Some((_, bytes)) => *bytes += one.bytes,
                None => sums.push((one.what, one.bytes)),
            }
        }
        sums
    }

    #[test]
    fn bytes_are_counted_for_the_datagram_that_they_are_of_whatever_the_segments() {
        let [one, two] = [record_of(1), record_of(2)];
        // Length of a record without the zeros that end and pad it.
        let len = one.iter().filter(|byte| **byte != 0).count() as u64;
        let both = [one.clone(), two.clone()].concat();
        assert_eq!(carried(&[(0, &both)]), [(StreamContent::Datagram(1), len), (StreamContent::Datagram(2), len)]);
        let (front, back) = both.split_at(150);
        assert_eq!(
            carried(&[(0, front), (150, back)]),
            [(StreamContent::Datagram(1), len), (StreamContent::Datagram(2), len)]
        );
        assert_eq!(carried(&[(0, &one), (0, &one)]), [(StreamContent::Datagram(1), 2 * len)], "sent again");
        assert_eq!(
            carried(&[(0, &one), (0, &two)]),
            [(StreamContent::Datagram(1), len), (StreamContent::Datagram(2), len)],
            "as another"
        );
        assert_eq!(carried(&[(0, &one[..50])]), [(StreamContent::Torn, 49)], "never finished");
        let mixed = [&one[..50], &two[50..]].concat();
        assert_eq!(carried(&[(0, &mixed)]), [(StreamContent::Torn, len)]);
    }
}
