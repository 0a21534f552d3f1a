//! The link as a UDP relay: all clients send to one port; the target sees a separate port for each client.

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

/// Size of a receive buffer, in bytes, at least that of the largest datagram (16-bit length, RFC 768).
const BUFFER: usize = 1 << 16;
/// Buffers filled by one call. Chosen by us: a higher value takes more memory and fewer system calls.
const BATCH: usize = 8;
/// Socket buffer size, in bytes: room for bursts while a capture is written. Chosen by us: a lower value loses packets
/// that the link would carry.
const SOCKET_BUFFER: usize = 4 << 20;
/// Idle time after which a client's place is given to a new one, if no place is free. Chosen by us: a higher value
/// refuses new clients for longer.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Settings of a relay.
#[derive(Debug)]
pub struct RelayConfig {
    /// Address that clients send to.
    pub listen: SocketAddr,
    /// Address of the target, of the same family.
    pub target: SocketAddr,
    /// The link from the clients to the target.
    pub forward: LinkConfig,
    /// The link from the target to the clients.
    pub back: LinkConfig,
    /// Seed of the links' random generators.
    pub seed: u64,
    /// Maximum number of clients; packets of others are rejected and counted.
    pub max_clients: usize,
    /// Capture of the traffic between clients and target, with their addresses, as if the relay were a wire.
    pub capture: Option<CaptureFile>,
}

impl RelayConfig {
    /// Settings of a relay from `listen` to `target` over an unlimited path, for up to 256 clients.
    pub fn new(listen: SocketAddr, target: SocketAddr) -> Self {
        let (forward, back) = Default::default();
        Self { listen, target, forward, back, seed: 0, max_clients: 256, capture: None }
    }
}

/// Packets that a relay did not put on its links, or could not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RelayCounters {
    /// Packets of clients beyond the limit.
    pub refused: u64,
    /// Packets to a client's port from an address other than the target's.
    pub foreign: u64,
    /// Packets that passed the link but were refused by the system, or whose client was gone.
    pub undeliverable: u64,
}

/// A UDP relay with one link per direction. A packet's length on the link includes its headers (28 bytes over IPv4);
/// its ECN field is kept, unless the queue marks it.
#[derive(Debug)]
pub struct Relay {
    pump: Pump<RelayEnds>,
}

impl Relay {
    /// Opens the listening port.
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

    /// Listening address, with the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.pump.ends.listen.address
    }

    /// Number of clients.
    pub fn clients(&self) -> usize {
        self.pump.ends.clients.len()
    }

    /// Counters of packets that no link counts.
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

/// A datagram in flight.
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
    /// Local address that the client sends to, and expects answers from.
    sends_to: Option<IpAddr>,
    port: Port,
    last_heard: Instant,
}

struct RelayEnds {
    listen: Port,
    target: SocketAddr,
    /// Clients by place; the descriptor of `clients[i]` has the index `i + 1`, that of `listen` the index 0.
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
                // Datagrams that the kernel has coalesced (GRO) are separate packets.
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
    /// Finds the client of a packet and its direction; `None` if it is rejected.
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
            // A client for which no socket can be opened is rejected as if there were no place.
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

    /// Finds a place for a new client: a free one, or that of the client that was idle longest.
    fn make_room(&mut self, now: Instant) -> Option<usize> {
        if self.clients.len() < self.max_clients {
            return Some(self.clients.len());
        }
        let quiet = |client: &Client| now - client.last_heard;
        let (place, client) = self.clients.iter().enumerate().max_by_key(|(_, client)| quiet(client))?;
        (quiet(client) >= IDLE_TIME).then_some(place)
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

/// A UDP socket with ECN and receive timestamps.
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
            // quinn-udp 0.6.3 reserves 96 bytes for control messages: with GRO's among them the ECN mark is cut off.
            setsockopt(&socket, UdpGroSegment, &false)?;
            // The system may grant less: then a burst that is not read in time is lost before the link.
            let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
            Ok(Self { address: socket.local_addr()?, socket, state })
        };
        open().map_err(|source| EmulatorError::Bind { address, source })
    }

    /// Receives datagrams; returns the number of buffers filled.
    fn receive(&self, buffers: &mut [[u8; BUFFER]], metas: &mut [RecvMeta]) -> Result<usize, EmulatorError> {
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        match self.state.recv((&self.socket).into(), &mut slices, metas) {
            Ok(count) => Ok(count),
            // No datagram after all, or an earlier one of ours was refused: neither ends the relay.
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
