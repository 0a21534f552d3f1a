//! Two TCP endpoints and an attacker under any sequence of operations: the endpoints stay within their limits and come
//! to rest, agree with the Congestion Manager's accounts, and each pulled datagram has one fate. Data that the attacker
//! has not touched arrives unchanged.
#![no_main]

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_cm::{Cubic, Manager, NewReno};
use timeous_core::{AduSource, DropReason, Duration, Ecn, Instant, PathState, PulledAdu, Rng};
use timeous_tcp::{
    Addresses, CloseReason, Config, ConnectionId, EcnMode, Endpoint, EndpointConfig, Event, Flags, Header,
    LossDetection, Options, SackBlock, Segment, Seq, Sources, StreamBuffer, Timestamps, segment,
};

const PORT: u16 = 80;
const DELAY: Duration = Duration::from_millis(5);
const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];

#[derive(Arbitrary, Debug)]
struct Input {
    settings: [Settings; 2],
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Settings {
    mss: u16,
    buffer: u16,
    timestamps: bool,
    sack: bool,
    window_scaling: bool,
    ecn: u8,
    rack: bool,
    tail_loss_probe: bool,
    initial: u32,
    cubic: bool,
}

impl Settings {
    fn config(&self) -> Config {
        Config {
            mss: self.mss,
            receive_buffer: usize::from(self.buffer).max(500),
            timestamps: self.timestamps,
            sack: self.sack,
            window_scaling: self.window_scaling,
            ecn: [EcnMode::Off, EcnMode::Accept, EcnMode::Request][usize::from(self.ecn % 3)],
            loss_detection: if self.rack { LossDetection::Rack } else { LossDetection::DupThresh },
            tail_loss_probe: self.tail_loss_probe,
            initial_seq: Some(Seq::new(self.initial)),
            ..Config::default()
        }
    }
}

/// Sequence number near the expected one, or arbitrary.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Place {
    Here,
    Near(i16),
    Far(u32),
}

