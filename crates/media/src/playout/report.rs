//! What is told of each frame: its fate.

use timeous_core::Instant;

use crate::frame::FrameKind;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameFate {
    /// It was given out in time.
    Decodable,
    /// Packets of it never came.
    Incomplete,
    /// It became whole, but too late.
    Late,
    /// It was whole in time, but what it refers to was not.
    ReferenceMissing,
    /// It was whole, but it is nothing that could be understood.
    Unreadable,
}

/// The fate of a frame of which at least one packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameReport {
    /// Its RTP timestamp.
    pub rtp_timestamp: u32,
    /// The same without wrap-around.
    pub ticks: i64,
    /// What it is predicted from, if the packet that tells came in time.
    pub kind: Option<FrameKind>,
    /// What became of it.
    pub fate: FrameFate,
    /// When it became whole, if it did.
    pub completed_at: Option<Instant>,
    /// When it was, or would have been, to be shown.
    pub playout_at: Instant,
    /// How many packets of it came.
    pub packets: usize,
    /// How many bytes of payload came.
    pub bytes: usize,
}
