//! Kernel TCP as cross traffic: Reno, with segments as large as the other transports' packets.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use super::super::setup::SIZE;
use super::network::{RIGHT, TestNetwork};
use crate::experiment::LabError;
use crate::machine::{Call, drain, send_until};

/// Bytes of the timestamps option in each segment (RFC 7323): the kernel counts it towards the
/// maximum segment size.
const TIMESTAMPS: u32 = 12;
/// Longest wait for the rest of a stream after the sender has ended.
const REST: std::time::Duration = std::time::Duration::from_secs(20);

/// Opens a TCP connection from left to right, with Reno at its sender.
pub(super) fn pair(network: &TestNetwork, port: u16) -> Result<(TcpStream, TcpStream), LabError> {
    let address: SocketAddr = format!("{RIGHT}:{port}").parse().expect("an address and a port");
    let call = Call { congestion_control: "reno", segment: Some(SIZE as u32 + TIMESTAMPS), nodelay: true };
    let (sending, receiving) = call.open(&network.left, &network.right, address)?;
    receiving.set_read_timeout(Some(REST)).map_err(LabError::system("set a socket's patience"))?;
    Ok((sending, receiving))
}

/// Runs a long competing flow, which sends greedily until `stop`.
pub(super) fn long_flow(network: &TestNetwork, port: u16, stop: &AtomicBool) -> Result<(), LabError> {
    let (sending, receiving) = pair(network, port)?;
    thread::scope(|scope| {
        scope.spawn(|| drain(&receiving, &AtomicU64::new(0)));
        send_until(&sending, &receiving, stop).map_err(LabError::system("send over the long flow"))
    })
}
