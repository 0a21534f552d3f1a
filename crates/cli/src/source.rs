//! The frames of an input in the order of sending, each when its time has come.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::Frame;

use crate::failure::Failure;
use crate::input::Input;

/// Frames in the order of sending, each not before its time.
pub(crate) struct Source {
    input: Receiver<Input>,
    next: Option<(Box<Frame>, Instant, usize)>,
    /// Encodings that have not ended.
    open: usize,
    start: Option<Instant>,
    flaw: Option<Failure>,
    /// Whether frames come when they are captured: then their time has come.
    live: bool,
}

/// A frame whose time has come, and when it was captured.
pub(crate) struct Due {
    /// The frame.
    pub(crate) frame: Box<Frame>,
    /// Of which of several encodings it is.
    pub(crate) encoding: usize,
    /// When its picture was taken, as far as one can tell: its deadline counts from here.
    pub(crate) captured: Instant,
}

/// What a source has to give.
pub(crate) enum Next {
    /// A frame whose time has come.
    Frame(Due),
    /// Nothing within the time that was given.
    NotYet,
    /// Nothing any more.
    End,
}

impl Source {
    /// Waits for the first frame: what is no video at all fails here.
    pub(crate) fn new(input: Receiver<Input>) -> Result<Self, Failure> {
        let mut source = Self { input, next: None, start: None, flaw: None, open: 1, live: false };
        while source.next.is_none() && source.listen(None) {}
        match source.flaw.take() {
            Some(failure) if source.next.is_none() => Err(failure),
            flaw => Ok(Self { flaw, ..source }),
        }
    }

    /// Frames are sent as they come, and were captured then: so says a source that waits for nobody. It may have several
    /// encodings, and ends with the last one of them.
    pub(crate) fn live(self, encodings: usize) -> Self {
        Self { live: true, open: encodings, ..self }
    }

    /// Waits for the next frame; `false` at the end.
    fn listen(&mut self, limit: Option<Duration>) -> bool {
        let input = match limit {
            Some(limit) => self.input.recv_timeout(limit.into()),
            None => self.input.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match input {
            Ok(Input::Frame(frame, at, encoding)) => self.next = Some((frame, at, encoding)),
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

    /// The next frame if it is due within `limit`.
    #[expect(clippy::disallowed_methods, reason = "this is the driver, and it waits until a frame is due")]
    pub(crate) fn next(&mut self, limit: Duration) -> Next {
        if self.next.is_none() && !self.listen(Some(limit)) {
            return Next::End;
        }
        let Some((frame, there, encoding)) = self.next.take() else { return Next::NotYet };
        if self.live {
            return Next::Frame(Due { frame, encoding, captured: there });
        }
        let now = clock::now();
        let start = *self.start.get_or_insert(now);
        let due = (start + frame.handover).max(there);
        if due > now + limit {
            std::thread::sleep(limit.into());
            self.next = Some((frame, there, encoding));
            return Next::NotYet;
        }
        std::thread::sleep(due.saturating_since(now).into());
        let captured = due.saturating_sub(frame.handover - frame.capture);
        Next::Frame(Due { frame, encoding, captured })
    }

    /// What is wrong with the input: to be told when all that was whole has been sent.
    pub(crate) fn take_flaw(&mut self) -> Option<Failure> {
        self.flaw.take()
    }
}
