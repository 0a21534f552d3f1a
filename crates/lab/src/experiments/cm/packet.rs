//! Datagram of a client: its number, by which it is acknowledged, its creation time and a tag.

use timeous::core::Instant;

/// Bytes of a packet's header: number, creation time, tag.
pub(crate) const HEADER: usize = 8 + 8 + 8;
/// Bytes of the IP and UDP headers that each packet has on a link.
pub(crate) const OVERHEAD: usize = 20 + 8;

/// Packet of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Creation time of its content.
    pub(crate) made: Instant,
    /// Free tag of the application.
    pub(crate) tag: u64,
    /// Length in bytes, the header included.
    pub(crate) len: usize,
}

impl Packet {
    /// Encodes it as a datagram.
    pub(in crate::experiments) fn encode(&self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.max(HEADER));
        for word in [number, self.made.as_nanos(), self.tag] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.resize(self.len.max(HEADER), 0);
        bytes
    }

    /// Decodes a datagram into its number and the packet.
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
