//! Chain of a run: a link, its receiver and its sender, each with a log.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::AtomicBool;

use timeous::clock;
use timeous::core::{Duration, Instant, Rate};

use crate::compared::{Tool, ToolOptions};
use crate::error::DemoError;
use crate::link::LinkName;
use crate::process::{Process, free_ports, is_open};
use crate::tool::{SOON, listening_at, time};

/// Time from the start of the link to the first frame: both tools have finished their handshakes by then.
const LEAD: Duration = Duration::from_secs(2);
/// Time from the last frame to the end, besides the latency, for packets in flight.
const REST: Duration = Duration::from_millis(1_500);
/// Maximum datagram of MPEG-TS in bytes: seven packets, as SRT's live mode expects.
pub(crate) const DATAGRAM: usize = 7 * 188;

/// Inputs of a chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainInputs<'a> {
    /// The tool `timeous`.
    pub(crate) timeous: &'a Path,
    /// Directory of records and logs.
    pub(crate) raw: &'a Path,
    /// Duration and rate of the source.
    pub(crate) length: Duration,
    pub(crate) rate: Rate,
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

/// Running programs. They are killed when dropped.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) sender: Process,
    pub(crate) receiver: Process,
    /// Pipe into the sender, and out of the receiver.
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    /// Socket into the sender, and out of the receiver, for ends with UDP.
    pub(crate) input: UdpSocket,
    pub(crate) sink: UdpSocket,
    /// Time of the first frame.
    pub(crate) begin: Instant,
    pub(crate) link: Process,
}

impl ChainInputs<'_> {
    /// Starts the programs. `name` is the prefix of their files.
    ///
    /// # Errors
    /// A program is missing, or fails.
    pub(crate) fn start(&self, tool: Tool, way: PathKind, name: &str) -> Result<Chain, DemoError> {
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
        let (sender, stdin, _) = Process::start_piped("the sender", &program, &words, &log("sender"))?;
        let input = connect(input)?;
        Ok(Chain { sender, receiver, stdin, stdout, input, sink, begin, link })
    }

    /// Time from the last frame to the end.
    pub(crate) fn rest(&self) -> Duration {
        self.terms.latency + REST
    }

    fn link_words(&self, way: PathKind, port: u16, files: &str) -> Result<Vec<String>, DemoError> {
        let limit = LEAD + self.length + self.terms.latency + SOON * 2;
        let ends = format!("emulate --listen 127.0.0.1:0 --to 127.0.0.1:{port} --duration {}", time(limit));
        let options = match way {
            PathKind::Link(link, seed) => {
                let trace = format!("{files}-rate.txt");
                let text = link.trace(LEAD + self.length / 2);
                fs::write(&trace, text).map_err(DemoError::file(Path::new(&trace)))?;
                // A path may contain a space.
                let options = link.options(self.rate, "TRACE");
                return Ok(format!("{ends} --seed {seed} {options}")
                    .split_whitespace()
                    .map(|word| if word == "TRACE" { trace.clone() } else { word.to_owned() })
                    .collect());
            }
            PathKind::Idle(delay) => format!("--delay {0} --back-delay {0}", time(delay)),
        };
        Ok(format!("{ends} {options}").split_whitespace().map(str::to_owned).collect())
    }
}

fn connect(port: u16) -> Result<UdpSocket, DemoError> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(DemoError::Ports)?;
    socket.connect(("127.0.0.1", port)).map_err(DemoError::Ports)?;
    Ok(socket)
}
