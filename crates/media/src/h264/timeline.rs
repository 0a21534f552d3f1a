//! Frame times: display order from picture order counts, capture times from frame rates that may change.

use std::collections::BTreeSet;

use timeous_core::Duration;

use super::slice::{PocSyntax, SliceHeader};
use crate::frame::FrameRate;
use crate::rtp::RTP_CLOCK_HZ;

/// Largest difference between display and decoding order, in frames: twice the 16 frames that a decoder holds at most
/// (H.264 §A.3.1). A larger one is a jump of the counts.
const MAX_REORDER: u64 = 32;

/// RTP timestamps remembered as used. Chosen by us: above the number of frames displayed out of order; a higher value
/// takes more memory.
const MAX_TAKEN: usize = 256;

/// Display and send times of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) display_index: u64,
    pub(crate) capture: Duration,
    pub(crate) handover: Duration,
    pub(crate) duration: Duration,
    pub(crate) rtp_ticks: u64,
}

/// Section of the stream with one frame rate.
#[derive(Clone, Copy, Debug)]
struct ConstantRateSection {
    rate: FrameRate,
    /// Position of its first frame in display order, and time until then.
    place: u64,
    time: Duration,
    ticks: u64,
}

impl ConstantRateSection {
    fn time_of(&self, place: u64) -> Duration {
        match place.checked_sub(self.place) {
            Some(after) => self.time + self.rate.time_of(after),
            None => self.time.saturating_sub(self.rate.time_of(self.place - place)),
        }
    }

    fn ticks_of(&self, place: u64) -> u64 {
        match place.checked_sub(self.place) {
            Some(after) => self.ticks.saturating_add(self.rate.ticks_of(after)),
            None => self.ticks.saturating_sub(self.rate.ticks_of(self.place - place)),
        }
    }
}

/// Assigns times to the frames of a stream.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    order: DisplayOrder,
    stretch: Option<ConstantRateSection>,
    handover: Option<Duration>,
    taken: BTreeSet<u64>,
    /// Timestamp up to which all count as used.
    taken_up_to: Option<u64>,
}

impl Timeline {
    /// Times of the next frame in decoding order, whose picture order count is `count`.
    pub(crate) fn place(&mut self, header: &SliceHeader, count: i64, rate: FrameRate) -> Times {
        let place = self.order.place(header, count);
        let stretch = match self.stretch {
            Some(stretch) if stretch.rate == rate => stretch,
            Some(before) => {
                ConstantRateSection { rate, place, time: before.time_of(place), ticks: before.ticks_of(place) }
            }
            None => ConstantRateSection { rate, place: 0, time: Duration::ZERO, ticks: 0 },
        };
        self.stretch = Some(stretch);
        let ticks = stretch.ticks_of(place);
        let rtp_ticks = self.free(ticks);
        let moved = Duration::from_nanos((rtp_ticks - ticks) * 1_000_000_000 / u64::from(RTP_CLOCK_HZ));
        let capture = stretch.time_of(place) + moved;
        let duration = rate.interval();
        let handover = self.handover.map_or(capture, |last| capture.max(last + duration));
        self.handover = Some(handover);
        Times { display_index: place, capture, handover, duration, rtp_ticks }
    }

    /// Returns the first unused timestamp from `ticks` on, and marks it as used.
    fn free(&mut self, ticks: u64) -> u64 {
        let mut free = self.taken_up_to.map_or(ticks, |taken| ticks.max(taken + 1));
        while !self.taken.insert(free) {
            free += 1;
        }
        if self.taken.len() > MAX_TAKEN {
            self.taken_up_to = self.taken.pop_first();
        }
        free
    }
}

/// Converts picture order counts to positions in display order.
///
/// All frames after an IDR frame are displayed after all frames before it, which fixes its position; other frames
/// follow at the distance of their count.
#[derive(Debug, Default)]
struct DisplayOrder {
    first: u64,
    first_count: i64,
    /// Position after the last one used.
    next: u64,
    begun: bool,
    /// Whether the count advances by one per frame, known by an odd count; most encoders count two per frame.
    counts_frames: bool,
}

impl DisplayOrder {
    fn place(&mut self, header: &SliceHeader, count: i64) -> u64 {
        let place = self.by_count(header, count);
        self.next = self.next.max(place.saturating_add(1));
        place
    }

    fn by_count(&mut self, header: &SliceHeader, count: i64) -> u64 {
        if header.poc == PocSyntax::DecodingOrder {
            return self.next;
        }
        if header.is_idr() || header.resets() || !self.begun {
            (self.first, self.first_count, self.begun) = (self.next, count, true);
        }
        let distance = count - self.first_count;
        self.counts_frames |= distance % 2 != 0;
        let frames = if self.counts_frames { distance } else { distance / 2 };
        let place = self.first.saturating_add_signed(frames);
        if place.abs_diff(self.next) > MAX_REORDER {
            // The counts have jumped; continue counting from this frame.
            (self.first, self.first_count) = (self.next, count);
            return self.next;
        }
        place
    }
}
