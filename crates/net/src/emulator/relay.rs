//! The link as a UDP relay: clients send to one port, the target hears from one port of each.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGroSegment;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use timeous_core::{Duration, Ecn, Instant};

use super::contract::Emulator;
use super::end::{CaptureFile, Clock};
use super::error::EmulatorError;
use super::pump::{Ended, Ends, Pump, Snapshot};
use super::stop::Stop;
use crate::capture::{Interface, UdpFlow, udp_overhead};
use crate::link::{LinkConfig, Markable, Verdict};
use crate::path::{Direction, Path};

/// At least the largest datagram.
const BUFFER: usize = 1 << 16;
/// Buffers filled in one call.
const BATCH: usize = 8;
/// Room for bursts that come while we write a capture.
const SOCKET_BUFFER: usize = 4 << 20;
/// A client that was quiet for so long gives its place to another, if there is no other place.
const QUIET: Duration = Duration::from_secs(30);

/// What a relay does.
#[derive(Debug)]
pub struct RelayConfig {
    /// Where clients send to.
    pub listen: SocketAddr,
    /// Where it goes; of the same family.
    pub target: SocketAddr,
    /// The link from the clients to the target.
    pub forward: LinkConfig,
    /// The link from the target to the clients.
    pub back: LinkConfig,
    /// Of the links' randomness.
    pub seed: u64,
    /// How many clients there may be; packets of others are refused, and counted.
    pub max_clients: usize,
    /// Where to write down what passes: between client and target, as if the relay were the wire between them.
    pub capture: Option<CaptureFile>,
}

impl RelayConfig {
    /// A relay from `listen` to `target` over a path without limits, of up to 256 clients.
    pub fn new(listen: SocketAddr, target: SocketAddr) -> Self {
        let (forward, back) = Default::default();
        Self { listen, target, forward, back, seed: 0, max_clients: 256, capture: None }
    }
}

/// Packets that a relay did not put on its links, or could not pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RelayCounters {
    /// From clients beyond the bound.
    pub refused: u64,
    /// Came to a client's port from somewhere else than the target.
    pub foreign: u64,
    /// Passed the link, but the system did not take them, or the client was gone.
    pub undeliverable: u64,
}

/// A UDP relay with a link each way. A packet's length on the link is that of its payload and headers (28 bytes over
/// IPv4); its ECN mark is kept, unless the link's queue marks it.
#[derive(Debug)]
pub struct Relay {
    pump: Pump<RelayEnds>,
}

impl Relay {
    /// Opens the port that clients send to.
    pub fn bind(config: RelayConfig) -> Result<Self, EmulatorError> {
        let RelayConfig { listen, target, forward, back, seed, max_clients, capture } = config;
        if listen.is_ipv4() != target.is_ipv4() {
            return Err(EmulatorError::Families { listen, target });
        }
        let ends = RelayEnds {
            listen: Port::bind(listen)?,
            target,
            clients: Vec::new(),
            places: BTreeMap::new(),
            max_clients,
            capture,
            counters: RelayCounters::default(),
            next_ident: 0,
            buffers: vec![[0; BUFFER]; BATCH],
        };
        Ok(Self { pump: Pump::new(ends, forward, back, seed) })
    }

    /// Where clients send to: with the port that the system chose, if it was to.
    pub fn local_addr(&self) -> SocketAddr {
        self.pump.ends.listen.address
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.pump.ends.clients.len()
    }

    /// Packets that are in no link's counters.
    pub fn counters(&self) -> &RelayCounters {
        &self.pump.ends.counters
    }
}

impl Emulator for Relay {
    fn now(&self) -> Instant {
        self.pump.now()
    }

    fn run_until(&mut self, until: Instant, stop: &Stop) -> Result<Ended, EmulatorError> {
        self.pump.run_until(until, stop)
    }

    fn snapshot(&self, direction: Direction) -> Snapshot {
        self.pump.snapshot(direction)
    }

    fn strays(&self) -> u64 {
        let RelayCounters { refused, foreign, undeliverable } = self.pump.ends.counters;
        refused + foreign + undeliverable
    }

