//! Playout of RTP passed through: frames that are complete, in time and decodable, as the packets that the source sent, numbered anew.

use std::collections::{BTreeMap, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use super::descriptor::PassthroughDescriptor;
use crate::clock::ClockChange;
use crate::error::RtpError;
use crate::jitter::{JitterBuffer, Part, Whole, WholeFrameCounts};
use crate::playout::Release;

/// Most numbers that are left out for frames that were lost at once. Chosen by us: a receiver takes a larger gap for a new stream
/// (RFC 3550 §A.1: 3000); a higher value tells nothing more.
const MOST_LEFT_OUT: u32 = 64;
/// Length of the fixed RTP header (RFC 3550 §5.1).
const RTP_HEADER: usize = 12;

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
}

/// Piece of an RTP packet.
#[derive(Debug)]
struct Piece {
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
    place: Option<u8>,
    /// Frames that did not come and were not withheld, and frames given up, as far as known; and for how many a number was left out.
    absent: u32,
    given_up: u32,
    last_given_up: u8,
    left_out: u32,
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
#[derive(Debug)]
pub struct PassthroughPlayout {
    frames: JitterBuffer<Piece>,
    numbers: BTreeMap<u8, Numbers>,
    restarts: u32,
    ready: VecDeque<PassthroughRelease>,
}

/// Whether a packet is RTP that carries a packet of any payload.
pub fn is_passthrough(packet: &[u8]) -> bool {
    RtpPacket::parse(packet).is_ok_and(|packet| descriptor_of(&packet).is_some())
}

fn descriptor_of(packet: &RtpPacket<'_>) -> Option<PassthroughDescriptor> {
    packet.extension().and_then(|(profile, bytes)| PassthroughDescriptor::read(profile, bytes))
}

impl PassthroughPlayout {
    /// Creates a playout that gives out packets one latency after their capture, or at once.
    pub fn new(latency: Duration, release: Release) -> Self {
        let frames = JitterBuffer::new(latency, release);
        Self { frames, numbers: BTreeMap::new(), restarts: 0, ready: VecDeque::new() }
    }

    /// Latency in force.
    pub fn latency(&self) -> Duration {
        self.frames.latency()
    }

    /// Changes the latency.
    pub fn set_latency(&mut self, latency: Duration) {
        self.frames.set_latency(latency);
    }

    /// Synchronisation source (SSRC) of the connection.
    pub fn ssrc(&self) -> Option<u32> {
        self.frames.ssrc()
    }

    /// Extra delay of the fastest packets of the last second, against the clock.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        self.frames.excess(now)
    }

    /// Counts so far.
    pub fn stats(&self) -> WholeFrameCounts {
        self.frames.counts()
    }

    /// Whether packets wait for their playout time.
    pub fn holds_packets(&self) -> bool {
        self.frames.holds_frames()
    }

    /// Handles an RTP packet of the connection.
    ///
    /// # Errors
    /// See [`RtpError`]: the stream goes on without the packet.
    pub fn handle_packet(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let handled = self.take(now, rtp);
        if handled.is_err() {
            self.frames.count_refused();
        }
        self.handle_timeout(now);
        handled
    }

    fn take(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let packet = RtpPacket::parse(rtp).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        let descriptor = descriptor_of(&packet).ok_or(RtpError::NotPassthrough)?;
        let Some(due) = self.frames.admit(now, &packet, !descriptor.is_queued)? else { return Ok(()) };
        if std::mem::replace(&mut self.restarts, self.frames.restarts()) != self.restarts {
            self.numbers.clear();
        }
        let frame = extended(self.frames.newest(), descriptor.frame);
        let has_packet = descriptor.first_byte != 0;
        let piece = Piece { descriptor, second: rtp[1], bytes: packet.payload().to_vec() };
        let part = Part {
            frame,
            stream: Some(descriptor.stream.into()),
            first: descriptor.part,
            count: u16::from(has_packet),
            last: descriptor.last,
            is_entry: descriptor.is_entry,
            references: descriptor.distances().map(|back| frame.wrapping_sub(back)).collect(),
            len: piece.bytes.len(),
            units: has_packet.then_some(piece),
        };
        self.frames.insert(now, due, part);
        Ok(())
    }

    /// Gives out what is due, and gives up what did not come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.frames.handle_timeout(now);
        self.take_released();
    }

    fn take_released(&mut self) {
        while let Some(whole) = self.frames.poll() {
            self.give_out(whole);
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.frames.poll_timeout()
    }

    /// Returns the next packets to give out.
    pub fn poll_release(&mut self) -> Option<PassthroughRelease> {
        self.ready.pop_front()
    }

    /// Returns the next change of the clock.
    pub fn poll_change(&mut self) -> Option<ClockChange> {
        self.frames.poll_change()
    }

    /// Ends the stream: what is complete is given out at once.
    pub fn finish(&mut self) {
        self.frames.finish();
        self.take_released();
    }

    fn give_out(&mut self, whole: Whole<Piece>) {
        let Some(first) = whole.parts.first().map(|piece| piece.descriptor) else { return };
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
        self.ready.push_back(PassthroughRelease {
            stream: first.stream,
            restarts: self.restarts,
            packets,
            timestamp: first.timestamp,
            playout_at: whole.due,
        });
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
        self.given_up += u32::from(frame.given_up.wrapping_sub(self.last_given_up));
        self.last_given_up = frame.given_up;
        let lost = self.absent.saturating_sub(self.given_up + self.left_out);
        self.left_out += lost;
        self.next = self.next.wrapping_add(lost.min(MOST_LEFT_OUT) as u16);
    }

    fn next(&mut self, has_gap: bool) -> u16 {
        let number = self.next.wrapping_add(u16::from(has_gap));
        self.next = number.wrapping_add(1);
        number
    }
}

/// Number of a frame whose lowest bits are `number`: the one that is nearest to the newest.
fn extended(newest: Option<u32>, number: u16) -> u32 {
    /// Frames before the first one that came have numbers, too.
    const FIRST: u32 = 1 << 16;
    let Some(newest) = newest else { return FIRST | u32::from(number) };
    newest.wrapping_add_signed(i32::from(number.wrapping_sub(newest as u16) as i16))
}
