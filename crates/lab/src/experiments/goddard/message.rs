//! Messages between streamer and player: packets of one size each way, so that a byte stream needs
//! no framing.

use timeous::core::{Duration, Instant};

/// Bytes of a media packet.
pub(crate) const PACKET: usize = 1_000;
/// Bytes of a request.
pub(crate) const REQUEST: usize = 16;

/// Header of a media packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaHeader {
    /// Packet number, counted over all packets made, accepted by the transport or not.
    pub(crate) number: u64,
    /// Time of hand-over to the transport.
    pub(crate) made: Instant,
    /// Position in the media.
    pub(crate) at: Duration,
    /// Level of the media's rate.
    pub(crate) level: usize,
    /// Number of the last request that the streamer received.
    pub(crate) answers: u32,
}

/// Request of the player; the newest one is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Request {
    /// Request number, ascending.
    pub(crate) number: u32,
    /// Whether to send at all.
    pub(crate) play: bool,
    /// Whether to send faster than the media plays, so that the buffer fills.
    pub(crate) fast: bool,
    /// Highest level to send.
    pub(crate) level: usize,
    /// Whether the level may rise again after early feedback lowered it.
    pub(crate) up: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl MediaHeader {
    /// Writes a packet.
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
    /// Encodes the request.
    pub(crate) fn write(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..4].copy_from_slice(&self.number.to_be_bytes());
        bytes[4..8].copy_from_slice(&[u8::from(self.play), u8::from(self.fast), self.level as u8, u8::from(self.up)]);
        bytes
    }

    /// Decodes a request.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let [play, fast, level, up] = *bytes.get(4..)?.first_chunk()?;
        let number = half(bytes, 0)?;
        Some(Self { number, play: play != 0, fast: fast != 0, level: usize::from(level), up: up != 0 })
    }
}

/// Reassembly of fixed-size pieces, from a message-based transport or a byte stream.
#[derive(Debug)]
pub(crate) struct Reassembly {
    size: usize,
    begun: Vec<u8>,
}

impl Reassembly {
    /// Creates a reassembly of pieces of `size` bytes.
    pub(crate) fn of(size: usize) -> Self {
        Self { size, begun: Vec::new() }
    }

    /// Adds received bytes, and returns the complete pieces.
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
        let media = MediaHeader {
            number: 7,
            made: Instant::from_nanos(30_000_000_001),
            at: Duration::from_millis(125),
            level: 6,
            answers: 3,
        };
        let mut packet = Vec::new();
        media.write(&mut packet);
        assert_eq!((packet.len(), MediaHeader::read(&packet)), (PACKET, Some(media)));
        let request = Request { number: 9, play: true, fast: true, level: 5, up: true };
        assert_eq!(Request::read(&request.write()), Some(request));
        assert_eq!((MediaHeader::read(&packet[..20]), Request::read(&[0; 7])), (None, None));
    }

    #[test]
    fn pieces_come_whole_however_they_are_cut() {
        let mut pieces = Reassembly::of(4);
        assert!(pieces.push(&[1, 2, 3]).is_empty());
        assert_eq!(pieces.push(&[4, 5, 6, 7, 8, 9]), [[1, 2, 3, 4], [5, 6, 7, 8]]);
        assert_eq!(pieces.push(&[10, 11, 12]), [[9, 10, 11, 12]]);
    }
}
