//! Measured stream over each transport: a sender at the left, a receiver at the right, and their
//! logs.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use timeous::core::{AduMeta, AduSeq, Duration, FrameId, Instant, LateChoice, Priority};
use timeous_choice::Chain;
use timeous_cm::Kind;
use timeous_engine::{
    Carrier, Congestion, DccpConfig, Engine, EngineError, NewChoice, Producer, ReceiveHalf, Sealing, Status,
    StreamConfig, clock,
};
use timeous_ring::Index;
use timeous_testbed::machine::{machine, no_connection, opened, sleep_until};

use super::super::own_choice::OwnChoice;
use super::super::setup::{I_FRAME_EVERY, SIZE, Transport};
use super::network::{self, RIGHT, TestNetwork};
use crate::experiment::RunError;

/// Port of the stream's receiver.
pub(super) const PORT: u16 = 6_000;
/// DCCP port within it.
const DCCP_PORT: u16 = 5_004;
/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time that a packet can wait in the link.
const LAST: Duration = Duration::from_secs(2);

/// Parameters of a stream.
#[derive(Clone)]
pub(super) struct Plan {
    /// Packet interval.
    pub(super) interval: Duration,
    /// Duration of the stream.
    pub(super) lasting: Duration,
    /// Late-choice policy of Timeous.
    pub(super) choice: NewChoice,
    /// The application's own choice, in place of the policy.
    pub(super) own: OwnChoice,
}

/// Logs of sender and receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Time at which the application sent each packet.
    pub(super) sent: Vec<Instant>,
    /// Delivery time of each packet to the receiving application.
    pub(super) received: BTreeMap<u64, Instant>,
}

/// Reads the packet number at the start of a payload.
pub(super) fn index_of(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Returns whether a packet is an I-frame.
pub(super) fn is_i_frame(index: u64) -> bool {
    index.is_multiple_of(I_FRAME_EVERY)
}

/// Runs a stream, and waits for its last packet.
pub(super) fn stream(transport: Transport, network: &TestNetwork, plan: &Plan) -> Result<Log, RunError> {
    match transport {
        Transport::Tcp => tcp(network, plan),
        Transport::Udp => udp(network, plan),
        Transport::Timeous => timeous(network, plan, OwnChoice::None),
        Transport::Own | Transport::Overwritten => {
            let policy = Arc::new(|| Box::<Chain>::default() as Box<dyn LateChoice>);
            timeous(network, &Plan { choice: policy, ..plan.clone() }, plan.own)
        }
    }
}

/// Calls `send` with the number and the bytes of each packet when due. A blocking call delays the
/// next.
fn pace(plan: &Plan, mut send: impl FnMut(u64, &[u8]) -> Result<(), RunError>) -> Result<Vec<Instant>, RunError> {
    let mut sent = Vec::new();
    let mut packet = vec![0; SIZE];
    let mut due = clock::now();
    let end = due + plan.lasting;
    while due < end {
        sleep_until(due);
        let (index, now) = (sent.len() as u64, clock::now());
        packet[..8].copy_from_slice(&index.to_be_bytes());
        send(index, &packet)?;
        sent.push(now);
        due = (due + plan.interval).max(clock::now());
    }
    Ok(sent)
}

fn tcp(network: &TestNetwork, plan: &Plan) -> Result<Log, RunError> {
    let (mut sending, mut receiving) = network::pair(network, PORT)?;
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut received = BTreeMap::new();
            let mut packet = vec![0; SIZE];
            // Ends with the stream or at the read timeout.
            while receiving.read_exact(&mut packet).is_ok() {
                received.extend(index_of(&packet).map(|index| (index, clock::now())));
            }
            received
        });
        let failed = RunError::system("send over TCP");
        let mut outcome = Ok(());
        let sent = pace(plan, |_, packet| {
            outcome = sending.write_all(packet);
            Ok(())
        })?;
        outcome.map_err(failed)?;
        sending.shutdown(std::net::Shutdown::Write).map_err(RunError::system("end a TCP stream"))?;
        Ok(Log { sent, received: receiver.join().expect("the receiver does not panic") })
    })
}

