//! `--adapt` with `--encodings`: an encoder that makes all of them at once, of which the stream has the one that the path carries.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use timeous::Ladder;
use timeous::core::Instant;
use timeous::core::{Advice, Rate};
use timeous_media::{FramePart, Simulcast, Stamp};

use crate::source::Due;

/// Which encoding is sent.
pub(super) struct Encodings {
    ladder: Ladder,
    simulcast: Simulcast<(Instant, Stamp)>,
}

impl Encodings {
    /// The lowest; `None` if the rates do not rise.
    pub(super) fn new(rates: &[Rate]) -> Option<Self> {
        let ladder = Ladder::new(rates.to_vec())?;
        Some(Self { ladder, simulcast: Simulcast::new(rates.len()) })
    }

    pub(super) fn rate(&self) -> Rate {
        self.ladder.rate()
    }

    /// Whether another one is wanted now.
    pub(super) fn follow(&mut self, advice: &Advice) -> bool {
        let other = self.ladder.follow(advice);
        self.simulcast.want(self.ladder.step());
        other
    }

    /// Which one is to begin with a frame that stands for itself: the one that is waited for, or where `lost` says that
    /// something is missing, the one that is sent.
    pub(super) fn to_begin(&self, lost: bool) -> Option<usize> {
        self.simulcast.waits_for().or(self.simulcast.sent().filter(|_| lost))
    }

    /// A frame came; what is to be sent now.
    pub(super) fn pass(&mut self, due: Due) -> Vec<Due> {
        let Due { part, encoding, captured, stamp } = due;
        self.simulcast.push(encoding, Box::new(part.frame), (captured, stamp));
        let sent = std::iter::from_fn(|| self.simulcast.poll());
        let whole = |frame| FramePart { frame, first: true, last: true };
        sent.map(|(frame, (captured, stamp))| Due { part: whole(*frame), captured, stamp, encoding }).collect()
    }
}

/// So many pipes: the ends to read from, and those that a program inherits.
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

/// Where a program that inherits them finds them.
pub(super) fn names(pipes: &[OwnedFd]) -> String {
    let names: Vec<String> = pipes.iter().map(|pipe| format!("/dev/fd/{}", pipe.as_raw_fd())).collect();
    names.join(" ")
}
