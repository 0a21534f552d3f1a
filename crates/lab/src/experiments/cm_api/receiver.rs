//! Receivers, with acknowledgement of each packet by the application or by TCP.

use std::io::{self, Read};
use std::net::{TcpStream, UdpSocket};

use timeous::clock;
use timeous::cm::Acks;
use timeous::core::Duration;

/// Silence after which missing packets count as lost.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Buffer for one read from a connection, in bytes.
const CHUNK: usize = 64 << 10;

/// Receives up to `packets` packets, acknowledges each by a datagram, and returns the number
/// received.
pub(super) fn datagrams(socket: &UdpSocket, packets: u64) -> io::Result<u64> {
    socket.set_read_timeout(Some(SILENCE))?;
    let (mut acks, mut buffer, mut came) = (Acks::every(1, Duration::ZERO), [0; 2_048], 0);
    while came < packets {
        let (len, from) = match socket.recv_from(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            received => received?,
        };
        let Some(number) = buffer[..len].first_chunk() else { continue };
        let now = clock::now();
        came += u64::from(acks.received(now, u64::from_be_bytes(*number)));
        if let Some(ack) = acks.poll_ack(now) {
            socket.send_to(&ack.encode(), from)?;
        }
    }
    Ok(came)
}

/// Receives all of a connection, and returns the number of bytes.
pub(super) fn stream(mut stream: &TcpStream) -> io::Result<u64> {
    let (mut buffer, mut came) = (vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(came),
            len => came += len as u64,
        }
    }
}
