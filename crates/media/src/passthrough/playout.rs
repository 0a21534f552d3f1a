//! Playout of RTP passed through: frames that are complete, in time and decodable, as the packets that the source sent, numbered anew.

use std::collections::{BTreeMap, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::Instant;

use super::descriptor::PassthroughDescriptor;
use crate::error::RtpError;
use crate::jitter::{Part, Whole, WholeFrameCounts};
use crate::whole::{Carrier, Content, Reading, WholeFramePlayout};

/// Most numbers that are left out for frames that were lost at once. Chosen by us: a receiver takes a larger gap for a new stream
/// (RFC 3550 §A.1: 3000); a higher value tells nothing more.
const MOST_LEFT_OUT: u32 = 64;
/// Length of the fixed RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;
/// Marker bit of its second byte.
const MARKER: u8 = 0x80;

/// RTP packets of a frame to be given out, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassthroughRelease {
    /// Stream of the source, from zero.
    pub stream: u8,
    /// Restarts of the source: with another number, the packets are of another synchronisation source.
    pub restarts: u32,
    /// Whole packets as the source sent them, with sequence numbers that have a gap where packets were lost, and none where frames
    /// were given up. Synchronisation source and first sequence number are zero.
    pub packets: Vec<Vec<u8>>,
    /// RTP timestamp of the frame.
    pub timestamp: u32,
    /// Playout time.
    pub playout_at: Instant,
    /// Whether the frame is a spatial layer, and the next one of its picture follows unless it was given up or lost.
    is_below: bool,
}

/// Piece of an RTP packet.
#[derive(Debug)]
pub(crate) struct Piece {
    descriptor: PassthroughDescriptor,
    /// Second byte of the header: marker and payload type.
    second: u8,
    bytes: Vec<u8>,
}

/// Sequence numbers given out for a stream.
#[derive(Debug, Default)]
struct Numbers {
    next: u16,
    /// Number of the last frame in its stream.
    place: Option<u16>,
    /// Frames that did not come and were not withheld, and frames given up, as far as known; and for how many a number was left out.
    absent: u32,
    given_up: u32,
    last_given_up: u8,
    /// Newest count of frames given up that has come, also with frames that are given out later.
    heard: Option<u8>,
    left_out: u32,
}

/// Output of RTP that is passed through.
#[derive(Debug, Default)]
pub struct PassthroughOutput {
    numbers: BTreeMap<u8, Numbers>,
    restarts: u32,
}

/// Jitter buffer of RTP that is passed through.
///
/// ```
/// use timeous_core::{Duration, Instant};
/// use timeous_media::{Release, passthrough::PassthroughPlayout};
/// let mut playout = PassthroughPlayout::new(Duration::from_millis(200), Release::Constant);
/// assert!(playout.handle_packet(Instant::ZERO, b"no RTP").is_err());
/// assert_eq!(playout.poll_release(), None);
/// ```
pub type PassthroughPlayout = WholeFramePlayout<PassthroughOutput>;

/// Whether a packet is RTP that carries a packet of any payload.
pub fn is_passthrough(packet: &[u8]) -> bool {
    RtpPacket::parse(packet).is_ok_and(|packet| descriptor_of(&packet).is_some())
}

fn descriptor_of(packet: &RtpPacket<'_>) -> Option<PassthroughDescriptor> {
    packet.extension().and_then(|(profile, bytes)| PassthroughDescriptor::read(profile, bytes))
}

#[cfg(test)]
impl PassthroughRelease {
    /// Frame of one packet.
    pub(crate) fn of_packet(stream: u8, timestamp: u32, playout_at: Instant, payload: &[u8]) -> Self {
        let packet = [&[0x80, MARKER, 0, 0][..], &timestamp.to_be_bytes(), &[0; 4], payload].concat();
        Self { stream, restarts: 0, packets: vec![packet], timestamp, playout_at, is_below: false }
    }
}

impl PassthroughPlayout {
    /// Returns the next packets to give out.
    pub fn poll_release(&mut self) -> Option<PassthroughRelease> {
        self.next_release()
    }

    /// Counts of each stream that has come, by its number.
    pub fn streams(&self) -> impl Iterator<Item = (u16, WholeFrameCounts)> + '_ {
        self.counts_by_stream()
    }
}

impl Carrier for PassthroughOutput {
    type Piece = Piece;
    type Release = PassthroughRelease;

