//! One run of the camera comparison: a link, its receiver and sender, and a camera with a frame every 40 ms.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use timeous::clock;
use timeous::core::Instant;
use timeous_testbed::machine::sleep_until;

use super::clip::{self, Clip, ClipFrame, INTERVAL};
use super::judge::{Judgement, judge};
use crate::arrivals::{read_pipe, read_socket};
use crate::chain::{Chain, ChainInputs, DATAGRAM, PathKind};
use crate::compared::{Tool, ToolOptions};
use crate::error::DemoError;
use crate::tool::SOON;

/// Inputs of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunInputs<'a> {
    /// The tool `timeous`.
    pub(crate) timeous: &'a Path,
    /// Directory of records and logs.
    pub(crate) raw: &'a Path,
    /// Video to send.
    pub(crate) clip: &'a Clip,
    /// Options of both ends.
    pub(crate) terms: ToolOptions,
    /// Set to end all runs.
    pub(crate) stop: &'a AtomicBool,
}

impl RunInputs<'_> {
    /// Sends the clip by a tool. `name` is the prefix of its files.
    ///
    /// # Errors
    /// A program is missing, or fails.
    pub(crate) fn run(&self, tool: Tool, way: PathKind, name: &str) -> Result<Judgement, DemoError> {
        let Self { timeous, raw, clip, ref terms, stop } = *self;
        let inputs = ChainInputs { timeous, raw, length: clip.length(), rate: clip.rate(), terms: terms.clone(), stop };
        let Chain { mut sender, mut receiver, stdin, stdout, input, sink, begin, link } =
            inputs.start(tool, way, name)?;
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let came = scope.spawn(|| match tool {
                Tool::Timeous => read_pipe(stdout),
                Tool::Srt => clip::elementary(&read_socket(&sink, &has_ended)),
            });
            let feed = match tool {
                Tool::Timeous => Feed::Pipe(stdin),
                Tool::Srt => Feed::Socket(input),
            };
            let entered = self.play(feed, begin, &inputs);
            if tool == Tool::Timeous && entered.is_ok() {
                // The end of the pipe is the end of the stream, for both ends.
                sender.wait(SOON, self.stop)?;
                receiver.wait(SOON, self.stop)?;
            }
            has_ended.store(true, Ordering::Relaxed);
            drop((sender, receiver, link));
            let came = came.join().expect("reading does not panic");
            Ok(judge(self.clip, &entered?, &came))
        })
    }

    /// Hands over each frame at its time; returns the time at which the last byte of each went in.
    fn play(&self, mut feed: Feed, begin: Instant, inputs: &ChainInputs<'_>) -> Result<Vec<Instant>, DemoError> {
        let mut entered = Vec::new();
        for (frame, number) in self.clip.frames.iter().zip(0..) {
            sleep_until(begin + INTERVAL * number);
            if self.stop.load(Ordering::Relaxed) {
                return Err(DemoError::Interrupted);
            }
            feed.take(frame)?;
            entered.push(clock::now());
        }
        sleep_until(clock::now() + inputs.rest());
        Ok(entered)
    }
}

/// Input of the sender for the camera's frames.
enum Feed {
    Pipe(ChildStdin),
    Socket(UdpSocket),
}

impl Feed {
    fn take(&mut self, frame: &ClipFrame) -> Result<(), DemoError> {
        let taken = match self {
            Self::Pipe(pipe) => pipe.write_all(&frame.annexb),
            Self::Socket(socket) => frame.ts.chunks(DATAGRAM).try_for_each(|datagram| socket.send(datagram).map(drop)),
        };
        taken.map_err(DemoError::file(Path::new("the sender's input")))
    }
}
