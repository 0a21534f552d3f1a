//! Frames into RTP packets: RFC 6184, packetization mode 1 (single NAL units, STAP-A, FU-A).

use rtp_types::RtpPacketBuilder;
use timeous_core::{AduMeta, AduSeq, Duration, SubStream};

use crate::error::PacketizeError;
use crate::frame::Frame;
use crate::h264::payload::payloads;

/// The fixed header of RTP (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;

/// How RTP packets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketizerConfig {
    /// RTP payload type, 96 to 127.
    pub payload_type: u8,
    /// Synchronisation source; random per session (RFC 3550 §8).
    pub ssrc: u32,
    /// The first sequence number; random (RFC 3550 §5.1).
    pub first_sequence: u16,
    /// The timestamp at the stream's beginning; random (RFC 3550 §5.1).
    pub first_timestamp: u32,
    /// The largest RTP packet, header included, in bytes.
    pub mtu: usize,
    /// The sub-stream that its ADUs belong to.
    pub substream: SubStream,
}

impl Default for PacketizerConfig {
    fn default() -> Self {
        Self { payload_type: 96, ssrc: 0, first_sequence: 0, first_timestamp: 0, mtu: 1200, substream: SubStream(0) }
    }
}

/// An RTP packet as an ADU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaAdu {
    /// What late choice may know of it. `enqueued` and `deadline` are left to the sender, who has a clock.
    pub meta: AduMeta,
    /// When its frame was captured, counted from the stream's beginning: its deadline counts from here.
    pub capture: Duration,
    /// When it can be handed over at the earliest, counted from the same beginning.
    pub handover: Duration,
    /// The packet.
    pub rtp: Vec<u8>,
}

/// Makes RTP packets of frames.
#[derive(Clone, Debug)]
pub struct Packetizer {
    config: PacketizerConfig,
    sequence: u16,
    adu: u64,
}

impl Packetizer {
    const MIN_MTU: usize = 64;
    /// What fits into a UDP datagram over IPv4, and the 16-bit sizes of a STAP-A.
    const MAX_MTU: usize = 65_507;

    /// A packetizer.
    ///
    /// # Errors
    /// [`PacketizeError`] if the packet size or the payload type is out of range.
    pub fn new(config: PacketizerConfig) -> Result<Self, PacketizeError> {
        let (min, max) = (Self::MIN_MTU, Self::MAX_MTU);
        if !(min..=max).contains(&config.mtu) {
            return Err(PacketizeError::Mtu { mtu: config.mtu, min, max });
        }
        if !(96..=127).contains(&config.payload_type) {
            return Err(PacketizeError::PayloadType(config.payload_type));
        }
        Ok(Self { config, sequence: config.first_sequence, adu: 0 })
    }

    /// The packets of `frame`, the last one with the marker bit (RFC 6184 §5.1).
    pub fn packetize(&mut self, frame: &Frame) -> Vec<MediaAdu> {
        let payloads = payloads(&frame.nals, self.config.mtu - RTP_HEADER);
        let last = payloads.len().saturating_sub(1);
        payloads.iter().enumerate().map(|(i, payload)| self.adu(frame, payload, i == last)).collect()
    }

    fn adu(&mut self, frame: &Frame, payload: &[u8], marker: bool) -> MediaAdu {
        let rtp = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.config.payload_type)
            .ssrc(self.config.ssrc)
            .sequence_number(self.sequence)
            .timestamp(self.config.first_timestamp.wrapping_add(frame.rtp_ticks as u32))
            .marker_bit(marker)
            .payload(payload)
            .write_vec()
            .expect("the payload type was checked, and there are neither CSRCs nor padding");
        let meta = AduMeta {
            seq: AduSeq(self.adu),
            priority: frame.priority,
            substream: self.config.substream,
            frame: frame.id(),
            references: frame.references,
            ..AduMeta::default()
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.adu += 1;
        MediaAdu { meta, capture: frame.capture, handover: frame.handover, rtp }
    }
}
