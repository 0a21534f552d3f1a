//! A client and a server in virtual time, with a link in each direction.

use std::net::{IpAddr, Ipv4Addr};

use timeous_cm::Manager;
use timeous_core::{AduSource, Duration, Instant, Rng, Transport};
use timeous_dccp::{CloseReason, Config, Connection, Event, ServiceCode, State, Target};

use crate::clock::run_until;
use crate::link::{Link, LinkConfig};
use crate::source::Script;

pub(crate) const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"test");

pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) cm: Manager,
    pub(crate) source: Script,
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) connected_at: Option<Instant>,
    pub(crate) closed: Option<CloseReason>,
    /// Number of `NotListening` events.
    pub(crate) told_deaf: u32,
}

impl End {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            cm: Manager::default(),
            source: Script::default(),
            received: Vec::new(),
            connected_at: None,
            closed: None,
            told_deaf: 0,
        }
    }

    pub(crate) fn outstanding(&self) -> u64 {
        outstanding(&self.connection, &self.cm)
    }

    fn hear(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            assert!(self.closed.is_none(), "{event:?} after the end");
            match event {
                Event::Connected => self.connected_at = Some(now),
                Event::Received(bytes) => self.received.push(bytes),
                Event::Acked { token, .. } => self.source.acked(token),
                Event::Lost { token } => self.source.lost(token),
                Event::Closed { reason } => self.closed = Some(reason),
                Event::Overdue { token } => self.source.overdue(token),
                Event::TakesRepeats => self.source.repeats = !self.source.stays_lost,
                Event::TakesFragments | Event::PacketSize { .. } => {}
                Event::NotListening => self.told_deaf += 1,
                other => unreachable!("{other:?} of an endpoint, or of TCP"),
            }
        }
    }
}

/// Bytes of a connection in flight, by the Congestion Manager.
pub(crate) fn outstanding(connection: &Connection, cm: &Manager) -> u64 {
    connection.flow().and_then(|flow| cm.query(flow).ok()).map_or(0, |path| path.outstanding)
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: End,
    pub(crate) server: End,
    /// From the client, and from the server.
    pub(crate) links: [Link; 2],
}

pub(crate) fn target(local_port: u16, remote_port: u16) -> Target {
    let destination = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
    Target { destination, local_port, remote_port, service: SERVICE }
}

impl Pair {
    pub(crate) fn new(link: LinkConfig, seed: u64) -> Self {
        Self::with(Config::default(), Config::default(), [link.clone(), link], seed)
    }

    pub(crate) fn with(client: Config, server: Config, links: [LinkConfig; 2], seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let now = Instant::ZERO;
        let [up, down] = links.map(|link| Link::new(link, rng.next_u64()));
        let client = Connection::connect(now, client, target(5_000, 7_000), &mut rng);
        let destination = target(0, 0).destination;
        let server = Connection::listen(now, server, 7_000, &[SERVICE], destination, &mut rng);
        Self { now, client: End::new(client), server: End::new(server), links: [up, down] }
    }

    /// Lets everything happen that is due now.
    pub(crate) fn settle(&mut self) {
        for (to, link) in [(&mut self.server, 0), (&mut self.client, 1)] {
            while let Some((packet, ecn)) = self.links[link].deliver(self.now) {
                to.connection.handle_datagram(self.now, &mut to.cm, &packet, ecn).unwrap();
                to.hear(self.now);
            }
        }
        for (from, link) in [(&mut self.client, 0), (&mut self.server, 1)] {
            from.cm.handle_timeout(self.now);
            from.connection.handle_timeout(self.now, &mut from.cm).unwrap();
            from.hear(self.now);
            let mut packet = Vec::new();
            while let Some(transmit) =
                from.connection.poll_transmit(self.now, &mut from.cm, &mut from.source, &mut packet).unwrap()
            {
                if let Some(adu) = transmit.adu {
                    if adu.apart {
                        packet.extend_from_slice(&from.source.gather(adu.token));
                    }
                    from.source.sent(adu.token);
                }
                assert!(
                    transmit.adu.is_none() || packet.len() <= from.connection.max_payload() + Config::HEADER_ROOM,
                    "longer than a packet may be"
                );
                self.links[link].send(self.now, &packet, transmit.ecn);
                packet.clear();
            }
            while from.cm.poll_granted().is_some() {}
            from.hear(self.now);
        }
    }

    /// Time of the next event.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        let mut next: Vec<Instant> = self.links.iter().filter_map(Link::next).collect();
        for end in [&mut self.client, &mut self.server] {
            next.extend(end.connection.poll_timeout().unwrap());
            next.extend(end.cm.poll_timeout());
            next.extend(end.source.next_ready().filter(|&at| at > self.now));
        }
        next.into_iter().min()
    }

    /// Runs until `done`, or `limit` has passed. Says whether it was `done`.
    pub(crate) fn run_until(&mut self, limit: Duration, done: impl FnMut(&Self) -> bool) -> bool {
        run_until(self, limit, done, (|world| &mut world.now, Self::settle, Self::next))
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    #[track_caller]
    pub(crate) fn connect(&mut self) {
        let open = self.run_until(Duration::from_secs(60), |pair| {
            pair.client.connection.state() == State::Open && pair.server.connection.state() == State::Open
        });
        assert!(open, "client {:?}, server {:?}", self.client.connection.state(), self.server.connection.state());
    }
}
