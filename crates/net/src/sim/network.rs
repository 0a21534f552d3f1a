//! The simulated network: event processing and forwarding of packets.

mod building;
mod watching;

use std::collections::VecDeque;
use std::fmt;

use timeous_core::Instant;

use super::agenda::{Agenda, AlarmId};
use super::host::Host;
use super::journey::Passage;
use super::packet::Packet;
use super::recorder::Recorder;
use super::routes::Routes;
use super::topology::{LinkId, NodeId, Topology};
use crate::link::{DropCause, Link, Verdict};

/// Hop limit of packets: the recommended default TTL (RFC 1700).
const HOP_LIMIT: u8 = 64;
/// Maximum number of events at one time, or packets from a host at once: more indicate an endless loop. Chosen by us:
/// above any simulation's number.
const MAX_EVENTS: u32 = 1 << 22;

/// Counters of packets outside of links; links have [`Counters`](crate::Counters) of their own.
///
/// Without duplication on links, `sent = delivered + unroutable + expired +` packets dropped and lost by links `+`
/// [`Network::under_way`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that reached the host to which they were addressed.
    pub delivered: u64,
    /// Packets to an unknown or unreachable address, and those that a static route led to a wrong host.
    pub unroutable: u64,
    /// Packets that exceeded the hop limit of 64 routers.
    pub expired: u64,
    /// Packet events: each entry of a packet into a link, and each arrival at a node over a link.
    pub events: u64,
}

/// Hosts, routers and links in virtual time. See [`sim`](super) for an example.
pub struct Network<H> {
    now: Instant,
    seed: u64,
    topology: Topology,
    routes: Routes,
    routes_are_old: bool,
    agenda: Agenda,
    /// Target of each alarm in the agenda.
    rings_for: Vec<Target>,
    hosts: Vec<Standing<H>>,
    links: Vec<Line>,
    /// Packets from hosts to themselves, delivered without a link.
    at_home: VecDeque<Packet>,
    at_home_alarm: AlarmId,
    tally: Tally,
    /// Events at the current time.
    at_this_moment: u32,
    recorder: Recorder,
    /// Time of the recorder's next sample.
    sample_due: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Host(u32),
    Link(LinkId),
    AtHome,
}

/// A host with its node and alarm.
struct Standing<H> {
    host: H,
    node: NodeId,
    alarm: AlarmId,
}

/// A link with its far end and alarm.
struct Line {
    link: Link<Packet>,
    to: NodeId,
    alarm: AlarmId,
}

impl<H: Host> Network<H> {
    /// Creates an empty network at [`Instant::ZERO`]. Each link draws its randomness from `seed` and its own number, so
    /// that a further link or recorder does not affect earlier links.
    pub fn new(seed: u64) -> Self {
        let mut agenda = Agenda::default();
        let at_home_alarm = agenda.add();
        Self {
            now: Instant::ZERO,
            seed,
            topology: Topology::default(),
            routes: Routes::default(),
            routes_are_old: true,
            agenda,
            rings_for: vec![Target::AtHome],
            hosts: Vec::new(),
            links: Vec::new(),
            at_home: VecDeque::new(),
            at_home_alarm,
            tally: Tally::default(),
            at_this_moment: 0,
            recorder: Recorder::default(),
            sample_due: Instant::FAR_FUTURE,
        }
    }

