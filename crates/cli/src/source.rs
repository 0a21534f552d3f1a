//! Paced source: delivers frames in sending order when they are due, with timestamps on the sender's RTP clock.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::passthrough::StreamClock;
use timeous_media::{FramePart, MediaDescription, RTP_CLOCK_HZ, Stamp};

use crate::failure::Failure;
use crate::input::{CapturedFrame, Format, Input, MediaPart, OpenedSource, Timing};
use crate::interrupt::Interrupt;

/// Longest wait for the first frame between two looks for an interrupt.
const TICK: Duration = Duration::from_millis(50);

/// Frames in sending order, each delivered when due.
pub(crate) struct Source {
    input: Receiver<Input>,
    next: Option<Box<CapturedFrame>>,
    /// Streams of a source of several.
    streams: Vec<MediaDescription>,
    clocks: Vec<Option<StreamClock>>,
    /// Number of times that the clocks were told.
    clock_updates: u64,
    /// Encodings that have not ended.
    open: usize,
    /// Due time of a file's first frame.
    start: Option<Instant>,
    flaw: Option<Failure>,
    is_live: bool,
    stamper: TimestampConverter,
}

/// Frame, or some of its slices, that is due.
pub(crate) struct DueFrame {
    pub(crate) part: MediaPart,
    /// Index of the encoding, if there are several.
    pub(crate) encoding: usize,
    /// Capture time, which the deadline counts from.
    pub(crate) captured: Instant,
    /// Capture and presentation times on the stream's RTP clock.
    pub(crate) stamp: Stamp,
}

/// Result of a wait for a frame.
pub(crate) enum NextFrame {
    /// Frame that is due.
    Frame(Box<DueFrame>),
    /// No frame within the time limit.
    NotYet,
    /// End of the source.
    End,
}

impl Source {
    /// Waits for the first frame, or for an interrupt: then there is no source. Input without video fails here. A source of
    /// several encodings ends with the last of them.
    pub(crate) fn new(opened: OpenedSource, interrupt: &Interrupt) -> Result<Option<Self>, Failure> {
        let OpenedSource { input, is_live, encodings } = opened;
        let stamper = TimestampConverter::new(clock::now());
        let mut source = Self {
            input,
            next: None,
            streams: Vec::new(),
            clocks: Vec::new(),
            clock_updates: 0,
            start: None,
            flaw: None,
            open: encodings,
            is_live,
            stamper,
        };
        while source.next.is_none() && source.listen(TICK) {
            if interrupt.is_set() {
                return Ok(None);
            }
        }
        match source.flaw.take() {
            Some(failure) if source.next.is_none() => Err(failure),
            flaw => Ok(Some(Self { flaw, ..source })),
        }
    }

