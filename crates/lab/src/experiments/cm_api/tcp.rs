//! Sender over TCP, as in the paper: writes each packet, and polls for data from the other end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Sends all packets; returns when the last one is acknowledged and the other end has closed the
/// connection.
pub(super) fn send(mut stream: &TcpStream, size: usize, packets: u64) -> io::Result<()> {
    let payload = vec![0; size];
    let (now, mut answer) = (Timespec::default(), [0; 1_024]);
    for _ in 0..packets {
        stream.write_all(&payload)?;
        // The paper calls select() on one descriptor; poll() is the safe equivalent.
        if poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now))? > 0 {
            let _ = stream.read(&mut answer)?;
        }
    }
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut answer)? > 0 {}
    Ok(())
}
