//! What a playout is told, and what it gives out.

use timeous_core::{Duration, Instant};

use crate::clock::ClockChange;
use crate::frame::{FrameKind, FrameRate};

/// When frames are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// At a constant delay after their capture: the latency, on top of the shortest way.
    #[default]
    Constant,
    /// As soon as they can be decoded, if that is within the latency.
    Immediate,
    /// As soon as they are whole, whenever that is; the latency is how long packets out of order are waited for. For a
    /// source that is sent on, where nothing is too late yet.
    AsTheyCome,
}

/// How a stream is played out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutConfig {
    /// From capture to screen, on top of the shortest time that a packet is under way.
    pub latency: Duration,
    /// When frames are given out.
    pub release: Release,
    /// The payload type to play; without one, the first that carries H.264.
    pub payload_type: Option<u8>,
    /// The source to play; without one, the first that is heard, and after it whichever takes its place.
    pub ssrc: Option<u32>,
    /// How much may wait, in bytes of payload; a frame that does not fit is given up.
    pub buffer_bytes: usize,
    /// How many packets may wait.
    pub buffer_packets: usize,
}

impl PlayoutConfig {
    /// With this latency, at a constant delay; any payload type and source; 16 MB in 16384 packets.
    pub fn new(latency: Duration) -> Self {
        Self {
            latency,
            release: Release::Constant,
            payload_type: None,
            ssrc: None,
            buffer_bytes: 16 << 20,
            buffer_packets: 1 << 14,
        }
    }

    /// The same, with frames given out at other times.
    #[must_use]
    pub fn released(self, release: Release) -> Self {
        Self { release, ..self }
    }
}

/// A frame to decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayoutFrame {
    /// Its NAL units as a byte stream, with the parameter sets that a decoder has not been given yet.
    pub annexb: Vec<u8>,
    /// Its RTP timestamp.
    pub rtp_timestamp: u32,
    /// When it is shown, in 90 kHz, without wrap-around: on one clock for all that is given out, whatever became of the
    /// source's clock and however often the source began anew.
    pub ticks: i64,
    /// Decoding time in the same unit, for containers: each frame's is above that of the frame before it.
    pub decode_ticks: i64,
    /// Whether a decoder can begin with it.
    pub is_entry: bool,
    /// What it is predicted from.
    pub kind: FrameKind,
    /// Whether later frames refer to it.
    pub reference: bool,
    /// When its source handed it over, by the local clock: the shortest way included.
    pub captured_at: Instant,
    /// Its presentation time by the local clock, as far as its timestamp can be trusted: where pictures are shown in
    /// another order than they are decoded, some have one after their capture.
    pub presented_at: Instant,
    /// When its first packet came.
    pub arrived_at: Instant,
    /// When its last packet came.
    pub completed_at: Instant,
    /// When it is to be shown.
    pub playout_at: Instant,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketStats {
    /// Taken, late ones included.
    pub received: u64,
    /// Seen before.
    pub duplicate: u64,
    /// Whose sequence number has not come, and is waited for no longer.
    pub lost: u64,
    /// That came when they were waited for no longer.
    pub late: u64,
    /// That were refused with an [`RtpError`](crate::RtpError).
    pub refused: u64,
    /// Not packets, but times that the sender started anew.
    pub restarts: u64,
}

/// What the pictures of a stream are like, by its parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureFormat {
    /// The codec's name in SDP.
    pub codec: &'static str,
    /// Picture width in pixels.
    pub width: u32,
    /// Picture height in pixels.
    pub height: u32,
    /// The frame rate that the stream declares.
    pub rate: Option<FrameRate>,
}

impl std::fmt::Display for PictureFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.codec, self.width, self.height)?;
        self.rate.map_or(Ok(()), |rate| write!(f, " at {rate} fps"))
    }
}

/// Something that people want to know of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutEvent {
    /// Pictures of this kind begin.
    Format(PictureFormat),
    /// The clock of the source, or the path, has changed.
    Clock(ClockChange),
    /// The source has begun anew, with this synchronisation source.
    Restarted(u32),
}
