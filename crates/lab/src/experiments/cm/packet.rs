//! A datagram of a client: its number, by which it is acknowledged, and what its application says of it.

use timeous::core::Instant;

/// What a packet has before its content.
pub(crate) const HEADER: usize = 8 + 8 + 8;
/// Bytes of the headers of IP and UDP: what a packet is longer on a link.
pub(crate) const OVERHEAD: usize = 20 + 8;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// When its content came into being.
    pub(crate) made: Instant,
    /// Whatever its application wants to tell.
    pub(crate) tag: u64,
    /// Its length, the header included.
    pub(crate) len: usize,
}

impl Packet {
    /// As a datagram.
    pub(in crate::experiments) fn encode(&self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.max(HEADER));
        for word in [number, self.made.as_nanos(), self.tag] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.resize(self.len.max(HEADER), 0);
        bytes
    }

    /// A datagram's number, and the packet.
    pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let word = |n: usize| Some(u64::from_be_bytes(*bytes.get(8 * n..)?.first_chunk()?));
        Some((word(0)?, Self { made: Instant::from_nanos(word(1)?), tag: word(2)?, len: bytes.len() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let packet = Packet { made: Instant::from_nanos(7), tag: 3, len: 100 };
        assert_eq!(Packet::decode(&packet.encode(9)), Some((9, packet)));
        assert_eq!(Packet::decode(&[0; HEADER - 1]), None);
    }
}
