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
    /// Number of the first frame with a descriptor, and the highest number since, extended to 64 bits.
    range: Option<(u64, u64)>,
    /// Frames within the range of which a packet came.
    came: u64,
    /// Number of the last frame in decoding order that was complete.
    last: Option<u64>,
    decoded: BTreeSet<u64>,
    /// Whether all frames since the last entry point were decoded.
    is_unbroken: bool,
}

impl SignalledReferences {
    /// Returns whether the frame, next in decoding order, can be decoded; if so, records it as decoded.
    pub(super) fn decode(&mut self, descriptor: &FrameDescriptor) -> bool {
        let number = self.place(descriptor.frame);
        let follows = self.last.is_some_and(|last| number == last + 1);
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

    /// Counts a frame of which a packet came, once, whatever becomes of it; without a descriptor its number is unknown.
    pub(super) fn count(&mut self, descriptor: Option<&FrameDescriptor>) {
        let number = descriptor.map(|descriptor| self.place(descriptor.frame));
        let (first, highest) = match (self.range, number) {
            (Some((first, highest)), number) => (first, highest.max(number.unwrap_or(0))),
            (None, Some(number)) => (number, number),
            (None, None) => return,
        };
        self.range = Some((first, highest));
        self.came += u64::from(number.is_none_or(|number| number >= first));
    }

    /// Missing frames: numbers within the range of frames that did not come.
    pub(super) fn missing(&self) -> u64 {
        self.range.map_or(0, |(first, highest)| (highest + 1 - first).saturating_sub(self.came))
    }

    /// Records a frame that is complete but too late to be decoded.
    pub(super) fn skip(&mut self, descriptor: &FrameDescriptor) {
        self.last = Some(self.place(descriptor.frame));
        self.is_unbroken = false;
    }

    /// Frame number extended to 64 bits, nearest to the highest one.
    fn place(&self, frame: u16) -> u64 {
        let Some((_, highest)) = self.range else { return (1 << 32) | u64::from(frame) };
        highest.saturating_add_signed(i64::from(frame.wrapping_sub(highest as u16) as i16))
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

    fn decode(told: &mut SignalledReferences, descriptor: &FrameDescriptor) -> bool {
        told.count(Some(descriptor));
        told.decode(descriptor)
    }

    #[test]
    fn a_frame_needs_what_it_refers_to_and_nothing_else() {
        let mut told = SignalledReferences::default();
        assert!(!decode(&mut told, &frame(65_534, &[1])), "nothing to begin with");
        assert!(decode(&mut told, &entry(65_535)));
        assert!(decode(&mut told, &frame(0, &[1])));
        // Frame 1, a non-reference frame, is lost.
        assert!(decode(&mut told, &frame(2, &[2])));
        assert!(!decode(&mut told, &frame(4, &[1, 2])), "frame 3 is missing");
        assert!(!decode(&mut told, &frame(5, &[1])));
        assert!(decode(&mut told, &frame(6, &[4])));
        assert!(decode(&mut told, &entry(7)));
        assert!(!decode(&mut told, &frame(8, &[3, 1])), "shown before the entry point, it refers to what is before it");
        assert!(decode(&mut told, &frame(9, &[2])));
    }

    #[test]
    fn what_is_too_far_back_to_be_told_is_there_if_nothing_is_missing() {
        let mut told = SignalledReferences::default();
        assert!(decode(&mut told, &entry(0)));
        assert!((1..400).all(|number| decode(&mut told, &frame(number, &[1]))));
        assert!(decode(&mut told, &frame(400, &[0])));
        assert!(!decode(&mut told, &frame(402, &[0])));
    }

    #[test]
    fn frames_that_came_are_not_missing_in_whatever_order() {
        let mut told = SignalledReferences::default();
        told.count(None);
        told.count(Some(&entry(65_534)));
        told.count(Some(&frame(3, &[])));
        assert_eq!(told.missing(), 4);
        told.count(Some(&frame(0, &[])));
        told.count(Some(&frame(65_530, &[])));
        assert_eq!(told.missing(), 3, "a frame from before the first one is not within the range");
        told.count(None);
        assert_eq!(told.missing(), 2);
    }
}
