//! Middlebox on a real path: a thread that alters packets between the sender's own namespace and
//! the left one.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use etherparse::{IpNumber, Ipv4Header, Ipv4Slice};
use rustix::event::{PollFd, PollFlags, poll};
use timeous::core::{Duration, Ecn, Instant};
use timeous_engine::clock;
use timeous_host::{Middlebox, MiddleboxBehaviour};
use timeous_net::emulator::{EmulatorError, Ipv4Interface, Namespace, Tun};
use timeous_net::sim::{Host, Packet, Protocol};
use timeous_testbed::machine::{machine, timespec};
use timeous_testbed::network::{SYSCTLS, TestNetwork};

use crate::experiment::RunError;

/// Address of the sender, and of the left namespace on the link to it.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
const MIDDLE: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const PREFIX: u8 = 24;
const MTU: u16 = 1_500;
/// MTU behind the middlebox, which may merge two segments into one.
pub(super) const WIDE: u16 = 3_000;
const TTL: u8 = 64;
/// Interval between checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// Running middlebox.
pub(super) struct MiddleboxThread {
    /// Namespace of the sender.
    pub(super) host: Namespace,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), EmulatorError>>,
}

impl MiddleboxThread {
    /// Puts a middlebox before the left namespace, with a host behind it.
    pub(super) fn lay(
        name: &str,
        network: &TestNetwork,
        control: &str,
        behaviour: MiddleboxBehaviour,
    ) -> Result<Self, RunError> {
        let host = Namespace::open_or_make(&format!("timeous-{name}-{}h", std::process::id())).map_err(machine)?;
        let open = |namespace: &Namespace, address, mtu| {
            Tun::open_in(namespace, "timeous2", Ipv4Interface { address, prefix: PREFIX }, mtu).map_err(machine)
        };
        let (inner, outer) = (open(&host, HOST, MTU)?, open(&network.left, MIDDLE, WIDE)?);
        let middle = MIDDLE.to_string();
        host.ip(&["route", "add", "10.77.0.0/24", "via", &middle, "congctl", control]).map_err(machine)?;
        network.pass_on(HOST)?;
        for (variable, value) in SYSCTLS {
            host.set_sysctl(variable, value).map_err(machine)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || carry(inner, &outer, behaviour, &ends));
        Ok(Self { host, stop, thread })
    }

    /// Removes it.
    pub(super) fn end(self) -> Result<(), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the middlebox does not panic").map_err(machine)
    }
}

/// Carries packets both ways until `stop`.
fn carry(inner: Tun, outer: &Tun, behaviour: MiddleboxBehaviour, stop: &AtomicBool) -> Result<(), EmulatorError> {
    let mut middlebox = Middlebox::new(KernelEndpoint { tun: inner, leaving: VecDeque::new() }, behaviour);
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        while let Some(bytes) = middlebox.host().tun.read(&mut buffer)? {
            let packet = parse(bytes);
            middlebox.host_mut().leaving.extend(packet);
            idle = false;
        }
        while let Some(bytes) = outer.read(&mut buffer)? {
            if let Some(packet) = parse(bytes) {
                middlebox.handle_packet(clock::now(), packet);
            }
            idle = false;
        }
        while let Some(packet) = middlebox.poll_transmit(clock::now()) {
            outer.write(&build(&packet));
            idle = false;
        }
        if idle {
            let until = middlebox.poll_timeout().unwrap_or(Instant::FAR_FUTURE).min(clock::now() + LOOK);
            let timeout = timespec(until.saturating_since(clock::now()));
            let wanted = |tun| PollFd::from_borrowed_fd(tun, PollFlags::IN);
            // An interrupted poll is harmless: the loop checks again.
            let _ = poll(&mut [wanted(middlebox.host().tun.as_fd()), wanted(outer.as_fd())], Some(&timeout));
        }
    }
    Ok(())
}

/// Kernel behind the middlebox.
struct KernelEndpoint {
    tun: Tun,
    leaving: VecDeque<Packet>,
}

impl Host for KernelEndpoint {
    fn handle_packet(&mut self, _: Instant, packet: Packet) {
        self.tun.write(&build(&packet));
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant) -> Option<Packet> {
        self.leaving.pop_front()
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }
}

/// Parses a packet of TCP over IPv4; no other packets are sent here.
fn parse(bytes: &[u8]) -> Option<Packet> {
    let ip = Ipv4Slice::from_slice(bytes).ok().filter(|ip| ip.header().protocol() == IpNumber::TCP)?;
    let segment = ip.payload().payload;
    let port = |at: usize| Some(u16::from_be_bytes([*segment.get(at)?, *segment.get(at + 1)?]));
    let from = SocketAddr::new(IpAddr::V4(ip.header().source_addr()), port(0)?);
    let to = SocketAddr::new(IpAddr::V4(ip.header().destination_addr()), port(2)?);
    Some(Packet::new(Protocol::Tcp, from, to, Ecn::NotEct, segment.to_vec()))
}

fn build(packet: &Packet) -> Vec<u8> {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("nothing but IPv4 was taken in"),
    };
    let len = u16::try_from(packet.payload.len()).expect("a packet is not longer than two of them");
    let header = Ipv4Header::new(len, TTL, IpNumber::TCP, octets(packet.source), octets(packet.destination));
    let mut header = header.expect("a packet is not longer than two of them");
    header.dont_fragment = true;
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = Vec::with_capacity(Ipv4Header::MIN_LEN + packet.payload.len());
    header.write(&mut bytes).expect("memory takes all");
    bytes.extend_from_slice(&packet.payload);
    bytes
}
