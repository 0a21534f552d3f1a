//! Playout of whole frames of a carrier: a jitter buffer, and what the carrier makes of each frame.

use std::collections::VecDeque;
use std::fmt::Debug;

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use crate::clock::ClockChange;
use crate::error::RtpError;
use crate::jitter::{JitterBuffer, Part, Whole, WholeFrameCounts};
use crate::playout::Release;

/// Carrier of frames: how they stand in RTP packets, and how they are given out.
pub(crate) trait Carrier: Debug + Default {
    /// Piece of a frame in an RTP packet.
    type Piece: Debug;
    /// Frame, or packets, as given out.
    type Release: Debug;

    /// Reads an RTP packet.
    fn read(&mut self, packet: &RtpPacket<'_>) -> Result<Reading<Self::Piece>, RtpError>;

    /// Takes a packet that has its place in the stream: none of another sender, and none that came before.
    fn admitted(&mut self, _packet: &RtpPacket<'_>) {}

    /// Makes of a frame what is given out.
    fn give_out(&mut self, whole: Whole<Self::Piece>) -> Option<Self::Release>;

    /// Completes what is given out at one time.
    fn complete(&self, _released: &mut VecDeque<Self::Release>) {}

    /// Handles a restart of the sender; `_restarts` counts them.
    fn begin_anew(&mut self, _restarts: u32) {}

    /// Gives out what is due without a frame, while frames wait or packets have come of late.
    fn pass_time(&mut self, _now: Instant) -> Vec<Self::Release> {
        Vec::new()
    }

    /// When [`pass_time`](Self::pass_time) is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Contents of an RTP packet.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    /// Whether no other packets were queued at the sender before it.
    pub(crate) is_prompt: bool,
    pub(crate) content: Content<T>,
}

/// Part of a frame, or what can be given out at once.
#[derive(Debug)]
pub(crate) enum Content<T> {
    Part(Part<T>),
    Alone(T),
}

/// Time after the last packet for which what is due without a frame is given out although none waits: over a narrow link the first packet
/// of a keyframe may come just before it is due. Chosen by us: with more, more of it comes after a stream's end.
const AFTER_PACKETS: Duration = Duration::from_millis(500);

/// Jitter buffer of a carrier, by the names of `TsPlayout` and `PassthroughPlayout`.
#[derive(Debug)]
#[expect(private_bounds, reason = "the carriers are those of this crate")]
pub struct WholeFramePlayout<C: Carrier> {
    frames: JitterBuffer<C::Piece>,
    pub(crate) carrier: C,
    restarts: u32,
    ready: VecDeque<C::Release>,
    /// When the last packet came, if of late.
    came: Option<Instant>,
}

#[expect(private_bounds, reason = "the carriers are those of this crate")]
impl<C: Carrier> WholeFramePlayout<C> {
    /// Creates a playout that gives out frames one latency after their capture, or at once.
    pub fn new(latency: Duration, release: Release) -> Self {
        let (frames, carrier) = (JitterBuffer::new(latency, release), C::default());
        Self { frames, carrier, restarts: 0, ready: VecDeque::new(), came: None }
    }

    /// Latency in force.
    pub fn latency(&self) -> Duration {
        self.frames.latency()
    }

    /// Changes the latency.
    pub fn set_latency(&mut self, latency: Duration) {
        self.frames.set_latency(latency);
    }

    /// Synchronisation source (SSRC) that is played.
    pub fn ssrc(&self) -> Option<u32> {
        self.frames.ssrc()
    }

    /// Extra delay of the fastest packets of the last second, against the clock.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        self.frames.excess(now)
    }

    /// Counts so far. Frames of a transport stream are PES packets.
    pub fn stats(&self) -> WholeFrameCounts {
        self.frames.counts()
    }

    /// Counts of each stream that has come, by its number.
    pub(crate) fn counts_by_stream(&self) -> impl Iterator<Item = (u16, WholeFrameCounts)> + '_ {
        self.frames.counts_by_stream()
    }

    /// Whether frames wait for their playout time.
    pub fn holds_packets(&self) -> bool {
        self.frames.holds_frames()
    }

    /// Handles an RTP packet.
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
        let Reading { is_prompt, content } = self.carrier.read(&packet)?;
        let Some(due) = self.frames.admit(now, &packet, is_prompt)? else { return Ok(()) };
        self.came = Some(now);
        if std::mem::replace(&mut self.restarts, self.frames.restarts()) != self.restarts {
            self.carrier.begin_anew(self.restarts);
        }
        self.carrier.admitted(&packet);
        match content {
            Content::Part(part) => self.frames.insert(now, due, part),
            Content::Alone(piece) => {
                self.ready.extend(self.carrier.give_out(Whole { parts: vec![piece], withheld: 0, due }));
            }
        }
        Ok(())
    }

    /// Gives out what is due, and gives up what did not come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.frames.handle_timeout(now);
        self.take_released();
        self.came.take_if(|came| now > *came + AFTER_PACKETS);
        if self.carrier_due().is_some_and(|due| due <= now) {
            self.ready.extend(self.carrier.pass_time(now));
        }
    }

    fn take_released(&mut self) {
        let mut released = VecDeque::new();
        while let Some(whole) = self.frames.poll() {
            released.extend(self.carrier.give_out(whole));
        }
        self.carrier.complete(&mut released);
        self.ready.append(&mut released);
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.frames.poll_timeout().into_iter().chain(self.carrier_due()).min()
    }

    /// When the carrier gives something out without a frame.
    fn carrier_due(&self) -> Option<Instant> {
        let is_wanted = |due| self.frames.holds_frames() || self.came.is_some_and(|came| due <= came + AFTER_PACKETS);
        self.carrier.poll_timeout().filter(|&due| is_wanted(due))
    }

    /// Returns what is to be given out next.
    pub(crate) fn next_release(&mut self) -> Option<C::Release> {
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
}
