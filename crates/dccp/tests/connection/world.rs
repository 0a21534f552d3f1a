//! Hosts with endpoints in virtual time, each with a link.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous_cm::Manager;
use timeous_core::{AduSource, Duration, Ecn, Instant, Rng};
use timeous_dccp::{CloseReason, ConnectionId, Endpoint, EndpointConfig, Event, Sources};

use crate::clock::run_until;
use crate::link::{Link, LinkConfig};
use crate::source::Script;

#[derive(Default)]
pub(crate) struct Queues(pub(crate) BTreeMap<ConnectionId, Script>);

impl Sources for Queues {
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource {
        self.0.entry(connection).or_default()
    }
}

pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint,
    pub(crate) cm: Manager,
    pub(crate) queues: Queues,
    /// Events of each connection.
    pub(crate) heard: BTreeMap<ConnectionId, Heard>,
    /// Link towards this host.
    link: Link,
    in_flight: BTreeMap<u64, SocketAddr>,
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) incoming: bool,
    pub(crate) connected: bool,
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) moved: Vec<(SocketAddr, SocketAddr)>,
}

impl Host {
    fn hear(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            let heard = self.heard.entry(id).or_default();
            assert!(heard.closed.is_none(), "{event:?} after the end of {id:?}");
            match event {
                Event::Incoming { .. } => heard.incoming = true,
                Event::Moved { from, to } => heard.moved.push((from, to)),
                Event::Connected => heard.connected = true,
                Event::Received(bytes) => heard.received.push(bytes),
                Event::Acked { token, .. } => self.queues.source(id).acked(token),
                Event::Lost { token } => self.queues.source(id).lost(token),
                Event::Closed { reason } => heard.closed = Some(reason),
                _ => {}
            }
        }
    }

    pub(crate) fn push(&mut self, now: Instant, id: ConnectionId, bytes: Vec<u8>) {
        self.queues.0.entry(id).or_default().push(now, bytes);
        self.endpoint.wake(id);
    }
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) hosts: Vec<Host>,
    /// Number of refusals sent to addresses without a host.
    pub(crate) to_nowhere: u64,
}

impl World {
    pub(crate) fn new(count: u8, config: &EndpointConfig, link: &LinkConfig, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let host = |n: u8| Host {
            address: SocketAddr::from(([10, 0, 0, n + 1], Endpoint::UDP_PORT)),
            endpoint: Endpoint::new(config.clone(), rng.fork()),
            cm: Manager::default(),
            queues: Queues::default(),
            heard: BTreeMap::new(),
            link: Link::new(link.clone(), rng.next_u64()),
            in_flight: BTreeMap::new(),
        };
        Self { now: Instant::ZERO, hosts: (0..count).map(host).collect(), to_nowhere: 0 }
    }

    pub(crate) fn inject(&mut self, to: usize, from: SocketAddr, datagram: &[u8], ecn: Ecn) {
        let host = &mut self.hosts[to];
        host.endpoint.handle_datagram(self.now, &mut host.cm, from, datagram, ecn).unwrap();
    }

    pub(crate) fn settle(&mut self) {
        for n in 0..self.hosts.len() {
            while let Some((tagged, ecn)) = self.hosts[n].link.deliver(self.now) {
                let (tag, packet) = tagged.split_at(8);
                let from = self.hosts[n].in_flight[&u64::from_be_bytes(tag.try_into().unwrap())];
                self.inject(n, from, packet, ecn);
            }
        }
        for n in 0..self.hosts.len() {
            let host = &mut self.hosts[n];
            host.cm.handle_timeout(self.now);
            host.endpoint.handle_timeout(self.now, &mut host.cm).unwrap();
            self.send_from(n);
            self.hosts[n].hear();
        }
    }

    fn send_from(&mut self, n: usize) {
        let mut packet = Vec::new();
        loop {
            let host = &mut self.hosts[n];
            while let Some(flow) = host.cm.poll_granted() {
                assert!(host.endpoint.granted(flow), "a flow of nobody's");
            }
            let sent = host.endpoint.poll_transmit(self.now, &mut host.cm, &mut host.queues, &mut packet).unwrap();
            let Some(outgoing) = sent else { return };
            if let (Some(id), Some(adu)) = (outgoing.connection, outgoing.transmit.adu) {
                host.queues.source(id).sent(adu.token);
            }
            let from = host.address;
            match self.hosts.iter_mut().find(|host| host.address == outgoing.to) {
                Some(to) => {
                    let tag = to.link.sent;
                    to.in_flight.insert(tag, from);
                    let mut tagged = tag.to_be_bytes().to_vec();
                    tagged.extend_from_slice(&packet);
                    to.link.send(self.now, &tagged, outgoing.transmit.ecn);
                }
                None => self.to_nowhere += 1,
            }
            packet.clear();
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let mut next: Vec<Instant> = Vec::new();
        for host in &mut self.hosts {
            next.extend(host.link.next());
            next.extend(host.endpoint.poll_timeout().unwrap());
            next.extend(host.cm.poll_timeout());
        }
        next.into_iter().min()
    }

    pub(crate) fn run_until(&mut self, limit: Duration, done: impl FnMut(&Self) -> bool) -> bool {
        run_until(self, limit, done, (|world| &mut world.now, Self::settle, Self::next))
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }
}
