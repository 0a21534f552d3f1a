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
mod decoder;
mod fates;
mod ingress;
mod markers;
mod outlet;
mod report;
mod signalled;
mod timeline;
mod timing;
mod types;

use std::collections::VecDeque;

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use self::buffer::{Buffer, Parts, Piece};
use self::decoder::{Decodability, DecoderModel};
use self::fates::{Fates, LatePacket, Straggler};
use self::ingress::{Admission, Ingress};
use self::markers::Markers;
use self::outlet::{Decoded, Outlet};
pub use self::report::{FrameFate, FrameReport};
use self::timing::{Correction, Timing};
pub use self::types::{PacketStats, PictureFormat, PlayoutConfig, PlayoutEvent, PlayoutFrame, Release};
use crate::clock::ClockChange;
use crate::error::RtpError;
use crate::frame::FrameKind;
use crate::h264::depacketize::Payload;
use crate::h264::describe::kind_of;
use crate::rtp::FrameDescriptor;
use crate::rtp::sequence::{Place, Sequence};

/// Plays one RTP stream. Sans-IO: feed packets and time, poll frames and reports.
///
/// After each call of [`handle_packet`](Self::handle_packet) or [`handle_timeout`](Self::handle_timeout), poll
/// [`poll_frame`](Self::poll_frame), [`poll_report`](Self::poll_report) and [`poll_event`](Self::poll_event) until they
/// give `None`, then wait until [`poll_timeout`](Self::poll_timeout) or the next packet. An example is at the
/// [crate](crate)'s front.
#[derive(Debug)]
pub struct Playout {
    /// Configuration as it was given. The latency in force is that of `timing`.
    config: PlayoutConfig,
    ingress: Ingress,
    sequence: Sequence,
    /// Last packet that may be the first one of a restart, and its arrival.
    stray: Option<(Instant, Vec<u8>)>,
    timing: Timing,
    markers: Markers,
    buffer: Buffer,
    fates: Fates,
    /// Sequence number after the last settled one.
    expected: Option<u64>,
    decoder: DecoderModel,
    outlet: Outlet,
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
            timing: Timing::new(config.release, config.latency),
            markers: Markers::default(),
            buffer: Buffer::default(),
            fates: Fates::default(),
            expected: None,
            decoder: DecoderModel::default(),
            outlet: Outlet::default(),
            events: VecDeque::new(),
            stats: PacketStats::default(),
            now: Instant::ZERO,
            is_finished: false,
        }
    }

    /// Changes the latency, once both ends have agreed on it.
    pub fn set_latency(&mut self, latency: Duration) {
        self.timing.set_latency(latency);
    }

    /// The latency in force.
    pub fn latency(&self) -> Duration {
        self.timing.latency()
    }

    /// Adds parameter sets received out of band, such as in SDP (RFC 6184 §8.1, `sprop-parameter-sets`).
    pub fn add_parameter_sets<'a>(&mut self, nals: impl IntoIterator<Item = &'a [u8]>) {
        nals.into_iter().for_each(|nal| self.decoder.take_set(nal));
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
        let released = self.outlet.front().map(|frame| self.timing.released_at(frame.captured_at));
        [due, head, quiet, released, self.fates.next_expiry()].into_iter().flatten().min()
    }

    /// Returns the next frame to decode, in decoding order, once its release time has come.
    pub fn poll_frame(&mut self) -> Option<PlayoutFrame> {
        let due = self.outlet.front().map(|frame| self.timing.released_at(frame.captured_at))?;
        let mut frame = if due <= self.now || self.is_finished { self.outlet.pop()? } else { return None };
        frame.playout_at = self.timing.playout_of(frame.captured_at);
        Some(frame)
    }

    /// Returns the next frame report. Late frames are reported after later ones.
    pub fn poll_report(&mut self) -> Option<FrameReport> {
        self.fates.poll()
    }

    /// Returns the next stream event.
    pub fn poll_event(&mut self) -> Option<PlayoutEvent> {
        self.events.pop_front()
    }

    /// Whether decoding is stuck until the next entry point, so that a keyframe should be requested.
    pub fn wants_entry(&self) -> bool {
        self.decoder.wants_entry()
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
        self.timing.excess(now)
    }

    /// Packet statistics so far.
    pub fn stats(&self) -> PacketStats {
        PacketStats { frames_missing: self.decoder.missing(), ..self.stats }
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
        self.fates.drain();
    }

    /// Deadline until which the missing packets of a buffered frame, or those before it, are waited for.
    fn due(&self, ticks: i64) -> Instant {
        self.buffer.get(ticks).map_or(Instant::ZERO, |parts| self.timing.due(ticks, parts))
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
        if !passed && self.buffer.get(ticks).is_none() && !self.fates.know(ticks) {
            self.observe(ticks, &piece, now);
        }
        if passed || self.fates.know(ticks) {
            if !self.fates.know(ticks) {
                self.decoder.count(piece.descriptor.as_ref());
            }
            self.stats.late += 1;
            if passed {
                self.stats.lost = self.stats.lost.saturating_sub(1);
            } else {
                // The packet belongs to a frame that was settled as incomplete.
                self.buffer.mark_settled(seq);
            }
            let playout_at = self.timing.late_playout_at(ticks, now);
            let until = now.max(playout_at) + self.timing.latency();
            self.fates.insert(LatePacket { seq, ticks, piece, arrival: now, playout_at, until });
        } else {
            self.buffer.insert(seq, ticks, piece, now);
            if let Some(parts) = self.buffer.get(ticks) {
                self.markers.growing(parts);
            }
        }
    }

    /// Feeds the first packet of a new frame to the clock estimate.
    fn observe(&mut self, ticks: i64, piece: &Piece, now: Instant) {
        let Correction { change, earlier_by } = self.timing.observe(ticks, piece, now);
        if matches!(change, Some(ClockChange::Stepped(_))) {
            self.outlet.begin_anew();
        } else {
            // The clock estimate has decreased: frames before had queued at the sender, and were captured earlier.
            self.outlet.bring_forward(earlier_by);
        }
        self.events.extend(change.map(PlayoutEvent::Clock));
    }

    /// Restarts after a sender's restart: buffered frames are settled already, and all state of the stream is reset.
    fn restart(&mut self) {
        self.stats.restarts += 1;
        self.fates.restart();
        self.buffer = Buffer::default();
        self.decoder.restart();
        self.timing.restart();
        self.markers = Markers::default();
        self.sequence = self.config.release.sequence();
        self.expected = None;
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
        self.fates.expire(now);
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
        self.decoder.count(parts.descriptor());
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
                self.decoder.hole();
            }
            None => self.decoder.hole(),
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
            self.decoder.count(parts.descriptor());
            if whole {
                self.decoder.hole();
                self.report(ticks, self.decoder.kind_of(&parts), FrameFate::ReferenceMissing, &parts);
            } else {
                self.settle_partial(ticks, parts);
            }
        }
    }

    fn settle_partial(&mut self, ticks: i64, parts: Parts) {
        self.decoder.take_partial(&parts);
        let kind = self.decoder.kind_of(&parts);
        let playout_at = self.timing.playout_at(ticks, &parts);
        // If the rest of the frame still comes, it is reported as late, not lost.
        let until = playout_at.max(parts.last_arrival) + self.timing.latency();
        self.fates.wait_for(ticks, Straggler { kind, parts: parts.strip(), playout_at, until });
    }

    fn settle_whole(&mut self, ticks: i64, parts: &Parts) {
        let nals = parts.assemble().unwrap_or_default();
        let Some(picture) = self.decoder.read(&nals) else {
            self.report(ticks, self.decoder.kind_of(parts), FrameFate::Unreadable, parts);
            return;
        };
        let kind = kind_of(picture.first().is_idr(), picture.kind);
        let fate = if self.timing.is_late(ticks, parts) {
            self.decoder.skip(&picture, parts.descriptor());
            FrameFate::Late
        } else {
            match self.decoder.decode(ticks, &picture, parts.descriptor()) {
                Decodability::Decodable { is_entry } => {
                    self.give_out(ticks, &Decoded { nals, header: picture.first(), kind, is_entry }, parts);
                    FrameFate::Decodable
                }
                Decodability::ReferenceMissing => FrameFate::ReferenceMissing,
            }
        };
        self.report(ticks, Some(kind), fate, parts);
    }

    fn give_out(&mut self, ticks: i64, decoded: &Decoded<'_>, parts: &Parts) {
        self.ingress.settle();
        let times = self.timing.times(ticks, parts);
        let format = self.outlet.give(decoded, &times, ticks as u32, self.decoder.sets());
        self.events.extend(format.map(PlayoutEvent::Format));
    }

    fn report(&mut self, ticks: i64, kind: Option<FrameKind>, fate: FrameFate, parts: &Parts) {
        self.fates.report(ticks, kind, fate, self.timing.playout_at(ticks, parts), parts);
    }
}
