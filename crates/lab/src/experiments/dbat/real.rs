//! The stream beside FTP over real sockets through the emulated link: the kernel's TCP, and the engine's TFRC.

mod ends;

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::net::sockopt::set_socket_send_buffer_size;
use timeous::core::{Duration, Instant, LateChoice};
use timeous_choice::Chain;
use timeous_dccp::{Ccid, Config as DccpConfig};
use timeous_engine::{Carrier, Congestion, Engine, EngineError, Sealing, StreamConfig, clock};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_testbed::machine::{Call, machine, no_connection, opened, send_until, sleep_until};
use timeous_testbed::network::{Links, TestNetwork};

use super::super::goddard::message::PACKET;
use super::super::goddard::player::{Player, PlayerRules};
use super::super::goddard::probe::{Probe, ProbeRequester, ProbeResponder};
use super::super::goddard::server::{BUFFER, Server};
use super::differences::SetupDifference;
use super::outcome::Outcome;
use super::setup::{AFTER, FTP, RATE, STREAM, StreamTransport, queue};
use super::trial::{Cell, Streams};
use crate::experiment::{Choice, Grid, Run, RunError, cross, setup};
use ends::{DccpEnd, End, StreamClock, TcpEnd, UdpEnd, drive};

/// Concurrent streams: each has a link of its own, and together they are far below the machine's capacity.
const AT_ONCE: usize = 24;
/// Bytes of the timestamps option in each segment (RFC 7323): the kernel counts it towards the maximum segment size.
const TIMESTAMPS: u32 = 12;
/// Longest wait for a connection.
const PATIENCE: Duration = Duration::from_secs(20);
/// Socket timeout, after which a thread checks whether to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(100);

/// Addresses of the left and the right end.
const LEFT: &str = "10.77.0.1";
const RIGHT: &str = "10.77.0.2";
const STREAMER: u16 = 5_004;
const PAIRS: u16 = 7_000;
const OTHER: u16 = 8_000;

/// Returns the choices that apply to real kernels only.
pub(crate) fn choices() -> Vec<Choice> {
    setup! {
        ours "machines": "network namespaces of one, each stream with a link of its own" => "one clock for all";
        ours "TCP, real": "the kernel's Reno with SACK, segments of {PACKET} bytes; the streamer's buffer by \
            `SO_SNDBUF`, {} kB", BUFFER * PACKET / 1_000 => "§4: \"the default send buffer is set to 64KB\"";
        ours "TFRC, real": "the engine's CCID 3 over UDP" => "the one that `ccid=3` takes";
        ours "web traffic, real": "none" => "a sixth of the link or less in virtual time";
        ours "by seed": "which instants meet which" => "nothing is lost but at the full queue";
    }
}

/// Runs each transport at each round-trip time for each seed.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn run(run: &Run<'_>, rtts: &[u64]) -> Result<Streams, RunError> {
    let cells = Cell::all(&[SetupDifference::TODAY], rtts, &StreamTransport::ALL);
    let wishes: Vec<(u64, Cell)> = cross(run.seeds(), cells).collect();
    let task = run.progress.task("streams", wishes.len() as u64);
    let mut outcomes = Vec::new();
    for (batch, wishes) in wishes.chunks(AT_ONCE).enumerate() {
        let found: Result<Vec<_>, RunError> = thread::scope(|scope| {
            let task = &task;
            let started: Vec<_> = wishes
                .iter()
                .enumerate()
                .map(|(index, (seed, cell))| {
                    scope.spawn(move || {
                        let outcome = trial(&format!("db{}", batch * AT_ONCE + index), cell, *seed);
                        task.step();
                        outcome.map(|outcome| (*cell, *seed, outcome))
                    })
                })
                .collect();
            started.into_iter().map(|trial| trial.join().expect("a trial does not panic")).collect()
        });
        outcomes.extend(found?);
    }
    Ok(Grid::from_runs(outcomes))
}

fn address(host: &str, port: u16) -> SocketAddr {
    format!("{host}:{port}").parse().expect("an address and a port")
}

fn trial(name: &str, cell: &Cell, seed: u64) -> Result<Outcome, RunError> {
    let way = LinkConfig::with_delay(Duration::from_millis(cell.rtt / 2));
    let forward = way.clone().with_rate(RATE, Limit::Packets(queue(cell.rtt)));
    let back = way.with_rate(RATE, Limit::Packets(usize::MAX));
    let network = TestNetwork::make(name, &Links { forward, back }, seed, None)?;
    let clock = StreamClock::new();
    let stop = AtomicBool::new(false);
    let (ftp, (server, player)) = thread::scope(|scope| {
        let ftp = scope.spawn(|| ftp(&network, clock, &stop));
        sleep_until(clock.real(STREAM[0]));
        let stream = stream(&network, cell.way, clock);
        sleep_until(clock.real(FTP[1]));
        stop.store(true, Ordering::Relaxed);
        Ok::<_, RunError>((ftp.join().expect("FTP does not panic")?, stream?))
    })?;
    network.end()?;
    Ok(Outcome {
        made: server.made().to_vec(),
        switches: server.switches().to_vec(),
        received: player.received().to_vec(),
        pauses: player.pauses().to_vec(),
        ftp,
    })
}

