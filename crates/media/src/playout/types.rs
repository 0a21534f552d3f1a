//! Configuration of a playout, and its output: frames, counts, events.

use timeous_core::{Duration, Instant};

use crate::clock::ClockChange;
use crate::frame::{FrameKind, FrameRate};

/// Release policy: when frames are given out.
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

/// Configuration of a playout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutConfig {
    /// From capture to screen, on top of the shortest time that a packet is under way.
    pub latency: Duration,
    /// Release policy.
    pub release: Release,
    /// The payload type to play; without one, the first that carries H.264.
    pub payload_type: Option<u8>,
    /// The source to play; without one, the first that is heard, and after it whichever takes its place.
    pub ssrc: Option<u32>,
    /// Bound on waiting payload, in bytes; a frame beyond it is given up.
    pub buffer_bytes: usize,
    /// Bound on waiting packets.
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

    /// Same configuration with another release policy.
    #[must_use]
    pub fn released(self, release: Release) -> Self {
        Self { release, ..self }
    }
}

/// A frame to decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayoutFrame {
    /// NAL units as a byte stream (Annex B), with parameter sets that the decoder has not had yet.
    pub annexb: Vec<u8>,
    /// RTP timestamp.
    pub rtp_timestamp: u32,
    /// Presentation time in 90 kHz ticks, without wrap-around: on one timeline over steps of the source's clock
    /// and restarts of the source.
    pub ticks: i64,
    /// Decoding time in the same unit, for containers: each frame's is above that of the frame before it.
    pub decode_ticks: i64,
    /// Whether a decoder can begin with it.
    pub is_entry: bool,
    /// What it is predicted from.
    pub kind: FrameKind,
    /// Whether later frames refer to it.
    pub reference: bool,
    /// Capture instant by the local clock, the shortest way included.
    pub captured_at: Instant,
    /// Presentation instant by the local clock: after the capture for pictures that are shown in another order
    /// than they are decoded.
    pub presented_at: Instant,
    /// Arrival of its first packet.
    pub arrived_at: Instant,
    /// Arrival of its last packet.
    pub completed_at: Instant,
    /// Playout instant.
    pub playout_at: Instant,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketStats {
    /// Taken, late ones included.
    pub received: u64,
    /// Duplicates.
    pub duplicate: u64,
    /// Lost: waited for no longer.
    pub lost: u64,
    /// Late: arrived when they were waited for no longer.
    pub late: u64,
    /// Refused with an [`RtpError`](crate::RtpError).
    pub refused: u64,
    /// Not packets, but frames of which nothing whole came, by the numbers of those that did.
    pub frames_missing: u64,
    /// Not packets, but times that the sender started anew.
    pub restarts: u64,
}

/// Picture format of a stream, by its parameter sets.
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

/// Notable event in a stream, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutEvent {
    /// Pictures of this kind begin.
    Format(PictureFormat),
    /// The clock of the source, or the path, has changed.
    Clock(ClockChange),
    /// The source has begun anew, with this synchronisation source.
    Restarted(u32),
}
