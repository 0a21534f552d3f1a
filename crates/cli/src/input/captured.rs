//! Items from a source: frames with their capture times, and its end.

use std::sync::mpsc::SyncSender;

use timeous::core::Instant;
use timeous_media::passthrough::StreamClock;
use timeous_media::{Ending, MediaDescription};

use super::media::MediaPart;
use crate::failure::Failure;

/// Item from a source.
pub(crate) enum Input {
    /// Frame, or part of one.
    Frame(Box<CapturedFrame>),
    /// Streams of the source, for their receiver.
    Streams(Vec<MediaDescription>),
    /// Clocks of the streams.
    Clocks(Vec<Option<StreamClock>>),
    /// End of the source, with a summary.
    End(Ending),
    /// Error that ends the source.
    Broken(Failure),
}

/// Frame, or a part of one, from a source.
pub(crate) struct CapturedFrame {
    pub(crate) part: MediaPart,
    pub(crate) timing: Timing,
    /// Index of the encoding, if there are several.
    pub(crate) encoding: usize,
}

/// Timing of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    /// Paced by the frame rate of the file.
    Paced,
    /// Captured at this instant, and to be displayed at `presented`, if the source tells it.
    Live { captured: Instant, presented: Option<Instant> },
}

/// Queue from a source's reader; the reader stops once the receiving side is gone.
pub(super) struct Frames {
    to: SyncSender<Input>,
    pub(super) encoding: usize,
    /// Name of the source's file, for messages.
    name: Option<String>,
}

impl Frames {
    pub(super) fn new(to: SyncSender<Input>, encoding: usize) -> Self {
        Self { to, encoding, name: None }
    }

    /// Names the source's file.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Adds the name of the source's file to a failure of its content.
    pub(super) fn name_in(&self, failure: Failure) -> Failure {
        match (failure, &self.name) {
            (Failure::Input(text), Some(name)) => Failure::Input(format!("{name}: {text}")),
            (failure, _) => failure,
        }
    }

    /// Queues a frame; returns `false` if the receiving side is gone.
    pub(super) fn give(&self, frame: CapturedFrame) -> bool {
        self.to.send(Input::Frame(Box::new(frame))).is_ok()
    }

    /// Queues descriptions of the streams that follow; returns `false` if the receiving side is gone.
    pub(super) fn describe(&self, streams: Vec<MediaDescription>) -> bool {
        self.to.send(Input::Streams(streams)).is_ok()
    }

    /// Queues the clocks of the streams; returns `false` if the receiving side is gone.
    pub(super) fn tell_clocks(&self, clocks: Vec<Option<StreamClock>>) -> bool {
        self.to.send(Input::Clocks(clocks)).is_ok()
    }

    /// Queues the last item.
    pub(super) fn end(&self, last: Input) {
        // Fails only if the receiving side is gone, which needs no report.
        let _ = self.to.send(last);
    }
}
