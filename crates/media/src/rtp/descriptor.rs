//! Frame descriptor: RTP header extension (RFC 8285) on a frame's first packet, with its number and references, which a
//! receiver could not derive after a loss.

use super::extension;

/// Identifier of our extension element, as an SDP would declare it.
const IDENTIFIER: u8 = 1;
/// Fixed bytes: frame number, capture offset, flags.
const FIXED: usize = 6;
/// Largest number of references.
const MOST_REFERENCES: usize = timeous_core::References::MAX;
/// Flags: the frame is an entry point; other packets were queued when it was sent; references follow.
const ENTRY: u8 = 0x80;
const QUEUED: u8 = 0x40;
const COUNT: u8 = 0x07;

/// Frame descriptor: number, capture time and references of a frame.
///
/// ```text
/// frame number 16 | capture offset 24, signed, 90 kHz | flags 5, count 3 | distance back to each reference, 8 each
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FrameDescriptor {
    /// Frame number in decoding order, modulo 2^16.
    pub frame: u16,
    /// Capture time minus RTP timestamp, in 90 kHz ticks; not zero where display order differs from capture order.
    pub capture_offset: i32,
    /// Whether a decoder can start with it.
    pub is_entry: bool,
    /// Whether other packets of the stream were queued when it was sent; its delay is then not that of the path.
    pub is_queued: bool,
    /// Distances to the reference frames, in frames; zero for one that is too far back.
    pub references: Distances,
}

/// Distances to a frame's references, in frames of decoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Distances {
    back: [u8; MOST_REFERENCES],
    len: u8,
}

impl Distances {
    /// Adds a distance; returns `false` if there is no room.
    pub fn push(&mut self, frames_back: u32) -> bool {
        let Some(slot) = self.back.get_mut(usize::from(self.len)) else { return false };
        *slot = u8::try_from(frames_back).unwrap_or(0);
        self.len += 1;
        true
    }

    /// Iterates over the distances.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.back[..usize::from(self.len)].iter().copied()
    }
}

impl FrameDescriptor {
    /// Largest header extension in bytes, with its own header.
    pub const MAX_LEN: usize = 4 + (1 + FIXED + MOST_REFERENCES).next_multiple_of(4);
    /// Largest difference of capture time and timestamp, in ticks (93 seconds).
    pub const MAX_OFFSET: i32 = (1 << 23) - 1;

    /// Writes it as the profile and bytes of the header extension.
    pub(crate) fn write(&self) -> (u16, Vec<u8>) {
        let mut bytes = self.frame.to_be_bytes().to_vec();
        let offset = self.capture_offset.clamp(-Self::MAX_OFFSET, Self::MAX_OFFSET);
        bytes.extend_from_slice(&offset.to_be_bytes()[1..]);
        let flag = |set, flag| if set { flag } else { 0 };
        bytes.push(flag(self.is_entry, ENTRY) | flag(self.is_queued, QUEUED) | self.references.len);
        bytes.extend(self.references.iter());
        extension::write(IDENTIFIER, &bytes)
    }

    /// Reads it from a header extension, if present; other elements are skipped (RFC 8285 §4.2).
    pub(crate) fn read(profile: u16, bytes: &[u8]) -> Option<Self> {
        extension::find(IDENTIFIER, profile, bytes).and_then(Self::parse)
    }

    fn parse(data: &[u8]) -> Option<Self> {
        let (&[f0, f1, o0, o1, o2, flags], distances) = data.split_first_chunk::<FIXED>()?;
        let count = flags & COUNT;
        if usize::from(count) > MOST_REFERENCES || distances.len() < usize::from(count) {
            return None;
        }
        let mut back = [0; MOST_REFERENCES];
        back[..usize::from(count)].copy_from_slice(&distances[..usize::from(count)]);
        Some(Self {
            frame: u16::from_be_bytes([f0, f1]),
            // Sign-extended from 24 bits.
            capture_offset: i32::from_be_bytes([o0, o1, o2, 0]) >> 8,
            is_entry: flags & ENTRY != 0,
            is_queued: flags & QUEUED != 0,
            references: Distances { back, len: count },
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
            frame in any::<u16>(),
            capture_offset in -FrameDescriptor::MAX_OFFSET..=FrameDescriptor::MAX_OFFSET,
            (is_entry, is_queued) in any::<(bool, bool)>(),
            back in proptest::collection::vec(any::<u8>(), 0..=MOST_REFERENCES),
        ) {
            let mut references = Distances::default();
            for distance in back {
                prop_assert!(references.push(distance.into()));
            }
            let descriptor = FrameDescriptor { frame, capture_offset, is_entry, is_queued, references };
            let (profile, bytes) = descriptor.write();
            prop_assert!(bytes.len() % 4 == 0 && bytes.len() + 4 <= FrameDescriptor::MAX_LEN);
            prop_assert_eq!(FrameDescriptor::read(profile, &bytes), Some(descriptor));
            let others = [&[0x20, 7, 0][..], &bytes].concat();
            prop_assert_eq!(FrameDescriptor::read(profile, &others), Some(descriptor));
        }

        #[test]
        fn no_bytes_make_it_panic(profile in prop_oneof![Just(0xbede), any::<u16>()], bytes: Vec<u8>) {
            let _ = FrameDescriptor::read(profile, &bytes);
        }
    }
}
