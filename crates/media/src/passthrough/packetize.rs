//! RTP packets of a connection that carry RTP packets of any payload, each with a packet descriptor.

use rtp_types::RtpPacketBuilder;
use timeous_core::AduMeta;

use super::descriptor::{MAX_PART, MAX_STREAM, PassthroughDescriptor};
use super::unit::PassthroughUnit;
use crate::error::PacketizeError;
use crate::pictures::UnitKind;

/// Length of the fixed RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;
/// Bytes of a packet beside a part.
const HEADERS: usize = RTP_HEADER + PassthroughDescriptor::MAX_LEN;
/// Fewest bytes of a packet in a part. Chosen by us: fewer would be mostly headers.
const LEAST_ROOM: usize = 64;

/// Step of the synchronisation source when a source begins anew: those between are of its streams.
const SSRC_STEP: u32 = 32;

/// Synchronisation source by which the clock of a stream is told (RFC 3550 §6.4.1), on a connection of this one.
pub const fn stream_ssrc(connection: u32, stream: u8) -> u32 {
    connection.wrapping_add(1 + stream as u32)
}

/// Stream whose clock is told by this synchronisation source, if it is one.
pub fn stream_of(connection: u32, ssrc: u32) -> Option<u8> {
    let distance = ssrc.wrapping_sub(connection);
    (1..=u32::from(MAX_STREAM) + 1).contains(&distance).then(|| (distance - 1) as u8)
}

/// Parts of a stream so far.
#[derive(Clone, Copy, Debug, Default)]
struct StreamParts {
    /// Current frame, and the number of its next part.
    frame: u32,
    part: u16,
    /// Frames given up.
    given_up: u8,
}

/// Turns units into RTP packets of one sequence. A packet that does not fit is split into parts.
#[derive(Clone, Debug)]
pub struct PassthroughPacketizer {
    ssrc: u32,
    sequence: u16,
    first_timestamp: u32,
    /// Bytes of a packet in a part, at most.
    room: usize,
    /// Restarts of the source.
    restarts: u32,
    /// Streams of the source: their packets may come between those of another one's frame.
    streams: [StreamParts; 16],
}

impl PassthroughPacketizer {
    /// Creates a packetizer of RTP packets of at most `mtu` bytes. The initial values are random (RFC 3550 §5.1, §8).
    ///
    /// # Errors
    /// [`PacketizeError::Mtu`] if hardly anything fits.
    pub fn new(mtu: usize, ssrc: u32, first_sequence: u16, first_timestamp: u32) -> Result<Self, PacketizeError> {
        let least = HEADERS + LEAST_ROOM;
        if mtu < least {
            return Err(PacketizeError::Mtu { mtu, min: least, max: usize::from(u16::MAX) });
        }
        let room = mtu - HEADERS;
        Ok(Self {
            ssrc,
            sequence: first_sequence,
            first_timestamp,
            room,
            restarts: 0,
            streams: [StreamParts::default(); 16],
        })
    }

    /// Fills later packets up to `mtu` bytes, where parts fit that are worth their headers.
    pub fn resize(&mut self, mtu: usize) {
        self.room = mtu.saturating_sub(HEADERS).max(LEAST_ROOM);
    }

    /// Synchronisation source (SSRC) of its packets.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// RTP timestamp at `ticks` of 90 kHz after the start of the stream.
    pub fn timestamp(&self, ticks: u64) -> u32 {
        self.first_timestamp.wrapping_add(ticks as u32)
    }

    /// Counts a frame that was given up, so that a receiver does not take it for lost.
    pub fn count_given_up(&mut self, stream: u8) {
        if let Some(stream) = self.streams.get_mut(usize::from(stream)) {
            stream.given_up = stream.given_up.wrapping_add(1);
        }
    }

    /// RTP packets of a unit that was captured at `ticks`, with their metadata. `is_queued`: others were queued before.
    pub fn packetize(&mut self, unit: &PassthroughUnit, ticks: u64, is_queued: bool) -> Vec<(AduMeta, Vec<u8>)> {
        let stream = usize::from(unit.stream & MAX_STREAM);
        if self.streams[stream].frame != unit.frame {
            (self.streams[stream].frame, self.streams[stream].part) = (unit.frame, 0);
        }
        if self.restarts != unit.restarts {
            // Timestamps begin anew, which a receiver must not take for a jump of one clock.
            (self.restarts, self.ssrc) = (unit.restarts, self.ssrc.wrapping_add(SSRC_STEP));
        }
        let header = unit.packet.get(..RTP_HEADER).unwrap_or_default();
        let rest = unit.packet.get(RTP_HEADER..).unwrap_or_default();
        let parts = rest.len().div_ceil(self.room).max(1);
        (0..parts)
            .map(|number| {
                let bytes = &rest[number * self.room..rest.len().min((number + 1) * self.room)];
                let descriptor = PassthroughDescriptor {
                    first_byte: header.first().copied().unwrap_or(0),
                    is_below: unit.is_below && number + 1 == parts,
                    stream: unit.stream,
                    last: unit.last && number + 1 == parts,
                    is_queued: is_queued || unit.first > 0 || number > 0,
                    is_entry: unit.kind == UnitKind::VideoEntry,
                    has_gap: unit.has_gap && number == 0,
                    frame: unit.frame as u16,
                    more: number + 1 < parts,
                    part: self.streams[stream].part.min(MAX_PART),
                    timestamp: header
                        .get(4..8)
                        .map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
                    place: unit.place as u16,
                    given_up: self.streams[stream].given_up,
                    ..PassthroughDescriptor::default()
                };
                self.streams[stream].part += 1;
                let second = header.get(1).copied().unwrap_or(0);
                let timestamp = self.timestamp(ticks);
                (unit.meta(), self.rtp(&descriptor.refer(unit.frame, &unit.references), second, timestamp, bytes))
            })
            .collect()
    }

    /// Writes a packet; `second` is the second byte of the header, marker and payload type.
    fn rtp(&mut self, descriptor: &PassthroughDescriptor, second: u8, timestamp: u32, bytes: &[u8]) -> Vec<u8> {
        let (profile, extension) = descriptor.write();
        let builder = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(second & 0x7f)
            .marker_bit(second & 0x80 != 0)
            .ssrc(self.ssrc)
            .sequence_number(self.sequence)
            .timestamp(timestamp)
            .extension(profile, &extension)
            .payload(bytes);
        self.sequence = self.sequence.wrapping_add(1);
        builder.write_vec().expect("the payload type is valid, and there are neither CSRCs nor padding")
    }
}
