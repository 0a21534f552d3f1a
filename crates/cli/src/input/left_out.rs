//! Warnings about input that a reader drops.

use timeous_media::LeftOut;

use crate::notice::RateLimitedMessages;

/// Reports dropped input, each kind at most every few seconds.
#[derive(Default)]
pub(super) struct LeftOutWatch {
    reported: LeftOut,
    lines: RateLimitedMessages,
}

impl LeftOutWatch {
    /// Reports input dropped since the last call.
    pub(super) fn look(&mut self, now: LeftOut) {
        let reported = std::mem::replace(&mut self.reported, now);
        let kinds = [
            (
                now.slices_without_parameter_sets > reported.slices_without_parameter_sets,
                "the source begins in the middle: slices are left out until parameter sets (SPS, PPS) come",
            ),
            (now.malformed_slices > reported.malformed_slices, "a slice of the source cannot be read, and is left out"),
            (now.parameter_sets > reported.parameter_sets, "a parameter set of the source cannot be read"),
            (
                now.unspecified_types > reported.unspecified_types,
                "NAL units of types that RTP cannot carry (0, 24 to 31) are left out",
            ),
            (now.too_large > reported.too_large, "a frame of the source is too large, and is left out"),
            (now.torn > reported.torn, "the source paused within a slice: the rest of it is left out"),
        ];
        kinds.into_iter().filter(|(is_new, _)| *is_new).for_each(|(_, line)| self.lines.tell(line));
    }
}
