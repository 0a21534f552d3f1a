//! Playout (jitter buffer): turns RTP packets into complete frames that can be decoded and shown in time.
//!
//! A frame is *whole* when none of its packets is missing. It is *decodable* when, besides, its reference frames were
//! released, or it is an entry point. It is *in time* when it is whole before its playout instant: capture time by the
//! sender's clock, as estimated from arrivals, plus the latency.
//!
//! Frames are settled in decoding order: each as soon as all earlier packets have come, or once the deadline of a
//! buffered frame ends the wait for them. [`Release`] says when they are released.

mod buffer;
mod chain;
mod ingress;
mod markers;
mod outlet;
mod report;
mod signalled;
mod straggler;
mod timeline;
mod types;

use std::collections::VecDeque;

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use self::buffer::{Buffer, Parts, Piece};
use self::chain::{Chain, Pace};
use self::ingress::{Admission, Ingress};
use self::markers::Markers;
use self::outlet::{Decoded, Outlet, Times};
pub use self::report::{FrameFate, FrameReport};
use self::signalled::SignalledReferences;
use self::straggler::{LatePacket, Straggler, Stragglers};
pub use self::types::{PacketStats, PictureFormat, PlayoutConfig, PlayoutEvent, PlayoutFrame, Release};
use crate::clock::{ClockChange, MediaClock};
use crate::error::RtpError;
use crate::frame::FrameKind;
use crate::h264::depacketize::Payload;
use crate::h264::describe::kind_of;
use crate::h264::parameters::ParameterSets;
use crate::h264::picture::Picture;
use crate::h264::slice::SliceHeader;
use crate::rtp::sequence::{Place, Sequence};
use crate::rtp::{FrameDescriptor, RTP_CLOCK_HZ};

/// Longest plausible delay from capture to arrival; beyond it, the timestamp is wrong and the arrival time counts.
/// Chosen by us: a higher value believes wrong timestamps.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Longest plausible delay as an error of the timestamp, in RTP ticks: two seconds, like `MAX_DELAY`.
const MAX_ERROR_TICKS: i64 = 2 * RTP_CLOCK_HZ as i64;

/// Plays one RTP stream. Sans-IO: feed packets and time, poll frames and reports.
///
/// After each call of [`handle_packet`](Self::handle_packet) or [`handle_timeout`](Self::handle_timeout), poll
/// [`poll_frame`](Self::poll_frame), [`poll_report`](Self::poll_report) and [`poll_event`](Self::poll_event) until they
/// give `None`, then wait until [`poll_timeout`](Self::poll_timeout) or the next packet. An example is at the
/// [crate](crate)'s front.
#[derive(Debug)]
pub struct Playout {
    config: PlayoutConfig,
    ingress: Ingress,
    sequence: Sequence,
    /// Last packet that may be the first one of a restart, and its arrival.
    stray: Option<(Instant, Vec<u8>)>,
    clock: MediaClock,
    markers: Markers,
    /// Whether packets carry frame descriptors; capture times then come from a clock that is never stepped.
    is_described: bool,
    /// Capture time minus RTP timestamp of the last frame whose descriptor came, in ticks.
    capture_offset: i64,
    buffer: Buffer,
    stragglers: Stragglers,
    /// Sequence number after the last settled one.
    expected: Option<u64>,
    chain: Chain,
    told: SignalledReferences,
    /// Missing frames, counted before the last restart.
    missing_before: u64,
    /// Parameter sets received, as of the last settled frame.
    sets: ParameterSets,
    outlet: Outlet,
    /// Whether decoding is blocked until the next entry point.
    wants_entry: bool,
    reports: VecDeque<FrameReport>,
    events: VecDeque<PlayoutEvent>,
    stats: PacketStats,
    /// Latest instant passed in by the caller.
    now: Instant,
    is_finished: bool,
}

impl Playout {
    /// Creates a playout.
    pub fn new(config: PlayoutConfig) -> Self {
        Self {
            config,
            ingress: Ingress::new(config.payload_type, config.ssrc),
            sequence: config.release.sequence(),
            stray: None,
            clock: MediaClock::new(config.latency / 2),
            markers: Markers::default(),
            is_described: false,
            capture_offset: 0,
            buffer: Buffer::default(),
            stragglers: Stragglers::default(),
            expected: None,
            chain: Chain::default(),
            told: SignalledReferences::default(),
            missing_before: 0,
            sets: ParameterSets::default(),
            outlet: Outlet::default(),
            wants_entry: true,
            reports: VecDeque::new(),
            events: VecDeque::new(),
            stats: PacketStats::default(),
            now: Instant::ZERO,
            is_finished: false,
        }
    }

