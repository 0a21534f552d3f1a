//! Two connections in virtual time, with a link and a checked byte stream in each direction.

use timeous_cm::{Manager, NewReno};
use timeous_core::{Duration, Ecn, Instant, Rng, Transport};
use timeous_tcp::{CloseReason, Config, Connection, Event, State, StreamBuffer, Target};

use crate::clock::run_until;
use crate::link::{Link, LinkConfig};

/// Returns the byte at `offset` of the stream `salt`.
pub(crate) fn byte(salt: u64, offset: u64) -> u8 {
    ((offset.wrapping_mul(2_654_435_761) >> 7) ^ salt) as u8
}

pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) cm: Manager,
    pub(crate) source: StreamBuffer,
    salt: u64,
    /// Bytes to send, and bytes written so far.
    to_send: u64,
    written: u64,
    closes: bool,
    pub(crate) received: u64,
    pub(crate) connected_at: Option<Instant>,
    pub(crate) peer_finished: bool,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// Whether the application does not read.
    pub(crate) is_deaf: bool,
    buffer: Vec<u8>,
    outbox: Vec<(Vec<u8>, Ecn)>,
}

impl End {
    fn new(connection: Connection, salt: u64) -> Self {
        Self {
            connection,
            cm: Manager::new(|mtu| Box::new(NewReno::new(mtu))),
            source: StreamBuffer::new(256 << 10),
            salt,
            to_send: 0,
            written: 0,
            closes: false,
            received: 0,
            connected_at: None,
            peer_finished: false,
            closed: None,
            acked: 0,
            lost: 0,
            is_deaf: false,
            buffer: Vec::new(),
            outbox: Vec::new(),
        }
    }

    /// Returns the outstanding bytes in the Congestion Manager's books.
    fn outstanding(&self) -> u64 {
        self.connection.flow().map_or(self.connection.outstanding(), |flow| self.cm.query(flow).unwrap().outstanding)
    }

    /// Queues `bytes` bytes, and closes the stream afterwards if `closes`.
    pub(crate) fn send(&mut self, bytes: u64, closes: bool) {
        self.to_send += bytes;
        self.closes |= closes;
    }

    fn fill(&mut self, now: Instant) {
        while self.written < self.to_send && self.source.room() > 0 {
            let count = (self.to_send - self.written).min(self.source.room() as u64).min(4_096);
            let chunk: Vec<u8> = (self.written..self.written + count).map(|at| byte(self.salt, at)).collect();
            self.written += self.source.write(&chunk) as u64;
        }
        if self.closes && self.written == self.to_send {
            self.closes = false;
            self.connection.close(now).unwrap();
        }
    }

    fn hear(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            assert!(self.closed.is_none(), "{event:?} after the end");
            match event {
                Event::Connected => self.connected_at = Some(now),
                Event::Readable => {}
                Event::Acked { .. } => self.acked += 1,
                Event::Lost { .. } => self.lost += 1,
                Event::PeerFinished => self.peer_finished = true,
                Event::Closed { reason } => self.closed = Some(reason),
                other => unreachable!("{other:?} of an endpoint, or not of a stream of bytes"),
            }
        }
        if !self.is_deaf {
            self.buffer.clear();
            self.connection.read(usize::MAX, &mut self.buffer);
            for &got in &self.buffer {
                assert_eq!(got, byte(self.salt ^ 1, self.received), "byte {}", self.received);
                self.received += 1;
            }
        }
    }
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: End,
    pub(crate) server: End,
    /// Links from the client and from the server.
    pub(crate) links: [Link; 2],
}

impl Pair {
    pub(crate) fn new(config: &Config, link: &LinkConfig, seed: u64) -> Self {
        Self::with([config.clone(), config.clone()], [link.clone(), link.clone()], seed)
    }

