//! Frame reports: whether each frame was decodable, late, incomplete or unreadable.

use timeous_core::Instant;

use crate::frame::FrameKind;

/// Outcome for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameFate {
    /// Released in time.
    Decodable,
    /// Packets of it never came.
    Incomplete,
    /// Complete, but after its playout instant.
    Late,
    /// Complete in time, but a reference frame was not decoded.
    ReferenceMissing,
    /// Complete, but its H.264 headers could not be parsed.
    Unreadable,
}

/// Report on a frame of which at least one packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameReport {
    /// RTP timestamp.
    pub rtp_timestamp: u32,
    /// RTP timestamp without wrap-around.
    pub ticks: i64,
    /// Frame type, if the packet that tells it came in time.
    pub kind: Option<FrameKind>,
    /// Outcome.
    pub fate: FrameFate,
    /// Arrival of the packet that completed it, if it was completed.
    pub completed_at: Option<Instant>,
    /// Playout instant, whether or not it was shown.
    pub playout_at: Instant,
    /// Packets received.
    pub packets: usize,
    /// Payload bytes received.
    pub bytes: usize,
}
