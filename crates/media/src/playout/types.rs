//! Playout configuration, released frames, packet statistics and events.

use timeous_core::{Duration, Instant};

use crate::clock::ClockChange;
use crate::frame::{FrameKind, FrameRate};
use crate::rtp::sequence::Sequence;

/// Release policy: when frames are released to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// At a constant delay after capture: the latency plus the shortest network delay.
    #[default]
    Constant,
    /// As soon as they can be decoded, within the latency.
    Immediate,
    /// As soon as they are complete, without a deadline; the latency bounds the wait for reordered packets. For a local
    /// source that is to be sent on.
    AsTheyCome,
}

impl Release {
    /// Sequence numbers of a stream; only a source that is sent on comes without retransmissions.
    pub(super) fn sequence(self) -> Sequence {
        if self == Self::AsTheyCome { Sequence::of_source() } else { Sequence::default() }
    }
}

/// Configuration of a playout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutConfig {
    /// Delay from capture to display, on top of the shortest network delay.
    pub latency: Duration,
    /// Release policy.
    pub release: Release,
    /// Payload type to play; `None` takes the first that carries H.264.
    pub payload_type: Option<u8>,
    /// Synchronisation source (SSRC) to play; `None` takes the first one, and later the one that replaces it.
    pub ssrc: Option<u32>,
    /// Bound on buffered payload, in bytes; beyond it, the oldest frames are settled as they are.
    pub buffer_bytes: usize,
    /// Bound on buffered packets.
    pub buffer_packets: usize,
}

impl PlayoutConfig {
    /// Constant delay with this latency; any payload type and source; a buffer of 16 MiB and 16384 packets.
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

    /// Returns the configuration with another release policy.
    #[must_use]
    pub fn released(self, release: Release) -> Self {
        Self { release, ..self }
    }
}

/// Frame to decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayoutFrame {
    /// NAL units as a byte stream (Annex B), with the parameter sets that the decoder lacks.
    pub annexb: Vec<u8>,
    /// RTP timestamp.
    pub rtp_timestamp: u32,
    /// Presentation time in 90 kHz ticks, without wrap-around, continuous over steps of the source's clock and
    /// restarts.
    pub ticks: i64,
    /// Decoding time in the same unit, for containers; strictly increasing.
    pub decode_ticks: i64,
    /// Whether a decoder can start with it.
    pub is_entry: bool,
    /// Frame type.
    pub kind: FrameKind,
    /// Whether it is a reference frame.
    pub reference: bool,
    /// Capture instant by the local clock, plus the shortest network delay.
    pub captured_at: Instant,
    /// Presentation instant by the local clock; later than the capture where display order differs from decoding order.
    pub presented_at: Instant,
    /// Arrival of its first packet.
    pub arrived_at: Instant,
    /// Arrival of its last packet.
    pub completed_at: Instant,
    /// Playout instant.
    pub playout_at: Instant,
}

/// Packet statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketStats {
    /// Packets accepted, late ones included.
    pub received: u64,
    /// Duplicates.
    pub duplicate: u64,
    /// Lost packets: no longer waited for.
    pub lost: u64,
    /// Late packets: arrived after they were given up.
    pub late: u64,
    /// Refused with an [`RtpError`](crate::RtpError).
    pub refused: u64,
    /// Missing frames (not packets), by gaps in the numbers of the frames received.
    pub frames_missing: u64,
    /// Restarts of the sender.
    pub restarts: u64,
}

/// Picture format of a stream, by its parameter sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureFormat {
    /// Codec name in SDP.
    pub codec: &'static str,
    /// Picture width in pixels.
    pub width: u32,
    /// Picture height in pixels.
    pub height: u32,
    /// Frame rate that the stream declares.
    pub rate: Option<FrameRate>,
}

impl std::fmt::Display for PictureFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.codec, self.width, self.height)?;
        self.rate.map_or(Ok(()), |rate| write!(f, " at {rate} fps"))
    }
}

/// Notable event in a stream, for log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutEvent {
    /// The picture format has changed.
    Format(PictureFormat),
    /// The source's clock, or the path, has changed.
    Clock(ClockChange),
    /// The source restarted, with this synchronisation source (SSRC).
    Restarted(u32),
}
