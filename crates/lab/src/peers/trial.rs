//! One run: a link between two namespaces, a peer across it, the trace, and the evaluation.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope};

use timeous::core::{Duration, Instant, Rate};
use timeous_engine::clock;

use super::beside;
use super::datagram::{END, PROBE};
use super::far::Far;
use super::judge::{Came, Judgement, judge};
use super::links::{LinkName, Setting};
use super::near;
use super::peer::{self, IN_PORT, OUT_PORT, PORT, Peer, RIGHT, Way};
use super::programs::Running;
use super::trace::Trace;
use super::wire::{self, Seen, Wanted};
use crate::experiment::LabError;
use crate::experiments::tcp_kernel::bed::{Bed, Links, machine};

/// Time from the start of the link to that of the trace: connections are established by then, or have failed. SRT's
/// second attempt, after a lost answer, succeeds when the other end has forgotten the first, after 5 s.
const LEAD: Duration = Duration::from_secs(10);
/// Time for which the cross traffic runs before the trace, beside idle connections.
const ALONE: Duration = Duration::from_secs(2);
/// Interval between probes.
const PROBES: Duration = Duration::from_millis(100);
/// Time to wait for late datagrams after the end.
const REST: Duration = Duration::from_secs(2);
/// Port of the cross traffic.
const BESIDE_PORT: u16 = 7_009;

/// Inputs of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    /// Settings of the run.
    pub(crate) setting: &'a Setting,
    /// Trace to send.
    pub(crate) trace: &'a Trace,
    /// Link of the run.
    pub(crate) link: LinkName,
    /// Seed of the link's randomness.
    pub(crate) seed: u64,
    /// Directory of captures and logs.
    pub(crate) out: &'a Path,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// A program of the peer is not installed.
    Missing(PathBuf),
    /// No datagram came through before the trace began.
    NoConnection,
    /// The run was completed.
    Ran(Box<Ran>),
}

/// Results of a completed run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    /// Evaluation by frames.
    pub(crate) judgement: Judgement,
    /// Evaluation by the link's capture.
    pub(crate) seen: Seen,
    /// All received datagrams.
    pub(crate) came: Vec<Came>,
    /// Start of the trace.
    pub(crate) begin: Instant,
    /// Throughput of the cross traffic, if there was any.
    pub(crate) beside: Option<Rate>,
    /// Whether a program ended prematurely.
    pub(crate) broke: bool,
}

