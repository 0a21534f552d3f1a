//! `--adapt` with `--encodings`: selects one of several parallel encodings, by the rate of the path.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use timeous::Ladder;
use timeous::core::Instant;
use timeous::core::{Advice, Rate};
use timeous_media::{FramePart, Simulcast, Stamp};

use crate::input::MediaPart;
use crate::source::DueFrame;

/// Parallel encodings and the selected one.
pub(super) struct Encodings {
    ladder: Ladder,
    simulcast: Simulcast<(Instant, Stamp)>,
}

impl Encodings {
    /// Starts with the lowest bitrate; `None` if the bitrates do not increase.
    pub(super) fn new(rates: &[Rate]) -> Option<Self> {
        let ladder = Ladder::new(rates.to_vec())?;
        Some(Self { ladder, simulcast: Simulcast::new(rates.len()) })
    }

    pub(super) fn rate(&self) -> Rate {
        self.ladder.rate()
    }

    /// Follows the advice; returns whether the selected encoding has changed.
    pub(super) fn follow(&mut self, advice: &Advice) -> bool {
        let other = self.ladder.follow(advice);
        self.simulcast.want(self.ladder.step());
        other
    }

    /// Encoding that needs a keyframe: the one that a switch waits for or, if frames were `lost`, the one being sent.
    pub(super) fn to_begin(&self, lost: bool) -> Option<usize> {
        self.simulcast.waits_for().or(self.simulcast.sent().filter(|_| lost))
    }

    /// Handles a frame; returns the frames to send.
    pub(super) fn pass(&mut self, due: DueFrame) -> Vec<DueFrame> {
        let DueFrame { part, encoding, captured, stamp } = due;
        // An encoder's output is H.264.
        if let MediaPart::Video(part) = part {
            self.simulcast.push(encoding, Box::new(part.frame), (captured, stamp));
        }
        let sent = std::iter::from_fn(|| self.simulcast.poll());
        let whole = |frame| MediaPart::Video(FramePart { frame, first: true, last: true });
        sent.map(|(frame, (captured, stamp))| DueFrame { part: whole(*frame), captured, stamp, encoding }).collect()
    }
}

/// Creates `count` pipes: read ends for us, write ends for the encoder to inherit.
pub(super) fn pipes(count: usize) -> std::io::Result<(Vec<File>, Vec<OwnedFd>)> {
    let mut ends = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfd(&write, FdFlags::empty())?;
        ends.0.push(File::from(read));
        ends.1.push(write);
    }
    Ok(ends)
}

/// Paths under which the encoder finds the inherited pipes.
pub(super) fn names(pipes: &[OwnedFd]) -> String {
    let names: Vec<String> = pipes.iter().map(|pipe| format!("/dev/fd/{}", pipe.as_raw_fd())).collect();
    names.join(" ")
}
