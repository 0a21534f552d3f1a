//! Cross traffic: a kernel TCP flow with CUBIC that sends all it can.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration as StdDuration;

use timeous_net::emulator::Namespace;

use super::sender;
use crate::experiment::LabError;
use crate::experiments::tcp_kernel::network::machine;

/// Socket timeout, after which the end of the run is checked.
const LOOK: StdDuration = StdDuration::from_millis(200);

/// Opens a connection from left to right.
pub(crate) fn connect(left: &Namespace, right: &Namespace, there: SocketAddr) -> Result<[TcpStream; 2], LabError> {
    let failed = LabError::system;
    let listener = right.within(|| TcpListener::bind(there)).map_err(machine)?;
    let listener = listener.map_err(failed("listen in a namespace"))?;
    let sending = left.within(|| sender::call(there, "cubic")).map_err(machine)?;
    let sending = sending.map_err(failed("connect across the link"))?;
    let (receiving, _) = listener.accept().map_err(failed("accept across the link"))?;
    sending.set_write_timeout(Some(LOOK)).map_err(failed("set a socket's patience"))?;
    Ok([sending, receiving])
}

/// Sends until `stop`.
pub(crate) fn send(mut stream: &TcpStream, stop: &AtomicBool) {
    let block = [0; 16 * 1024];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
    // Data still in flight do not matter.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Counts the bytes received while `counting`.
pub(crate) fn drain(mut stream: &TcpStream, counting: &AtomicBool, came: &AtomicU64) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        if counting.load(Ordering::Relaxed) {
            came.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
}
