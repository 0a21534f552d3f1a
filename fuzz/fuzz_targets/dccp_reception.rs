//! Open DCCP connection whose peer sends arbitrary reports on received data, and arbitrary data, retransmissions,
//! fragments and parity: data is delivered or refused, each ADU gets one fate, and no loop or memory is unbounded.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_cm::Manager;
use timeous_core::{AduMeta, AduSource, Copied, DropReason, Duration, Ecn, Instant, PathState, PulledAdu, Rng, Transport};
use timeous_dccp::{
    Body, Config, Connection, Encapsulation, Event, Feature, Header, Opt, Packet, Seq, ServiceCode, Side, State, packet,
};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"fuzz");
const PORTS: (u16, u16) = (5_000, 7_000);

#[derive(Arbitrary, Debug)]
enum Step {
    /// The peer acknowledges arbitrary packets, and reports drops.
    Ack { back: u8, vector: Vec<u8>, dropped: Vec<u8>, slow: bool },
    /// The peer sends data, with or without Data Checksum, and with partial checksum coverage.
    Data { len: u8, sum: Option<u32>, cscov: u8, ack: bool },
    /// The peer sends data marked as a retransmission.
    Repeat { back: u16, len: u8 },
    /// The peer sends data marked as parity.
    Parity { back: u16, index: u8, of: u8, map: [u8; 24], shard: Vec<u8> },
    /// The peer sends a part of an ADU, at first or again.
    Fragment { number: u8, offset: u16, total: u16, len: u16, back: Option<u16> },
    /// The local application has this much buffer space.
    Room { bytes: u16, slow: bool },
    /// The local application stops listening.
    Ignore,
    Push { count: u8, len: u8 },
    Wait(u16),
}

#[derive(Default)]
struct Queue {
    waiting: Vec<usize>,
    pulled: u64,
    settled: u64,
}

impl AduSource for Queue {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.waiting.is_empty()
    }
    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let len = self.waiting.pop()?;
        assert!(len <= room, "every data packet leaves so much room");
        packet.resize(packet.len() + len, 7);
        self.pulled += 1;
        Some(PulledAdu { token: self.pulled, len, meta: AduMeta::default(), apart: false, copy: Copied::First, is_fragment: false })
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {
        self.settled += 1;
    }
    fn lost(&mut self, _: u64) {
        self.settled += 1;
    }
    fn dropped(&mut self, _: u64, _: DropReason) {}
}

struct Scene {
    now: Instant,
    connection: Connection,
    cm: Manager,
    queue: Queue,
    native: Encapsulation,
    /// Newest packet of the connection, and next packet of the peer.
    newest: Seq,
    next: Seq,
    delivered: u64,
    sent_data: u64,
}

impl Scene {
    fn new() -> Self {
        let host: std::net::IpAddr = [127, 0, 0, 1].into();
        let native = Encapsulation::Native { source: host, destination: host };
        let config = Config {
            encapsulation: native,
            data_checksum: true,
            checksum_coverage: 2,
            min_checksum_coverage: 2,
            ..Config::default()
        };
        let (mut rng, now) = (Rng::from_seed(1), Instant::ZERO);
        let connection = Connection::listen(now, config, PORTS.0, &[SERVICE], host.into(), &mut rng);
        let mut scene = Self {
            now,
            connection,
            cm: Manager::default(),
            queue: Queue::default(),
            native,
            newest: Seq::new(0),
            next: Seq::new(9_000),
            delivered: 0,
            sent_data: 0,
        };
        let one = |side, feature: Feature, values| Opt::Change { side, feature: feature.number(), values };
        let asks = [
            one(Side::L, Feature::SendAckVector, &[1]),
            one(Side::R, Feature::SendAckVector, &[1]),
            one(Side::R, Feature::MinChecksumCoverage, &[2]),
            one(Side::R, Feature::TakeRepeats, &[2]),
            one(Side::R, Feature::TakeFragments, &[1]),
        ];
        scene.send(Body::Request { service: SERVICE }, 0, &asks, b"");
        scene.send(Body::Ack { ack: scene.newest }, 0, &[], b"");
        assert_eq!(scene.connection.state(), State::Open);
        scene
    }

