//! RTP packets of a transport stream: whole transport packets of one PES packet (RFC 2250 §2, payload type 33).

use rtp_types::{RtpPacket, RtpPacketBuilder};
use timeous_core::AduMeta;

use super::descriptor::PesDescriptor;
use super::packet::{PACKET_LEN, SYNC};
use super::unit::TsUnit;
use crate::error::PacketizeError;
use crate::pictures::UnitKind;

/// RTP payload type of a transport stream (RFC 3551 §6, table 5: MP2T).
pub const TS_PAYLOAD_TYPE: u8 = 33;
/// Length of the fixed RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;
/// Most transport packets in an RTP packet. Chosen by us: seven fit an Ethernet frame, as in every encoder's UDP output.
const MOST_PACKETS: usize = 7;

/// Returns the number of transport packets in an RTP packet of at most `mtu` bytes.
fn room(mtu: usize) -> usize {
    (mtu.saturating_sub(RTP_HEADER + PesDescriptor::MAX_LEN) / PACKET_LEN).min(MOST_PACKETS)
}

/// Packets of a datagram that is of a transport stream: whole ones, with or without an RTP header (RFC 2250 §2), whose payload type may
/// be dynamic.
///
/// ```
/// use timeous_media::ts::packets_of;
/// let packet = [0x47; 188];
/// assert_eq!(packets_of(&packet), Some(&packet[..]));
/// let rtp = [&[0x80, 33, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7], &packet[..]].concat();
/// assert_eq!(packets_of(&rtp), Some(&packet[..]));
/// assert_eq!(packets_of(&[0; 188]), None);
/// ```
pub fn packets_of(datagram: &[u8]) -> Option<&[u8]> {
    let is_whole = |bytes: &[u8]| {
        !bytes.is_empty()
            && bytes.len().is_multiple_of(PACKET_LEN)
            && bytes.chunks(PACKET_LEN).all(|packet| packet[0] == SYNC)
    };
    if is_whole(datagram) {
        return Some(datagram);
    }
    let packet = RtpPacket::parse(datagram).ok()?;
    // The packet lends its payload for no longer than itself.
    let begin = packet.payload_offset();
    let payload = datagram.get(begin..begin + packet.payload_len())?;
    is_whole(payload).then_some(payload)
}

/// Turns units of a transport stream into RTP packets.
#[derive(Clone, Debug)]
pub struct TsPacketizer {
    ssrc: u32,
    sequence: u16,
    first_timestamp: u32,
    /// Transport packets in an RTP packet, at most.
    room: usize,
}

impl TsPacketizer {
    /// Creates a packetizer of RTP packets of at most `mtu` bytes. The initial values are random (RFC 3550 §5.1, §8).
    ///
    /// # Errors
    /// [`PacketizeError::Mtu`] if not even one transport packet fits.
    pub fn new(mtu: usize, ssrc: u32, first_sequence: u16, first_timestamp: u32) -> Result<Self, PacketizeError> {
        let least = RTP_HEADER + PesDescriptor::MAX_LEN + PACKET_LEN;
        if mtu < least {
            return Err(PacketizeError::Mtu { mtu, min: least, max: usize::from(u16::MAX) });
        }
        Ok(Self { ssrc, sequence: first_sequence, first_timestamp, room: room(mtu) })
    }

    /// Fills later RTP packets up to `mtu` bytes, where at least one transport packet fits.
    pub fn resize(&mut self, mtu: usize) {
        self.room = room(mtu).max(1);
    }

    /// Synchronisation source (SSRC) of its packets.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// RTP timestamp at `ticks` of 90 kHz after the start of the stream.
    pub fn timestamp(&self, ticks: u64) -> u32 {
        self.first_timestamp.wrapping_add(ticks as u32)
    }

    /// RTP packets of a unit that was captured at `ticks`, with their metadata. `is_queued`: others were queued before.
    pub fn packetize(&mut self, unit: &TsUnit, ticks: u64, is_queued: bool) -> Vec<(AduMeta, Vec<u8>)> {
        let room = self.room * PACKET_LEN;
        // A unit without packets tells the end of a PES packet.
        let parts = unit.packets.len().div_ceil(room).max(1);
        (0..parts)
            .map(|part| {
                let packets = &unit.packets[part * room..unit.packets.len().min((part + 1) * room)];
                let descriptor = PesDescriptor {
                    frame: unit.frame,
                    place: unit.place as u16,
                    first: unit.first.wrapping_add((part * self.room) as u16),
                    last: unit.last && part + 1 == parts,
                    is_queued: is_queued || part > 0,
                    is_entry: unit.kind == UnitKind::VideoEntry,
                    ..PesDescriptor::default()
                };
                (unit.meta(), self.rtp(&descriptor.refer(unit.frame, &unit.references), self.timestamp(ticks), packets))
            })
            .collect()
    }

    fn rtp(&mut self, descriptor: &PesDescriptor, timestamp: u32, packets: &[u8]) -> Vec<u8> {
        let (profile, extension) = descriptor.write();
        let builder = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(TS_PAYLOAD_TYPE)
            .ssrc(self.ssrc)
            .sequence_number(self.sequence)
            .timestamp(timestamp)
            .extension(profile, &extension)
            .payload(packets);
        self.sequence = self.sequence.wrapping_add(1);
        builder.write_vec().expect("the payload type is valid, and there are neither CSRCs nor padding")
    }
}
