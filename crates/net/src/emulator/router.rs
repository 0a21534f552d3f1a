//! The link as a wire between two network namespaces: forwards IPv4 packets between TUN devices.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use timeous_core::Instant;

use super::contract::Emulator;
use super::end::{CaptureFile, Clock};
use super::error::EmulatorError;
pub use super::interface::Ipv4Interface;
use super::ipv4::Ipv4Packet;
use super::namespace::Namespace;
use super::pump::{Ended, Ends, Pump, Snapshot};
use super::stop::Stop;
use super::tun::Tun;
use crate::capture::Interface;
use crate::link::{LinkConfig, Verdict};
use crate::path::{Direction, Path};

/// Default device name in both namespaces.
const DEVICE: &str = "timeous0";
/// Maximum number of packets read from a device before the other gets its turn. Chosen by us: a higher value delays the
/// other direction.
const BATCH: usize = 64;
/// Size of the read buffer, in bytes: the greatest IP packet (16-bit length, RFC 791 §3.1).
const BUFFER: usize = 1 << 16;

/// One end of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndConfig {
    /// Namespace of this end; created if it does not exist.
    pub namespace: String,
    /// Name of its device, unique among the wires that end in the namespace.
    pub device: String,
    /// Address of its device.
    pub address: Ipv4Interface,
}

/// Settings of a router.
#[derive(Debug)]
pub struct RouterConfig {
    /// The end where [`Direction::Forward`] begins.
    pub left: EndConfig,
    /// The other end.
    pub right: EndConfig,
    /// MTU: largest IP packet in bytes.
    pub mtu: u16,
    /// The link from left to right.
    pub forward: LinkConfig,
    /// The link from right to left.
    pub back: LinkConfig,
    /// Seed of the links' random generators.
    pub seed: u64,
    /// Capture of the traffic.
    pub capture: Option<CaptureFile>,
}

impl RouterConfig {
    /// Settings with 10.77.0.1/24 in `left` and 10.77.0.2/24 in `right`, and an unlimited path between them.
    pub fn new(left: &str, right: &str) -> Self {
        let end = |namespace: &str, host| EndConfig {
            namespace: namespace.to_owned(),
            device: DEVICE.to_owned(),
            address: Ipv4Interface { address: Ipv4Addr::new(10, 77, 0, host), prefix: 24 },
        };
        let (forward, back) = Default::default();
        Self { left: end(left, 1), right: end(right, 2), mtu: 1_500, forward, back, seed: 0, capture: None }
    }
}

/// Packets that a router did not put on its links, or could not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RouterCounters {
    /// Packets other than IPv4.
    pub ignored: u64,
    /// Packets that passed the link but were refused by the device at the far end.
    pub undeliverable: u64,
}

/// A wire between two network namespaces, with one link per direction. A packet's length on the link is that of the IP
/// packet. Devices, and namespaces that it created, are removed with it or with the process.
#[derive(Debug)]
pub struct Router {
    pump: Pump<RouterEnds>,
}

impl Router {
    /// Creates namespaces and devices. Needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, and the `ip` tool.
    pub fn open(config: RouterConfig) -> Result<Self, EmulatorError> {
        let RouterConfig { left, right, mtu, forward, back, seed, capture } = config;
        if left.namespace == right.namespace {
            return Err(EmulatorError::OneNamespace { name: left.namespace });
        }
        let ends = RouterEnds {
            ends: [End::open(&left, mtu)?, End::open(&right, mtu)?],
            capture,
            counters: RouterCounters::default(),
            buffer: vec![0; BUFFER].into(),
        };
        Ok(Self { pump: Pump::new(ends, forward, back, seed) })
    }

    /// Namespace where a direction begins.
    pub fn namespace(&self, direction: Direction) -> &Namespace {
        &self.pump.ends.ends[direction as usize].namespace
    }

    /// Counters of packets that no link counts.
    pub fn counters(&self) -> &RouterCounters {
        &self.pump.ends.counters
    }
}

impl Emulator for Router {
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
        let RouterCounters { ignored, undeliverable } = self.pump.ends.counters;
        ignored + undeliverable
    }

    fn flush(&mut self) -> Result<(), EmulatorError> {
        self.pump.ends.capture.as_mut().map_or(Ok(()), |capture| Ok(capture.flush()?))
    }
}

#[derive(Debug)]
struct End {
    tun: Tun,
    /// Declared after the device, which must be dropped first.
    namespace: Namespace,
}

impl End {
    fn open(config: &EndConfig, mtu: u16) -> Result<Self, EmulatorError> {
        let namespace = Namespace::open_or_make(&config.namespace)?;
        let tun = Tun::open_in(&namespace, &config.device, config.address, mtu)?;
        Ok(Self { tun, namespace })
    }
}

struct RouterEnds {
    /// Left and right end: those where each [`Direction`] begins.
    ends: [End; 2],
    capture: Option<CaptureFile>,
    counters: RouterCounters,
    buffer: Box<[u8]>,
}

impl std::fmt::Debug for RouterEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterEnds").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Ends for RouterEnds {
    type Packet = Ipv4Packet;

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.ends.iter().map(|end| end.tun.as_fd()).collect()
    }

    fn receive(&mut self, index: usize, clock: &Clock, path: &mut Path<Ipv4Packet>) -> Result<(), EmulatorError> {
        for _ in 0..BATCH {
            let Some(packet) = self.ends[index].tun.read(&mut self.buffer)? else { break };
            let Some(packet) = Ipv4Packet::new(packet) else {
                self.counters.ignored += 1;
                continue;
            };
            let now = clock.now();
            let verdict = path.handle_packet(now, Direction::ALL[index], packet.len(), packet.clone());
            if let Some(capture) = &mut self.capture {
                let comment = match verdict {
                    Verdict::Queued => None,
                    Verdict::Dropped(cause) => Some(cause.as_str()),
                };
                capture.ip(Interface::Ingress, clock.since_1970(now), &packet, comment)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, direction: Direction, packet: Ipv4Packet, clock: &Clock) -> Result<(), EmulatorError> {
        let far = match direction {
            Direction::Forward => &self.ends[1],
            Direction::Back => &self.ends[0],
        };
        if !far.tun.write(&packet) {
            self.counters.undeliverable += 1;
        } else if let Some(capture) = &mut self.capture {
            capture.ip(Interface::Egress, clock.since_1970(clock.now()), &packet, None)?;
        }
        Ok(())
    }
}
