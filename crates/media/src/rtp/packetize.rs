//! Packetizer: splits frames into RTP packets (RFC 6184, packetization mode 1: single NAL units, STAP-A, FU-A).

use rtp_types::RtpPacketBuilder;
use timeous_core::{AduMeta, AduSeq, Duration, SubStream};

use crate::error::PacketizeError;
use crate::frame::Frame;
use crate::h264::payload::payloads;
use crate::rtp::descriptor::{Distances, FrameDescriptor};

/// Length of the fixed RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;

/// Configuration of a packetizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketizerConfig {
    /// RTP payload type, 96 to 127.
    pub payload_type: u8,
    /// Synchronisation source (SSRC); random per session (RFC 3550 §8).
    pub ssrc: u32,
    /// First sequence number; random (RFC 3550 §5.1).
    pub first_sequence: u16,
    /// RTP timestamp at the start of the stream; random (RFC 3550 §5.1).
    pub first_timestamp: u32,
    /// Largest RTP packet, header included, in bytes.
    pub mtu: usize,
    /// Sub-stream of the ADUs.
    pub substream: SubStream,
    /// Whether each frame carries a [`FrameDescriptor`]; receivers other than Timeous ignore it (RFC 8285 §4.2).
    pub descriptors: bool,
}

/// Times of a frame on the sender's RTP clock, counted from the start of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Presentation time in ticks, unique to the frame.
    pub presentation: u64,
    /// Capture time in ticks.
    pub capture: u64,
    /// Whether other packets were queued when the frame was sent.
    pub is_queued: bool,
}

impl Default for PacketizerConfig {
    fn default() -> Self {
        Self {
            payload_type: 96,
            ssrc: 0,
            first_sequence: 0,
            first_timestamp: 0,
            mtu: 1200,
            substream: SubStream(0),
            descriptors: false,
        }
    }
}

/// RTP packet with its metadata, as an application data unit (ADU).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaAdu {
    /// Metadata for late choice. The sender, which has a clock, sets `enqueued` and `deadline`.
    pub meta: AduMeta,
    /// Capture time of its frame since the start of the stream; the deadline counts from here.
    pub capture: Duration,
    /// Earliest send time since the start of the stream.
    pub handover: Duration,
    /// The RTP packet.
    pub rtp: Vec<u8>,
}

/// Turns frames into RTP packets.
#[derive(Clone, Debug)]
pub struct Packetizer {
    config: PacketizerConfig,
    sequence: u16,
    adu: u64,
}

impl Packetizer {
    const MIN_MTU: usize = 64;
    /// Largest payload of a UDP datagram over IPv4, which also fits the 16-bit sizes of a STAP-A.
    const MAX_MTU: usize = 65_507;

    /// Creates a packetizer.
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

    /// Fills later packets up to `mtu` bytes, in the range of [`new`](Self::new).
    pub fn resize(&mut self, mtu: usize) {
        self.config.mtu = mtu.clamp(Self::MIN_MTU, Self::MAX_MTU);
    }

    /// Synchronisation source (SSRC) of its packets.
    pub fn ssrc(&self) -> u32 {
        self.config.ssrc
    }

    /// RTP timestamp at `ticks` after the start of the stream.
    pub fn timestamp(&self, ticks: u64) -> u32 {
        self.config.first_timestamp.wrapping_add(ticks as u32)
    }

    /// Packets of `frame`; the last one has the marker bit (RFC 6184 §5.1).
    pub fn packetize(&mut self, frame: &Frame) -> Vec<MediaAdu> {
        let stamp = Stamp { presentation: frame.rtp_ticks, capture: frame.rtp_ticks, is_queued: false };
        self.packetize_part(frame, (true, true), &stamp)
    }

    /// Packets of a part of `frame`; the flags tell whether it is the `(first, last)` part. Slices may thus be sent
    /// before the frame is complete.
    pub fn packetize_part(&mut self, frame: &Frame, (first, last): (bool, bool), stamp: &Stamp) -> Vec<MediaAdu> {
        let descriptor = (first && self.config.descriptors).then(|| describe(frame, stamp));
        let room = self.config.mtu - RTP_HEADER;
        let reserved = if descriptor.is_some() { FrameDescriptor::MAX_LEN } else { 0 };
        let payloads = payloads(&frame.nals, room - reserved);
        let end = payloads.len().saturating_sub(1);
        let packets = payloads.iter().enumerate();
        packets
            .map(|(i, payload)| {
                let descriptor = descriptor.as_ref().filter(|_| i == 0);
                self.adu(frame, stamp, payload, last && i == end, descriptor)
            })
            .collect()
    }

    fn adu(
        &mut self,
        frame: &Frame,
        stamp: &Stamp,
        payload: &[u8],
        marker: bool,
        descriptor: Option<&FrameDescriptor>,
    ) -> MediaAdu {
        let mut builder = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.config.payload_type)
            .ssrc(self.config.ssrc)
            .sequence_number(self.sequence)
            .timestamp(self.config.first_timestamp.wrapping_add(stamp.presentation as u32))
            .marker_bit(marker)
            .payload(payload);
        let extension = descriptor.map(FrameDescriptor::write);
        if let Some((profile, bytes)) = &extension {
            builder = builder.extension(*profile, bytes);
        }
        let rtp = builder.write_vec().expect("the payload type was checked, and there are neither CSRCs nor padding");
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

fn describe(frame: &Frame, stamp: &Stamp) -> FrameDescriptor {
    let mut references = Distances::default();
    for reference in frame.references.iter() {
        references.push(frame.id().0.wrapping_sub(reference.0));
    }
    let offset = stamp.capture as i64 - stamp.presentation as i64;
    let most = i64::from(FrameDescriptor::MAX_OFFSET);
    FrameDescriptor {
        frame: frame.index as u16,
        capture_offset: offset.clamp(-most, most) as i32,
        is_entry: frame.entry.is_some(),
        is_queued: stamp.is_queued,
        references,
    }
}