fn udp(network: &TestNetwork, plan: &Plan) -> Result<Log, RunError> {
    let there: SocketAddr = format!("{RIGHT}:{PORT}").parse().expect("an address and a port");
    let bind = |address: &'static str| move || UdpSocket::bind(address);
    let failed = || RunError::system("open a UDP socket in a namespace");
    let receiving = network.right.within(|| UdpSocket::bind(there)).map_err(machine)?.map_err(failed())?;
    let sending = network.left.within(bind("0.0.0.0:0")).map_err(machine)?.map_err(failed())?;
    sending.connect(there).map_err(failed())?;
    receiving.set_read_timeout(Some(LAST.into())).map_err(failed())?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut received = BTreeMap::new();
            let mut packet = vec![0; SIZE];
            loop {
                match receiving.recv(&mut packet) {
                    Ok(len) => received.extend(index_of(&packet[..len]).map(|index| (index, clock::now()))),
                    Err(_) if ended.load(Ordering::Relaxed) => return received,
                    Err(_) => {}
                }
            }
        });
        let sent = pace(plan, |_, packet| match sending.send(packet) {
            Ok(_) => Ok(()),
            // The device's own queue is full: the packet counts as lost.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(RunError::system("send over UDP")(error)),
        });
        ended.store(true, Ordering::Relaxed);
        Ok(Log { sent: sent?, received: receiver.join().expect("the receiver does not panic") })
    })
}

fn timeous(network: &TestNetwork, plan: &Plan, own: OwnChoice) -> Result<Log, RunError> {
    let there: SocketAddr = format!("{RIGHT}:{PORT}").parse().expect("an address and a port");
    // A new thread and its sockets belong to the network namespace of the thread that starts it.
    let receiving_engine = network.right.within(engine).map_err(machine)?.map_err(machine)?;
    let sending_engine = network.left.within(engine).map_err(machine)?.map_err(machine)?;
    let mut listener = receiving_engine.listen(there, config(plan)).map_err(machine)?;
    let mut sending = sending_engine.connect(there, config(plan)).map_err(machine)?;
    let accepted = listener.accept(Some(clock::now() + PATIENCE)).ok_or_else(no_connection)?;
    opened(&mut sending, PATIENCE)?;
    let (_accepted, mut receiving) = accepted.split();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(&mut receiving));
        let ring = sending.sending();
        let sent = pace(plan, |index, packet| {
            let (now, meta) = (clock::now(), meta(index));
            let overwritten = own.overwrites(now, ring.ring());
            if !overwritten.is_some_and(|stale| overwrite(ring.ring(), stale, &meta, packet)) {
                // A full ring makes a choice of its own: packets that do not fit are not sent.
                let _ = ring.enqueue(&meta, packet);
            }
            own.apply(clock::now(), ring.ring());
            ring.notify_if_asked();
            while ring.poll_completion().is_some() {}
            Ok(())
        })?;
        ring.finish();
        Ok(Log { sent, received: receiver.join().expect("the receiver does not panic") })
    })
}

/// Puts a packet in the place of a waiting one, unless that has left.
fn overwrite(ring: &mut Producer, stale: Index, meta: &AduMeta, packet: &[u8]) -> bool {
    let mut pulled = ring.pull_back_all().expect("an experiment's transport keeps the ring's protocol");
    pulled.place_of(stale).is_some_and(|place| pulled.rewrite(place, meta, packet).is_ok())
}

/// Starts an engine whose congestion control is that of DCCP's CCID 2, as the TCP flow's beside it.
fn engine() -> Result<Engine, EngineError> {
    Engine::with_congestion(Congestion::new(Kind::NewReno.into()))
}

/// Returns the metadata of a packet: I-frames have a higher priority; nothing else is set.
fn meta(index: u64) -> AduMeta {
    AduMeta {
        seq: AduSeq(index),
        frame: FrameId(index as u32 + 1),
        priority: if is_i_frame(index) { Priority::HIGHEST } else { Priority::LOWEST },
        enqueued: clock::now(),
        ..AduMeta::default()
    }
}

fn config(plan: &Plan) -> StreamConfig {
    StreamConfig {
        dccp: DccpConfig { mps: SIZE + DccpConfig::HEADER_ROOM, ..DccpConfig::default() },
        dccp_port: DCCP_PORT,
        choice: plan.choice.clone(),
        // The paper's DCCP does not retransmit.
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Udp)
    }
}

/// Receives until the other end closes the connection, or until a timeout.
fn receive(receiving: &mut ReceiveHalf) -> BTreeMap<u64, Instant> {
    let mut received = BTreeMap::new();
    loop {
        while let Some(datagram) = receiving.poll_received() {
            received.extend(index_of(&datagram.bytes).map(|index| (index, clock::now())));
        }
        let ended = matches!(receiving.status(), Status::Closed(_));
        if ended || !receiving.wait(Some(clock::now() + PATIENCE)) {
            return received;
        }
    }
}
