//! A host on a TUN device: our own TCP over real IPv4, beside the kernel's.

mod error;
mod packet;
mod streams;

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use timeous_cm::{Controller, Manager, NewReno};
use timeous_core::{AduSource, Instant, Rng};
use timeous_engine::clock;
use timeous_net::emulator::{Ipv4Interface, Namespace, Tun};
use timeous_tcp::{Endpoint, EndpointConfig};

use crate::machine::timespec;

pub use error::TunError;
use packet::{Arrival, Writer};
use streams::Streams;
pub use streams::Unknown;
pub use timeous_tcp::{
    CloseReason, Config as TcpConfig, ConnectionId, EcnMode, Event, Sending, Statistics as TcpStatistics,
};

/// Length of the IP and TCP headers without options, in bytes (RFC 791 §3.1, RFC 9293 §3.1).
const HEADERS: u16 = 40;
/// Maximum packet length, in bytes: the greatest of a 16-bit length (RFC 791 §3.1).
const BUFFER: usize = 1 << 16;

/// Settings of a host on a TUN device.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Name of the device.
    pub device: String,
    /// The kernel's address on the device, with the network.
    pub kernel: Ipv4Interface,
    /// The host's address, in the same network.
    pub address: Ipv4Addr,
    /// MTU in bytes. The segments of `tcp` are cut to fit.
    pub mtu: u16,
    /// Settings of its connections.
    pub tcp: TcpConfig,
    /// Capacity of a connection's send buffer, in bytes.
    pub send_buffer: usize,
    /// Congestion controller of its connections.
    pub controller: fn(u64) -> Box<dyn Controller>,
}

impl TunConfig {
    /// Returns the defaults: 10.78.0.2 on a device `timeous1`, where the kernel is 10.78.0.1/24; Ethernet's MTU, NewReno for streams that
    /// pause.
    pub fn new() -> Self {
        let network = [10, 78, 0];
        let host = |number| Ipv4Addr::new(network[0], network[1], network[2], number);
        Self {
            device: "timeous1".to_owned(),
            kernel: Ipv4Interface { address: host(1), prefix: 24 },
            address: host(2),
            mtu: 1_500,
            tcp: TcpConfig::default(),
            send_buffer: 256 << 10,
            controller: |mtu| Box::new(NewReno::new(mtu).for_streams_that_pause()),
        }
    }
}

impl Default for TunConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// A host on a TUN device: its own address, and our TCP. Its owner drives it by [`wait`](Self::wait).
///
/// Writes, reads and closes take effect at the next call of `wait`.
pub struct TunHost {
    tun: Tun,
    address: Ipv4Addr,
    endpoint: Endpoint,
    cm: Manager,
    streams: Streams,
    writer: Writer,
    buffer: Box<[u8]>,
}

impl TunHost {
    /// Creates the device in `namespace`. `rng` makes ports and sequence numbers unguessable: seed it from the system.
    ///
    /// # Errors
    /// [`TunError`] if this needs rights that the process lacks (root, or CAP_NET_ADMIN and CAP_SYS_ADMIN), or the
    /// kernel refuses.
    pub fn open(namespace: &Namespace, config: TunConfig, rng: Rng) -> Result<Self, TunError> {
        let TunConfig { device, kernel, address, mtu, mut tcp, send_buffer, controller } = config;
        let tun = Tun::open_in(namespace, &device, kernel, mtu)?;
        tcp.mss = tcp.mss.min(mtu.saturating_sub(HEADERS));
        Ok(Self {
            tun,
            address,
            endpoint: Endpoint::new(EndpointConfig { connection: tcp, ..EndpointConfig::default() }, rng),
            cm: Manager::new(controller),
            streams: Streams::new(send_buffer),
            writer: Writer::default(),
            buffer: vec![0; BUFFER].into(),
        })
    }

    /// Accepts connections to `port`.
    pub fn listen(&mut self, port: u16) {
        self.endpoint.listen(port);
    }

    /// Connects to `remote`. Success is reported by [`Event::Connected`].
    ///
    /// # Errors
    /// [`TunError::Connect`] if there are too many connections.
    pub fn connect(&mut self, remote: SocketAddrV4) -> Result<ConnectionId, TunError> {
        let id = self.endpoint.connect(clock::now(), self.address.into(), remote.into())?;
        self.streams.add(id);
        Ok(id)
    }

