//! Listening DCCP endpoint under any sequence of operations, beside a good connection: off-path attackers can neither
//! exceed the endpoint's limits nor disturb the connection.
#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_cm::Manager;
use timeous_core::{AduMeta, AduSource, Copied, DropReason, Duration, Ecn, Instant, PathState, PulledAdu, Rng};
use timeous_dccp::{
    Body, Ccid, CloseReason, Config, ConnectionId, Encapsulation, Endpoint, EndpointConfig, Event, Header, ResetCode, Seq,
    ServiceCode, Sources, packet,
};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"fuzz");
const PORT: u16 = 7_000;
const DELAY: Duration = Duration::from_millis(5);

#[derive(Arbitrary, Debug)]
struct Input {
    /// Whether the attacker is on the path of the good pair, and can forge its addresses.
    on_path: bool,
    /// Congestion control of the good pair.
    ccid: u8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Arbitrary bytes, from some address.
    Raw { from: u8, to_client: bool, bytes: Vec<u8> },
    /// Well-formed packet of any type, from some address.
    Formed { from: u8, body: u8, ports: (u8, u8), seq: u64, ack: u64, options: Vec<u8>, payload: u8 },
    /// Packet of the good pair with a few bytes changed; with other ports if the attacker is off-path.
    Mutated { from: u8, which: u8, to_client: bool, changes: Vec<(u8, u8)>, cut: u8 },
    /// Advances the clock, in milliseconds.
    Wait(u16),
    /// Queues data on the good pair.
    Data { from_client: bool, count: u8, len: u8 },
    /// Opens a further good connection.
    Connect,
    /// Closes one of the good connections, by either end.
    Close { which: u8, by_client: bool, abort: bool },
    /// Loses the last good packet in flight (on-path only).
    Lose,
    Mtu(u16),
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    pulled: u64,
    settled: u64,
}

impl AduSource for Queue {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.waiting.is_empty()
    }
    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let bytes = self.waiting.pop_front()?;
        assert!(bytes.len() <= room, "every data packet leaves so much room");
        packet.extend_from_slice(&bytes);
        self.pulled += 1;
        Some(PulledAdu { token: self.pulled, len: bytes.len(), meta: AduMeta::default(), apart: false, copy: Copied::First, is_fragment: false })
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {
        self.settled += 1;
    }
    fn lost(&mut self, _: u64) {
        self.settled += 1;
    }
    fn dropped(&mut self, _: u64, _: DropReason) {
        self.settled += 1;
    }
}

#[derive(Default)]
struct Queues(BTreeMap<ConnectionId, Queue>);

impl Sources for Queues {
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource {
        self.0.entry(connection).or_default()
    }
}

#[derive(Default)]
struct Heard {
    connected: bool,
    received: u64,
    closed: Option<CloseReason>,
}

struct Host {
    address: SocketAddr,
    endpoint: Endpoint,
    cm: Manager,
    queues: Queues,
    heard: BTreeMap<ConnectionId, Heard>,
}

impl Host {
    fn new(address: &str, config: &EndpointConfig, seed: u64) -> Self {
        Self {
            address: address.parse().unwrap(),
            endpoint: Endpoint::new(config.clone(), Rng::from_seed(seed)),
            cm: Manager::default(),
            queues: Queues::default(),
            heard: BTreeMap::new(),
        }
    }

    fn hear(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            let heard = self.heard.entry(id).or_default();
            assert!(heard.closed.is_none(), "{event:?} after the end of {id:?}");
            match event {
                Event::Connected => heard.connected = true,
                Event::Received(_) => heard.received += 1,
                Event::Acked { token, .. } => self.queues.source(id).acked(token),
                Event::Lost { token } => self.queues.source(id).lost(token),
                Event::Closed { reason } => heard.closed = Some(reason),
                _ => {}
            }
        }
    }

    fn drain(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>, Ecn)> {
        let mut sent = Vec::new();
        let mut packet = Vec::new();
        loop {
            while let Some(flow) = self.cm.poll_granted() {
                assert!(self.endpoint.granted(flow), "a flow of nobody's");
            }
            let polled = self.endpoint.poll_transmit(now, &mut self.cm, &mut self.queues, &mut packet).unwrap();
            let Some(outgoing) = polled else { break };
            if let (Some(id), Some(adu)) = (outgoing.connection, outgoing.transmit.adu) {
                self.queues.source(id).sent(adu.token);
            }
            sent.push((outgoing.to, std::mem::take(&mut packet), outgoing.transmit.ecn));
            assert!(sent.len() < 20_000, "it never stops sending at one instant");
        }
        self.hear();
        self.endpoint.poll_timeout().unwrap();
        sent
    }

    fn check(&self, config: &EndpointConfig) {
        assert!(self.endpoint.connections().count() <= config.max_connections);
        assert!(self.endpoint.half_open() <= config.max_half_open);
        assert!(self.endpoint.lingering() <= config.max_lingering);
    }
}

