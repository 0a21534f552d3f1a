//! Two network namespaces of this machine, joined by the emulated link, which runs in a thread of
//! its own.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use tempfile::NamedTempFile;
use timeous_net::capture::Capture;
use timeous_net::emulator::{Namespace, RouterConfig};
use timeous_testbed::machine::{Call, RunningLink, drain, machine, send_until};

use super::super::setup::{self, SIZE};
use crate::experiment::RunError;

/// Address of the far end.
pub(super) const RIGHT: &str = "10.77.0.2";
/// Address of the router between the left namespace and the link.
const MIDDLE: &str = "10.78.0.2";
/// MTU for the largest packet of any of the transports: the same payload fits into each.
const MTU: u16 = setup::SIZE as u16 + 100;

/// Link with a namespace at either end.
pub(super) struct TestNetwork {
    /// Sending namespace.
    pub(super) left: Namespace,
    /// Receiving namespace.
    pub(super) right: Namespace,
    capture: NamedTempFile,
    wires: Vec<RunningLink>,
}

impl TestNetwork {
    /// Builds the bed, with an access link before the link if that is `shared`. `name`
    /// distinguishes it from other beds of this process.
    pub(super) fn make(name: &str, seed: u64, shared: bool) -> Result<Self, RunError> {
        let [left, middle, right] = ["l", "m", "r"].map(|at| format!("timeous-{name}-{}{at}", std::process::id()));
        let open = |name: &str| Namespace::open_or_make(name).map_err(machine);
        let capture = NamedTempFile::new().map_err(RunError::system("make a file for a capture"))?;
        let mut link = RouterConfig::new(if shared { &middle } else { &left }, &right);
        link.mtu = MTU;
        link.seed = seed;
        (link.forward, link.back) = setup::links();
        link.capture = Some(Capture::create(capture.path()).map_err(machine)?);
        let mut wires = vec![RunningLink::start(link)?];
        if shared {
            wires.push(RunningLink::start(way_to_the_link(&left, &middle, seed))?);
            let middle = open(&middle)?;
            middle.set_sysctl("net/ipv4/ip_forward", "1").map_err(machine)?;
            open(&left)?.ip(&["route", "add", "10.77.0.0/24", "via", MIDDLE]).map_err(machine)?;
            open(&right)?.ip(&["route", "add", "10.78.0.0/24", "via", "10.77.0.1"]).map_err(machine)?;
        }
        Ok(Self { left: open(&left)?, right: open(&right)?, capture, wires })
    }

    /// Removes the link, and returns its capture.
    pub(super) fn end(self) -> Result<NamedTempFile, RunError> {
        // Removed in reverse order: the first link created the middle namespace and deletes it.
        self.wires.into_iter().rev().try_for_each(|wire| wire.end().map(drop))?;
        Ok(self.capture)
    }
}

/// Returns the access link from the left to a router before the shared link.
fn way_to_the_link(left: &str, middle: &str, seed: u64) -> RouterConfig {
    let mut way = RouterConfig::new(left, middle);
    way.mtu = MTU;
    // Its random sequence differs from the link's.
    way.seed = seed ^ (1 << 63);
    (way.left.address.address, way.right.address.address) = ([10, 78, 0, 1].into(), [10, 78, 0, 2].into());
    way.right.device = "timeous1".to_owned();
    (way.forward, way.back) = (setup::access(), setup::access());
    way
}

/// Bytes of the timestamps option in each segment (RFC 7323): the kernel counts it towards the
/// maximum segment size.
const TIMESTAMPS: u32 = 12;
/// Longest wait for the rest of a stream after the sender has ended.
const REST: std::time::Duration = std::time::Duration::from_secs(20);

/// Opens a TCP connection from left to right, with Reno at its sender.
pub(super) fn pair(network: &TestNetwork, port: u16) -> Result<(TcpStream, TcpStream), RunError> {
    let address: SocketAddr = format!("{RIGHT}:{port}").parse().expect("an address and a port");
    let call = Call { congestion_control: "reno", segment: Some(SIZE as u32 + TIMESTAMPS), nodelay: true };
    let (sending, receiving) = call.open(&network.left, &network.right, address)?;
    receiving.set_read_timeout(Some(REST)).map_err(RunError::system("set a socket's patience"))?;
    Ok((sending, receiving))
}

/// Runs a long competing flow, which sends greedily until `stop`.
pub(super) fn long_flow(network: &TestNetwork, port: u16, stop: &AtomicBool) -> Result<(), RunError> {
    let (sending, receiving) = pair(network, port)?;
    thread::scope(|scope| {
        scope.spawn(|| drain(&receiving, &AtomicU64::new(0)));
        send_until(&sending, &receiving, stop).map_err(RunError::system("send over the long flow"))
    })
}
