//! PES descriptor: RTP header extension (RFC 8285) that tells which part of which PES packet an RTP packet carries.

use timeous_core::References;

use crate::rtp::extension;

/// Identifier of our extension element, as an SDP would declare it.
const IDENTIFIER: u8 = 2;
/// Fixed bytes: PES number, place, first packet, flags.
const FIXED: usize = 8;
/// Flags: the PES packet ends here; other packets were queued when it was sent; a decoder can start here. Then the number of references.
const LAST: u8 = 0x80;
const QUEUED: u8 = 0x40;
const ENTRY: u8 = 0x20;
const COUNT: u8 = 0x07;

/// Part of a PES packet.
///
/// ```text
/// PES number 24 | place 16 | first packet 16 | last 1, queued 1, entry 1, reserved 2, count 3 | distance back to each reference, 8 each
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct PesDescriptor {
    /// Number of the PES packet in the transport stream, modulo 2^24.
    pub(super) frame: u32,
    /// Number of the PES packet in its elementary stream, modulo 2^16.
    pub(super) place: u16,
    /// Number of its transport packets before these.
    pub(super) first: u16,
    /// Whether it ends with these.
    pub(super) last: bool,
    /// Whether other packets of the stream were queued when it was sent; its delay is then not that of the path.
    pub(super) is_queued: bool,
    /// Whether a decoder can start with it.
    pub(super) is_entry: bool,
    /// Distances to the PES packets that it refers to; zero for one that is too far back.
    pub(super) back: [u8; References::MAX],
    pub(super) count: u8,
}

impl PesDescriptor {
    /// Largest header extension in bytes, with its own header.
    pub(super) const MAX_LEN: usize = 4 + (1 + FIXED + References::MAX).next_multiple_of(4);

    /// Bits of a PES packet's number.
    pub(super) const FRAME_BITS: u32 = 24;

    /// Adds the distances from PES packet `frame` to references.
    pub(super) fn refer(mut self, frame: u32, references: &References) -> Self {
        for (slot, reference) in self.back.iter_mut().zip(references.iter()) {
            *slot = u8::try_from(frame.wrapping_sub(reference.0)).unwrap_or(0);
            self.count += 1;
        }
        self
    }

    /// Distances to the PES packets that it refers to, as far as they are known.
    pub(super) fn distances(&self) -> impl Iterator<Item = u32> + '_ {
        self.back[..usize::from(self.count)].iter().filter(|back| **back > 0).map(|back| u32::from(*back))
    }

    /// Writes it as the profile and bytes of the header extension.
    pub(super) fn write(&self) -> (u16, Vec<u8>) {
        let count = usize::from(self.count);
        let [_, n0, n1, n2] = self.frame.to_be_bytes();
        let mut bytes = vec![n0, n1, n2];
        bytes.extend_from_slice(&self.place.to_be_bytes());
        bytes.extend_from_slice(&self.first.to_be_bytes());
        let flag = |set, flag| if set { flag } else { 0 };
        bytes.push(flag(self.last, LAST) | flag(self.is_queued, QUEUED) | flag(self.is_entry, ENTRY) | self.count);
        bytes.extend_from_slice(&self.back[..count]);
        extension::write(IDENTIFIER, &bytes)
    }

    /// Reads it from a header extension, if present; other elements are skipped (RFC 8285 §4.2).
    pub(super) fn read(profile: u16, bytes: &[u8]) -> Option<Self> {
        extension::find(IDENTIFIER, profile, bytes).and_then(Self::parse)
    }

    fn parse(data: &[u8]) -> Option<Self> {
        let (&[n0, n1, n2, p0, p1, f0, f1, flags], distances) = data.split_first_chunk::<FIXED>()?;
        let count = flags & COUNT;
        let mut back = [0; References::MAX];
        back.get_mut(..usize::from(count))?.copy_from_slice(distances.get(..usize::from(count))?);
        Some(Self {
            frame: u32::from_be_bytes([0, n0, n1, n2]),
            place: u16::from_be_bytes([p0, p1]),
            first: u16::from_be_bytes([f0, f1]),
            last: flags & LAST != 0,
            is_queued: flags & QUEUED != 0,
            is_entry: flags & ENTRY != 0,
            back,
            count,
        })
    }
}