    /// Current virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time of the next event; `None`: none is scheduled until an action on a host.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.agenda.next()
    }

    /// Processes all events up to and including `until`, which becomes the current time. [`Instant::FAR_FUTURE`] runs
    /// until there are no more events; the time is then that of the last one.
    pub fn run_until(&mut self, until: Instant) {
        self.run_while(until, |_| true);
    }

    /// Processes events up to and including `until` while `goes_on` agrees, which is asked before each event. Returns
    /// whether it agreed to the end; if not, the time is that of the last event.
    ///
    /// # Panics
    /// If a host breaks its contract: it requests its timeout endlessly at one time, or sends packets without end.
    pub fn run_while(&mut self, until: Instant, mut goes_on: impl FnMut(&Self) -> bool) -> bool {
        self.find_routes();
        while goes_on(self) {
            let Some((at, alarm)) = self.agenda.pop(until) else {
                self.rest_until(until);
                return true;
            };
            self.pass_to(at);
            self.at_this_moment += 1;
            assert!(self.at_this_moment < MAX_EVENTS, "a host asks for its timeout at {at:?} again and again");
            self.ring(alarm);
        }
        false
    }

    fn find_routes(&mut self) {
        if std::mem::take(&mut self.routes_are_old) {
            self.routes.compute(&self.topology);
        }
    }

    fn pass_to(&mut self, at: Instant) {
        if self.sample_due < at {
            self.sample_until(at, false);
        }
        if at > self.now {
            self.now = at;
            self.at_this_moment = 0;
        }
    }

    /// Advances to `until` when no event is left before or at it.
    fn rest_until(&mut self, until: Instant) {
        let end = if until == Instant::FAR_FUTURE { self.now } else { until };
        self.sample_until(end, true);
        self.pass_to(end);
    }

    fn ring(&mut self, alarm: AlarmId) {
        match self.rings_for[alarm as usize] {
            Target::Host(number) => {
                self.hosts[number as usize].host.handle_timeout(self.now);
                self.drain(number);
            }
            Target::Link(link) => self.empty(link),
            Target::AtHome => {
                while let Some(packet) = self.at_home.pop_front() {
                    self.deliver(packet);
                }
            }
        }
    }

    /// Takes delivered packets off a link.
    fn empty(&mut self, id: LinkId) {
        let Line { alarm, to, .. } = self.links[id.index()];
        while let Some((_, packet)) = self.links[id.index()].link.poll_deliver(self.now) {
            self.recorder.left(id, self.now, &packet);
            self.note(packet.id, Passage::Left(id));
            self.arrive(to, packet);
        }
        self.note_late_drops(id);
        self.agenda.set(alarm, self.links[id.index()].link.poll_timeout());
    }

    /// Lets a host send its packets, and updates its alarm.
    fn drain(&mut self, number: u32) {
        for _ in 0..MAX_EVENTS {
            let standing = &mut self.hosts[number as usize];
            let Some(packet) = standing.host.poll_transmit(self.now) else {
                let due = standing.host.poll_timeout().map(|due| due.max(self.now));
                return self.agenda.set(standing.alarm, due);
            };
            self.send(number, packet);
        }
        panic!("a host gives packets without end at {:?}", self.now);
    }

    fn send(&mut self, from: u32, mut packet: Packet) {
        self.tally.sent += 1;
        packet.id = self.tally.sent;
        packet.hops_left = HOP_LIMIT;
        let node = self.hosts[from as usize].node;
        self.note(packet.id, Passage::Sent(node));
        match self.topology.host_at(packet.destination.ip()) {
            Some(host) if host == from => {
                packet.bound_for = host;
                self.at_home.push_back(packet);
                self.agenda.set(self.at_home_alarm, Some(self.now));
            }
            Some(host) => {
                packet.bound_for = host;
                self.forward(node, packet);
            }
            None => self.give_up(packet.id, Passage::Unroutable(node)),
        }
    }

    fn forward(&mut self, node: NodeId, packet: Packet) {
        match self.routes.next(node, packet.bound_for) {
            Some(link) => self.enter(link, packet),
            None => self.give_up(packet.id, Passage::Unroutable(node)),
        }
    }

    fn enter(&mut self, id: LinkId, packet: Packet) {
        self.tally.events += 1;
        self.note(packet.id, Passage::Entered(id));
        self.recorder.see(id, &packet);
        let (number, len) = (packet.id, packet.wire_len());
        let line = &mut self.links[id.index()];
        let verdict = line.link.handle_packet(self.now, len, packet);
        self.agenda.set(line.alarm, line.link.poll_timeout());
        self.note_late_drops(id);
        let dropped = match verdict {
            Verdict::Queued => None,
            Verdict::Dropped(cause) => Some(cause),
        };
        self.recorder.entered(id, self.now, dropped);
        if let Some(cause) = dropped {
            self.note(number, Passage::Dropped(id, cause));
        }
    }

    fn arrive(&mut self, node: NodeId, mut packet: Packet) {
        self.tally.events += 1;
        match self.topology.nodes[node.index()] {
            Some(host) if host == packet.bound_for => self.deliver(packet),
            Some(_) => self.give_up(packet.id, Passage::Unroutable(node)),
            None if packet.hops_left == 0 => self.give_up(packet.id, Passage::Expired(node)),
            None => {
                packet.hops_left -= 1;
                self.forward(node, packet);
            }
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let number = packet.bound_for;
        self.tally.delivered += 1;
        self.note(packet.id, Passage::Delivered(self.hosts[number as usize].node));
        self.hosts[number as usize].host.handle_packet(self.now, packet);
        self.drain(number);
    }

    fn give_up(&mut self, packet: u64, why: Passage) {
        match why {
            Passage::Expired(_) => self.tally.expired += 1,
            _ => self.tally.unroutable += 1,
        }
        self.note(packet, why);
    }

    fn note(&mut self, packet: u64, what: Passage) {
        self.recorder.note(self.now, packet, what);
    }

    /// Records packets that the queue of a link has dropped since the last call.
    fn note_late_drops(&mut self, id: LinkId) {
        while let Some((at, packet)) = self.links[id.index()].link.poll_drop() {
            self.recorder.note_late(at, packet.id, Passage::Dropped(id, DropCause::Early));
        }
    }

    /// Returns the host at a node.
    ///
    /// # Panics
    /// If the node is a router.
    pub fn host(&self, node: NodeId) -> &H {
        &self.hosts[self.host_number(node) as usize].host
    }

    /// Performs an action on a host, now; then lets it send.
    ///
    /// # Panics
    /// If the node is a router.
    pub fn with_host<R>(&mut self, node: NodeId, what: impl FnOnce(Instant, &mut H) -> R) -> R {
        self.find_routes();
        let number = self.host_number(node);
        let result = what(self.now, &mut self.hosts[number as usize].host);
        self.drain(number);
        result
    }

    fn host_number(&self, node: NodeId) -> u32 {
        self.topology.nodes[node.index()].expect("a host is asked for, and a router stands there")
    }

    /// All hosts, in the order of creation.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeId, &H)> {
        self.hosts.iter().map(|standing| (standing.node, &standing.host))
    }

    /// A link: its counters and its queue.
    pub fn link(&self, link: LinkId) -> &Link<Packet> {
        &self.links[link.index()].link
    }

    /// All links, in the order of creation.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link<Packet>)> {
        self.links.iter().enumerate().map(|(number, line)| (LinkId(number as u32), &line.link))
    }

    /// Counters of packets so far, outside of links.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Number of packets in queues and in flight.
    pub fn under_way(&self) -> usize {
        let links = self.links.iter().map(|line| line.link.queue_len() + line.link.in_flight());
        links.sum::<usize>() + self.at_home.len()
    }
}

impl<H> fmt::Debug for Network<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("now", &self.now)
            .field("hosts", &self.hosts.len())
            .field("links", &self.links.len())
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}
