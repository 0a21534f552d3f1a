//! Playout: from RTP packets to frames that are whole, decodable and in time.
//!
//! A frame is *whole* when no sequence number is missing from its beginning to its marker. It is *decodable* when,
//! besides, the frames that it refers to were given out. It is *in time* when it is whole before its playout instant:
//! its capture time by the sender's clock, as well as that can be told from arrivals, plus the latency.
//!
//! Frames are given out in decoding order, each as soon as nothing before it can come any more, or must be waited for
//! no longer since a frame that is here is due.

mod buffer;
mod chain;
mod clock;
mod report;
mod straggler;

use std::collections::VecDeque;

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use self::buffer::{Buffer, Parts, Piece};
use self::chain::{Chain, Pace};
use self::clock::MediaClock;
pub use self::report::{FrameFate, FrameReport};
use self::straggler::{Late, Straggler, Stragglers};
use crate::error::RtpError;
use crate::frame::FrameKind;
use crate::h264::depacketize::Payload;
use crate::h264::describe::kind_of;
use crate::h264::parameters::{ParameterSets, nal_type, type_of};
use crate::h264::picture::Picture;
use crate::h264::slice::SliceHeader;
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::sequence::{Place, Sequence};

/// How a stream is played out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutConfig {
    /// From capture to screen, on top of the shortest time that a packet is under way.
    pub latency: Duration,
    /// The payload type agreed on.
    pub payload_type: u8,
    /// The source to play; without one, the first that is heard.
    pub ssrc: Option<u32>,
    /// How much may wait, in bytes of payload; a frame that does not fit is given up.
    pub buffer_bytes: usize,
    /// How many packets may wait.
    pub buffer_packets: usize,
}

impl PlayoutConfig {
    /// With this latency; payload type 96, the first source heard, 16 MB in 16384 packets.
    pub fn new(latency: Duration) -> Self {
        Self { latency, payload_type: 96, ssrc: None, buffer_bytes: 16 << 20, buffer_packets: 1 << 14 }
    }
}

/// A frame to decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayoutFrame {
    /// Its NAL units as a byte stream, with the parameter sets that a decoder has not been given yet.
    pub annexb: Vec<u8>,
    /// Its RTP timestamp: when it is to be shown, in 90 kHz.
    pub rtp_timestamp: u32,
    /// The same without wrap-around. Each frame has its own, unless the sender started anew
    /// ([`PacketStats::restarts`]).
    pub ticks: i64,
    /// Decoding time in the same unit, for containers: each frame's is above that of the frame before it.
    pub decode_ticks: i64,
    /// Whether a decoder can begin with it.
    pub is_entry: bool,
    /// What it is predicted from.
    pub kind: FrameKind,
    /// Whether later frames refer to it.
    pub reference: bool,
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
    /// That were refused with an [`RtpError`].
    pub refused: u64,
    /// Not packets, but times that the sender started anew: timestamps, and with them `ticks`, begin again.
    pub restarts: u64,
}

/// Plays one RTP stream. Sans-IO: feed packets and time, poll frames and reports.
///
/// After each call of [`handle_packet`](Self::handle_packet) or [`handle_timeout`](Self::handle_timeout), poll
/// [`poll_frame`](Self::poll_frame) and [`poll_report`](Self::poll_report) until they give `None`, then wait until
/// [`poll_timeout`](Self::poll_timeout) or the next packet. An example is at [`media`](super).
#[derive(Debug)]
pub struct Playout {
    config: PlayoutConfig,
    ssrc: Option<u32>,
    sequence: Sequence,
    clock: MediaClock,
    buffer: Buffer,
    stragglers: Stragglers,
    /// The sequence number after the last that was settled.
    expected: Option<u64>,
    chain: Chain,
    /// As of the last frame settled.
    sets: ParameterSets,
    /// As of the last frame given out: what the decoder knows.
    given: ParameterSets,
    /// Of the last frame given out.
    decode_ticks: Option<i64>,
    frames: VecDeque<PlayoutFrame>,
    reports: VecDeque<FrameReport>,
    stats: PacketStats,
}