    fn read(&mut self, packet: &RtpPacket<'_>) -> Result<Reading<Piece>, RtpError> {
        let descriptor = descriptor_of(packet).ok_or(RtpError::NotPassthrough)?;
        let has_packet = descriptor.first_byte != 0;
        let second = packet.payload_type() | if packet.marker_bit() { MARKER } else { 0 };
        let piece = Piece { descriptor, second, bytes: packet.payload().to_vec() };
        let stream = u16::from(descriptor.stream);
        let part = Part {
            frame: descriptor.frame.into(),
            bits: u16::BITS,
            lane: Some(stream),
            stream: Some((stream, descriptor.place)),
            first: descriptor.part,
            count: u16::from(has_packet),
            last: descriptor.last,
            is_entry: descriptor.is_entry,
            is_below: descriptor.is_below,
            back: descriptor.distances().collect(),
            len: piece.bytes.len(),
            units: has_packet.then_some(piece),
        };
        Ok(Reading { is_prompt: !descriptor.is_queued, content: Content::Part(part) })
    }

    fn admitted(&mut self, packet: &RtpPacket<'_>) {
        if let Some(PassthroughDescriptor { stream, given_up, .. }) = descriptor_of(packet) {
            self.numbers.entry(stream).or_default().hear(given_up);
        }
    }

    fn begin_anew(&mut self, restarts: u32) {
        self.restarts = restarts;
        self.numbers.clear();
    }

    fn give_out(&mut self, whole: Whole<Piece>) -> Option<PassthroughRelease> {
        let first = whole.parts.first().map(|piece| piece.descriptor)?;
        let is_below = whole.parts.iter().any(|piece| piece.descriptor.is_below);
        let numbers = self.numbers.entry(first.stream).or_default();
        numbers.frame(&first, whole.withheld);
        let mut packets: Vec<Vec<u8>> = Vec::new();
        let mut goes_on = false;
        for piece in whole.parts {
            if goes_on && let Some(packet) = packets.last_mut() {
                packet.extend_from_slice(&piece.bytes);
            } else {
                let mut packet = vec![piece.descriptor.first_byte, piece.second];
                packet.extend_from_slice(&numbers.next(piece.descriptor.has_gap).to_be_bytes());
                packet.extend_from_slice(&piece.descriptor.timestamp.to_be_bytes());
                packet.resize(RTP_HEADER, 0);
                packet.extend_from_slice(&piece.bytes);
                packets.push(packet);
            }
            goes_on = piece.descriptor.more;
        }
        Some(PassthroughRelease {
            stream: first.stream,
            restarts: self.restarts,
            packets,
            timestamp: first.timestamp,
            playout_at: whole.due,
            is_below,
        })
    }

    /// The last packet of a picture has the marker, whichever layers of it are given out.
    fn complete(&self, released: &mut VecDeque<PassthroughRelease>) {
        for at in 0..released.len() {
            let this = &released[at];
            let mut later = released.range(at + 1..).filter(|later| later.stream == this.stream);
            if this.is_below
                && later.next().is_none_or(|later| later.timestamp != this.timestamp)
                && let Some(second) = released[at].packets.last_mut().and_then(|packet| packet.get_mut(1))
            {
                *second |= MARKER;
            }
        }
    }
}

impl Numbers {
    /// Leaves out a number for each frame before this one that was lost: it did not come, and was not given up.
    fn frame(&mut self, frame: &PassthroughDescriptor, withheld: u32) {
        if self.place.is_none() {
            // What was given up before this receiver came does not matter.
            self.last_given_up = frame.given_up;
        }
        let between = self.place.map_or(0, |last| u32::from(frame.place.wrapping_sub(last).wrapping_sub(1)));
        self.place = Some(frame.place);
        self.absent += between.saturating_sub(withheld);
        // A frame is also given up while later ones are queued, whose packets do not count it.
        let heard = self.heard.unwrap_or(frame.given_up);
        self.given_up += self.newly_given_up(heard);
        self.last_given_up = heard;
        let lost = self.absent.saturating_sub(self.given_up + self.left_out);
        self.left_out += lost;
        self.next = self.next.wrapping_add(lost.min(MOST_LEFT_OUT) as u16);
    }

    /// Takes the count of a packet, unless it is older than one that has come.
    fn hear(&mut self, count: u8) {
        let is_newer = |heard: u8| count.wrapping_sub(heard) <= u8::MAX / 2;
        if self.heard.is_none_or(is_newer) {
            self.heard = Some(count);
        }
    }

    /// Frames given up since the last one came, from their count modulo 2^8: as many as are absent, where it went round in between.
    fn newly_given_up(&self, count: u8) -> u32 {
        const ROUND: u32 = 1 << u8::BITS;
        let least = u32::from(count.wrapping_sub(self.last_given_up));
        // Frames are given up before those ahead of them have left, so that some may be counted that are not absent yet.
        let most = (self.absent + ROUND / 2).saturating_sub(self.given_up);
        least + most.saturating_sub(least) / ROUND * ROUND
    }

    fn next(&mut self, has_gap: bool) -> u16 {
        let number = self.next.wrapping_add(u16::from(has_gap));
        self.next = number.wrapping_add(1);
        number
    }
}
