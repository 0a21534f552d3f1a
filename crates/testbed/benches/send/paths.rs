//! The send paths from a payload to the device.

use std::net::UdpSocket;

use timeous_core::{AduMeta, Duration, Ecn, Instant};
use timeous_engine::udp::{Packet, Socket};
use timeous_engine::{DccpConfig, clock};
use timeous_ring::{Config, Consumer, PAGE, Producer, create};
use timeous_seal::{Cipher, Secret, Secrets};
use timeous_testbed::rig::Rig;

use crate::Ends;
use crate::usage::cpu_time;
use crate::zero_copy::Gathered;

/// Packets between two readings of the clock.
const BATCH: usize = Socket::BATCH;
/// Payload in place of a DCCP-Data header, of the same length.
pub(crate) static HEADER: [u8; 16] = [0x11; 16];

/// A send path.
pub(crate) trait Path: Send {
    fn name(&self) -> &'static str;

    /// Sends a batch and returns its number of packets.
    fn batch(&mut self) -> u64;

    /// Returns the time in user mode that does not belong to the sender.
    fn unmeasured(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn all(ends: Ends, payload: usize) -> Vec<Box<dyn Path>> {
    vec![
        Box::new(Plain::new(ends, payload)),
        Box::new(Batched::new(ends, payload, false)),
        Box::new(Batched::new(ends, payload, true)),
        Box::new(Gathered::new(ends, payload, false)),
        Box::new(Gathered::new(ends, payload, true)),
        Box::new(Ringed::new(ends, payload, false)),
        Box::new(Ringed::new(ends, payload, true)),
        Box::new(Whole::new(ends, payload, false, None)),
        Box::new(Whole::new(ends, payload, true, None)),
        Box::new(Whole::new(ends, payload, true, Some(&secrets()))),
    ]
}

/// Baseline: one `send()` per packet, as an ordinary application does.
struct Plain {
    socket: UdpSocket,
    payload: Vec<u8>,
}

impl Plain {
    fn new(ends: Ends, payload: usize) -> Self {
        let socket = UdpSocket::bind(ends.local).expect("a port");
        socket.connect(ends.remote).expect("a route");
        Self { socket, payload: vec![0x5a; payload] }
    }
}

impl Path for Plain {
    fn name(&self) -> &'static str {
        "send()"
    }

    fn batch(&mut self) -> u64 {
        for _ in 0..BATCH {
            self.socket.send(&self.payload).expect("the device takes everything");
        }
        BATCH as u64
    }
}

fn socket(ends: Ends, bundles: bool) -> Socket {
    let mut socket = Socket::bind(ends.local).expect("a port");
    socket.set_bundles(bundles);
    socket
}

fn send(socket: &mut Socket, packets: &[Packet<'_>]) {
    let mut taken = 0;
    let all = socket.send(packets, |_, result| {
        result.expect("the device takes everything");
        taken += 1;
    });
    assert!(all && taken == packets.len());
}

/// Header and payload contiguous in the sender's memory.
struct Batched {
    socket: Socket,
    ends: Ends,
    packet: Vec<u8>,
}

impl Batched {
    fn new(ends: Ends, payload: usize, bundles: bool) -> Self {
        Self { socket: socket(ends, bundles), ends, packet: vec![0x5a; HEADER.len() + payload] }
    }
}

impl Path for Batched {
    fn name(&self) -> &'static str {
        if self.socket.bundles() { "GSO" } else { "sendmmsg" }
    }

    fn batch(&mut self) -> u64 {
        let packet = Packet { to: self.ends.remote, from: None, ecn: Ecn::Ect0, header: &self.packet, payload: None };
        send(&mut self.socket, &[packet; BATCH]);
        BATCH as u64
    }
}

/// The application writes into the packet ring, and payloads are sent from there.
struct Ringed {
    socket: Socket,
    ends: Ends,
    producer: Producer,
    consumer: Consumer,
    payload: Vec<u8>,
    tokens: Vec<u64>,
}

impl Ringed {
    fn new(ends: Ends, payload: usize, bundles: bool) -> Self {
        let (producer, consumer) = create(&ring(payload)).expect("a good configuration");
        let payload = vec![0x5a; payload];
        Self { socket: socket(ends, bundles), ends, producer, consumer, payload, tokens: Vec::new() }
    }
}

impl Path for Ringed {
    fn name(&self) -> &'static str {
        if self.socket.bundles() { "ring (enqueue to fate) and GSO" } else { "ring (enqueue to fate) and sendmmsg" }
    }

    fn batch(&mut self) -> u64 {
        enqueue(&mut self.producer, &self.payload);
        self.tokens.clear();
        while let Some(claimed) = self.consumer.claim(Instant::ZERO).expect("an honest producer") {
            self.tokens.push(claimed.token);
        }
        let packet = |&token| {
            let payload = self.consumer.payload(token);
            Packet { to: self.ends.remote, from: None, ecn: Ecn::Ect0, header: &HEADER, payload }
        };
        let packets: Vec<_> = self.tokens.iter().map(packet).collect();
        send(&mut self.socket, &packets);
        for &token in &self.tokens {
            self.consumer.sent(token);
            self.consumer.acked(token);
        }
        while self.producer.poll_completion().is_some() {}
        BATCH as u64
    }
}

fn ring(payload: usize) -> Config {
    Config::new(256).buffer_size(payload.next_multiple_of(PAGE) as u32)
}

fn enqueue(producer: &mut Producer, payload: &[u8]) {
    for _ in 0..BATCH {
        producer.enqueue(&AduMeta::default(), payload).expect("there is room");
    }
}

/// The full stack: packet ring, DCCP with its acknowledgements, Congestion Manager, socket.
struct Whole {
    rig: Rig,
    producer: Producer,
    payload: Vec<u8>,
    bundles: bool,
    sealed: bool,
    unmeasured: Duration,
}

fn secrets() -> Secrets {
    let (sealing, opening) = (Secret::new([1; 32]), Secret::new([2; 32]));
    Secrets { cipher: Cipher::Aes128Gcm, sealing, opening }
}

impl Whole {
    fn new(ends: Ends, payload: usize, bundles: bool, secrets: Option<&Secrets>) -> Self {
        let dccp = DccpConfig { mps: payload + DccpConfig::HEADER_ROOM, ..DccpConfig::default() };
        let ends = (ends.local, ends.remote);
        let (mut rig, producer) = Rig::open(clock::now(), ends, &ring(payload), None, dccp, secrets).expect("a socket");
        rig.socket().set_bundles(bundles);
        let (sealed, payload) = (secrets.is_some(), vec![0x5a; payload]);
        Self { rig, producer, payload, bundles, sealed, unmeasured: Duration::ZERO }
    }
}

impl Path for Whole {
    fn name(&self) -> &'static str {
        match (self.sealed, self.bundles) {
            (true, _) => "ring, DCCP, encryption and GSO",
            (false, true) => "ring, DCCP (CCID 2) and GSO",
            (false, false) => "ring, DCCP (CCID 2) and sendmmsg",
        }
    }

    fn batch(&mut self) -> u64 {
        enqueue(&mut self.producer, &self.payload);
        let sent = self.rig.send(clock::now());
        assert!(sent >= BATCH && !self.rig.is_blocked(), "{sent} packets left");
        let start = cpu_time();
        self.rig.answer(clock::now());
        self.unmeasured += cpu_time().saturating_sub(start);
        self.rig.hear(clock::now());
        while self.producer.poll_completion().is_some() {}
        BATCH as u64
    }

    fn unmeasured(&self) -> Duration {
        self.unmeasured
    }
}
