//! Frames of a source with their capture times, and its end.

use std::sync::mpsc::SyncSender;

use timeous::core::Instant;
use timeous_media::{Ending, FramePart};

use crate::failure::Failure;

/// Item from a source.
pub(crate) enum Input {
    /// A frame, or a part of one.
    Frame(Box<Captured>),
    /// The end, with what there is to say about it.
    End(Ending),
    /// Error: the source cannot be read any further.
    Broken(Failure),
}

/// A frame, or some of its slices, out of a source.
pub(crate) struct Captured {
    pub(crate) part: FramePart,
    pub(crate) timing: Timing,
    /// Index of the encoding, where there are several.
    pub(crate) encoding: usize,
}

/// Capture time of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    /// By the file's own pace.
    Paced,
    /// At this instant; and to be shown at another one, where the source says so.
    Live { captured: Instant, presented: Option<Instant> },
}

/// A reader that has nobody to read for ends by itself.
pub(super) struct Frames {
    to: SyncSender<Input>,
    pub(super) encoding: usize,
}

impl Frames {
    pub(super) fn new(to: SyncSender<Input>, encoding: usize) -> Self {
        Self { to, encoding }
    }

    /// `false` if nobody is there any more.
    pub(super) fn give(&self, frame: Captured) -> bool {
        self.to.send(Input::Frame(Box::new(frame))).is_ok()
    }

    /// Nothing more comes.
    pub(super) fn end(&self, last: Input) {
        // Nobody is there any more to hear of the end: just as well.
        let _ = self.to.send(last);
    }
}
