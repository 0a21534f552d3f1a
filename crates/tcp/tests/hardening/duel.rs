//! Two connections in virtual time, with a link whose behaviour the test defines.

use std::collections::BTreeMap;

use timeous_cm::{Manager, NewReno};
use timeous_core::{Duration, Ecn, Instant, Rng, Transport};
use timeous_tcp::{
    Addresses, CloseReason, Config, Connection, Event, Flags, Header, Options, Segment, Seq, State, StreamBuffer,
    Target, segment,
};

use crate::clock::run_until;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SEC: Duration = Duration::from_secs(1);

/// Fate of a segment: a copy with these bytes arrives after each of these delays.
pub(crate) type Fate = Vec<(Duration, Vec<u8>, Ecn)>;

/// Decides the fate of a segment sent now by end 0 or 1.
pub(crate) type Rule = Box<dyn FnMut(Instant, usize, &[u8], Ecn) -> Fate>;

/// A link with delay only.
pub(crate) fn good(delay: Duration) -> Rule {
    Box::new(move |_, _, bytes, ecn| vec![(delay, bytes.to_vec(), ecn)])
}

/// Returns the byte at `at` in the stream of end `from`.
pub(crate) fn byte(from: usize, at: u64) -> u8 {
    ((at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8) ^ from as u8
}

pub(crate) struct End {
    pub(crate) connection: Connection,
    cm: Manager,
    source: StreamBuffer,
    /// Bytes to send in all, and bytes written so far.
    to_send: u64,
    written: u64,
    closes: bool,
    pub(crate) received: u64,
    /// Maximum size of a read, and the pause after it.
    pub(crate) reads: (usize, Duration),
    next_read: Instant,
    pub(crate) events: Vec<Event>,
    pub(crate) closed: Option<CloseReason>,
}

impl End {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            cm: Manager::new(|mtu| Box::new(NewReno::new(mtu))),
            source: StreamBuffer::new(64 << 10),
            to_send: 0,
            written: 0,
            closes: false,
            received: 0,
            reads: (usize::MAX, Duration::ZERO),
            next_read: Instant::ZERO,
            events: Vec::new(),
            closed: None,
        }
    }

    /// Queues `bytes` bytes, and closes the stream afterwards if `closes`.
    pub(crate) fn send(&mut self, bytes: u64, closes: bool) {
        self.to_send += bytes;
        self.closes |= closes;
    }

    fn fill(&mut self, now: Instant, who: usize) {
        while self.written < self.to_send && self.source.room() > 0 {
            let count = (self.to_send - self.written).min(self.source.room() as u64);
            let chunk: Vec<u8> = (self.written..self.written + count).map(|at| byte(who, at)).collect();
            self.written += self.source.write(&chunk) as u64;
        }
        if self.closes && self.written == self.to_send && self.connection.state() >= State::Established {
            self.closes = false;
            self.connection.close(now).unwrap();
        }
    }

    fn hear(&mut self, now: Instant, who: usize) {
        while let Some(event) = self.connection.poll_event() {
            assert_eq!(self.closed, None, "{event:?} after the end");
            if let Event::Closed { reason } = event {
                self.closed = Some(reason);
            }
            self.events.push(event);
        }
        if now >= self.next_read && self.reads.0 > 0 && self.connection.readable() > 0 {
            let mut bytes = Vec::new();
            self.connection.read(self.reads.0, &mut bytes);
            for got in bytes {
                assert_eq!(got, byte(1 - who, self.received), "byte {} of what {who} reads", self.received);
                self.received += 1;
            }
            self.next_read = now + self.reads.1;
        }
    }

    /// Makes the application read now.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.next_read = now;
    }

    pub(crate) fn heard(&self, event: Event) -> bool {
        self.events.contains(&event)
    }
}

/// A sent segment.
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Sent {
    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment::parse_trusted(&self.bytes).unwrap()
    }
}

pub(crate) struct Duel {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    pub(crate) rule: Rule,
    under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>, Ecn)>,
    count: u64,
    pub(crate) sent: Vec<Sent>,
}

pub(crate) fn targets() -> [Target; 2] {
    let target = Target { local: ([192, 0, 2, 1], 5_000).into(), remote: ([192, 0, 2, 2], 80).into(), dscp: 0 };
    [target, Target { local: target.remote, remote: target.local, dscp: 0 }]
}

/// Returns the addresses of segments from end `from`.
pub(crate) fn addresses(from: usize) -> Addresses {
    let target = targets()[from];
    Addresses { source: target.local.ip(), destination: target.remote.ip() }
}

impl Duel {
    /// Creates a client (0) and a server (1).
    pub(crate) fn new(configs: [Config; 2], rule: Rule, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let ([client, server], [there, back]) = (configs, targets());
        let client = Connection::connect(Instant::ZERO, client, there, &mut rng);
        let server = Connection::listen(Instant::ZERO, server, back, &mut rng);
        Self::of([client, server], rule)
    }

    pub(crate) fn of(connections: [Connection; 2], rule: Rule) -> Self {
        let ends = connections.map(End::new);
        Self { now: Instant::ZERO, ends, rule, under_way: BTreeMap::new(), count: 0, sent: Vec::new() }
    }

