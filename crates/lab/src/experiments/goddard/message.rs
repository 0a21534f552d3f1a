//! What streamer and player say to each other: packets of one size each way, so that a byte stream needs no framing.

use timeous::core::{Duration, Instant};

/// Bytes of a packet of media.
pub(crate) const PACKET: usize = 1_000;
/// Bytes of what the player asks for.
pub(crate) const REQUEST: usize = 16;

/// What a packet of media says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Media {
    /// Its number among all that were made, whether the transport took them or not.
    pub(crate) number: u64,
    /// When it was handed to the transport.
    pub(crate) made: Instant,
    /// Where in the media it belongs.
    pub(crate) at: Duration,
    /// At which rate it was made.
    pub(crate) level: usize,
    /// The last request that its sender has heard.
    pub(crate) answers: u32,
}

/// What the player asks for; the newest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Request {
    /// Counts up.
    pub(crate) number: u32,
    /// Whether anything is to be sent.
    pub(crate) play: bool,
    /// Whether faster than it plays, so that the buffer fills.
    pub(crate) fast: bool,
    /// At which rate, at most.
    pub(crate) level: usize,
    /// Whether it may be a higher rate than before, where early feedback has chosen a lower one.
    pub(crate) up: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Media {
    /// Fills a packet.
    pub(crate) fn write(&self, packet: &mut Vec<u8>) {
        packet.clear();
        packet.extend(self.number.to_be_bytes());
        packet.extend(self.made.as_nanos().to_be_bytes());
        packet.extend(self.at.as_nanos().to_be_bytes());
        packet.extend(self.answers.to_be_bytes());
        packet.push(self.level as u8);
        packet.resize(PACKET, 0);
    }

    /// Reads a packet.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        Some(Self {
            number: word(packet, 0)?,
            made: Instant::from_nanos(word(packet, 8)?),
            at: Duration::from_nanos(word(packet, 16)?),
            answers: half(packet, 24)?,
            level: usize::from(*packet.get(28)?),
        })
    }
}

impl Request {
    /// As bytes.
    pub(crate) fn write(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..4].copy_from_slice(&self.number.to_be_bytes());
        bytes[4..8].copy_from_slice(&[u8::from(self.play), u8::from(self.fast), self.level as u8, u8::from(self.up)]);
        bytes
    }

    /// From bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let [play, fast, level, up] = *bytes.get(4..)?.first_chunk()?;
        let number = half(bytes, 0)?;
        Some(Self { number, play: play != 0, fast: fast != 0, level: usize::from(level), up: up != 0 })
    }
}

/// Pieces of one size, from a transport that keeps them apart or from a byte stream.
#[derive(Debug)]
pub(crate) struct Pieces {
    size: usize,
    begun: Vec<u8>,
}

impl Pieces {
    /// Of `size` bytes.
    pub(crate) fn of(size: usize) -> Self {
        Self { size, begun: Vec::new() }
    }

    /// Takes in what came; the pieces that are whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.begun.extend_from_slice(bytes);
        let whole = self.begun.len() / self.size * self.size;
        let whole: Vec<u8> = self.begun.drain(..whole).collect();
        whole.chunks(self.size).map(<[u8]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_as_it_was_written() {
        let media = Media {
            number: 7,
            made: Instant::from_nanos(30_000_000_001),
            at: Duration::from_millis(125),
            level: 6,
            answers: 3,
        };
        let mut packet = Vec::new();
        media.write(&mut packet);
        assert_eq!((packet.len(), Media::read(&packet)), (PACKET, Some(media)));
        let request = Request { number: 9, play: true, fast: true, level: 5, up: true };
        assert_eq!(Request::read(&request.write()), Some(request));
        assert_eq!((Media::read(&packet[..20]), Request::read(&[0; 7])), (None, None));
    }

    #[test]
    fn pieces_come_whole_however_they_are_cut() {
        let mut pieces = Pieces::of(4);
        assert!(pieces.push(&[1, 2, 3]).is_empty());
        assert_eq!(pieces.push(&[4, 5, 6, 7, 8, 9]), [[1, 2, 3, 4], [5, 6, 7, 8]]);
        assert_eq!(pieces.push(&[10, 11, 12]), [[9, 10, 11, 12]]);
    }
}