    fn flush(&mut self) -> Result<(), EmulatorError> {
        self.pump.ends.capture.as_mut().map_or(Ok(()), |capture| Ok(capture.flush()?))
    }
}

/// One datagram under way.
#[derive(Clone, Debug)]
struct Datagram {
    client: SocketAddr,
    ecn: Option<EcnCodepoint>,
    ident: u16,
    payload: Box<[u8]>,
}

impl Markable for Arc<Datagram> {
    fn ecn(&self) -> Ecn {
        match self.ecn {
            None => Ecn::NotEct,
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
        }
    }

    fn mark(&mut self) {
        Arc::make_mut(self).ecn = Some(EcnCodepoint::Ce);
    }
}

#[derive(Debug)]
struct Client {
    address: SocketAddr,
    /// Which of our addresses it sends to, and so hears from.
    sends_to: Option<IpAddr>,
    port: Port,
    last_heard: Instant,
}

struct RelayEnds {
    listen: Port,
    target: SocketAddr,
    /// The descriptor of the client at `clients[i]` is number `i + 1`, that of `listen` number 0.
    clients: Vec<Client>,
    places: BTreeMap<SocketAddr, usize>,
    max_clients: usize,
    capture: Option<CaptureFile>,
    counters: RelayCounters,
    next_ident: u16,
    buffers: Vec<[u8; BUFFER]>,
}

impl std::fmt::Debug for RelayEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayEnds").field("listen", &self.listen).field("target", &self.target).finish_non_exhaustive()
    }
}

impl Ends for RelayEnds {
    type Packet = Arc<Datagram>;

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let ports = [&self.listen].into_iter().chain(self.clients.iter().map(|client| &client.port));
        ports.map(|port| port.socket.as_fd()).collect()
    }

    fn receive(&mut self, index: usize, clock: &Clock, path: &mut Path<Arc<Datagram>>) -> Result<(), EmulatorError> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut metas = [RecvMeta::default(); BATCH];
        let port = index.checked_sub(1).map_or(&self.listen, |place| &self.clients[place].port);
        let received = port.receive(&mut buffers, &mut metas);
        let result = received.and_then(|count| {
            metas[..count].iter().zip(&buffers).try_for_each(|(meta, buffer)| {
                let Some((direction, client)) = self.admit(index, meta, clock) else { return Ok(()) };
                let at = clock.arrival(meta.timestamp);
                let whole = &buffer[..meta.len];
                // Should the kernel have put several datagrams together, each is a packet of its own.
                let stride = meta.stride.clamp(1, BUFFER);
                let first = &whole[..stride.min(whole.len())];
                [first].into_iter().chain(whole[first.len()..].chunks(stride)).try_for_each(|payload| {
                    let datagram = Datagram { client, ecn: meta.ecn, ident: self.next_ident, payload: payload.into() };
                    self.next_ident = self.next_ident.wrapping_add(1);
                    self.enter(direction, datagram, at, clock, path)
                })
            })
        });
        self.buffers = buffers;
        result
    }

    fn deliver(&mut self, direction: Direction, packet: Arc<Datagram>, clock: &Clock) -> Result<(), EmulatorError> {
        let Some(client) = self.places.get(&packet.client).map(|place| &self.clients[*place]) else {
            self.counters.undeliverable += 1;
            return Ok(());
        };
        let sent = match direction {
            Direction::Forward => client.port.send(self.target, None, &packet),
            Direction::Back => self.listen.send(packet.client, client.sends_to, &packet),
        };
        match sent {
            Ok(()) => self.write_down(Interface::Egress, direction, &packet, clock.now(), clock, None),
            Err(_) => {
                self.counters.undeliverable += 1;
                Ok(())
            }
        }
    }
}

impl RelayEnds {
    /// Whose packet this is and where it goes, if it may go anywhere.
    fn admit(&mut self, index: usize, meta: &RecvMeta, clock: &Clock) -> Option<(Direction, SocketAddr)> {
        if let Some(place) = index.checked_sub(1) {
            if meta.addr == self.target {
                return Some((Direction::Back, self.clients[place].address));
            }
            self.counters.foreign += 1;
            return None;
        }
        let now = clock.now();
        let place = match self.places.get(&meta.addr) {
            Some(place) => *place,
            // Without a descriptor left for it, a client is refused as it is without a place.
            None => match self.make_room(now).and_then(|place| self.welcome(place, meta, now).ok()) {
                Some(place) => place,
                None => {
                    self.counters.refused += 1;
                    return None;
                }
            },
        };
        self.clients[place].last_heard = now;
        Some((Direction::Forward, meta.addr))
    }