impl Plan<'_> {
    /// Path of a file of this run.
    pub(crate) fn file(&self, peer: &Peer, end: &str) -> PathBuf {
        self.out.join(format!("{}-{}-{}{end}", self.link.name(), peer.name, self.seed))
    }

    /// Runs a peer; `name` distinguishes the run from others of this process.
    ///
    /// # Errors
    /// Something that the machine lacks. A peer that does not work is an outcome.
    pub(crate) fn run(&self, name: &str, peer: &Peer) -> Result<Outcome, LabError> {
        if let Some(path) = peer.missing() {
            return Ok(Outcome::Missing(path.to_owned()));
        }
        let Self { setting, link, seed, .. } = *self;
        let capture = self.file(peer, ".pcapng");
        let links = Links { forward: link.forward(setting, LEAD), back: link.back(setting) };
        let bed = Bed::make(name, &links, seed, Some(&capture))?;
        let begin = clock::now() + LEAD;
        for end in [&bed.left, &bed.right] {
            // A namespace may lack the machine's default: then it keeps Reno.
            let _ = end.set_sysctl("net/ipv4/tcp_congestion_control", &peer::default_congestion());
        }
        let far = Far::default();
        let (broke, beside) = self.across(&bed, peer, begin, &far)?;
        bed.end()?;
        if !far.is_open() {
            return Ok(Outcome::NoConnection);
        }
        let ahead = clock::unix_offset();
        let wanted = Wanted { ahead, deadline: setting.deadline, beside: BESIDE_PORT, from: begin };
        let (seen, came) = (wire::read(&capture, &wanted)?, far.came());
        let judgement = judge(self.trace, setting.deadline, &came);
        Ok(Outcome::Ran(Box::new(Ran { judgement, seen, came, begin, beside, broke })))
    }

    /// Sends the trace. Returns whether a program ended prematurely, and the throughput of the cross traffic.
    fn across(&self, bed: &Bed, peer: &Peer, begin: Instant, far: &Far) -> Result<(bool, Option<Rate>), LabError> {
        let mut programs = Vec::new();
        let flow = self.link.has_flow_beside();
        let flow = flow.then(|| beside::connect(&bed.left, &bed.right, at(RIGHT, BESIDE_PORT))).transpose()?;
        let (stop, counting, bytes) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let broke = thread::scope(|scope| {
            let sent = self.open(bed, peer, far, scope, &mut programs).map(|mut way| {
                while !far.is_open() && clock::now() + ALONE < begin {
                    way.send(PROBE);
                    near::sleep_until(clock::now() + PROBES);
                }
                near::sleep_until(begin.saturating_sub(ALONE));
                if let (Some([sending, receiving]), true) = (&flow, far.is_open()) {
                    scope.spawn(|| beside::send(sending, &stop));
                    scope.spawn(|| beside::drain(receiving, &counting, &bytes));
                }
                if far.is_open() {
                    self.play(&mut way, begin, &counting);
                }
                let broke = programs.iter_mut().any(Running::has_ended);
                way.end();
                broke
            });
            counting.store(false, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            far.end();
            sent
        })?;
        let length = self.trace.length();
        Ok((broke, flow.map(|_| Rate::from_bytes_in(bytes.load(Ordering::Relaxed), length))))
    }

    fn play(&self, way: &mut Open, begin: Instant, counting: &AtomicBool) {
        near::sleep_until(begin);
        counting.store(true, Ordering::Relaxed);
        // Datagrams that are not accepted are lost, and counted so by the evaluation.
        let _ = near::play(self.trace, begin, |datagram| {
            way.send(datagram);
            Ok(())
        });
        near::sleep_until(begin + self.trace.length());
        counting.store(false, Ordering::Relaxed);
        near::sleep_until(begin + self.trace.length() + self.setting.deadline + REST);
    }

    /// Opens the transport, and the recording at its far end.
    fn open<'scope>(
        &self,
        bed: &Bed,
        peer: &Peer,
        far: &Far,
        scope: &'scope Scope<'scope, '_>,
        programs: &mut Vec<Running>,
    ) -> Result<Open, LabError> {
        let failed = LabError::system;
        let udp = |near: SocketAddr, far_end: SocketAddr| {
            let receiving = bed.right.within(|| UdpSocket::bind(far_end)).map_err(machine)?;
            let receiving = receiving.map_err(failed("open a UDP socket in a namespace"))?;
            let far = far.clone();
            scope.spawn(move || far.hear_udp(&receiving));
            let open = || UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect(near).map(|()| socket));
            let sending = bed.left.within(open).map_err(machine)?;
            sending.map(Open::Udp).map_err(failed("open a UDP socket in a namespace"))
        };
        match &peer.way {
            Way::Udp => udp(at(RIGHT, PORT), at(RIGHT, PORT)),
            Way::Programs { receiver, sender } => {
                let way = udp(at("127.0.0.1", IN_PORT), at("127.0.0.1", OUT_PORT))?;
                programs.push(Running::start(receiver, &bed.right, &self.file(peer, "-receiver.log"))?);
                // A caller that is refused may not try again.
                near::sleep_until(clock::now() + PROBES * 3);
                programs.push(Running::start(sender, &bed.left, &self.file(peer, "-sender.log"))?);
                Ok(way)
            }
            Way::Tcp { congestion, drops } => {
                if *drops {
                    bed.left.set_sysctl(near::LOWAT.0, near::LOWAT.1).map_err(machine)?;
                }
                let [sending, receiving] = tcp(bed, congestion).map_err(machine)??;
                let copies = [&sending, &receiving].map(TcpStream::try_clone);
                let (put, take) = mpsc::channel();
                let (far, drops, deadline) = (far.clone(), *drops, self.setting.deadline);
                scope.spawn(move || far.hear_tcp(receiving));
                scope.spawn(move || match drops {
                    true => near::send_useful(&sending, &take, deadline),
                    false => near::send_all(&sending, &take),
                });
                let [sending, receiving] = copies;
                let copied = (|| Ok([sending?, receiving?]))();
                Ok(Open::Tcp { put, ends: copied.map_err(failed("copy a socket"))? })
            }
        }
    }
}

fn at(address: &str, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().expect("an address and a port")
}

fn tcp(bed: &Bed, congestion: &str) -> Result<Result<[TcpStream; 2], LabError>, timeous_net::emulator::EmulatorError> {
    let there = at(RIGHT, PORT);
    let listener = bed.right.within(|| TcpListener::bind(there))?;
    let sending = bed.left.within(|| near::call(there, congestion))?;
    let connect = || -> io::Result<_> { Ok([sending?, listener?.accept()?.0]) };
    Ok(connect().map_err(LabError::system("connect across the link")))
}

/// A transport that takes datagrams.
enum Open {
    Udp(UdpSocket),
    Tcp { put: mpsc::Sender<Vec<u8>>, ends: [TcpStream; 2] },
}

impl Open {
    /// Sends a datagram. One that is not accepted is lost.
    fn send(&mut self, datagram: &[u8]) {
        match self {
            // Fails if no program listens yet, or there is no room.
            Self::Udp(socket) => drop(socket.send(datagram)),
            Self::Tcp { put, .. } => drop(put.send(datagram.to_vec())),
        }
    }

    /// Ends the transport.
    fn end(self) {
        match self {
            Self::Udp(socket) => drop(socket.send(END)),
            Self::Tcp { ends, put } => {
                drop(put);
                // An end that is closed already needs no shutdown.
                ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
        }
    }
}
