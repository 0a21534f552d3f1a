//! Media trace: frames of given sizes at given times, split into packets.

use std::collections::VecDeque;

use timeous_core::{AduMeta, Duration, FrameId, Instant};

use crate::application::{Application, Outlet};
use crate::stamp;

/// A frame of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Capture time, from the opening of the transport on.
    pub at: Duration,
    /// Its size in bytes.
    pub bytes: usize,
    /// Metadata of each of its packets; the source sets the frame number, the position in the trace plus one.
    pub meta: AduMeta,
}

/// A source that plays a trace. Packets that do not fit into the queue are dropped.
pub struct Frames {
    trace: VecDeque<Frame>,
    packet: usize,
    latency: Option<Duration>,
    opened: Option<Instant>,
    given: u32,
    ended: bool,
    payload: Vec<u8>,
}

impl Frames {
    /// Plays `trace`, in order of time, in packets of at most `packet` bytes; the transport is closed after it.
    pub fn new(trace: impl IntoIterator<Item = Frame>, packet: usize) -> Self {
        let trace = trace.into_iter().collect();
        Self { trace, packet, latency: None, opened: None, given: 0, ended: false, payload: Vec::new() }
    }

    /// Sets the deadline of each packet to `latency` after its frame's capture.
    #[must_use]
    pub fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    fn send(&mut self, now: Instant, frame: Frame, outlet: &mut dyn Outlet) {
        self.given += 1;
        let deadline = self.latency.map(|latency| now + latency).or(frame.meta.deadline);
        let meta = AduMeta { enqueued: now, deadline, frame: FrameId(self.given), ..frame.meta };
        let mut left = frame.bytes;
        while left > 0 {
            let len = left.min(self.packet);
            stamp::write(outlet.next_seq(), len, &mut self.payload);
            // Refused packets are recorded by the transport.
            let _noted = outlet.send(meta, &self.payload);
            left -= len;
        }
    }
}

impl Application for Frames {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let opened = *self.opened.get_or_insert(now);
        while let Some(frame) = self.trace.front().copied().filter(|frame| opened + frame.at <= now) {
            self.trace.pop_front();
            self.send(now, frame, outlet);
        }
        if self.trace.is_empty() && !self.ended {
            self.ended = true;
            outlet.finish();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.opened? + self.trace.front()?.at)
    }
}
