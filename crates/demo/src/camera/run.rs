//! One run of the camera comparison: a link, its receiver and sender, and a camera with a frame every 40 ms.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_testbed::machine::sleep_until;

use super::clip::{self, Arrivals, Clip, ClipFrame, INTERVAL};
use super::judge::{Judgement, judge};
use super::link::LinkName;
use super::tool::{Tool, ToolOptions};
use crate::error::DemoError;
use crate::process::{Process, free_ports, is_open};
use crate::tool::{SOON, listening_at, time};

/// Time from the start of the link to the first frame: both tools have finished their handshakes by then.
const LEAD: Duration = Duration::from_secs(2);
/// Time from the last frame to the end, besides the latency, for packets in flight.
const REST: Duration = Duration::from_millis(1_500);
/// Maximum datagram of MPEG-TS in bytes: seven packets, as SRT's live mode expects.
const DATAGRAM: usize = 7 * 188;
/// Socket read timeout, after which the end of the run is checked.
const LOOK: Duration = Duration::from_millis(50);

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

/// Path of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// Link of the comparison, with the seed of its randomness.
    Link(LinkName, u64),
    /// A link with only this delay, each way.
    Idle(Duration),
}

impl RunInputs<'_> {
    /// Sends the clip by a tool. `name` is the prefix of its files.
    ///
    /// # Errors
    /// A program is missing, or fails.
    pub(crate) fn run(&self, tool: Tool, way: PathKind, name: &str) -> Result<Judgement, DemoError> {
        let [port, input] = free_ports()?;
        let sink = UdpSocket::bind("127.0.0.1:0").map_err(DemoError::Ports)?;
        let out = sink.local_addr().map_err(DemoError::Ports)?.port();
        let files = self.raw.join(name).to_string_lossy().into_owned();
        let log = |program: &str| self.raw.join(format!("{name}-{program}.log"));
        let program = tool.program(self.timeous);

        let mut link = Process::start("the link", self.timeous, &self.link_words(way, port, &files)?, &log("emulate"))?;
        let entry = link.wait_until(SOON, self.stop, |link| Ok(listening_at(&link.output_so_far()?)))?;
        let begin = clock::now() + LEAD;
        let words = tool.receiver(&self.terms, port, out, &files);
        let (mut receiver, _, stdout) = Process::start_piped("the receiver", &program, &words, &log("receiver"))?;
        receiver.wait_until(SOON, self.stop, |_| Ok(is_open(port)?.then_some(())))?;
        let words = tool.sender(&self.terms, entry.port(), input, &files);
        let (mut sender, stdin, _) = Process::start_piped("the sender", &program, &words, &log("sender"))?;

        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let came = scope.spawn(|| match tool {
                Tool::Timeous => read_pipe(stdout),
                Tool::Srt => clip::elementary(&read_socket(&sink, &has_ended)),
            });
            let feed = match tool {
                Tool::Timeous => Ok(Feed::Pipe(stdin)),
                Tool::Srt => connect(input).map(Feed::Socket),
            };
            let entered = feed.and_then(|feed| self.play(feed, begin));
            if tool == Tool::Timeous && entered.is_ok() {
                // The end of the pipe is the end of the stream, for both ends.
                sender.wait(SOON, self.stop)?;
                receiver.wait(SOON, self.stop)?;
            }
            has_ended.store(true, Ordering::Relaxed);
            drop((sender, receiver));
            let came = came.join().expect("reading does not panic");
            Ok(judge(self.clip, &entered?, &came))
        })
    }

    fn link_words(&self, way: PathKind, port: u16, files: &str) -> Result<Vec<String>, DemoError> {
        let limit = LEAD + self.clip.length() + self.terms.latency + SOON * 2;
        let ends = format!("emulate --listen 127.0.0.1:0 --to 127.0.0.1:{port} --duration {}", time(limit));
        let options = match way {
            PathKind::Link(link, seed) => {
                let trace = format!("{files}-rate.txt");
                let text = link.trace(LEAD + self.clip.length() / 2);
                fs::write(&trace, text).map_err(DemoError::file(Path::new(&trace)))?;
                // A path may contain a space.
                let options = link.options(self.clip.rate(), "TRACE");
                return Ok(format!("{ends} --seed {seed} {options}")
                    .split_whitespace()
                    .map(|word| if word == "TRACE" { trace.clone() } else { word.to_owned() })
                    .collect());
            }
            PathKind::Idle(delay) => format!("--delay {0} --back-delay {0}", time(delay)),
        };
        Ok(format!("{ends} {options}").split_whitespace().map(str::to_owned).collect())
    }

    /// Hands over each frame at its time; returns the time at which the last byte of each went in.
    fn play(&self, mut feed: Feed, begin: Instant) -> Result<Vec<Instant>, DemoError> {
        let mut entered = Vec::new();
        for (frame, number) in self.clip.frames.iter().zip(0..) {
            sleep_until(begin + INTERVAL * number);
            if self.stop.load(Ordering::Relaxed) {
                return Err(DemoError::Interrupted);
            }
            feed.take(frame)?;
            entered.push(clock::now());
        }
        sleep_until(clock::now() + self.terms.latency + REST);
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

fn connect(port: u16) -> Result<UdpSocket, DemoError> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(DemoError::Ports)?;
    socket.connect(("127.0.0.1", port)).map_err(DemoError::Ports)?;
    Ok(socket)
}

/// Reads a pipe to its end.
fn read_pipe(mut pipe: ChildStdout) -> Arrivals {
    let (mut came, mut chunk) = (Arrivals::default(), vec![0; 1 << 16]);
    // An error counts as the end: what was received is evaluated.
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        came.push(&chunk[..count], clock::now());
    }
    came
}

/// Reads a socket until the run ends.
fn read_socket(socket: &UdpSocket, has_ended: &AtomicBool) -> Arrivals {
    let (mut came, mut datagram) = (Arrivals::default(), vec![0; 1 << 16]);
    socket.set_read_timeout(Some(LOOK.into())).expect("it is not zero");
    while !has_ended.load(Ordering::Relaxed) {
        if let Ok(count) = socket.recv(&mut datagram) {
            came.push(&datagram[..count], clock::now());
        }
    }
    came
}
