//! Kernel TCP as cross traffic: Reno, with segments as large as the other transports' packets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpCongestion, TcpMaxSeg};
use rustix::net::{AddressFamily, SocketType, connect, socket};

use super::super::setup::SIZE;
use super::network::{RIGHT, TestNetwork};
use crate::experiment::LabError;

/// Bytes of the timestamps option in each segment (RFC 7323): the kernel counts it towards the
/// maximum segment size.
const TIMESTAMPS: u32 = 12;
/// Socket timeout, after which a thread checks whether to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);
/// Longest wait for the rest of a stream after the sender has ended.
const REST: std::time::Duration = std::time::Duration::from_secs(20);

/// Opens a TCP connection from left to right, with Reno at its sender.
pub(super) fn pair(network: &TestNetwork, port: u16) -> Result<(TcpStream, TcpStream), LabError> {
    let address: SocketAddr = format!("{RIGHT}:{port}").parse().expect("an address and a port");
    let failed = LabError::system;
    let listener = network.at_right(|| TcpListener::bind(address))?.map_err(failed("listen in a namespace"))?;
    let sending = network.at_left(|| reno(address))?.map_err(failed("connect across the link"))?;
    let (receiving, _) = listener.accept().map_err(failed("accept across the link"))?;
    receiving.set_read_timeout(Some(REST)).map_err(failed("set a socket's patience"))?;
    Ok((sending, receiving))
}

fn reno(address: SocketAddr) -> io::Result<TcpStream> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    setsockopt(&fd, TcpCongestion, &"reno".into())?;
    setsockopt(&fd, TcpMaxSeg, &(SIZE as u32 + TIMESTAMPS))?;
    connect(&fd, &address)?;
    let stream = TcpStream::from(fd);
    // Each packet of the application becomes a segment.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Runs a long competing flow, which sends greedily until `stop`.
pub(super) fn long_flow(network: &TestNetwork, port: u16, stop: &AtomicBool) -> Result<(), LabError> {
    let (sending, receiving) = pair(network, port)?;
    sending.set_write_timeout(Some(LOOK)).map_err(LabError::system("set a socket's patience"))?;
    thread::scope(|scope| {
        scope.spawn(|| drain(&receiving));
        let block = [0; 16 * 1024];
        while !stop.load(Ordering::Relaxed) {
            match (&sending).write(&block) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(LabError::system("send over the long flow")(error)),
            }
        }
        // Data still in flight is not needed.
        let _ = receiving.shutdown(Shutdown::Both);
        Ok(())
    })
}

fn drain(mut receiving: &TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while matches!(receiving.read(&mut buffer), Ok(1..)) {}
}