struct World {
    now: Instant,
    config: EndpointConfig,
    /// The listening host and its good client.
    hosts: [Host; 2],
    under_way: VecDeque<(Instant, usize, Vec<u8>, Ecn)>,
    /// Last packets of the good pair, by receiving host.
    seen: [VecDeque<Vec<u8>>; 2],
    good: Vec<ConnectionId>,
}

impl World {
    fn new(ccid: Ccid) -> Self {
        let connection = Config::default().with_ccids(&[ccid]);
        let config = EndpointConfig { connection, max_connections: 12, max_half_open: 4, max_lingering: 6, ..EndpointConfig::default() };
        let hosts = [Host::new("10.0.0.1:6511", &config, 1), Host::new("10.0.0.2:6511", &config, 2)];
        let mut world = Self {
            now: Instant::ZERO,
            config,
            hosts,
            under_way: VecDeque::new(),
            seen: [VecDeque::new(), VecDeque::new()],
            good: Vec::new(),
        };
        world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
        world.connect();
        world.run_for(Duration::from_millis(100));
        world
    }

    fn connect(&mut self) {
        let server = self.hosts[0].address;
        if let Ok(id) = self.hosts[1].endpoint.connect(self.now, server, PORT, SERVICE) {
            self.good.push(id);
        }
    }

    fn inject(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        let host = &mut self.hosts[to];
        host.endpoint.handle_datagram(self.now, &mut host.cm, from, bytes, Ecn::NotEct).unwrap();
        self.settle();
    }