    pub(crate) fn with([client, server]: [Config; 2], links: [LinkConfig; 2], seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let now = Instant::ZERO;
        let [up, down] = links.map(|link| Link::new(link, rng.next_u64()));
        let target = Target { local: ([192, 0, 2, 1], 5_000).into(), remote: ([192, 0, 2, 2], 80).into(), dscp: 0 };
        let back = Target { local: target.remote, remote: target.local, dscp: 0 };
        let client = Connection::connect(now, client, target, &mut rng);
        let server = Connection::listen(now, server, back, &mut rng);
        Self { now, client: End::new(client, 2), server: End::new(server, 3), links: [up, down] }
    }

    /// Processes everything that is due now.
    pub(crate) fn settle(&mut self) {
        let [up, down] = &mut self.links;
        for (to, link) in [(&mut self.server, &mut *up), (&mut self.client, &mut *down)] {
            while let Some((packet, ecn)) = link.deliver(self.now) {
                to.connection.handle_datagram(self.now, &mut to.cm, &packet, ecn).unwrap();
                to.hear(self.now);
                Self::drain(self.now, to);
            }
        }
        for (from, link) in [(&mut self.client, up), (&mut self.server, down)] {
            from.fill(self.now);
            from.cm.handle_timeout(self.now);
            from.connection.handle_timeout(self.now, &mut from.cm).unwrap();
            Self::drain(self.now, from);
            from.fill(self.now);
            from.hear(self.now);
            Self::drain(self.now, from);
            for (packet, ecn) in from.outbox.drain(..) {
                link.send(self.now, &packet, ecn);
            }
            assert_eq!(from.outstanding(), from.connection.outstanding(), "the manager's books are the connection's");
        }
    }

    fn drain(now: Instant, from: &mut End) {
        let mut packet = Vec::new();
        while let Some(transmit) =
            from.connection.poll_transmit(now, &mut from.cm, &mut from.source, &mut packet).unwrap()
        {
            from.outbox.push((std::mem::take(&mut packet), transmit.ecn));
        }
        while from.cm.poll_granted().is_some() {}
    }

    /// Returns the time of the next event.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        let mut next: Vec<Instant> = self.links.iter().filter_map(Link::next).collect();
        for end in [&mut self.client, &mut self.server] {
            next.extend(end.connection.poll_timeout().unwrap());
            next.extend(end.cm.poll_timeout());
        }
        next.into_iter().min()
    }

    /// Runs until `done` or until `limit` has passed; returns whether it was `done`.
    pub(crate) fn run_until(&mut self, limit: Duration, done: impl FnMut(&Self) -> bool) -> bool {
        run_until(self, limit, done, (|world| &mut world.now, Self::settle, Self::next))
    }

    #[track_caller]
    pub(crate) fn connect(&mut self) {
        let open = self.run_until(Duration::from_secs(120), |pair| {
            let states = [pair.client.connection.state(), pair.server.connection.state()];
            states == [State::Established; 2]
        });
        assert!(open, "client {:?}, server {:?}", self.client.connection.state(), self.server.connection.state());
    }

    /// Sends data in both directions, closes both, and checks that all has arrived in order. Returns the time it took.
    #[track_caller]
    pub(crate) fn transfer(&mut self, up: u64, down: u64, limit: Duration) -> Duration {
        let began = self.now;
        self.client.send(up, true);
        self.server.send(down, true);
        let done = self.run_until(limit, |pair| pair.client.closed.is_some() && pair.server.closed.is_some());
        let took = self.now - began;
        let ends = [&self.client, &self.server];
        assert!(done, "{took:?}: {:?}", ends.map(|end| (end.received, end.connection.state(), end.closed)));
        assert_eq!([self.server.received, self.client.received], [up, down]);
        for end in ends {
            assert_eq!(end.closed, Some(CloseReason::Finished));
            assert!(end.peer_finished);
            assert_eq!(end.lost, 0);
            assert_eq!(end.acked, end.connection.statistics().data_sent, "each pull has one fate");
        }
        took
    }
}