impl Playout {
    /// A playout.
    pub fn new(config: PlayoutConfig) -> Self {
        Self {
            config,
            ssrc: config.ssrc,
            sequence: Sequence::default(),
            clock: MediaClock::default(),
            buffer: Buffer::default(),
            stragglers: Stragglers::default(),
            expected: None,
            chain: Chain::default(),
            sets: ParameterSets::default(),
            given: ParameterSets::default(),
            decode_ticks: None,
            frames: VecDeque::new(),
            reports: VecDeque::new(),
            stats: PacketStats::default(),
        }
    }

    /// Takes a packet that arrived at `now`.
    ///
    /// # Errors
    /// [`RtpError`] for one that is refused. The stream goes on without it.
    pub fn handle_packet(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let result = self.take(now, rtp);
        match &result {
            Ok(()) => self.settle(now),
            Err(_) => self.stats.refused += 1,
        }
        result
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if anything waits.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.buffer.earliest().map(|ticks| self.playout_at(ticks));
        due.into_iter().chain(self.stragglers.next_expiry()).min()
    }

    /// The next frame to decode, in decoding order.
    pub fn poll_frame(&mut self) -> Option<PlayoutFrame> {
        self.frames.pop_front()
    }

    /// The next report. Frames that came late are reported after others.
    pub fn poll_report(&mut self) -> Option<FrameReport> {
        self.reports.pop_front()
    }

    /// Counts of packets so far.
    pub fn stats(&self) -> PacketStats {
        self.stats
    }

    /// Nothing more comes: settles all that waits, without waiting for its instant.
    pub fn finish(&mut self) {
        while self.settle_head(None) {}
        let reports = &mut self.reports;
        self.stragglers.drain(|report| reports.push_back(report));
    }

    fn playout_at(&self, ticks: i64) -> Instant {
        self.clock.instant(ticks, self.config.latency)
    }

    fn take(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let packet = RtpPacket::parse(rtp).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        let expected = self.config.payload_type;
        if packet.payload_type() != expected {
            return Err(RtpError::PayloadType { found: packet.payload_type(), expected });
        }
        if let Some(expected) = self.ssrc.filter(|&ssrc| ssrc != packet.ssrc()) {
            return Err(RtpError::Source { found: packet.ssrc(), expected });
        }
        let payload = Payload::parse(packet.payload())?;
        self.ssrc = Some(packet.ssrc());
        let (number, timestamp) = (packet.sequence_number(), packet.timestamp());
        let mut place = self.sequence.place(number, timestamp);
        if place == Place::Restart {
            self.restart();
            place = self.sequence.place(number, timestamp);
        }
        match place {
            Place::New { seq, ticks } => self.store(seq, ticks, Piece::new(payload, packet.marker_bit()), now),
            Place::Duplicate => self.stats.duplicate += 1,
            Place::Stray | Place::Restart => {
                return Err(RtpError::SequenceJump { found: number, expected: self.sequence.next() });
            }
        }
        Ok(())
    }

    fn store(&mut self, seq: u64, ticks: i64, piece: Piece, now: Instant) {
        self.stats.received += 1;
        self.clock.observe(ticks, now);
        let passed = self.expected.is_some_and(|expected| seq < expected);
        if passed || self.stragglers.know(ticks) {
            self.stats.late += 1;
            if passed {
                self.stats.lost = self.stats.lost.saturating_sub(1);
            } else {
                // The rest of a frame that was settled without it.
                self.buffer.mark_settled(seq);
            }
            let playout_at = self.playout_at(ticks);
            let until = now.max(playout_at) + self.config.latency;
            let reports = &mut self.reports;
            let late = Late { seq, ticks, piece, arrival: now, playout_at, until };
            self.stragglers.insert(late, |report| reports.push_back(report));
        } else {
            self.buffer.insert(seq, ticks, piece, now);
        }
    }