    /// Changes the latency, once both ends have agreed on it.
    pub fn set_latency(&mut self, latency: Duration) {
        self.config.latency = latency;
        self.clock.set_tolerance(latency / 2);
    }

    /// The latency in force.
    pub fn latency(&self) -> Duration {
        self.config.latency
    }

    /// Adds parameter sets received out of band, such as in SDP (RFC 6184 §8.1, `sprop-parameter-sets`).
    pub fn add_parameter_sets<'a>(&mut self, nals: impl IntoIterator<Item = &'a [u8]>) {
        nals.into_iter().for_each(|nal| self.sets.take(nal));
    }

    /// Handles a packet that arrived at `now`.
    ///
    /// # Errors
    /// [`RtpError`] if the packet is refused. The stream goes on without it.
    pub fn handle_packet(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        self.now = now.max(self.now);
        let result = self.take(now, rtp);
        self.stats.refused += u64::from(result.is_err());
        self.settle(now);
        result
    }

    /// Advances time to `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now.max(self.now);
        self.settle(now);
    }

    /// Next instant at which [`handle_timeout`](Self::handle_timeout) is due, if a timer is pending.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.buffer.earliest().map(|ticks| self.due(ticks));
        let head = self.buffer.first_waiting().map(|ticks| self.due(ticks));
        let quiet = self
            .buffer
            .first_waiting()
            .and_then(|ticks| self.markers.ends_by_quiet(self.buffer.get(ticks)?))
            .filter(|&at| at > self.now);
        let released = self.outlet.front().map(|frame| self.released_at(frame));
        [due, head, quiet, released, self.stragglers.next_expiry()].into_iter().flatten().min()
    }

    /// Returns the next frame to decode, in decoding order, once its release time has come.
    pub fn poll_frame(&mut self) -> Option<PlayoutFrame> {
        let due = self.outlet.front().map(|frame| self.released_at(frame))?;
        let mut frame = if due <= self.now || self.is_finished { self.outlet.pop()? } else { return None };
        frame.playout_at = self.playout_of(frame.captured_at);
        Some(frame)
    }

    /// Returns the next frame report. Late frames are reported after later ones.
    pub fn poll_report(&mut self) -> Option<FrameReport> {
        self.reports.pop_front()
    }

    /// Returns the next stream event.
    pub fn poll_event(&mut self) -> Option<PlayoutEvent> {
        self.events.pop_front()
    }

    /// Whether decoding is stuck until the next entry point, so that a keyframe should be requested.
    pub fn wants_entry(&self) -> bool {
        self.wants_entry
    }

    /// Whether decodable frames wait for their release.
    pub fn holds_frames(&self) -> bool {
        self.outlet.front().is_some()
    }

    /// Synchronisation source (SSRC) being played.
    pub fn ssrc(&self) -> Option<u32> {
        self.ingress.ssrc()
    }

    /// Extra delay of the fastest unqueued frames of the last second, against the clock estimate, if there were any.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        self.clock.excess(now)
    }

    /// Packet statistics so far.
    pub fn stats(&self) -> PacketStats {
        PacketStats { frames_missing: self.missing_before + self.told.missing(), ..self.stats }
    }

    /// Ends the stream: settles all buffered frames and releases them at once.
    pub fn finish(&mut self) {
        self.settle_all();
        self.is_finished = true;
    }

    /// Continues with another sender, or with the same one restarted, on the same output timeline.
    pub fn begin_anew(&mut self) {
        self.settle_all();
        self.ingress = Ingress::new(self.config.payload_type, self.config.ssrc);
        self.restart();
    }

    fn settle_all(&mut self) {
        while self.settle_head(None) {}
        let reports = &mut self.reports;
        self.stragglers.drain(|report| reports.push_back(report));
    }

    /// Capture instant by the local clock: at most the arrival, and the arrival itself if the timestamp is implausible.
    fn captured_at(&self, ticks: i64, offset: i64, arrival: Instant) -> Instant {
        let at = self.clock.instant(ticks + offset).min(arrival);
        let is_wrong = !self.is_described && arrival.saturating_since(at) > MAX_DELAY;
        if is_wrong { arrival } else { at }
    }

    fn playout_of(&self, captured_at: Instant) -> Instant {
        captured_at + self.config.latency
    }

    /// Playout instant of a frame of which at least one packet came.
    fn playout_at(&self, ticks: i64, parts: &Parts) -> Instant {
        self.playout_of(self.captured_at(ticks, self.offset_of(parts), parts.first_arrival()))
    }

    fn offset_of(&self, parts: &Parts) -> i64 {
        parts.descriptor().map_or(self.capture_offset, |descriptor| descriptor.capture_offset.into())
    }

    /// Deadline until which the missing packets of a buffered frame, or those before it, are waited for.
    fn due(&self, ticks: i64) -> Instant {
        let Some(parts) = self.buffer.get(ticks) else { return Instant::ZERO };
        match self.config.release {
            Release::AsTheyCome => parts.first_arrival() + self.config.latency,
            _ => self.playout_at(ticks, parts),
        }
    }

    fn released_at(&self, frame: &PlayoutFrame) -> Instant {
        match self.config.release {
            Release::Constant => self.playout_of(frame.captured_at),
            Release::Immediate | Release::AsTheyCome => Instant::ZERO,
        }
    }

    fn take(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let packet = RtpPacket::parse(rtp).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        self.ingress.check_type(packet.payload_type())?;
        let payload = Payload::parse(packet.payload())?;
        let header = (packet.payload_type(), packet.ssrc(), packet.sequence_number());
        match self.ingress.admit(now, header, payload.is_telling(), rtp)? {
            Admission::Taken => self.place(now, &packet, payload, rtp),
            Admission::Kept => Ok(()),
            Admission::TakenOver(kept) => {
                self.settle_all();
                self.restart();
                for (at, rtp) in kept {
                    self.stats.refused += u64::from(self.place_kept(at, &rtp).is_err());
                }
                Ok(())
            }
        }
    }

    /// Places a packet that parsed on its arrival.
    fn place_kept(&mut self, at: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let packet = RtpPacket::parse(rtp).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        let payload = Payload::parse(packet.payload())?;
        self.place(at, &packet, payload, rtp)
    }

    fn place(&mut self, now: Instant, packet: &RtpPacket<'_>, payload: Payload, rtp: &[u8]) -> Result<(), RtpError> {
        let (number, timestamp) = (packet.sequence_number(), packet.timestamp());
        let mut place = self.sequence.place(now, number, timestamp);
        if place == Place::Restart {
            let first = self.stray.take();
            self.settle_all();
            self.restart();
            if let Some((at, rtp)) = first {
                // It was counted as refused.
                self.stats.refused -= u64::from(self.place_kept(at, &rtp).is_ok());
            }
            place = self.sequence.place(now, number, timestamp);
        }
        match place {
            Place::New { seq, ticks } => {
                let descriptor = packet.extension().and_then(|(profile, bytes)| FrameDescriptor::read(profile, bytes));
                self.store(seq, ticks, Piece::new(payload, descriptor, packet.marker_bit()), now);
                Ok(())
            }
            Place::Duplicate => {
                self.stats.duplicate += 1;
                Ok(())
            }
            Place::Stray | Place::Restart => {
                self.stray = Some((now, rtp.to_vec()));
                Err(RtpError::SequenceJump { found: number, expected: self.sequence.next() })
            }
        }
    }

    fn store(&mut self, seq: u64, ticks: i64, piece: Piece, now: Instant) {
        self.stats.received += 1;
        let passed = self.expected.is_some_and(|expected| seq < expected);
        if !passed && self.buffer.get(ticks).is_none() && !self.stragglers.know(ticks) {
            self.observe(ticks, &piece, now);
        }
        if passed || self.stragglers.know(ticks) {
            if !self.stragglers.know(ticks) {
                self.told.count(piece.descriptor.as_ref());
            }
            self.stats.late += 1;
            if passed {
                self.stats.lost = self.stats.lost.saturating_sub(1);
            } else {
                // The packet belongs to a frame that was settled as incomplete.
                self.buffer.mark_settled(seq);
            }
            let playout_at = self.playout_of(self.captured_at(ticks, self.capture_offset, now));
            let until = now.max(playout_at) + self.config.latency;
            let reports = &mut self.reports;
            let late = LatePacket { seq, ticks, piece, arrival: now, playout_at, until };
            self.stragglers.insert(late, |report| reports.push_back(report));
        } else {
            self.buffer.insert(seq, ticks, piece, now);
            if let Some(parts) = self.buffer.get(ticks) {
                self.markers.growing(parts);
            }
        }
    }

    /// Feeds the first packet of a new frame to the clock estimate.
    fn observe(&mut self, ticks: i64, piece: &Piece, now: Instant) {
        let descriptor = piece.descriptor.as_ref();
        self.capture_offset = descriptor.map_or(self.capture_offset, |descriptor| descriptor.capture_offset.into());
        self.is_described |= descriptor.is_some();
        let is_prompt = descriptor.is_none_or(|descriptor| !descriptor.is_queued);
        let capture = ticks + self.capture_offset;
        let before = self.clock.instant(capture);
        let change = self.clock.observe(capture, now, is_prompt);
        if matches!(change, Some(ClockChange::Stepped(_))) {
            self.outlet.begin_anew();
        } else {
            // The clock estimate has decreased: frames before had queued at the sender, and were captured earlier.
            self.outlet.bring_forward(before.saturating_since(self.clock.instant(capture)));
        }
        self.events.extend(change.map(PlayoutEvent::Clock));
    }

    /// Restarts after a sender's restart: buffered frames are settled already, and all state of the stream is reset.
    fn restart(&mut self) {
        self.stats.restarts += 1;
        self.stragglers = Stragglers::default();
        self.buffer = Buffer::default();
        // The same encoder may continue behind a new sender; the picture numbers tell.
        self.chain.hole();
        self.missing_before += self.told.missing();
        self.told = SignalledReferences::default();
        self.clock = MediaClock::new(self.config.latency / 2);
        self.markers = Markers::default();
        self.sequence = self.config.release.sequence();
        self.expected = None;
        self.is_described = false;
        self.capture_offset = 0;
        self.wants_entry = true;
        self.outlet.begin_anew();
        self.events.extend(self.ingress.ssrc().map(PlayoutEvent::Restarted));
    }

    fn settle(&mut self, now: Instant) {
        let (bytes, packets) = (self.config.buffer_bytes, self.config.buffer_packets);
        loop {
            while self.settle_head(Some(now)) {}
            self.give_up_blocked(now);
            // Settling one frame to make room may make the next one due.
            if !(self.buffer.exceeds(bytes, packets) && self.settle_head(None)) {
                break;
            }
        }
        let reports = &mut self.reports;
        self.stragglers.expire(now, |report| reports.push_back(report));
    }

    /// Settles the first frame in decoding order if it is ready (always, without `now`). Returns whether it did.
    fn settle_head(&mut self, now: Option<Instant>) -> bool {
        let Some(ticks) = self.head() else { return false };
        let Some((first, last)) = self.buffer.get(ticks).map(|parts| (parts.first(), parts.last())) else {
            return false;
        };
        let joined = self.expected.is_some_and(|expected| expected >= first);
        let whole = self.is_whole(ticks, joined, now);
        let due = |at: Option<i64>| now.zip(at).is_none_or(|(now, at)| now >= self.due(at));
        // If the first buffered frame is an entry point, packets from before it are of no use.
        let begins = self.expected.is_none() && self.buffer.get(ticks).is_some_and(Parts::is_entry);
        let ready = due(Some(ticks)) || whole && (joined || begins || due(self.buffer.earliest()));
        if !ready {
            return false;
        }
        let Some(parts) = self.buffer.remove(ticks) else { return false };
        self.pass(first, last);
        self.stats.lost += parts.holes();
        self.told.count(parts.descriptor());
        if whole {
            self.markers.whole(&parts);
            self.settle_whole(ticks, &parts);
        } else {
            self.settle_partial(ticks, parts);
        }
        true
    }

    /// First frame in decoding order that is not settled.
    fn head(&mut self) -> Option<i64> {
        let mut passed = Vec::new();
        let head = self.buffer.head(|first, last| passed.push((first, last)));
        for (first, last) in passed {
            self.pass(first, last);
        }
        head
    }

    /// Marks these sequence numbers, and all before them, as settled.
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

    /// Whether the frame is complete. Without `now`, no more packets come.
    fn is_whole(&self, ticks: i64, joined: bool, now: Option<Instant>) -> bool {
        let Some(parts) = self.buffer.get(ticks) else { return false };
        let quiet = || match self.markers.ends_by_quiet(parts) {
            Some(at) => now.is_none_or(|now| now >= at),
            None => false,
        };
        parts.is_whole(joined, self.markers.end(parts) || self.buffer.begins_at(parts.last() + 1) || quiet())
    }

    /// Gives up frames that became due while an earlier one was still awaited: they cannot be shown any more.
    fn give_up_blocked(&mut self, now: Instant) {
        let Some(head) = self.head() else { return };
        while let Some(ticks) = self.buffer.earliest_but(head) {
            if now < self.due(ticks) {
                return;
            }
            let whole = self.is_whole(ticks, false, Some(now));
            let Some(parts) = self.buffer.remove_early(ticks) else { return };
            self.stats.lost += parts.holes();
            self.told.count(parts.descriptor());
            self.break_off();
            if whole {
                let kind = self.kind_of(&parts);
                self.report(ticks, kind, FrameFate::ReferenceMissing, Some(parts.last_arrival), &parts);
            } else {
                self.settle_partial(ticks, parts);
            }
        }
    }

    /// Notes a gap in decoding order before the next frame.
    fn break_off(&mut self) {
        self.chain.hole();
    }

    fn settle_partial(&mut self, ticks: i64, parts: Parts) {
        self.break_off();
        for nal in parts.payloads().flat_map(Payload::parameter_sets) {
            self.sets.take(nal);
        }
        let kind = self.kind_of(&parts);
        let playout_at = self.playout_at(ticks, &parts);
        // If the rest of the frame still comes, it is reported as late, not lost.
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
            self.break_off();
            self.report(ticks, self.kind_of(parts), FrameFate::Unreadable, Some(completed_at), parts);
            return;
        };
        let header = picture.first();
        let kind = kind_of(header.is_idr(), picture.kind);
        let is_late = self.config.release != Release::AsTheyCome && completed_at > self.playout_at(ticks, parts);
        let fate = if is_late {
            self.chain.hole();
            parts.descriptor().into_iter().for_each(|descriptor| self.told.skip(descriptor));
            FrameFate::Late
        } else if self.decode(ticks, &picture, parts.descriptor()) {
            FrameFate::Decodable
        } else {
            FrameFate::ReferenceMissing
        };
        if fate == FrameFate::Decodable {
            self.give_out(ticks, kind, header, nals, parts);
        }
        // A lost non-reference picture leaves later frames decodable.
        self.wants_entry |= fate != FrameFate::Decodable && header.is_reference();
        self.report(ticks, Some(kind), fate, Some(completed_at), parts);
    }

    /// Whether the frame can be decoded: by its descriptor, or else by its slice headers.
    fn decode(&mut self, ticks: i64, picture: &Picture, descriptor: Option<&FrameDescriptor>) -> bool {
        match descriptor {
            Some(descriptor) => self.told.decode(descriptor),
            None => self.chain.decode(picture, ticks, self.declared_pace(picture.first())),
        }
    }

    /// Frame rate by the VUI: two clock ticks, and two picture order counts, per frame (H.264 §E.2.1, §8.2.1).
    fn declared_pace(&self, header: &SliceHeader) -> Option<Pace> {
        let timing = self.sets.of(header.pps_id)?.0.vui_parameters.as_ref()?.timing_info.as_ref()?;
        let ticks = i64::from(timing.num_units_in_tick) * i64::from(RTP_CLOCK_HZ);
        (ticks > 0 && timing.time_scale > 0).then_some(Pace { ticks, counts: timing.time_scale.into() })
    }

    fn give_out(&mut self, ticks: i64, kind: FrameKind, header: &SliceHeader, nals: Vec<Vec<u8>>, parts: &Parts) {
        let offset = self.offset_of(parts);
        let captured_at = self.captured_at(ticks, offset, parts.first_arrival());
        // A wrong timestamp would leave a gap in a recording, so such a frame is placed by its arrival.
        let (presentation, capture) = match self.clock.ticks_of(captured_at) {
            Some(by_arrival) if (by_arrival - ticks - offset).abs() > MAX_ERROR_TICKS => (by_arrival, by_arrival),
            _ => (ticks, ticks + offset),
        };
        let is_entry = parts.descriptor().map_or(self.chain.entry().is_some(), |descriptor| descriptor.is_entry);
        self.wants_entry &= !is_entry;
        self.ingress.settle();
        let decoded = Decoded { nals, header, kind, is_entry };
        let times = Times {
            presentation,
            capture,
            captured_at,
            presented_at: self.clock.instant(presentation),
            arrived_at: parts.first_arrival(),
            completed_at: parts.last_arrival,
            playout_at: self.playout_of(captured_at),
        };
        let format = self.outlet.give(&decoded, &times, ticks as u32, &self.sets);
        self.events.extend(format.map(PlayoutEvent::Format));
    }

    /// Type of an incomplete frame, if its packets tell.
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
            playout_at: self.playout_at(ticks, parts),
            packets: parts.len(),
            bytes: parts.bytes,
        });
    }
}