    fn settle(&mut self) {
        while self.under_way.front().is_some_and(|packet| packet.0 <= self.now) {
            let (_, to, bytes, ecn) = self.under_way.pop_front().unwrap();
            let from = self.hosts[1 - to].address;
            let host = &mut self.hosts[to];
            host.endpoint.handle_datagram(self.now, &mut host.cm, from, &bytes, ecn).unwrap();
        }
        for n in 0..2 {
            let host = &mut self.hosts[n];
            host.cm.handle_timeout(self.now);
            host.endpoint.handle_timeout(self.now, &mut host.cm).unwrap();
            let sent = host.drain(self.now);
            host.check(&self.config);
            for (to, bytes, ecn) in sent {
                // Packets to other addresses are discarded.
                if to == self.hosts[1 - n].address {
                    let seen = &mut self.seen[1 - n];
                    seen.push_back(bytes.clone());
                    if seen.len() > 16 {
                        seen.pop_front();
                    }
                    self.under_way.push_back((self.now + DELAY, 1 - n, bytes, ecn));
                }
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..50_000 {
            self.settle();
            let mut next: Vec<Instant> = self.under_way.front().map(|packet| packet.0).into_iter().collect();
            for host in &mut self.hosts {
                next.extend(host.endpoint.poll_timeout().unwrap());
                next.extend(host.cm.poll_timeout());
            }
            match next.into_iter().min() {
                Some(at) if at <= end => self.now = at.max(self.now + Duration::from_nanos(1)),
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("50000 rounds within {time:?}: it spins");
    }

    fn step(&mut self, step: Step, on_path: bool) {
        match step {
            Step::Raw { from, to_client, bytes } => {
                let to = usize::from(to_client);
                self.inject(to, self.address(from, to, on_path), &bytes);
            }
            Step::Formed { from, body, ports, seq, ack, options, payload } => {
                let header = Header::new(port(ports.0), port(ports.1), Seq::new(seq), body_of(body, ack));
                let mut bytes = Vec::new();
                // Options are padded to whole words, and may not fit.
                if packet::begin_encoded(&header, &padded(options), &mut bytes).is_ok() {
                    bytes.extend(std::iter::repeat_n(7, usize::from(payload)));
                    if packet::finish(&mut bytes, 0, Encapsulation::Udp).is_ok() {
                        self.inject(0, self.address(from, 0, on_path), &bytes);
                    }
                }
            }
            Step::Mutated { from, which, to_client, changes, cut } => {
                let to = usize::from(to_client);
                let seen = &self.seen[to];
                let Some(genuine) = (!seen.is_empty()).then(|| &seen[usize::from(which) % seen.len()]) else { return };
                let mut bytes = genuine.clone();
                for (at, mask) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= mask;
                }
                bytes.truncate(bytes.len() - usize::from(cut) % bytes.len());
                self.inject(to, self.address(from, to, on_path), &bytes);
            }
            Step::Wait(milliseconds) => self.run_for(Duration::from_millis(u64::from(milliseconds))),
            Step::Data { from_client, count, len } => self.data(from_client, count, len),
            Step::Connect => self.connect(),
            Step::Close { which, by_client, abort } => {
                let host = &mut self.hosts[usize::from(by_client)];
                let ids: Vec<_> = host.endpoint.connections().collect();
                // The first good connection stays open.
                let Some(&id) = ids.get(1 + usize::from(which)) else { return };
                let ended = match abort {
                    true => host.endpoint.abort(self.now, id, ResetCode::Aborted),
                    false => host.endpoint.close(self.now, id),
                };
                ended.unwrap();
            }
            Step::Lose if on_path => drop(self.under_way.pop_back()),
            Step::Lose => {}
            Step::Mtu(mps) if on_path => {
                let client = self.hosts[1].address;
                self.hosts[0].endpoint.path_mtu_exceeded(client, usize::from(mps).max(576));
            }
            Step::Mtu(_) => {}
        }
        self.settle();
    }

    fn data(&mut self, from_client: bool, count: u8, len: u8) {
        let host = &mut self.hosts[usize::from(from_client)];
        let Some(id) = host.endpoint.connections().next() else { return };
        let queue = host.queues.0.entry(id).or_default();
        for _ in 0..count % 32 {
            queue.waiting.push_back(vec![1; usize::from(len)]);
        }
        host.endpoint.wake(id);
    }

    /// Address of a third party, or of the good peer if the attacker can forge it.
    fn address(&self, from: u8, to: usize, on_path: bool) -> SocketAddr {
        match on_path && from % 2 == 0 {
            true => self.hosts[1 - to].address,
            false => SocketAddr::from(([192, 0, 2, from], 6_511)),
        }
    }

    /// Checks that the good connection was not affected by the attacker.
    fn check_good(&mut self) {
        let id = self.good[0];
        self.run_for(Duration::from_secs(20));
        let heard = &self.hosts[1].heard[&id];
        assert!(heard.connected && heard.closed.is_none(), "it has ended: {:?}", heard.closed);
        let [server, client] = &self.hosts;
        let sent = client.queues.0.get(&id).map_or(0, |queue| queue.pulled);
        let received: u64 = server.heard.values().map(|heard| heard.received).sum();
        assert!(received >= sent, "{received} of {sent} arrived");
        for host in &self.hosts {
            for queue in host.queues.0.values() {
                assert!(queue.settled <= queue.pulled, "fates without an ADU");
            }
        }
        let queue = client.queues.0.get(&id);
        assert!(queue.is_none_or(|queue| queue.waiting.is_empty() && queue.settled == queue.pulled), "it stands still");
    }
}

fn port(n: u8) -> u16 {
    if n % 3 == 0 { PORT } else { 49_152 + u16::from(n) }
}

fn padded(mut options: Vec<u8>) -> Vec<u8> {
    options.truncate(200);
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

fn body_of(n: u8, ack: u64) -> Body {
    let (ack, service) = (Seq::new(ack), SERVICE);
    match n % 10 {
        0 => Body::Request { service },
        1 => Body::Response { ack, service },
        2 => Body::Data,
        3 => Body::Ack { ack },
        4 => Body::DataAck { ack },
        5 => Body::CloseReq { ack },
        6 => Body::Close { ack },
        7 => Body::Sync { ack },
        8 => Body::SyncAck { ack },
        _ => Body::Reset { ack, code: ResetCode::Aborted, data: [n, 0, 0] },
    }
}

fuzz_target!(|input: Input| {
    // CCID 4 sends at most a hundred packets per second, too few for the check of the good pair.
    let ccids = if input.on_path { 3 } else { 2 };
    let mut world = World::new(Ccid::ALL[usize::from(input.ccid) % ccids]);
    for step in input.steps.into_iter().take(200) {
        world.step(step, input.on_path);
    }
    if input.on_path {
        world.run_for(Duration::from_secs(300));
    } else {
        world.check_good();
    }
});
