//! Times of frames: place in display order by picture order counts, capture time by frame rates that may change.

use std::collections::BTreeSet;

use timeous_core::Duration;

use super::slice::{PocSyntax, SliceHeader};
use crate::frame::FrameRate;
use crate::rtp::RTP_CLOCK_HZ;

/// Most places by which a picture may be shown before or after its turn: a decoder holds at most 16 frames (H.264
/// §A.3.1). A larger distance is none.
const MAX_REORDER: u64 = 32;

/// RTP timestamps that are remembered as taken: more than frames that are shown before their turn.
const MAX_TAKEN: usize = 256;

/// When a frame is shown and handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) display_index: u64,
    pub(crate) capture: Duration,
    pub(crate) handover: Duration,
    pub(crate) duration: Duration,
    pub(crate) rtp_ticks: u64,
}

/// Stretch of the stream with one frame rate.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    rate: FrameRate,
    /// Its first place in display order, and what has passed until then.
    place: u64,
    time: Duration,
    ticks: u64,
}

impl Stretch {
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

/// Gives each frame of a stream its times.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    order: DisplayOrder,
    stretch: Option<Stretch>,
    handover: Option<Duration>,
    taken: BTreeSet<u64>,
    /// All timestamps up to this one count as taken.
    taken_up_to: Option<u64>,
}

impl Timeline {
    /// Times of the next frame in decoding order, whose picture order count is `count`.
    pub(crate) fn place(&mut self, header: &SliceHeader, count: i64, rate: FrameRate) -> Times {
        let place = self.order.place(header, count);
        let stretch = match self.stretch {
            Some(stretch) if stretch.rate == rate => stretch,
            Some(before) => Stretch { rate, place, time: before.time_of(place), ticks: before.ticks_of(place) },
            None => Stretch { rate, place: 0, time: Duration::ZERO, ticks: 0 },
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

    /// The first timestamp from `ticks` on that no frame has; it is taken then.
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

/// Turns picture order counts into places in display order.
///
/// All frames from an IDR frame on are shown after all frames before it, so that its place is known; the others stand
/// at their count's distance from it.
#[derive(Debug, Default)]
struct DisplayOrder {
    first: u64,
    first_count: i64,
    /// The place after the last that is taken.
    next: u64,
    begun: bool,
    /// Most encoders count fields, two a frame; one odd count tells that this one counts frames.
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
            // The counts have jumped: this one is where the next ones count from.
            (self.first, self.first_count) = (self.next, count);
            return self.next;
        }
        place
    }
}
