//! Frames on their way to the thread that writes: a queue bounded in bytes and frames, which is never waited for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use timeous::core::Duration;
use timeous_media::PlayoutFrame;

use crate::failure::Failure;

/// Most bytes that wait: ten seconds of 12 Mbit/s.
const MAX_BYTES: usize = 16 << 20;

/// Most frames that wait: half a minute of 60 a second.
const MAX_FRAMES: usize = 2048;

/// Counts of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SinkStats {
    /// Frames written.
    pub(crate) frames_written: u64,
    /// Frames that were left out: the sink was slow or gone, or they could not be expressed in its format.
    pub(crate) frames_not_written: u64,
    /// Bytes written.
    pub(crate) byte_written: u64,
}

/// The queue, and what the two sides tell each other.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<PlayoutFrame>,
    bytes: usize,
    /// No more frames come.
    is_closed: bool,
    /// The thread has written all there is, or the sink is gone.
    is_done: bool,
    is_gone: bool,
    /// Not yet told.
    failure: Option<Failure>,
    stats: SinkStats,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is given back: what a panic leaves behind is sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame; `false` if there is no room for it, or the sink is gone.
    pub(super) fn push(&self, frame: &PlayoutFrame) -> bool {
        let mut state = self.lock();
        let fits =
            state.frames.is_empty() || state.bytes + frame.annexb.len() <= MAX_BYTES && state.frames.len() < MAX_FRAMES;
        if state.is_gone || !fits {
            return false;
        }
        state.bytes += frame.annexb.len();
        state.frames.push_back(frame.clone());
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Waits for the next frame; `None` if no more come.
    pub(super) fn pop(&self) -> Option<PlayoutFrame> {
        let empty = |state: &mut State| state.frames.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let frame = state.frames.pop_front()?;
        state.bytes -= frame.annexb.len();
        Some(frame)
    }

    /// Counts a frame that was never in the queue.
    pub(super) fn count_missed(&self) {
        self.lock().stats.frames_not_written += 1;
    }

    /// Counts a frame that the thread took out, and the bytes that it wrote.
    pub(super) fn count(&self, is_written: bool, bytes: usize) {
        let stats = &mut self.lock().stats;
        if is_written {
            stats.frames_written += 1;
        } else {
            stats.frames_not_written += 1;
        }
        stats.byte_written += bytes as u64;
    }

    /// Counts bytes that belong to frames counted before.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.lock().stats.byte_written += bytes as u64;
    }

    /// The thread ends: with a failure if the sink is gone.
    pub(super) fn end(&self, result: Result<(), Failure>) {
        let mut state = self.lock();
        state.is_done = true;
        if let Err(failure) = result {
            state.is_gone = true;
            state.failure = Some(failure);
            state.stats.frames_not_written += state.frames.len() as u64;
            state.frames.clear();
            state.bytes = 0;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the sink is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.lock().is_gone
    }

    /// Why the sink is gone, once.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.lock().failure.take()
    }

    /// The counts so far.
    pub(super) fn stats(&self) -> SinkStats {
        self.lock().stats
    }

    /// Lets the thread write what waits, within `limit`.
    pub(super) fn finish(&self, limit: Duration, name: &str) -> Result<(), Failure> {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, limit.into(), |state| !state.is_done);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(failure) => Err(failure),
            None if state.is_done => Ok(()),
            None => {
                let left = state.frames.len() + 1;
                Err(Failure::Environment(format!("{name} is too slow: its last {left} frames were not written")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous::core::Instant;
    use timeous_media::FrameKind;

    use super::*;

    fn frame(bytes: usize) -> PlayoutFrame {
        PlayoutFrame {
            annexb: vec![0; bytes],
            rtp_timestamp: 0,
            ticks: 0,
            decode_ticks: 0,
            is_entry: true,
            kind: FrameKind::Idr,
            reference: true,
            captured_at: Instant::ZERO,
            presented_at: Instant::ZERO,
            arrived_at: Instant::ZERO,
            completed_at: Instant::ZERO,
            playout_at: Instant::ZERO,
        }
    }

    #[test]
    fn bytes_and_frames_are_bounded() {
        let queue = Queue::default();
        assert!(queue.push(&frame(MAX_BYTES + 1)), "a frame that is alone always fits");
        assert!(!queue.push(&frame(1)));
        queue.pop().unwrap();
        for _ in 0..MAX_FRAMES {
            assert!(queue.push(&frame(1)));
        }
        assert!(!queue.push(&frame(1)));
        queue.pop().unwrap();
        assert!(queue.push(&frame(1)));
    }

    #[test]
    fn what_waits_when_the_sink_is_gone_is_counted() {
        let queue = Queue::default();
        assert!(queue.push(&frame(1)) && queue.push(&frame(1)));
        queue.end(Err(Failure::Environment("gone".to_owned())));
        assert!(!queue.push(&frame(1)) && queue.is_gone());
        assert_eq!(queue.stats().frames_not_written, 2);
        assert!(queue.take_failure().is_some() && queue.take_failure().is_none());
    }
}
