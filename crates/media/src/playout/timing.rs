//! Capture, playout and release instants of frames, by the estimate of the source's clock.

use timeous_core::{Duration, Instant};

use super::buffer::{Parts, Piece};
use super::types::Release;
use crate::clock::{ClockChange, MediaClock};
use crate::rtp::RTP_CLOCK_HZ;

/// Longest plausible delay from capture to arrival; beyond it, the timestamp is wrong and the arrival time counts.
/// Chosen by us: a higher value believes wrong timestamps.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Longest plausible delay as an error of the timestamp, in RTP ticks: two seconds, like `MAX_DELAY`.
const MAX_ERROR_TICKS: i64 = 2 * RTP_CLOCK_HZ as i64;

/// Correction of the clock estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correction {
    /// Change that is worth a message.
    pub(super) change: Option<ClockChange>,
    /// Time by which frames before were captured earlier than estimated.
    pub(super) earlier_by: Duration,
}

/// Times of a frame: in ticks of its source's clock, and by the local clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) presentation: i64,
    pub(super) capture: i64,
    pub(super) captured_at: Instant,
    pub(super) presented_at: Instant,
    pub(super) arrived_at: Instant,
    pub(super) completed_at: Instant,
    pub(super) playout_at: Instant,
}

/// Clock estimate of a source, and the latency.
#[derive(Debug)]
pub(super) struct Timing {
    release: Release,
    latency: Duration,
    clock: MediaClock,
    /// Whether packets carry frame descriptors; capture times then come from a clock that is never stepped.
    is_described: bool,
    /// Capture time minus RTP timestamp of the last frame whose descriptor came, in ticks.
    capture_offset: i64,
}

impl Timing {
    pub(super) fn new(release: Release, latency: Duration) -> Self {
        Self { release, latency, clock: MediaClock::new(latency / 2), is_described: false, capture_offset: 0 }
    }

    /// Begins with another source, at the same latency.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.release, self.latency);
    }

    pub(super) fn latency(&self) -> Duration {
        self.latency
    }

    pub(super) fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
        self.clock.set_tolerance(latency / 2);
    }

    /// Extra delay of the fastest unqueued frames of the last second, against the clock estimate.
    pub(super) fn excess(&self, now: Instant) -> Option<Duration> {
        self.clock.excess(now)
    }

    /// Feeds the first packet of a new frame to the clock estimate.
    pub(super) fn observe(&mut self, ticks: i64, piece: &Piece, now: Instant) -> Correction {
        let descriptor = piece.descriptor.as_ref();
        self.capture_offset = descriptor.map_or(self.capture_offset, |descriptor| descriptor.capture_offset.into());
        self.is_described |= descriptor.is_some();
        let is_prompt = descriptor.is_none_or(|descriptor| !descriptor.is_queued);
        let capture = ticks + self.capture_offset;
        let before = self.clock.instant(capture);
        let change = self.clock.observe(capture, now, is_prompt);
        Correction { change, earlier_by: before.saturating_since(self.clock.instant(capture)) }
    }

    /// Playout instant of a frame, by its capture.
    pub(super) fn playout_of(&self, captured_at: Instant) -> Instant {
        captured_at + self.latency
    }

    /// Playout instant of a frame of which at least one packet came.
    pub(super) fn playout_at(&self, ticks: i64, parts: &Parts) -> Instant {
        self.playout_of(self.captured_at(ticks, self.offset_of(parts), parts.first_arrival()))
    }

    /// Playout instant of a frame whose first packet came now, after the frame was settled.
    pub(super) fn late_playout_at(&self, ticks: i64, arrival: Instant) -> Instant {
        self.playout_of(self.captured_at(ticks, self.capture_offset, arrival))
    }

    /// Deadline until which the missing packets of a buffered frame, or those before it, are waited for.
    pub(super) fn due(&self, ticks: i64, parts: &Parts) -> Instant {
        match self.release {
            Release::AsTheyCome => parts.first_arrival() + self.latency,
            Release::Constant | Release::Immediate => self.playout_at(ticks, parts),
        }
    }

    /// Whether a whole frame has missed its playout instant.
    pub(super) fn is_late(&self, ticks: i64, parts: &Parts) -> bool {
        self.release != Release::AsTheyCome && parts.last_arrival > self.playout_at(ticks, parts)
    }

    /// Release instant of a frame that can be decoded.
    pub(super) fn released_at(&self, captured_at: Instant) -> Instant {
        match self.release {
            Release::Constant => self.playout_of(captured_at),
            Release::Immediate | Release::AsTheyCome => Instant::ZERO,
        }
    }

    /// Times of a frame that can be decoded.
    pub(super) fn times(&self, ticks: i64, parts: &Parts) -> Times {
        let offset = self.offset_of(parts);
        let captured_at = self.captured_at(ticks, offset, parts.first_arrival());
        // A wrong timestamp would leave a gap in a recording, so such a frame is placed by its arrival.
        let (presentation, capture) = match self.clock.ticks_of(captured_at) {
            Some(by_arrival) if (by_arrival - ticks - offset).abs() > MAX_ERROR_TICKS => (by_arrival, by_arrival),
            _ => (ticks, ticks + offset),
        };
        Times {
            presentation,
            capture,
            captured_at,
            presented_at: self.clock.instant(presentation),
            arrived_at: parts.first_arrival(),
            completed_at: parts.last_arrival,
            playout_at: self.playout_of(captured_at),
        }
    }

    /// Capture instant by the local clock: at most the arrival, and the arrival itself if the timestamp is implausible.
    fn captured_at(&self, ticks: i64, offset: i64, arrival: Instant) -> Instant {
        let at = self.clock.instant(ticks + offset).min(arrival);
        let is_wrong = !self.is_described && arrival.saturating_since(at) > MAX_DELAY;
        if is_wrong { arrival } else { at }
    }

    fn offset_of(&self, parts: &Parts) -> i64 {
        parts.descriptor().map_or(self.capture_offset, |descriptor| descriptor.capture_offset.into())
    }
}