    /// Whether frames come in real time, independent of receivers.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Waits for the next frame; returns `false` at the end.
    fn listen(&mut self, limit: Duration) -> bool {
        match self.input.recv_timeout(limit.into()) {
            Ok(Input::Frame(frame)) => self.next = Some(frame),
            Ok(Input::Streams(streams)) => self.streams = streams,
            Ok(Input::Clocks(clocks)) => {
                self.clocks = clocks;
                self.clock_updates += 1;
            }
            Ok(Input::End(ending)) => {
                if ending.truncated || ending.unreadable_slices > 0 {
                    self.flaw = Some(Failure::Input(format!(
                        "the source is damaged or breaks off: {} frames were whole and have been sent, \
                         {} slices could not be read",
                        ending.frames, ending.unreadable_slices
                    )));
                }
                self.open = self.open.saturating_sub(1);
                return self.open > 0;
            }
            Ok(Input::Broken(failure)) => {
                self.flaw = Some(failure);
                return false;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        true
    }

    /// Returns the next frame if it is due within `limit`.
    #[expect(clippy::disallowed_methods, reason = "this is the driver, and it waits until a frame is due")]
    pub(crate) fn next(&mut self, limit: Duration) -> NextFrame {
        if self.next.is_none() && !self.listen(limit) {
            return NextFrame::End;
        }
        let Some(next) = self.next.take() else { return NextFrame::NotYet };
        let (captured, presented) = match next.timing {
            Timing::Live { captured, presented } => (captured, presented),
            Timing::Paced => {
                let now = clock::now();
                let due = *self.start.get_or_insert(now) + next.part.handover();
                if due > now + limit {
                    std::thread::sleep(limit.into());
                    self.next = Some(next);
                    return NextFrame::NotYet;
                }
                std::thread::sleep(due.saturating_since(now).into());
                (due, None)
            }
        };
        let CapturedFrame { part, encoding, .. } = *next;
        let stamp = match &part {
            MediaPart::Video(part) => self.stamper.stamp(part, captured, presented),
            MediaPart::Ts(_) | MediaPart::Passthrough(_) => {
                let capture = self.stamper.ticks(captured);
                Stamp { presentation: capture, capture, is_queued: false }
            }
        };
        NextFrame::Frame(Box::new(DueFrame { part, encoding, captured, stamp }))
    }

    /// Format of the source, by its next part.
    pub(crate) fn format(&self) -> Format {
        self.next.as_ref().map_or(Format::Video, |next| next.part.format())
    }

    /// Descriptions of the streams of a source of several, for its receiver.
    pub(crate) fn streams(&self) -> &[MediaDescription] {
        &self.streams
    }

    /// Clocks of those streams.
    pub(crate) fn clocks(&self) -> &[Option<StreamClock>] {
        &self.clocks
    }

    /// Number of changes of these clocks.
    pub(crate) fn clock_updates(&self) -> u64 {
        self.clock_updates
    }

    /// Converts an instant to the RTP clock of [`DueFrame::stamp`].
    pub(crate) fn ticks(&self, at: Instant) -> u64 {
        self.stamper.ticks(at)
    }

    /// Error in the input, to be reported after all complete frames were sent.
    pub(crate) fn take_flaw(&mut self) -> Option<Failure> {
        self.flaw.take()
    }
}

/// Offset of the first timestamp from zero, since some frames are displayed before others that were captured earlier.
const LEAD: Duration = Duration::from_secs(10);

/// Converts capture times to RTP timestamps.
struct TimestampConverter {
    epoch: Instant,
    /// Timestamps of the last [`LEAD`]: frames that come at once must not share one, however many they are.
    given: BTreeSet<u64>,
    /// Number and stamp of the current frame.
    current: Option<(u32, Stamp)>,
    /// Display delay in frames, so that no frame is displayed before it is decoded.
    reorder: i64,
}

impl TimestampConverter {
    fn new(epoch: Instant) -> Self {
        Self { epoch: epoch.saturating_sub(LEAD), given: BTreeSet::new(), current: None, reorder: 0 }
    }

    fn stamp(&mut self, part: &FramePart, captured: Instant, presented: Option<Instant>) -> Stamp {
        let frame = &part.frame;
        if let Some((_, stamp)) = self.current.filter(|&(index, _)| index == frame.index && !part.first) {
            return stamp;
        }
        let capture = self.ticks(captured);
        let mut presentation = match presented {
            Some(at) => self.ticks(at),
            None => {
                let ahead = i64::try_from(frame.display_index).unwrap_or(0) - i64::from(frame.index);
                self.reorder = self.reorder.max(-ahead).max(frame.reorder.into());
                let interval = ticks_of(frame.duration) as i64;
                capture.saturating_add_signed((ahead + self.reorder) * interval)
            }
        };
        self.given = self.given.split_off(&capture.saturating_sub(ticks_of(LEAD)));
        while !self.given.insert(presentation) {
            presentation += 1;
        }
        let stamp = Stamp { presentation, capture, is_queued: false };
        self.current = Some((frame.index, stamp));
        stamp
    }

    fn ticks(&self, at: Instant) -> u64 {
        ticks_of(at.saturating_since(self.epoch))
    }
}

fn ticks_of(time: Duration) -> u64 {
    (u128::from(time.as_nanos()) * u128::from(RTP_CLOCK_HZ) / 1_000_000_000) as u64
}
