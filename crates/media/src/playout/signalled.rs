//! Decodability of frames by the sender's frame descriptors.

use std::collections::BTreeSet;

use crate::rtp::FrameDescriptor;

/// Decoded frames that are remembered. Chosen by us: above the largest distance in a descriptor; a higher value takes
/// more memory.
const MAX_DECODED: u64 = 512;

/// Tracks references by descriptors: a frame can be decoded if it is an entry point, or if all its references were
/// decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct SignalledReferences {
    /// The number of the last frame seen, extended to 64 bits.
    last: Option<u64>,
    /// Missing frames, counted by gaps in the frame numbers.
    missing: u64,
    decoded: BTreeSet<u64>,
    /// Whether all frames since the last entry point were decoded.
    is_unbroken: bool,
}

impl SignalledReferences {
    /// Returns whether the frame, next in decoding order, can be decoded; if so, records it as decoded.
    pub(super) fn decode(&mut self, descriptor: &FrameDescriptor) -> bool {
        let number = self.place(descriptor.frame);
        let follows = self.last.is_some_and(|last| number == last + 1);
        self.missing += self.last.map_or(0, |last| number.saturating_sub(last + 1));
        self.last = Some(number);
        if descriptor.is_entry {
            self.is_unbroken = true;
        } else {
            self.is_unbroken &= follows;
            let found = |back: u8| match back {
                0 => self.is_unbroken,
                _ => number.checked_sub(back.into()).is_some_and(|frame| self.decoded.contains(&frame)),
            };
            let none_told = descriptor.references.iter().next().is_none();
            if !descriptor.references.iter().all(found) || none_told && !self.is_unbroken {
                self.is_unbroken = false;
                return false;
            }
        }
        self.decoded.insert(number);
        while self.decoded.first().is_some_and(|first| number - first.min(&number) > MAX_DECODED) {
            self.decoded.pop_first();
        }
        true
    }

    /// Missing frames, by gaps in the frame numbers.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Records a frame that is complete but too late to be decoded.
    pub(super) fn skip(&mut self, descriptor: &FrameDescriptor) {
        let number = self.place(descriptor.frame);
        self.missing += self.last.map_or(0, |last| number.saturating_sub(last + 1));
        self.last = Some(number);
        self.is_unbroken = false;
    }

    /// Frame number extended to 64 bits, nearest to the last one.
    fn place(&self, frame: u16) -> u64 {
        let Some(last) = self.last else { return (1 << 32) | u64::from(frame) };
        last.saturating_add_signed(i64::from(frame.wrapping_sub(last as u16) as i16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::Distances;

    fn frame(frame: u16, back: &[u32]) -> FrameDescriptor {
        let mut references = Distances::default();
        back.iter().for_each(|&back| assert!(references.push(back)));
        FrameDescriptor { frame, references, ..FrameDescriptor::default() }
    }

    fn entry(number: u16) -> FrameDescriptor {
        FrameDescriptor { is_entry: true, ..frame(number, &[]) }
    }

    #[test]
    fn a_frame_needs_what_it_refers_to_and_nothing_else() {
        let mut told = SignalledReferences::default();
        assert!(!told.decode(&frame(65_534, &[1])), "nothing to begin with");
        assert!(told.decode(&entry(65_535)));
        assert!(told.decode(&frame(0, &[1])));
        // Frame 1, a non-reference frame, is lost.
        assert!(told.decode(&frame(2, &[2])));
        assert!(!told.decode(&frame(4, &[1, 2])), "frame 3 is missing");
        assert!(!told.decode(&frame(5, &[1])));
        assert!(told.decode(&frame(6, &[4])));
        assert!(told.decode(&entry(7)));
        assert!(!told.decode(&frame(8, &[3, 1])), "shown before the entry point, it refers to what is before it");
        assert!(told.decode(&frame(9, &[2])));
    }

    #[test]
    fn what_is_too_far_back_to_be_told_is_there_if_nothing_is_missing() {
        let mut told = SignalledReferences::default();
        assert!(told.decode(&entry(0)));
        assert!((1..400).all(|number| told.decode(&frame(number, &[1]))));
        assert!(told.decode(&frame(400, &[0])));
        assert!(!told.decode(&frame(402, &[0])));
    }
}