fn call() -> Call<'static> {
    Call { congestion_control: "reno", segment: Some(PACKET as u32 + TIMESTAMPS), nodelay: true }
}

/// Sends as much as TCP takes until `stop`; returns when it could be read.
fn ftp(network: &TestNetwork, clock: StreamClock, stop: &AtomicBool) -> Result<Vec<(Instant, u64)>, RunError> {
    sleep_until(clock.real(FTP[0]));
    let (sending, mut receiving) = call().open(&network.left, &network.right, address(RIGHT, OTHER))?;
    receiving.set_read_timeout(Some(LOOK)).map_err(RunError::system("set a socket's patience"))?;
    thread::scope(|scope| {
        let reader = receiving.try_clone().map_err(RunError::system("share a socket"))?;
        let sender = scope.spawn(move || send_until(&sending, &reader, stop));
        let mut came = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match receiving.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => came.push((clock.now(), len as u64)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        sender.join().expect("FTP does not panic").map_err(RunError::system("send over FTP"))?;
        Ok(came)
    })
}

/// Runs streamer, player and packet pairs until the stream's end.
fn stream(network: &TestNetwork, way: StreamTransport, clock: StreamClock) -> Result<(Server, Player), RunError> {
    let until = STREAM[1] + AFTER;
    let probe = Probe::default();
    let udp = |end: &timeous_net::emulator::Namespace, here: &'static str, there: &str| {
        let socket = end.within(|| UdpSocket::bind(address(here, PAIRS))).map_err(machine)?;
        let socket = socket.map_err(RunError::system("open a UDP socket in a namespace"))?;
        socket.connect(address(there, PAIRS)).map_err(RunError::system("connect a UDP socket"))?;
        UdpEnd::new(socket).map_err(RunError::system("set a UDP socket"))
    };
    let (mut answers, mut asks) = (udp(&network.left, LEFT, RIGHT)?, udp(&network.right, RIGHT, LEFT)?);
    // The engines live as long as their streams.
    let (mut streamer, mut viewer, _engines): (Box<dyn End>, Box<dyn End>, _) = if way == StreamTransport::Tcp {
        let (left, right) = tcp(network)?;
        (Box::new(left), Box::new(right), None)
    } else {
        let (left, right, engines) = dccp(network, way)?;
        (Box::new(left), Box::new(right), Some(engines))
    };
    let (mut server, mut player) = (Server::new(STREAM[1]), Player::new(probe.clone(), PlayerRules::default()));
    thread::scope(|scope| {
        scope.spawn(|| drive(&mut ProbeResponder::default(), &mut answers, clock, until));
        scope.spawn(|| drive(&mut ProbeRequester::new(probe), &mut asks, clock, until));
        scope.spawn(|| drive(&mut server, &mut *streamer, clock, until));
        drive(&mut player, &mut *viewer, clock, until);
    });
    Ok((server, player))
}

fn tcp(network: &TestNetwork) -> Result<(TcpEnd, TcpEnd), RunError> {
    let (left, right) = call().open(&network.left, &network.right, address(RIGHT, STREAMER))?;
    set_socket_send_buffer_size(&left, BUFFER * PACKET)
        .map_err(|error| RunError::system("set a send buffer")(error.into()))?;
    let end = |stream: TcpStream| TcpEnd::new(stream).map_err(RunError::system("set a socket"));
    Ok((end(left)?, end(right)?))
}

fn dccp(network: &TestNetwork, way: StreamTransport) -> Result<(DccpEnd, DccpEnd, [Engine; 2]), RunError> {
    let engine =
        || -> Result<Engine, EngineError> { Engine::with_congestion(Congestion::new(timeous_cm::Kind::Tfrc.into())) };
    let left = network.left.within(engine).map_err(machine)?.map_err(machine)?;
    let right = network.right.within(Engine::start).map_err(machine)?.map_err(machine)?;
    let config = |ccids: Ccid, peer: Ccid, choice: Arc<dyn Fn() -> Box<dyn LateChoice> + Send + Sync>| StreamConfig {
        dccp: DccpConfig {
            ccids: vec![ccids],
            peer_ccids: vec![peer],
            mps: PACKET + DccpConfig::HEADER_ROOM,
            ecn: false,
            ..DccpConfig::default()
        },
        // The streamer itself limits the queue.
        slots: 128,
        choice,
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Udp)
    };
    let there = address(LEFT, STREAMER);
    let choice = move || way.dbat(true).unwrap_or_else(|| Box::<Chain>::default());
    let mut listener = left.listen(there, config(Ccid::Ccid3, Ccid::Ccid2, Arc::new(choice))).map_err(machine)?;
    let fifo = || Box::<Chain>::default() as Box<dyn LateChoice>;
    let mut called = right.connect(there, config(Ccid::Ccid2, Ccid::Ccid3, Arc::new(fifo))).map_err(machine)?;
    let accepted = listener.accept(Some(clock::now() + PATIENCE)).ok_or_else(no_connection)?;
    opened(&mut called, PATIENCE)?;
    Ok((DccpEnd::streamer(accepted), DccpEnd::player(called), [left, right]))
}
