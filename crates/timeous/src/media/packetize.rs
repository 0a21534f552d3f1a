//! Frames into RTP packets: RFC 6184, packetization mode 1 (single NAL units, STAP-A, FU-A).

use rtp_types::RtpPacketBuilder;
use timeous_core::{AduMeta, AduSeq, Duration, SubStream};

use super::error::PacketizeError;
use super::frame::Frame;
use super::parameters::type_of;

/// The fixed header of RTP (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;
/// NAL unit types of the payload structures (RFC 6184 §5.2, table 1).
pub(super) const STAP_A: u8 = 24;
pub(super) const FU_A: u8 = 28;
/// The bits of an FU header (RFC 6184 §5.8).
pub(super) const FU_START: u8 = 0x80;
pub(super) const FU_END: u8 = 0x40;
/// F and NRI of a NAL unit header (RFC 6184 §5.3).
const F: u8 = 0x80;
const NRI: u8 = 0x60;

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

/// Neighbours that fit into one packet share it, so that parameter sets do not cost a packet each; what fits alone
/// goes alone; what does not is fragmented.
fn payloads(nals: &[Vec<u8>], room: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut rest = nals;
    while let Some(first) = rest.first() {
        let together = how_many_together(rest, room);
        if together > 1 {
            payloads.push(aggregate(&rest[..together]));
        } else if first.len() <= room {
            payloads.push(first.clone());
        } else {
            fragment(first, room, &mut payloads);
        }
        rest = &rest[together..];
    }
    payloads
}

/// How many of `nals` fit into one STAP-A; at least one.
fn how_many_together(nals: &[Vec<u8>], room: usize) -> usize {
    let mut size = 1;
    let fit = nals.iter().take_while(|nal| {
        size += 2 + nal.len();
        size <= room
    });
    fit.count().max(1)
}

/// STAP-A (RFC 6184 §5.7.1): its F is set if any is, its NRI is the highest.
fn aggregate(nals: &[Vec<u8>]) -> Vec<u8> {
    let f = nals.iter().fold(0, |f, nal| f | (nal[0] & F));
    let nri = nals.iter().map(|nal| nal[0] & NRI).max().unwrap_or(0);
    let mut payload = vec![f | nri | STAP_A];
    for nal in nals {
        payload.extend_from_slice(&(nal.len() as u16).to_be_bytes());
        payload.extend_from_slice(nal);
    }
    payload
}

/// FU-A (RFC 6184 §5.8): the header of the NAL unit is taken apart, and its body spread evenly.
fn fragment(nal: &[u8], room: usize, payloads: &mut Vec<Vec<u8>>) {
    let (header, body) = (nal[0], &nal[1..]);
    let most = room - 2;
    let count = body.len().div_ceil(most);
    let chunks = body.chunks(body.len().div_ceil(count));
    let last = chunks.len() - 1;
    for (i, chunk) in chunks.enumerate() {
        let start = if i == 0 { FU_START } else { 0 };
        let end = if i == last { FU_END } else { 0 };
        let mut payload = Vec::with_capacity(2 + chunk.len());
        payload.extend_from_slice(&[(header & (F | NRI)) | FU_A, start | end | type_of(header)]);
        payload.extend_from_slice(chunk);
        payloads.push(payload);
    }
}