    /// Creates two equal ends with a link of 10 ms, and completes the handshake.
    pub(crate) fn connected(config: &Config) -> Self {
        let mut duel = Self::new([config.clone(), config.clone()], good(MS * 10), 1);
        duel.run_for(MS * 30);
        duel.assert_states([State::Established; 2]);
        duel
    }

    #[track_caller]
    pub(crate) fn assert_states(&self, expected: [State; 2]) {
        assert_eq!(self.states(), expected);
    }

    pub(crate) fn states(&self) -> [State; 2] {
        [0, 1].map(|who| self.ends[who].connection.state())
    }

    /// Delivers a segment to `to`, as if from the other end.
    pub(crate) fn arrive(&mut self, to: usize, bytes: &[u8], ecn: Ecn) {
        let end = &mut self.ends[to];
        end.connection.handle_datagram(self.now, &mut end.cm, bytes, ecn).unwrap();
        end.hear(self.now, to);
        self.drain(to);
    }

    /// Delivers a forged segment of the other end; its ports are filled in.
    pub(crate) fn forge(&mut self, to: usize, header: Header, payload: &[u8]) {
        let timestamps =
            self.sent.iter().rev().find(|sent| sent.from != to).and_then(|s| s.segment().options.timestamps);
        let ports = targets()[1 - to];
        let header = Header { source_port: ports.local.port(), dest_port: ports.remote.port(), ..header };
        let mut bytes = Vec::new();
        let options = Options { timestamps, ..Options::default() };
        let start = segment::begin(&header, &options, &mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        segment::finish(&mut bytes, start, addresses(1 - to)).unwrap();
        self.arrive(to, &bytes, Ecn::NotEct);
    }

    fn drain(&mut self, who: usize) {
        let end = &mut self.ends[who];
        let mut packet = Vec::new();
        while let Some(transmit) =
            end.connection.poll_transmit(self.now, &mut end.cm, &mut end.source, &mut packet).unwrap()
        {
            for (delay, bytes, ecn) in (self.rule)(self.now, who, &packet, transmit.ecn) {
                self.count += 1;
                self.under_way.insert((self.now + delay, self.count), (1 - who, bytes, ecn));
            }
            self.sent.push(Sent { at: self.now, from: who, bytes: std::mem::take(&mut packet) });
        }
        while end.cm.poll_granted().is_some() {}
    }

    pub(crate) fn settle(&mut self) {
        while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= self.now) {
            let (to, bytes, ecn) = first.remove();
            self.arrive(to, &bytes, ecn);
        }
        for who in [0, 1] {
            let end = &mut self.ends[who];
            end.fill(self.now, who);
            end.cm.handle_timeout(self.now);
            end.connection.handle_timeout(self.now, &mut end.cm).unwrap();
            self.drain(who);
            let end = &mut self.ends[who];
            end.hear(self.now, who);
            end.fill(self.now, who);
            self.drain(who);
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let mut next: Vec<Instant> = self.under_way.keys().next().map(|&(at, _)| at).into_iter().collect();
        for end in &mut self.ends {
            next.extend(end.connection.poll_timeout().unwrap());
            next.extend(end.cm.poll_timeout());
            if end.connection.readable() > 0 && end.reads.0 > 0 {
                next.push(end.next_read);
            }
        }
        next.into_iter().min()
    }

    /// Runs until `done` or until `limit` has passed; returns whether it was done.
    pub(crate) fn run_until(&mut self, limit: Duration, done: impl FnMut(&Self) -> bool) -> bool {
        run_until(self, limit, done, (|duel| &mut duel.now, Self::settle, Self::next))
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until both have sent all data, closed, and reported the end.
    #[track_caller]
    pub(crate) fn finish(&mut self, limit: Duration) {
        self.run_until(limit, |duel| {
            duel.ends.iter().all(|end| end.closed.is_some() && end.connection.readable() == 0)
        });
        for who in [0, 1] {
            let (end, other) = (&self.ends[who], &self.ends[1 - who]);
            let is_here = (end.closed, end.received, end.connection.state());
            assert_eq!((end.closed, end.received), (Some(CloseReason::Finished), other.to_send), "{who}: {is_here:?}");
            assert!(end.heard(Event::PeerFinished) && end.heard(Event::Connected));
            let statistics = end.connection.statistics();
            let acked = end.events.iter().filter(|event| matches!(event, Event::Acked { .. })).count() as u64;
            assert_eq!((acked, statistics.bytes_acked), (statistics.data_sent, end.to_send), "each pull has one fate");
        }
    }

    /// Returns the number of segments sent by `from` that `of` selects.
    pub(crate) fn count(&self, from: usize, of: impl Fn(&Segment<'_>) -> bool) -> usize {
        self.sent.iter().filter(|sent| sent.from == from && of(&sent.segment())).count()
    }

    /// Returns the next sequence number of `who`, and the one it expects.
    pub(crate) fn numbers(&self, who: usize) -> (Seq, Seq) {
        let last = self.sent.iter().rev().find(|sent| sent.from == who && sent.segment().header.ack.is_some());
        let last = last.expect("it has sent something").segment();
        (last.end(), last.header.ack.unwrap())
    }
}

/// Returns whether a segment is a pure acknowledgement.
pub(crate) fn is_bare(segment: &Segment<'_>) -> bool {
    segment.seq_len() == 0 && segment.header.ack.is_some() && !segment.has(Flags::RST)
}