    fn send(&mut self, body: Body, cscov: u8, options: &[Opt<'_>], payload: &[u8]) {
        let mut header = Header::new(PORTS.1, PORTS.0, self.next, body);
        header.cscov = cscov;
        let mut bytes = Vec::new();
        if packet::begin(&header, options, &mut bytes).is_err() {
            return;
        }
        bytes.extend_from_slice(payload);
        if packet::finish(&mut bytes, 0, self.native).is_ok() {
            self.next = self.next.next();
            self.sent_data += u64::from(matches!(body, Body::Data | Body::DataAck { .. }));
            self.connection.handle_datagram(self.now, &mut self.cm, &bytes, Ecn::NotEct).unwrap();
            self.drain();
        }
    }

    fn drain(&mut self) {
        let mut bytes = Vec::new();
        for round in 0.. {
            assert!(round < 20_000, "it never stops sending at one instant");
            while self.cm.poll_granted().is_some() {}
            let polled = self.connection.poll_transmit(self.now, &mut self.cm, &mut self.queue, &mut bytes).unwrap();
            if polled.is_none() {
                break;
            }
            let packet = Packet::parse(&bytes, self.native).expect("what we send is in order");
            assert!(packet.options().all(|item| item.is_ok()));
            self.newest = packet.header.seq;
            bytes.clear();
        }
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Received(_) => self.delivered += 1,
                Event::Acked { token, .. } => self.queue.acked(token),
                Event::Lost { token } => self.queue.lost(token),
                _ => {}
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ack { back, vector, dropped, slow } => {
                let mut options = vec![
                    Opt::AckVector { nonce: false, vector: &vector[..vector.len().min(253)] },
                    Opt::DataDropped(&dropped[..dropped.len().min(253)]),
                ];
                options.extend(slow.then_some(Opt::SlowReceiver));
                self.send(Body::Ack { ack: self.newest - u64::from(back) }, 0, &options, b"");
            }
            Step::Data { len, sum, cscov, ack } => {
                let payload = vec![7; usize::from(len)];
                let options: Vec<_> = sum.map(Opt::DataChecksum).into_iter().collect();
                let body = if ack { Body::DataAck { ack: self.newest } } else { Body::Data };
                self.send(body, cscov % 16, &options, &payload);
            }
            Step::Repeat { back, len } => {
                self.send(Body::Data, 0, &[Opt::Repeat(back)], &vec![7; usize::from(len)]);
            }
            Step::Parity { back, index, of, map, shard } => {
                self.send(Body::Data, 0, &[Opt::Parity { back, index, of, map: &map }], &shard[..shard.len().min(1_200)]);
            }
            Step::Fragment { number, offset, total, len, back } => {
                let mut payload = vec![0, 0, 0, number];
                payload.extend(offset.to_be_bytes());
                payload.extend(total.to_be_bytes());
                payload.resize(payload.len() + usize::from(len % 1_200), 7);
                let mut options = vec![Opt::Fragment];
                options.extend(back.map(Opt::Repeat));
                self.send(Body::Data, 0, &options, &payload);
            }
            Step::Room { bytes, slow } => self.connection.set_receive_room(bytes.into(), slow),
            Step::Ignore => self.connection.stop_receiving(),
            Step::Push { count, len } => self.queue.waiting.extend(vec![usize::from(len); usize::from(count)]),
            Step::Wait(ms) => {
                let end = self.now + Duration::from_millis(ms.into());
                for round in 0.. {
                    assert!(round < 50_000, "it spins");
                    let next = [self.connection.poll_timeout().unwrap(), self.cm.poll_timeout()];
                    let Some(at) = next.into_iter().flatten().min().filter(|&at| at <= end) else { break };
                    self.now = at.max(self.now + Duration::from_nanos(1));
                    self.cm.handle_timeout(self.now);
                    self.connection.handle_timeout(self.now, &mut self.cm).unwrap();
                    self.drain();
                }
                self.now = self.now.max(end);
            }
        }
        self.drain();
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut scene = Scene::new();
    for step in steps.into_iter().take(200) {
        scene.step(step);
        assert!(scene.queue.settled <= scene.queue.pulled, "an ADU has one fate");
        let statistics = scene.connection.statistics();
        assert!(scene.delivered <= statistics.data_received, "an ADU has one packet at least");
        assert!(scene.delivered + statistics.data_refused <= scene.sent_data);
        assert!(statistics.acked + statistics.lost + statistics.data_dropped <= scene.queue.pulled);
    }
});