    /// The place of a new client: at the end, or that of the one that has been quiet the longest.
    fn make_room(&mut self, now: Instant) -> Option<usize> {
        if self.clients.len() < self.max_clients {
            return Some(self.clients.len());
        }
        let quiet = |client: &Client| now - client.last_heard;
        let (place, client) = self.clients.iter().enumerate().max_by_key(|(_, client)| quiet(client))?;
        (quiet(client) >= QUIET).then_some(place)
    }

    fn welcome(&mut self, place: usize, meta: &RecvMeta, now: Instant) -> Result<usize, EmulatorError> {
        let ip: IpAddr = match self.target.ip() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let port = Port::bind(SocketAddr::new(ip, 0))?;
        let client = Client { address: meta.addr, sends_to: meta.dst_ip, port, last_heard: now };
        if place < self.clients.len() {
            let left = std::mem::replace(&mut self.clients[place], client);
            self.places.remove(&left.address);
        } else {
            self.clients.push(client);
        }
        self.places.insert(meta.addr, place);
        Ok(place)
    }

    fn enter(
        &mut self,
        direction: Direction,
        datagram: Datagram,
        at: Instant,
        clock: &Clock,
        path: &mut Path<Arc<Datagram>>,
    ) -> Result<(), EmulatorError> {
        let len = datagram.payload.len() + udp_overhead(&self.target);
        let datagram = Arc::new(datagram);
        let comment = match path.handle_packet(at, direction, len, Arc::clone(&datagram)) {
            Verdict::Queued => None,
            Verdict::Dropped(cause) => Some(cause.as_str()),
        };
        self.write_down(Interface::Ingress, direction, &datagram, at, clock, comment)
    }

    fn write_down(
        &mut self,
        interface: Interface,
        direction: Direction,
        datagram: &Arc<Datagram>,
        at: Instant,
        clock: &Clock,
        comment: Option<&str>,
    ) -> Result<(), EmulatorError> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let (source, destination) = match direction {
            Direction::Forward => (datagram.client, self.target),
            Direction::Back => (self.target, datagram.client),
        };
        let flow = UdpFlow { source, destination, ecn: datagram.ecn(), ident: datagram.ident };
        Ok(capture.udp(interface, clock.since_1970(at), &flow, &datagram.payload, comment)?)
    }
}

/// A UDP socket with ECN and arrival times.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Port {
    fn bind(address: SocketAddr) -> Result<Self, EmulatorError> {
        let open = || {
            let socket = UdpSocket::bind(address)?;
            let state = UdpSocketState::new((&socket).into())?;
            // quinn-udp 0.6.3 keeps 96 bytes for control messages: with GRO's among them the ECN mark is cut off.
            setsockopt(&socket, UdpGroSegment, &false)?;
            // The system may grant less: then a burst that we do not read in time is lost before the link.
            let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
            Ok(Self { address: socket.local_addr()?, socket, state })
        };
        open().map_err(|source| EmulatorError::Bind { address, source })
    }

    /// Fills buffers; how many.
    fn receive(&self, buffers: &mut [[u8; BUFFER]], metas: &mut [RecvMeta]) -> Result<usize, EmulatorError> {
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        match self.state.recv((&self.socket).into(), &mut slices, metas) {
            Ok(count) => Ok(count),
            // Nothing there after all, or an earlier packet of ours was refused: neither is an end.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => Ok(0),
            Err(error) => Err(EmulatorError::system("receive a datagram")(error)),
        }
    }

    fn send(&self, destination: SocketAddr, src_ip: Option<IpAddr>, datagram: &Datagram) -> io::Result<()> {
        let transmit =
            Transmit { destination, ecn: datagram.ecn, contents: &datagram.payload, segment_size: None, src_ip };
        self.state.try_send((&self.socket).into(), &transmit)
    }
}