    /// Connects to `remote`, and sends ADUs pulled from `source` at each instant of sending instead of written bytes. Call
    /// [`wake`](Self::wake) after filling the source.
    ///
    /// # Errors
    /// As [`connect`](Self::connect)'s.
    pub fn connect_from(
        &mut self,
        remote: SocketAddrV4,
        source: Box<dyn AduSource + Send>,
    ) -> Result<ConnectionId, TunError> {
        let id = self.endpoint.connect(clock::now(), self.address.into(), remote.into())?;
        self.streams.add_source(id, source);
        Ok(id)
    }

    /// Notifies the connection that its source has data.
    pub fn wake(&mut self, id: ConnectionId) {
        self.endpoint.wake(id);
    }

    /// Queues as much of `bytes` as there is room for, and returns the number of bytes.
    ///
    /// # Errors
    /// [`Unknown`] if the connection is not there (any more).
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, Unknown> {
        let written = self.streams.write(id, bytes)?;
        self.endpoint.wake(id);
        Ok(written)
    }

    /// Appends all readable bytes to `out`, and returns their number.
    pub fn read(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> usize {
        self.endpoint.read(id, out)
    }

    /// Closes the sending side once queued data was sent. No effect on an ended connection.
    pub fn close(&mut self, id: ConnectionId) {
        // Fails only for an ended connection.
        let _ended = self.endpoint.close(clock::now(), id);
    }

    /// Returns the counters of a connection, while it exists.
    pub fn statistics(&self, id: ConnectionId) -> Option<TcpStatistics> {
        self.endpoint.connection(id).map(|connection| *connection.statistics())
    }

    /// Processes packets until an event occurs, or until `until`: then returns `None`.
    ///
    /// # Errors
    /// [`TunError`] if the device fails.
    pub fn wait(&mut self, until: Instant) -> Result<Option<(ConnectionId, Event)>, TunError> {
        loop {
            let now = clock::now();
            self.cm.handle_timeout(now);
            self.endpoint.handle_timeout(now, &mut self.cm)?;
            self.drain(now)?;
            if let Some((id, event)) = self.endpoint.poll_event() {
                self.streams.heard(id, &event);
                return Ok(Some((id, event)));
            }
            if self.receive()? {
                continue;
            }
            if now >= until {
                return Ok(None);
            }
            let due = self.endpoint.poll_timeout()?.into_iter().chain(self.cm.poll_timeout()).min();
            self.sleep(due.unwrap_or(until).min(until))?;
        }
    }

    /// Processes one packet, so that each is answered as if it had come alone; returns whether there was one.
    fn receive(&mut self) -> Result<bool, TunError> {
        let Some(bytes) = self.tun.read(&mut self.buffer)? else { return Ok(false) };
        let arrival = Arrival::parse(bytes).filter(|arrival| arrival.destination == self.address);
        if let Some(Arrival { source, destination, ecn, segment }) = arrival {
            let (from, to): (IpAddr, IpAddr) = (source.into(), destination.into());
            self.endpoint.handle_segment(clock::now(), &mut self.cm, from, to, segment, ecn)?;
        }
        Ok(true)
    }

    /// Sends all segments that may be sent.
    fn drain(&mut self, now: Instant) -> Result<(), TunError> {
        let mut segment = Vec::new();
        loop {
            while let Some(flow) = self.cm.poll_granted() {
                self.endpoint.granted(flow);
            }
            let outgoing = self.endpoint.poll_transmit(now, &mut self.cm, &mut self.streams, &mut segment)?;
            let Some(outgoing) = outgoing else { return Ok(()) };
            // A packet that the kernel refuses is lost on the path.
            if let Some(packet) = self.writer.packet(&outgoing, &segment) {
                self.tun.write(packet);
            }
            segment.clear();
            self.streams.sent(&outgoing);
        }
    }

    fn sleep(&self, until: Instant) -> Result<(), TunError> {
        let timeout = timespec(until - clock::now());
        match poll(&mut [PollFd::new(&self.tun, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(TunError::Wait(errno.into())),
        }
    }
}
