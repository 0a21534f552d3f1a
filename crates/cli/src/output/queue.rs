//! Bounded queue of frames between the stream and the sink's thread; adding a frame never blocks.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use timeous::core::Duration;
use timeous_media::passthrough::{PassthroughRelease, StreamClock};
use timeous_media::ts::TsRelease;
use timeous_media::{MediaDescription, PlayoutFrame};

use crate::failure::Failure;

/// Most queued bytes: ten seconds at 12 Mbit/s.
const MAX_BYTES: usize = 16 << 20;

/// Most queued frames: half a minute at 60 per second.
const MAX_FRAMES: usize = 2048;

/// Statistics of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SinkStats {
    /// Frames written to the sink; not clock values inserted into MPEG-TS.
    pub(crate) frames_written: u64,
    /// Frames left out because the sink was slow or gone, or its format cannot hold them or their stream.
    pub(crate) frames_not_written: u64,
    /// Bytes written to the sink.
    pub(crate) byte_written: u64,
}

/// Frame, or packets of a transport stream, for a sink.
#[derive(Clone, Debug)]
pub(super) enum SinkItem {
    Frame(PlayoutFrame),
    /// Packets of a transport stream.
    Packets(TsRelease),
    /// RTP packets of any payload.
    Passthrough(PassthroughRelease),
    /// Clock of one of their streams.
    Clock(u8, StreamClock),
    /// Descriptions of their streams.
    Streams(Vec<MediaDescription>),
}

impl SinkItem {
    /// Whether it counts as a frame: what is told of the media, and inserted clock values, do not.
    pub(super) fn is_frame(&self) -> bool {
        match self {
            Self::Frame(_) | Self::Passthrough(_) => true,
            Self::Packets(release) => !release.is_inserted,
            Self::Streams(_) | Self::Clock(..) => false,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Frame(frame) => frame.annexb.len(),
            Self::Packets(release) => release.packets.len(),
            Self::Passthrough(release) => release.packets.iter().map(Vec::len).sum(),
            Self::Streams(_) | Self::Clock(..) => 0,
        }
    }
}

/// Frame queue, with the state shared by both sides.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<SinkItem>,
    bytes: usize,
    /// Whether no more frames follow.
    is_closed: bool,
    /// Whether the thread has ended: everything is written, or the sink is gone.
    is_done: bool,
    is_gone: bool,
    /// Whether the sink does not take the stream, which nobody was told yet.
    is_refusing: bool,
    /// Failure that was not returned yet.
    failure: Option<Failure>,
    stats: SinkStats,
}

impl State {
    fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.stats.frames_not_written += self.frames.iter().filter(|item| item.is_frame()).count() as u64;
        self.frames.clear();
        self.bytes = 0;
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever the lock is free, so that a panic leaves no damage.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame; returns `false` if there is no room or the sink is gone.
    pub(super) fn push(&self, frame: SinkItem) -> bool {
        let mut state = self.lock();
        let fits = state.frames.is_empty() || state.bytes + frame.len() <= MAX_BYTES && state.frames.len() < MAX_FRAMES;
        if state.is_refusing {
            state.stats.frames_not_written += u64::from(frame.is_frame());
            return true;
        }
        if state.is_gone || !fits {
            return false;
        }
        state.bytes += frame.len();
        state.frames.push_back(frame);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Waits for the next frame; returns `None` at the end.
    pub(super) fn pop(&self) -> Option<SinkItem> {
        let empty = |state: &mut State| state.frames.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let frame = state.frames.pop_front()?;
        state.bytes -= frame.len();
        Some(frame)
    }

    /// Counts a frame that was dropped before the queue.
    pub(super) fn count_missed(&self) {
        self.lock().stats.frames_not_written += 1;
    }

    /// Counts a frame that was taken from the queue, and the bytes written for it.
    pub(super) fn count(&self, is_written: bool, bytes: usize) {
        let stats = &mut self.lock().stats;
        if is_written {
            stats.frames_written += 1;
        } else {
            stats.frames_not_written += 1;
        }
        stats.byte_written += bytes as u64;
    }

    /// Counts bytes of frames that were counted before.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.lock().stats.byte_written += bytes as u64;
    }

    /// Marks the thread as ended, with a failure if the sink is gone.
    pub(super) fn end(&self, result: Result<(), Failure>) {
        let mut state = self.lock();
        state.is_done = true;
        if let Err(failure) = result {
            state.is_gone = true;
            state.fail(failure);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Leaves out what waits, and what follows until [`take_failure`](Self::take_failure): the sink does not take the stream.
    pub(super) fn refuse(&self, failure: Failure) {
        let mut state = self.lock();
        state.is_refusing = true;
        state.fail(failure);
    }

    /// Whether the sink is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.lock().is_gone
    }

    /// Returns the failure of the sink, once.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        let mut state = self.lock();
        state.is_refusing = false;
        state.failure.take()
    }

    /// Statistics so far.
    pub(super) fn stats(&self) -> SinkStats {
        self.lock().stats
    }

    /// Waits until the thread has written all queued frames, at most for `limit`.
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

    fn frame(bytes: usize) -> SinkItem {
        SinkItem::Frame(PlayoutFrame {
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
        })
    }

    #[test]
    fn bytes_and_frames_are_bounded() {
        let queue = Queue::default();
        assert!(queue.push(frame(MAX_BYTES + 1)), "a frame that is alone always fits");
        assert!(!queue.push(frame(1)));
        queue.pop().unwrap();
        for _ in 0..MAX_FRAMES {
            assert!(queue.push(frame(1)));
        }
        assert!(!queue.push(frame(1)));
        queue.pop().unwrap();
        assert!(queue.push(frame(1)));
    }

    #[test]
    fn what_waits_when_the_sink_is_gone_is_counted() {
        let queue = Queue::default();
        assert!(queue.push(frame(1)) && queue.push(frame(1)));
        queue.end(Err(Failure::Environment("gone".to_owned())));
        assert!(!queue.push(frame(1)) && queue.is_gone());
        assert_eq!(queue.stats().frames_not_written, 2);
        assert!(queue.take_failure().is_some() && queue.take_failure().is_none());
    }

    #[test]
    fn what_follows_of_a_stream_that_is_refused_is_left_out_and_the_next_is_taken() {
        let queue = Queue::default();
        assert!(queue.push(frame(1)) && queue.push(frame(1)));
        queue.refuse(Failure::Peer("not this".to_owned()));
        assert!(queue.push(frame(1)) && !queue.is_gone());
        assert!(queue.take_failure().is_some() && queue.take_failure().is_none());
        assert!(queue.push(frame(1)));
        queue.pop().unwrap();
        assert_eq!(queue.stats().frames_not_written, 3);
    }
}
