//! One run: a link between two namespaces, a peer across it, the trace, and the evaluation.

use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, Scope};

use timeous::core::{Duration, Instant, Rate};
use timeous_engine::clock;
use timeous_testbed::RunError;
use timeous_testbed::machine::{Call, drain, machine, send_until, sleep_until};
use timeous_testbed::network::{Links, TestNetwork};
use timeous_testbed::process::ChildProcess;

use crate::capture::{self, CaptureParameters, CaptureResults};
use crate::datagram::{END, PROBE};
use crate::judge::{Judgement, ReceivedDatagram, judge};
use crate::links::{LinkName, Setting};
use crate::peer::{self, IN_PORT, OUT_PORT, PORT, Peer, RIGHT, Transport};
use crate::receiver::DatagramReceiver;
use crate::sender;
use crate::trace::Trace;

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
    Ran(Box<RunResults>),
}

/// Results of a completed run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunResults {
    /// Evaluation by frames.
    pub(crate) judgement: Judgement,
    /// Evaluation by the link's capture.
    pub(crate) seen: CaptureResults,
    /// All received datagrams.
    pub(crate) came: Vec<ReceivedDatagram>,
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
    pub(crate) fn run(&self, name: &str, peer: &Peer) -> Result<Outcome, RunError> {
        if let Some(path) = peer.missing() {
            return Ok(Outcome::Missing(path.to_owned()));
        }
        let Self { setting, link, seed, .. } = *self;
        let capture = self.file(peer, ".pcapng");
        let links = Links { forward: link.forward(setting, LEAD), back: link.back(setting) };
        let network = TestNetwork::make(name, &links, seed, Some(&capture))?;
        let begin = clock::now() + LEAD;
        for end in [&network.left, &network.right] {
            // A namespace may lack the machine's default: then it keeps Reno.
            let _ = end.set_sysctl("net/ipv4/tcp_congestion_control", &peer::default_congestion());
        }
        let far = DatagramReceiver::default();
        let (broke, beside) = self.across(&network, peer, begin, &far)?;
        network.end()?;
        if !far.is_open() {
            return Ok(Outcome::NoConnection);
        }
        let ahead = clock::unix_offset();
        let wanted = CaptureParameters { ahead, deadline: setting.deadline, beside: BESIDE_PORT, from: begin };
        let (seen, came) = (capture::read(&capture, &wanted)?, far.came());
        let judgement = judge(self.trace, setting.deadline, &came);
        Ok(Outcome::Ran(Box::new(RunResults { judgement, seen, came, begin, beside, broke })))
    }

    /// Sends the trace. Returns whether a program ended prematurely, and the throughput of the cross traffic.
    fn across(
        &self,
        network: &TestNetwork,
        peer: &Peer,
        begin: Instant,
        far: &DatagramReceiver,
    ) -> Result<(bool, Option<Rate>), RunError> {
        let mut programs = Vec::new();
        let flow = self.link.has_flow_beside();
        let flow = flow.then(|| connect(network, "cubic", BESIDE_PORT)).transpose()?;
        let (stop, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        let (broke, beside) = thread::scope(|scope| {
            let sent = self.open(network, peer, far, scope, &mut programs).map(|mut way| {
                while !far.is_open() && clock::now() + ALONE < begin {
                    way.send(PROBE);
                    sleep_until(clock::now() + PROBES);
                }
                sleep_until(begin.saturating_sub(ALONE));
                if let (Some((sending, receiving)), true) = (&flow, far.is_open()) {
                    // Its rate shows what it could not send.
                    scope.spawn(|| drop(send_until(sending, receiving, &stop)));
                    scope.spawn(|| drain(receiving, &bytes));
                }
                let beside = if far.is_open() { self.play(&mut way, begin, &bytes) } else { 0 };
                let broke = programs.iter_mut().any(ChildProcess::has_ended);
                way.end();
                (broke, beside)
            });
            stop.store(true, Ordering::Relaxed);
            far.end();
            sent
        })?;
        Ok((broke, flow.map(|_| Rate::from_bytes_in(beside, self.trace.length()))))
    }

    /// Plays the trace, and returns the bytes of the cross traffic that came meanwhile.
    fn play(&self, way: &mut OpenTransport, begin: Instant, came: &AtomicU64) -> u64 {
        sleep_until(begin);
        let before = came.load(Ordering::Relaxed);
        // Datagrams that are not accepted are lost, and counted so by the evaluation.
        let _ = sender::play(self.trace, begin, |datagram| {
            way.send(datagram);
            Ok(())
        });
        sleep_until(begin + self.trace.length());
        let beside = came.load(Ordering::Relaxed) - before;
        sleep_until(begin + self.trace.length() + self.setting.deadline + REST);
        beside
    }

    /// Opens the transport, and the recording at its far end.
    fn open<'scope>(
        &self,
        network: &TestNetwork,
        peer: &Peer,
        far: &DatagramReceiver,
        scope: &'scope Scope<'scope, '_>,
        programs: &mut Vec<ChildProcess>,
    ) -> Result<OpenTransport, RunError> {
        let failed = RunError::system;
        let udp = |near: SocketAddr, far_end: SocketAddr| {
            let receiving = network.right.within(|| UdpSocket::bind(far_end)).map_err(machine)?;
            let receiving = receiving.map_err(failed("open a UDP socket in a namespace"))?;
            let far = far.clone();
            scope.spawn(move || far.hear_udp(&receiving));
            let open = || UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect(near).map(|()| socket));
            let sending = network.left.within(open).map_err(machine)?;
            sending.map(OpenTransport::Udp).map_err(failed("open a UDP socket in a namespace"))
        };
        match &peer.way {
            Transport::Udp => udp(at(RIGHT, PORT), at(RIGHT, PORT)),
            Transport::Programs { receiver, sender } => {
                let way = udp(at("127.0.0.1", IN_PORT), at("127.0.0.1", OUT_PORT))?;
                programs.push(peer::start(receiver, &network.right, &self.file(peer, "-receiver.log"))?);
                // A caller that is refused may not try again.
                sleep_until(clock::now() + PROBES * 3);
                programs.push(peer::start(sender, &network.left, &self.file(peer, "-sender.log"))?);
                Ok(way)
            }
            Transport::Tcp { congestion, drops } => {
                if *drops {
                    network.left.set_sysctl(sender::LOWAT.0, sender::LOWAT.1).map_err(machine)?;
                }
                let (sending, receiving) = connect(network, congestion, PORT)?;
                let copies = [&sending, &receiving].map(TcpStream::try_clone);
                let (put, take) = mpsc::channel();
                let (far, drops, deadline) = (far.clone(), *drops, self.setting.deadline);
                scope.spawn(move || far.hear_tcp(receiving));
                scope.spawn(move || match drops {
                    true => sender::send_useful(&sending, &take, deadline),
                    false => sender::send_all(&sending, &take),
                });
                let [sending, receiving] = copies;
                let copied = (|| Ok([sending?, receiving?]))();
                Ok(OpenTransport::Tcp { put, ends: copied.map_err(failed("copy a socket"))? })
            }
        }
    }
}

fn connect(network: &TestNetwork, congestion_control: &str, port: u16) -> Result<(TcpStream, TcpStream), RunError> {
    let call = Call { congestion_control, segment: None, nodelay: true };
    call.open(&network.left, &network.right, at(RIGHT, port))
}

fn at(address: &str, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().expect("an address and a port")
}

/// A transport that takes datagrams.
enum OpenTransport {
    Udp(UdpSocket),
    Tcp { put: mpsc::Sender<Vec<u8>>, ends: [TcpStream; 2] },
}

impl OpenTransport {
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
