//! UDP: a datagram is sent as soon as it is handed over, without congestion control.

use std::any::Any;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_cm::Manager;
use timeous_core::{AduMeta, AduSeq, Ecn, Instant};
use timeous_net::sim::{Packet, Protocol};
use timeous_ring::Producer;

use crate::agent::Agent;
use crate::application::{Application, Outlet, Refused, Sink};
use crate::journal::{Arrivals, Journal};

/// Maximum UDP payload over IPv4, in bytes.
const MAX_PAYLOAD: usize = 65_507;

/// A UDP socket with an application.
pub struct Udp {
    local: SocketAddr,
    remote: Option<SocketAddr>,
    application: Box<dyn Application>,
    /// Datagrams handed over at this instant, not yet given to the network.
    leaving: VecDeque<(AduSeq, Vec<u8>)>,
    journal: Journal,
    arrivals: Arrivals,
    /// Something has happened since the application was last run.
    stirred: bool,
    finished: bool,
}

impl Udp {
    /// Creates a socket that sends to `remote`.
    pub fn sender(remote: SocketAddr, application: impl Application) -> Self {
        Self::new(Some(remote), application)
    }

    /// Creates a socket that records what arrives.
    pub fn sink() -> Self {
        Self::new(None, Sink)
    }

    fn new(remote: Option<SocketAddr>, application: impl Application) -> Self {
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            remote,
            application: Box::new(application),
            leaving: VecDeque::new(),
            journal: Journal::default(),
            arrivals: Arrivals::default(),
            stirred: true,
            finished: false,
        }
    }

    /// Returns the records of sent datagrams.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the records of received datagrams.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Returns the application, by its type; `None` if it is of another type.
    pub fn application<A: Application>(&self) -> Option<&A> {
        let application: &dyn Any = &*self.application;
        application.downcast_ref()
    }

    fn run(&mut self, now: Instant) {
        let due = self.application.poll_timeout().is_some_and(|at| at <= now);
        if self.remote.is_some() && !self.finished && (due || self.stirred) {
            self.stirred = false;
            let Self { application, leaving, journal, finished, .. } = self;
            application.run(now, &mut UdpOutlet { leaving, journal, finished });
        }
    }
}

impl Agent for Udp {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, _: &mut Manager, packet: &Packet) {
        self.arrivals.datagram(now, &packet.payload);
        self.application.on_received(now, &packet.payload);
        self.stirred = true;
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Manager) {}

    fn poll_transmit(&mut self, now: Instant, _: &mut Manager) -> Option<Packet> {
        self.run(now);
        let remote = self.remote?;
        let (seq, payload) = self.leaving.pop_front()?;
        self.journal.left(now, seq);
        self.stirred = true;
        Some(Packet::new(Protocol::Udp, self.local, remote, Ecn::NotEct, payload))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.finished || self.remote.is_none() { None } else { self.application.poll_timeout() }
    }
}

struct UdpOutlet<'a> {
    leaving: &'a mut VecDeque<(AduSeq, Vec<u8>)>,
    journal: &'a mut Journal,
    finished: &'a mut bool,
}

impl Outlet for UdpOutlet<'_> {
    fn next_seq(&self) -> AduSeq {
        self.journal.next_seq()
    }

    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        if bytes.len() > MAX_PAYLOAD {
            return Err(Refused::TooLarge { len: bytes.len(), max: MAX_PAYLOAD });
        }
        let meta = AduMeta { seq: self.next_seq(), ..meta };
        self.journal.offered(meta, bytes.len());
        self.leaving.push_back((meta.seq, bytes.to_vec()));
        Ok(meta.seq)
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        None
    }

    fn finish(&mut self) {
        *self.finished = true;
    }
}
