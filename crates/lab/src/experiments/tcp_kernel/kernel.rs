//! End of a transfer with the kernel's TCP: sockets with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};
use timeous::core::{Duration, Instant};
use timeous_engine::clock;
use timeous_testbed::machine::timespec;

/// Arrivals by the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivedBytes {
    /// Whether exactly the sent bytes arrived.
    pub(super) same: bool,
    /// Arrival of the last byte.
    pub(super) at: Instant,
}

/// Returns the time left until `deadline`, as a socket timeout.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline - clock::now();
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Waits for a connection.
pub(super) fn accept(listener: &TcpListener, deadline: Instant) -> io::Result<TcpStream> {
    let timeout = timespec(left(deadline)?);
    if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    listener.accept().map(|(stream, _)| stream)
}

/// Opens a connection.
pub(super) fn connect(to: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, left(deadline)?.into())
}

/// Sends all of `content` and closes the stream, then waits for the peer to close.
pub(super) fn send(mut stream: TcpStream, content: &[u8], deadline: Instant) -> io::Result<()> {
    for chunk in content.chunks(64 << 10) {
        stream.set_write_timeout(Some(left(deadline)?.into()))?;
        stream.write_all(chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(left(deadline)?.into()))?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// Receives until the end of the stream.
pub(super) fn receive(mut stream: TcpStream, content: &[u8], deadline: Instant) -> io::Result<ArrivedBytes> {
    let (mut buffer, mut place, mut same, mut at) = (vec![0; 64 << 10], 0, true, clock::now());
    loop {
        stream.set_read_timeout(Some(left(deadline)?.into()))?;
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(ArrivedBytes { same: same && place == content.len(), at });
        }
        at = clock::now();
        same &= content.get(place..place + len) == Some(&buffer[..len]);
        place += len;
    }
}
