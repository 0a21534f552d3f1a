//! Hosts with endpoints in virtual time, each with a link.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use timeous_cm::{Manager, NewReno};
use timeous_core::{AduSource, Duration, Ecn, Instant, Rng};
use timeous_tcp::{CloseReason, ConnectionId, Endpoint, EndpointConfig, Event, Segment, Seq, Sources, StreamBuffer};

use crate::clock::run_until;
use crate::link::{Link, LinkConfig};

#[derive(Default)]
pub(crate) struct Queues(BTreeMap<ConnectionId, StreamBuffer>);

impl Queues {
    pub(crate) fn of(&mut self, id: ConnectionId) -> &mut StreamBuffer {
        self.0.entry(id).or_insert_with(|| StreamBuffer::new(1 << 20))
    }
}

impl Sources for Queues {
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource {
        self.of(connection)
    }
}

pub(crate) struct Host {
    pub(crate) address: IpAddr,
    pub(crate) endpoint: Endpoint,
    pub(crate) cm: Manager,
    pub(crate) queues: Queues,
    pub(crate) heard: BTreeMap<ConnectionId, Heard>,
    /// Whether it echoes what it reads, and closes when the peer has finished.
    pub(crate) echoes: bool,
    /// Whether it does not read.
    pub(crate) is_deaf: bool,
    /// Local port of the first segment, and the sequence number after the last one.
    pub(crate) first_local_port: Option<u16>,
    pub(crate) last_seq: Seq,
    /// Link towards this host.
    pub(crate) link: Link,
    in_flight: BTreeMap<u64, IpAddr>,
}

#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) incoming: Option<u16>,
    pub(crate) connected: bool,
    pub(crate) received: Vec<u8>,
    pub(crate) finished: bool,
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    pub(crate) closed: Option<CloseReason>,
}

impl Host {
    fn hear(&mut self, now: Instant) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            let heard = self.heard.entry(id).or_default();
            assert!(heard.closed.is_none(), "{event:?} after the end of {id:?}");
            match event {
                Event::Incoming { port } => heard.incoming = Some(port),
                Event::Connected => heard.connected = true,
                Event::Readable if self.is_deaf => {}
                Event::Readable => {
                    let at = heard.received.len();
                    assert!(self.endpoint.read(id, &mut heard.received) > 0);
                    if self.echoes {
                        let bytes = heard.received[at..].to_vec();
                        assert_eq!(self.queues.of(id).write(&bytes), bytes.len());
                        self.endpoint.wake(id);
                    }
                }
                Event::Acked { .. } => heard.acked += 1,
                Event::Lost { .. } => heard.lost += 1,
                Event::PeerFinished => {
                    heard.finished = true;
                    if self.echoes {
                        self.endpoint.close(now, id).unwrap();
                    }
                }
                Event::Closed { reason } => {
                    heard.closed = Some(reason);
                    self.queues.of(id).close();
                }
                other => unreachable!("{other:?} of a stream of bytes"),
            }
        }
    }

    pub(crate) fn push(&mut self, id: ConnectionId, bytes: &[u8]) {
        assert_eq!(self.queues.of(id).write(bytes), bytes.len());
        self.endpoint.wake(id);
    }
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) hosts: Vec<Host>,
    /// Segments to addresses without a host.
    pub(crate) to_nowhere: Vec<(SocketAddr, Vec<u8>)>,
}

impl World {
    pub(crate) fn new(count: u8, config: &EndpointConfig, link: &LinkConfig, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let host = |n: u8| Host {
            address: IpAddr::from([10, 0, 0, n + 1]),
            endpoint: Endpoint::new(config.clone(), rng.fork()),
            cm: Manager::new(|mtu| Box::new(NewReno::new(mtu))),
            queues: Queues::default(),
            heard: BTreeMap::new(),
            echoes: false,
            is_deaf: false,
            first_local_port: None,
            last_seq: Seq::default(),
            link: Link::new(link.clone(), rng.next_u64()),
            in_flight: BTreeMap::new(),
        };
        Self { now: Instant::ZERO, hosts: (0..count).map(host).collect(), to_nowhere: Vec::new() }
    }

    pub(crate) fn inject(&mut self, to: usize, from: IpAddr, segment: &[u8], ecn: Ecn) {
        let host = &mut self.hosts[to];
        host.endpoint.handle_segment(self.now, &mut host.cm, from, host.address, segment, ecn).unwrap();
    }

    pub(crate) fn settle(&mut self) {
        for n in 0..self.hosts.len() {
            while let Some((tagged, ecn)) = self.hosts[n].link.deliver(self.now) {
                let (tag, segment) = tagged.split_at(8);
                let from = self.hosts[n].in_flight[&u64::from_be_bytes(tag.try_into().unwrap())];
                self.inject(n, from, segment, ecn);
            }
        }
        for n in 0..self.hosts.len() {
            let host = &mut self.hosts[n];
            host.cm.handle_timeout(self.now);
            host.endpoint.handle_timeout(self.now, &mut host.cm).unwrap();
            self.send_from(n);
            self.hosts[n].hear(self.now);
            self.send_from(n);
        }
    }

    fn send_from(&mut self, n: usize) {
        let mut segment = Vec::new();
        loop {
            let host = &mut self.hosts[n];
            while let Some(flow) = host.cm.poll_granted() {
                host.endpoint.granted(flow);
            }
            let sent = host.endpoint.poll_transmit(self.now, &mut host.cm, &mut host.queues, &mut segment).unwrap();
            let Some(outgoing) = sent else { return };
            assert_eq!(outgoing.from.ip(), host.address);
            let from = host.address;
            host.first_local_port.get_or_insert(outgoing.from.port());
            host.last_seq = Segment::parse_trusted(&segment).unwrap().end();
            match self.hosts.iter_mut().find(|host| host.address == outgoing.to.ip()) {
                Some(to) => {
                    let tag = to.link.sent;
                    to.in_flight.insert(tag, from);
                    let mut tagged = tag.to_be_bytes().to_vec();
                    tagged.extend_from_slice(&segment);
                    to.link.send(self.now, &tagged, outgoing.transmit.ecn);
                }
                None => self.to_nowhere.push((outgoing.to, segment.clone())),
            }
            segment.clear();
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
