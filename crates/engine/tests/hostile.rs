//! Test of a listening endpoint under attack from real sockets, with a good connection beside it.

mod memory;

use std::net::{SocketAddr, UdpSocket};

use memory::resident;
use timeous_core::{AduMeta, AduSeq, Duration, Fate, Priority, Rng};
use timeous_dccp::{Body, Encapsulation, Header, PacketType, ResetCode, Seq, packet};
use timeous_engine::{Carrier, Engine, ServiceCode, Status, Stream, StreamConfig, clock};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"good");
const PORT: u16 = 5_004;
const PATIENCE: Duration = Duration::from_secs(60);

fn config() -> StreamConfig {
    StreamConfig {
        service: SERVICE,
        dccp_port: PORT,
        repair: Some(Priority::LOWEST),
        ..StreamConfig::new(Carrier::Udp)
    }
}

#[track_caller]
fn open(stream: &mut Stream) {
    let end = clock::now() + PATIENCE;
    while stream.status() == Status::Connecting && clock::now() < end {
        stream.sending().wait(Some(end));
    }
    assert_eq!(stream.status(), Status::Open);
}

/// Returns the number of unread bytes at a UDP port of this host.
fn waiting(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!(":{port:04X}");
    let row = table.lines().find(|row| row.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&local)));
    let queues = row.unwrap_or_else(|| panic!("nobody has port {port} any more")).split_whitespace().nth(4).unwrap();
    u64::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

/// Returns a datagram of an attacker.
fn shot(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = match rng.below(8) {
        0 => (0..rng.below(200)).map(|_| rng.next_u32() as u8).collect(),
        // A client that never answers.
        1 => formed(rng, Body::Request { service: SERVICE }),
        _ => {
            let ack = Seq::new(rng.next_u64());
            let body = match PacketType::ALL[rng.below(10) as usize] {
                PacketType::Request => Body::Request { service: ServiceCode::new(rng.next_u32() & 0x7fff_ffff) },
                PacketType::Response => Body::Response { ack, service: SERVICE },
                PacketType::Data => Body::Data,
                PacketType::Ack => Body::Ack { ack },
                PacketType::DataAck => Body::DataAck { ack },
                PacketType::CloseReq => Body::CloseReq { ack },
                PacketType::Close => Body::Close { ack },
                PacketType::Reset => Body::Reset { ack, code: ResetCode::Aborted, data: [0; 3] },
                PacketType::Sync => Body::Sync { ack },
                PacketType::SyncAck => Body::SyncAck { ack },
            };
            formed(rng, body)
        }
    };
    if rng.chance(0.5) && !bytes.is_empty() {
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
    }
    bytes
}

/// Builds a packet with random options and payload.
fn formed(rng: &mut Rng, body: Body) -> Vec<u8> {
    let port = if rng.chance(0.8) { PORT } else { rng.next_u32() as u16 };
    let header = Header::new(rng.next_u32() as u16, port, Seq::new(rng.next_u64()), body);
    let options: Vec<u8> = (0..rng.below(5) * 4).map(|_| rng.below(50) as u8).collect();
    let mut bytes = Vec::new();
    packet::begin_encoded(&header, &options, &mut bytes).unwrap();
    bytes.extend(std::iter::repeat_n(0x55, rng.below(300) as usize));
    packet::finish(&mut bytes, 0, Encapsulation::Udp).unwrap();
    bytes
}

/// The well-behaved connection: it always has data in flight, and all of it is acknowledged.
struct Good {
    stream: Stream,
    next: u64,
    acked: u64,
}

impl Good {
    fn send(&mut self) {
        let now = clock::now();
        let meta = AduMeta { seq: AduSeq(self.next), enqueued: now, ..AduMeta::default() };
        if self.stream.sending().enqueue(&meta, &self.next.to_be_bytes()).is_ok() {
            self.next += 1;
        }
        self.hear();
    }

    fn hear(&mut self) {
        while let Some(done) = self.stream.sending().poll_completion() {
            assert_eq!(done.fate, Fate::Acked, "{:?}", done.seq);
            self.acked += 1;
        }
    }

    fn finish(&mut self) {
        let end = clock::now() + PATIENCE;
        while self.acked < self.next {
            assert!(clock::now() < end, "{} of {} acknowledged, {:?}", self.acked, self.next, self.stream.status());
            self.stream.sending().wait(Some(end));
            self.hear();
        }
    }
}

#[test]
fn a_million_bad_datagrams_leave_a_good_connection_and_the_memory_alone() {
    const SHOTS: u64 = 1_000_000;
    const VOLLEY: u64 = 100;
    let server = Engine::start().unwrap();
    let mut listener = server.listen(SocketAddr::from(([127, 0, 0, 1], 0)), config()).unwrap();
    let target = listener.local_addr();
    let client = Engine::start().unwrap();
    let mut stream = client.connect(target, config()).unwrap();
    open(&mut stream);
    let mut accepted = listener.accept(Some(clock::now() + PATIENCE)).expect("the good caller");
    let mut good = Good { stream, next: 0, acked: 0 };
    let mut received = 0;

    let enemies: Vec<UdpSocket> = (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let mut rng = Rng::from_seed(9);
    // Packets are built in advance, so that the endpoint is the bottleneck.
    let shots: Vec<Vec<u8>> = (0..20_000).map(|_| shot(&mut rng)).collect();
    let mut before = 0;
    for volley in 0..SHOTS / VOLLEY {
        for _ in 0..VOLLEY {
            let enemy = &enemies[rng.below(enemies.len() as u64) as usize];
            // Ports and sequence numbers differ, so that no two packets belong to one connection.
            let mut bytes = shots[rng.below(shots.len() as u64) as usize].clone();
            if bytes.len() > 16 {
                bytes[..2].copy_from_slice(&(rng.next_u32() as u16).to_be_bytes());
            }
            enemy.send_to(&bytes, target).unwrap();
        }
        good.send();
        while accepted.receiving().poll_received().is_some() {
            received += 1;
        }
        // Bounded, since packets that the kernel drops test nothing.
        let end = clock::now() + PATIENCE;
        while waiting(target.port()) > 0 {
            assert!(clock::now() < end, "the engine reads no more");
            std::thread::yield_now();
        }
        if volley == SHOTS / VOLLEY / 5 {
            before = resident();
        }
    }
    let after = resident();
    assert!(after < before + (16 << 20), "memory grew from {before} to {after} bytes");
    good.finish();
    assert!(good.next > 1_000 && good.stream.status() == Status::Open, "{} ADUs", good.next);
    let end = clock::now() + PATIENCE;
    while received < good.next {
        assert!(clock::now() < end, "{received} of {} received", good.next);
        accepted.receiving().wait(Some(end));
        while accepted.receiving().poll_received().is_some() {
            received += 1;
        }
    }
    // No attacker has connected, and the listener still accepts: old half-open connections make room.
    let end = clock::now() + PATIENCE;
    loop {
        let mut newcomer = client.connect(target, config()).unwrap();
        while newcomer.status() == Status::Connecting && clock::now() < end {
            newcomer.sending().wait(Some(end));
        }
        if newcomer.status() == Status::Open {
            break;
        }
        assert!(clock::now() < end, "{:?}", newcomer.status());
    }
    assert!(listener.accept(Some(clock::now() + PATIENCE)).is_some());
    assert!(listener.poll_accept().is_none(), "somebody got in without an invitation");
}