    /// The sender has started anew: what waited is settled, and nothing is known of what comes.
    fn restart(&mut self) {
        self.stats.restarts += 1;
        self.finish();
        self.stragglers = Stragglers::default();
        self.chain = Chain::default();
        self.clock = MediaClock::default();
        self.sequence = Sequence::default();
        self.expected = None;
    }

    fn settle(&mut self, now: Instant) {
        while self.settle_head(Some(now)) {}
        self.give_up_blocked(now);
        let (bytes, packets) = (self.config.buffer_bytes, self.config.buffer_packets);
        while self.buffer.exceeds(bytes, packets) && self.settle_head(None) {}
        let reports = &mut self.reports;
        self.stragglers.expire(now, |report| reports.push_back(report));
    }

    /// Settles the first frame in decoding order if its time has come (without `now`, it has). Gives whether it had.
    fn settle_head(&mut self, now: Option<Instant>) -> bool {
        let Some(ticks) = self.head() else { return false };
        let Some((first, last)) = self.buffer.get(ticks).map(|parts| (parts.first(), parts.last())) else {
            return false;
        };
        let joined = self.expected.is_some_and(|expected| expected >= first);
        let whole = self.is_whole(ticks, joined);
        let due = |at: Option<i64>| now.zip(at).is_none_or(|(now, at)| now >= self.playout_at(at));
        let ready = if whole { joined || due(self.buffer.earliest()) } else { due(Some(ticks)) };
        if !ready {
            return false;
        }
        let Some(parts) = self.buffer.remove(ticks) else { return false };
        self.pass(first, last);
        self.stats.lost += parts.holes();
        if whole {
            self.settle_whole(ticks, &parts);
        } else {
            self.settle_partial(ticks, parts);
        }
        true
    }

    /// The first frame in decoding order that is not settled.
    fn head(&mut self) -> Option<i64> {
        let mut passed = Vec::new();
        let head = self.buffer.head(|first, last| passed.push((first, last)));
        for (first, last) in passed {
            self.pass(first, last);
        }
        head
    }

    /// What stands at these sequence numbers is settled, and nothing before it is waited for any more.
    fn pass(&mut self, first: u64, last: u64) {
        match self.expected {
            Some(expected) if expected >= first => {}
            Some(expected) => {
                self.stats.lost += first - expected;
                self.chain.hole();
            }
            None => self.chain.hole(),
        }
        self.expected = self.expected.max(Some(last + 1));
    }

    fn is_whole(&self, ticks: i64, joined: bool) -> bool {
        self.buffer.get(ticks).is_some_and(|parts| parts.is_whole(joined, self.buffer.begins_at(parts.last() + 1)))
    }

    /// Frames that are due while one before them is still waited for cannot be shown any more.
    fn give_up_blocked(&mut self, now: Instant) {
        let Some(head) = self.head() else { return };
        while let Some(ticks) = self.buffer.earliest_but(head) {
            if now < self.playout_at(ticks) {
                return;
            }
            let whole = self.is_whole(ticks, false);
            let Some(parts) = self.buffer.remove_early(ticks) else { return };
            self.stats.lost += parts.holes();
            self.chain.hole();
            if whole {
                let kind = self.kind_of(&parts);
                self.report(ticks, kind, FrameFate::ReferenceMissing, Some(parts.last_arrival), &parts);
            } else {
                self.settle_partial(ticks, parts);
            }
        }
    }

    fn settle_partial(&mut self, ticks: i64, parts: Parts) {
        self.chain.hole();
        for nal in parts.payloads().flat_map(Payload::parameter_sets) {
            self.sets.take(nal);
        }
        let kind = self.kind_of(&parts);
        let playout_at = self.playout_at(ticks);
        // A frame of which nothing came in time may still become whole, and is then late and not lost.
        let until = playout_at.max(parts.last_arrival) + self.config.latency;
        let reports = &mut self.reports;
        let straggler = Straggler { kind, parts: parts.strip(), playout_at, until };
        self.stragglers.wait_for(ticks, straggler, |report| reports.push_back(report));
    }

