//! Sender by a buffered socket (Andersen et al. §2.1.2 i): writes packets, reads acknowledgements,
//! and reports those to the manager.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use timeous::clock;
use timeous::cm::{Ack, BufferedSocket, CongestionManager, Error};
use timeous::core::Duration;

use super::alf::ApiCalls;

/// Time without an acknowledgement after which the outstanding packets count as lost.
const SILENCE: Duration = Duration::from_secs(1);

/// Sends all packets, and returns its calls when the last one is acknowledged.
pub(super) fn send(
    cm: &CongestionManager,
    socket: UdpSocket,
    remote: SocketAddr,
    size: usize,
    packets: u64,
) -> Result<ApiCalls, Error> {
    let mut socket = BufferedSocket::new(cm, socket)?.with_mtu(size as u64).with_feedback();
    socket.connect(remote)?;
    let (mut payload, mut buffer) = (vec![0; size], [0; 1_024]);
    let (mut sent, mut newest, mut calls) = (0u64, None, ApiCalls::default());
    while newest != Some(packets - 1) {
        while sent < packets {
            payload[..8].copy_from_slice(&sent.to_be_bytes());
            match socket.send(&payload) {
                Ok(_) => sent += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if !socket.wait(Some(clock::now() + SILENCE)) {
            return Err(Error::Io(io::ErrorKind::TimedOut.into()));
        }
        loop {
            let len = match socket.recv(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                received => received?,
            };
            let ack = Ack::decode(&buffer[..len])?;
            newest = newest.max(Some(ack.newest));
            calls.updates += 1;
            socket.acked(&ack)?;
        }
    }
    Ok(calls)
}
