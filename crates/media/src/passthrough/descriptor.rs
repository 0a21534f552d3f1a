//! Packet descriptor: RTP header extension (RFC 8285) with what a packet of any payload needs besides: its stream, its frame, and
//! the fields of its own header that the carrying packet uses otherwise.

use timeous_core::References;

use crate::rtp::extension;

/// Identifier of our extension element, as an SDP would declare it.
const IDENTIFIER: u8 = 3;
/// First byte: there is a packet; an upper spatial layer of its picture follows the frame. Then padding, extension and CSRC count of the
/// packet's own header, whose version is always 2 (RFC 3550 §5.1).
const PRESENT: u8 = 0x80;
const BELOW: u8 = 0x40;
const OWN: u8 = 0x3f;
const VERSION: u8 = 0x80;
/// Fixed bytes, before the distances.
const FIXED: usize = 13;
/// Flags: the frame ends here; other packets were queued when it was sent; a decoder can start here; packets were lost before.
const LAST: u8 = 0x08;
const QUEUED: u8 = 0x04;
const ENTRY: u8 = 0x02;
const GAP: u8 = 0x01;
/// Largest stream number.
pub(super) const MAX_STREAM: u8 = 15;
/// Largest number of a part.
pub(super) const MAX_PART: u16 = 0x0fff;
/// The packet goes on in the next part.
const MORE: u16 = 0x8000;

/// What a packet needs besides.
///
/// ```text
/// packet 1, below 1, rest of its first byte 6 | stream 4, last 1, queued 1, entry 1, gap 1 | frame number 16
/// more 1, part 12, count 3 | its timestamp 32 | frame in its stream 16 | frames of it given up 8 | distances, 8 each
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct PassthroughDescriptor {
    /// First byte of the packet's own header: version, padding, extension, CSRC count. Zero: there is no packet.
    pub(super) first_byte: u8,
    /// Whether the frame ends here, and one of an upper spatial layer of the same picture follows.
    pub(super) is_below: bool,
    pub(super) stream: u8,
    pub(super) last: bool,
    pub(super) is_queued: bool,
    pub(super) is_entry: bool,
    pub(super) has_gap: bool,
    /// Number of the frame over all streams, modulo 2^16.
    pub(super) frame: u16,
    /// Whether the packet goes on in the next part.
    pub(super) more: bool,
    /// Number of the part in the frame.
    pub(super) part: u16,
    /// Timestamp of the packet.
    pub(super) timestamp: u32,
    /// Number of the frame in its stream, modulo 2^16, and frames of the stream given up so far, modulo 2^8.
    pub(super) place: u16,
    pub(super) given_up: u8,
    /// Distances to the frames that it refers to; zero for one that is too far back.
    pub(super) back: [u8; References::MAX],
    pub(super) count: u8,
}

impl PassthroughDescriptor {
    /// Largest header extension in bytes, with its own header.
    pub(super) const MAX_LEN: usize = 4 + (2 + FIXED + References::MAX).next_multiple_of(4);

    /// Adds the distances to references.
    pub(super) fn refer(mut self, frame: u32, references: &References) -> Self {
        for (slot, reference) in self.back.iter_mut().zip(references.iter()) {
            *slot = u8::try_from(frame.wrapping_sub(reference.0)).unwrap_or(0);
            self.count += 1;
        }
        self
    }

    /// Distances to the frames that it refers to, as far as they are known.
    pub(super) fn distances(&self) -> impl Iterator<Item = u32> + '_ {
        self.back[..usize::from(self.count)].iter().filter(|back| **back > 0).map(|back| u32::from(*back))
    }

    /// Writes it as the profile and bytes of the header extension.
    pub(super) fn write(&self) -> (u16, Vec<u8>) {
        let flag = |set, flag| if set { flag } else { 0 };
        let flags =
            flag(self.last, LAST) | flag(self.is_queued, QUEUED) | flag(self.is_entry, ENTRY) | flag(self.has_gap, GAP);
        let part = (self.part & MAX_PART) << 3 | u16::from(self.count) | if self.more { MORE } else { 0 };
        let packet = if self.first_byte == 0 { 0 } else { PRESENT | self.first_byte & OWN };
        let mut bytes = vec![packet | flag(self.is_below, BELOW), self.stream << 4 | flags];
        bytes.extend_from_slice(&self.frame.to_be_bytes());
        bytes.extend_from_slice(&part.to_be_bytes());
        bytes.extend_from_slice(&self.timestamp.to_be_bytes());
        bytes.extend_from_slice(&self.place.to_be_bytes());
        bytes.push(self.given_up);
        bytes.extend_from_slice(&self.back[..usize::from(self.count)]);
        extension::write(IDENTIFIER, &bytes)
    }

    /// Reads it from a header extension, if present; other elements are skipped (RFC 8285 §4.2).
    pub(super) fn read(profile: u16, bytes: &[u8]) -> Option<Self> {
        extension::find(IDENTIFIER, profile, bytes).and_then(Self::parse)
    }

    fn parse(data: &[u8]) -> Option<Self> {
        let (&[packet, flags, f0, f1, p0, p1, t0, t1, t2, t3, n0, n1, given_up], distances) =
            data.split_first_chunk::<FIXED>()?;
        let part = u16::from_be_bytes([p0, p1]);
        let count = (part & 7) as u8;
        let mut back = [0; References::MAX];
        back.get_mut(..usize::from(count))?.copy_from_slice(distances.get(..usize::from(count))?);
        Some(Self {
            first_byte: if packet & PRESENT == 0 { 0 } else { VERSION | packet & OWN },
            is_below: packet & BELOW != 0,
            stream: flags >> 4,
            last: flags & LAST != 0,
            is_queued: flags & QUEUED != 0,
            is_entry: flags & ENTRY != 0,
            has_gap: flags & GAP != 0,
            frame: u16::from_be_bytes([f0, f1]),
            more: part & MORE != 0,
            part: part >> 3 & MAX_PART,
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            place: u16::from_be_bytes([n0, n1]),
            given_up,
            back,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (first_byte, stream, flags) in (prop_oneof![Just(0), 0x80u8..0xc0], 0..=MAX_STREAM, any::<[bool; 6]>()),
            (frame, part, timestamp) in (any::<u16>(), 0..=MAX_PART, any::<u32>()),
            (place, given_up) in any::<(u16, u8)>(),
            distances in proptest::collection::vec(any::<u8>(), 0..=References::MAX),
        ) {
            let [last, is_queued, is_entry, has_gap, more, is_below] = flags;
            let mut back = [0; References::MAX];
            back[..distances.len()].copy_from_slice(&distances);
            let count = distances.len() as u8;
            let descriptor = PassthroughDescriptor {
                first_byte, is_below, stream, last, is_queued, is_entry, has_gap, frame, more, part, timestamp, place, given_up, back,
                count,
            };
            let (profile, bytes) = descriptor.write();
            prop_assert!(bytes.len() % 4 == 0 && bytes.len() + 4 <= PassthroughDescriptor::MAX_LEN);
            prop_assert_eq!(PassthroughDescriptor::read(profile, &bytes), Some(descriptor));
        }

        #[test]
        fn no_bytes_make_it_panic(profile in prop_oneof![Just(0xbede), any::<u16>()], bytes: Vec<u8>) {
            let _ = PassthroughDescriptor::read(profile, &bytes);
        }
    }
}