    fn settle_whole(&mut self, ticks: i64, parts: &Parts) {
        let completed_at = parts.last_arrival;
        let nals = parts.assemble().unwrap_or_default();
        for nal in &nals {
            self.sets.take(nal);
        }
        let Some(picture) = Picture::read(&nals, &self.sets) else {
            self.chain.hole();
            self.report(ticks, self.kind_of(parts), FrameFate::Unreadable, Some(completed_at), parts);
            return;
        };
        let header = picture.first();
        let kind = kind_of(header.is_idr(), picture.kind);
        let fate = if completed_at > self.playout_at(ticks) {
            self.chain.hole();
            FrameFate::Late
        } else if self.chain.decode(&picture, ticks, self.declared_pace(header)) {
            FrameFate::Decodable
        } else {
            FrameFate::ReferenceMissing
        };
        if fate == FrameFate::Decodable {
            self.give_out(ticks, kind, header, nals, completed_at);
        }
        self.report(ticks, Some(kind), fate, Some(completed_at), parts);
    }

    /// Two ticks of the VUI's clock make a frame, and so do two counts (H.264 §E.2.1, §8.2.1).
    fn declared_pace(&self, header: &SliceHeader) -> Option<Pace> {
        let timing = self.sets.of(header.pps_id)?.0.vui_parameters.as_ref()?.timing_info.as_ref()?;
        let ticks = i64::from(timing.num_units_in_tick) * i64::from(RTP_CLOCK_HZ);
        (ticks > 0 && timing.time_scale > 0).then_some(Pace { ticks, counts: timing.time_scale.into() })
    }

    fn give_out(
        &mut self,
        ticks: i64,
        kind: FrameKind,
        header: &SliceHeader,
        mut nals: Vec<Vec<u8>>,
        completed_at: Instant,
    ) {
        for nal in &nals {
            self.given.take(nal);
        }
        let needed = self.sets.raw_of(header.pps_id);
        if let Some(needed) = needed.filter(|needed| self.given.raw_of(header.pps_id) != Some(*needed)) {
            // They came with a frame that was not given out. A delimiter stays in front (H.264 §7.4.1.2.3).
            let at = usize::from(nals.first().is_some_and(|nal| type_of(nal[0]) == nal_type::AUD));
            let needed = needed.map(<[u8]>::to_vec);
            needed.iter().for_each(|nal| self.given.take(nal));
            nals.splice(at..at, needed);
        }
        let mut annexb = Vec::with_capacity(nals.iter().map(|nal| nal.len() + 4).sum());
        crate::h264::annexb::write(nals.iter().map(Vec::as_slice), &mut annexb);
        let decode_ticks = self.decode_ticks.map_or(ticks, |last| ticks.max(last + 1));
        self.decode_ticks = Some(decode_ticks);
        self.frames.push_back(PlayoutFrame {
            annexb,
            rtp_timestamp: ticks as u32,
            ticks,
            decode_ticks,
            is_entry: self.chain.entry().is_some(),
            kind,
            reference: header.is_reference(),
            completed_at,
            playout_at: self.playout_at(ticks),
        });
    }

    /// What a frame that is not whole, or not given out, is, if it can be told.
    fn kind_of(&self, parts: &Parts) -> Option<FrameKind> {
        if parts.is_idr() {
            return Some(FrameKind::Idr);
        }
        let slice = parts.payloads().find_map(Payload::slice_start)?;
        SliceHeader::read(&slice, &self.sets).ok().map(|header| kind_of(false, header.kind))
    }

    fn report(
        &mut self,
        ticks: i64,
        kind: Option<FrameKind>,
        fate: FrameFate,
        completed_at: Option<Instant>,
        parts: &Parts,
    ) {
        self.stragglers.settled(ticks);
        self.reports.push_back(FrameReport {
            rtp_timestamp: ticks as u32,
            ticks,
            kind,
            fate,
            completed_at,
            playout_at: self.playout_at(ticks),
            packets: parts.len(),
            bytes: parts.bytes,
        });
    }
}