impl Place {
    fn from(self, seq: Seq) -> Seq {
        match self {
            Self::Here => seq,
            Self::Near(offset) => Seq::new(seq.value().wrapping_add_signed(offset.into())),
            Self::Far(offset) => seq + offset,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Forged {
    seq: Place,
    ack: Option<Place>,
    flags: u8,
    window: u16,
    time: Option<(i8, i8)>,
    sack: Vec<(Place, u16)>,
    syn_options: Option<(u16, u8, bool)>,
    len: u16,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Arbitrary bytes, from a third party or with the peer's address.
    Raw {
        to: bool,
        stranger: bool,
        bytes: Vec<u8>,
    },
    /// Well-formed segment, with numbers near those of a segment seen before.
    Forged {
        to: bool,
        stranger: bool,
        which: u8,
        segment: Forged,
    },
    /// Segment seen before, with a few bytes changed and a correct checksum.
    Mutated {
        to: bool,
        which: u8,
        changes: Vec<(u8, u8)>,
        cut: u8,
    },
    /// Duplicate of a segment seen before.
    Again {
        to: bool,
        which: u8,
    },
    Lose,
    /// The last segment in flight overtakes all others.
    Overtake,
    Mark,
    Wait(u16),
    Data {
        from: bool,
        bytes: u16,
    },
    Read {
        to: bool,
        bytes: u16,
    },
    Connect,
    Close {
        from: bool,
        which: u8,
        abort: bool,
    },
}

/// Stream with a count of its pulls.
struct Queue {
    stream: StreamBuffer,
    written: u64,
    pulled: u64,
    settled: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { stream: StreamBuffer::new(1 << 18), written: 0, pulled: 0, settled: 0 }
    }
}

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

impl AduSource for Queue {
    fn has_queued(&mut self, now: Instant) -> bool {
        self.stream.has_queued(now)
    }
    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let adu = self.stream.pull(now, path, room, packet)?;
        assert!(adu.len <= room);
        self.pulled += 1;
        Some(adu)
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
    received: Vec<u8>,
    closed: Option<CloseReason>,
}

struct Host {
    endpoint: Endpoint,
    cm: Manager,
    queues: Queues,
    heard: BTreeMap<ConnectionId, Heard>,
}

impl Host {
    fn new(settings: &Settings, seed: u64) -> Self {
        let config = EndpointConfig {
            connection: settings.config(),
            max_connections: 12,
            max_half_open: 4,
            max_lingering: 6,
            ..EndpointConfig::default()
        };
        let cm = match settings.cubic {
            true => Manager::new(|mtu| Box::new(Cubic::new(mtu))),
            false => Manager::new(|mtu| Box::new(NewReno::new(mtu))),
        };
        let endpoint = Endpoint::new(config, Rng::from_seed(seed));
        Self { endpoint, cm, queues: Queues::default(), heard: BTreeMap::new() }
    }

    fn hear(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            let heard = self.heard.entry(id).or_default();
            assert!(heard.closed.is_none(), "{event:?} after the end of {id:?}");
            match event {
                Event::Acked { token, .. } => self.queues.source(id).acked(token),
                Event::Lost { token } => self.queues.source(id).lost(token),
                Event::Closed { reason } => {
                    heard.closed = Some(reason);
                    let queue = self.queues.0.get(&id);
                    assert!(queue.is_none_or(|queue| queue.settled == queue.pulled), "each pull has one fate");
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, id: ConnectionId, limit: usize) {
        self.endpoint.read_at_most(id, limit, &mut self.heard.entry(id).or_default().received);
    }

    fn drain(&mut self, now: Instant) -> Vec<(IpAddr, Vec<u8>, Ecn)> {
        let mut sent = Vec::new();
        let mut packet = Vec::new();
        loop {
            while let Some(flow) = self.cm.poll_granted() {
                assert!(self.endpoint.granted(flow), "a flow of nobody's");
            }
            let polled = self.endpoint.poll_transmit(now, &mut self.cm, &mut self.queues, &mut packet).unwrap();
            let Some(outgoing) = polled else { break };
            sent.push((outgoing.to.ip(), std::mem::take(&mut packet), outgoing.transmit.ecn));
            assert!(sent.len() < 20_000, "it never stops sending at one instant");
        }
        self.hear();
        self.endpoint.poll_timeout().unwrap();
        sent
    }

    fn check(&self) {
        assert!(self.endpoint.connections().count() <= 12 && self.endpoint.half_open() <= 4);
        assert!(self.endpoint.lingering() <= 6);
        // The bytes in flight to one host are shared by its flows: each flow reports the same sum.
        let mut books: BTreeMap<IpAddr, (u64, Vec<u64>)> = BTreeMap::new();
        for connection in self.endpoint.connections().filter_map(|id| self.endpoint.connection(id)) {
            if let Some(flow) = connection.flow() {
                let (sum, told) = books.entry(connection.target().remote.ip()).or_default();
                *sum += connection.outstanding();
                told.push(self.cm.query(flow).unwrap().outstanding);
            }
        }
        assert!(books.values().all(|(sum, told)| told.iter().all(|told| told == sum)), "{books:?}");
        assert!(self.queues.0.values().all(|queue| queue.settled <= queue.pulled), "fates without a pull");
    }
}

struct World {
    now: Instant,
    /// The listening host and its client.
    hosts: [Host; 2],
    under_way: VecDeque<(Instant, usize, Vec<u8>, Ecn)>,
    /// Last segments, by receiving host.
    seen: [VecDeque<Vec<u8>>; 2],
    good: ConnectionId,
    /// Whether the attacker has sent segments with the address of one end.
    is_tampered: bool,
    /// Whether one end has requested to close the first connection.
    is_closed: bool,
}

impl World {
    fn new(settings: &[Settings; 2]) -> Self {
        let mut hosts = [Host::new(&settings[0], 1), Host::new(&settings[1], 2)];
        hosts[0].endpoint.listen(PORT);
        let now = Instant::ZERO;
        let good = hosts[1].endpoint.connect(now, ADDRESSES[1], (ADDRESSES[0], PORT).into()).unwrap();
        let seen = [VecDeque::new(), VecDeque::new()];
        let mut world =
            Self { now, hosts, under_way: VecDeque::new(), seen, good, is_tampered: false, is_closed: false };
        world.run_for(Duration::from_millis(100));
        world
    }

    fn inject(&mut self, to: usize, from: IpAddr, bytes: &[u8]) {
        self.is_tampered |= from == ADDRESSES[1 - to];
        self.arrive(to, from, bytes, Ecn::NotEct);
        self.settle();
    }

    fn arrive(&mut self, to: usize, from: IpAddr, bytes: &[u8], ecn: Ecn) {
        let host = &mut self.hosts[to];
        host.endpoint.handle_segment(self.now, &mut host.cm, from, ADDRESSES[to], bytes, ecn).unwrap();
    }

    fn settle(&mut self) {
        while self.under_way.front().is_some_and(|packet| packet.0 <= self.now) {
            let (_, to, bytes, ecn) = self.under_way.pop_front().unwrap();
            self.arrive(to, ADDRESSES[1 - to], &bytes, ecn);
        }
        for n in 0..2 {
            let host = &mut self.hosts[n];
            host.cm.handle_timeout(self.now);
            host.endpoint.handle_timeout(self.now, &mut host.cm).unwrap();
            let sent = host.drain(self.now);
            host.check();
            for (to, bytes, ecn) in sent {
                // Segments to other addresses are discarded.
                if to == ADDRESSES[1 - n] {
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

    /// Selects one of the segments that went to `to`.
    fn pick(&self, to: usize, which: u8) -> Option<Vec<u8>> {
        let seen = &self.seen[to];
        (!seen.is_empty()).then(|| seen[usize::from(which) % seen.len()].clone())
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Raw { to, stranger, bytes } => {
                let to = usize::from(to);
                self.inject(to, self.source(to, stranger), &bytes);
            }
            Step::Forged { to, stranger, which, segment } => {
                let to = usize::from(to);
                let Some(like) = self.pick(to, which) else { return };
                let from = self.source(to, stranger);
                if let Some(bytes) = forge(&like, segment, Addresses { source: from, destination: ADDRESSES[to] }) {
                    self.inject(to, from, &bytes);
                }
            }
            Step::Mutated { to, which, changes, cut } => {
                let to = usize::from(to);
                let Some(mut bytes) = self.pick(to, which) else { return };
                for (at, mask) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= mask;
                }
                bytes.truncate(bytes.len() - usize::from(cut) % bytes.len());
                let addresses = Addresses { source: ADDRESSES[1 - to], destination: ADDRESSES[to] };
                let _ = segment::finish(&mut bytes, 0, addresses);
                self.inject(to, ADDRESSES[1 - to], &bytes);
            }
            Step::Again { to, which } => {
                let to = usize::from(to);
                let Some(bytes) = self.pick(to, which) else { return };
                self.arrive(to, ADDRESSES[1 - to], &bytes, Ecn::NotEct);
            }
            Step::Lose => drop(self.under_way.pop_back()),
            Step::Overtake => {
                if let Some((_, to, bytes, ecn)) = self.under_way.pop_back() {
                    self.arrive(to, ADDRESSES[1 - to], &bytes, ecn);
                }
            }
            Step::Mark => {
                if let Some((_, _, _, ecn)) = self.under_way.back_mut().filter(|packet| packet.3 == Ecn::Ect0) {
                    *ecn = Ecn::Ce;
                }
            }
            Step::Wait(milliseconds) => self.run_for(Duration::from_millis(u64::from(milliseconds))),
            Step::Data { from, bytes } => self.write(usize::from(from), u64::from(bytes)),
            Step::Read { to, bytes } => {
                let host = &mut self.hosts[usize::from(to)];
                let first = host.endpoint.connections().next();
                if let Some(id) = first {
                    host.read(id, bytes.into());
                }
            }
            Step::Connect => {
                let _ = self.hosts[1].endpoint.connect(self.now, ADDRESSES[1], (ADDRESSES[0], PORT).into());
            }
            Step::Close { from, which, abort } => self.close(usize::from(from), which, abort),
        }
        self.settle();
    }

    fn source(&self, to: usize, stranger: bool) -> IpAddr {
        if stranger { IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)) } else { ADDRESSES[1 - to] }
    }

    fn write(&mut self, from: usize, count: u64) {
        let host = &mut self.hosts[from];
        let Some(id) = host.endpoint.connections().next() else { return };
        let queue = host.queues.0.entry(id).or_default();
        let bytes: Vec<u8> = (queue.written..queue.written + count).map(byte).collect();
        queue.written += queue.stream.write(&bytes) as u64;
        host.endpoint.wake(id);
    }

    fn close(&mut self, from: usize, which: u8, abort: bool) {
        let host = &mut self.hosts[from];
        let ids: Vec<_> = host.endpoint.connections().collect();
        let Some(&id) = ids.get(usize::from(which) % 4) else { return };
        self.is_closed |= which % 4 == 0;
        match abort {
            true => host.endpoint.abort(self.now, id).unwrap(),
            false => host.endpoint.close(self.now, id).unwrap(),
        }
    }

    fn read_all(&mut self) {
        for host in &mut self.hosts {
            for id in host.endpoint.connections().collect::<Vec<_>>() {
                host.read(id, usize::MAX);
            }
        }
    }

    /// Checks that data untouched by the attacker arrives in order.
    fn check_good(&mut self) {
        for _ in 0..2_000 {
            self.read_all();
            self.run_for(Duration::from_secs(2));
            let sent = &self.hosts[1].queues.0.get(&self.good);
            if sent.is_none_or(|queue| queue.stream.is_empty() && queue.settled == queue.pulled) {
                break;
            }
        }
        self.read_all();
        let closed = self.hosts[1].heard.get(&self.good).and_then(|heard| heard.closed);
        assert!(closed.is_none(), "it has ended: {closed:?}");
        let written = self.hosts[1].queues.0.get(&self.good).map_or(0, |queue| queue.written);
        let received = self.hosts[0].heard.values().map(|heard| &heard.received).max_by_key(|bytes| bytes.len());
        let received = received.map_or(&[][..], |bytes| bytes);
        assert!(received.len() as u64 >= written, "{} of {written} arrived", received.len());
        assert!((0..).zip(received).all(|(at, &got)| got == byte(at)));
    }

    /// Checks that both endpoints come to rest once all connections are closed.
    fn check_end(&mut self) {
        for host in &mut self.hosts {
            for id in host.endpoint.connections().collect::<Vec<_>>() {
                host.endpoint.abort(self.now, id).unwrap();
            }
        }
        self.run_for(Duration::from_secs(300));
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now, &mut host.cm).unwrap();
            assert_eq!(host.endpoint.connections().count(), 0);
            assert_eq!((host.endpoint.half_open(), host.endpoint.lingering()), (0, 0));
            for queue in host.queues.0.values() {
                assert_eq!(queue.settled, queue.pulled, "each pull has one fate");
            }
        }
    }
}

/// Segment like `like`, with forged fields.
fn forge(like: &[u8], forged: Forged, addresses: Addresses) -> Option<Vec<u8>> {
    let like = Segment::parse_trusted(like).ok()?;
    let flags = Flags::from_bits(forged.flags);
    let syn = forged.syn_options.filter(|_| flags.contains(Flags::SYN));
    let last = like.header.ack.unwrap_or_default();
    let header = Header {
        seq: forged.seq.from(like.end()),
        ack: forged.ack.map(|place| place.from(last)),
        flags,
        window: forged.window,
        ..like.header
    };
    let time = like.options.timestamps.unwrap_or_default();
    let mut options = Options {
        timestamps: forged.time.map(|(value, echo)| Timestamps {
            value: time.value.wrapping_add_signed(value.into()),
            echo: time.echo.wrapping_add_signed(echo.into()),
        }),
        mss: syn.map(|(mss, _, _)| mss),
        window_scale: syn.map(|(_, scale, _)| scale % 15),
        sack_permitted: syn.is_some_and(|(_, _, sack)| sack),
        ..Options::default()
    };
    let room = options.room_for_sack();
    let block = |(place, len): (Place, u16)| {
        let left = place.from(last);
        SackBlock { left, right: left + u32::from(len) }
    };
    options.sack = forged.sack.into_iter().take(room).map(block).collect();
    let mut bytes = Vec::new();
    segment::begin(&header, &options, &mut bytes).ok()?;
    bytes.extend(std::iter::repeat_n(0xff, usize::from(forged.len % 2_000)));
    segment::finish(&mut bytes, 0, addresses).ok()?;
    Some(bytes)
}

fuzz_target!(|input: Input| {
    let mut world = World::new(&input.settings);
    for step in input.steps.into_iter().take(200) {
        world.step(step);
    }
    if !world.is_tampered && !world.is_closed {
        world.check_good();
    }
    world.check_end();
});
