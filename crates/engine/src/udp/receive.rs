//! Receiving: many datagrams a call, those of one sender in one piece, each with its mark.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use timeous_core::Ecn;

use super::Socket;

impl Socket {
    /// Takes what has come, one call to `each` a datagram. Returns whether there may be more.
    ///
    /// # Errors
    /// What ICMP said of an earlier packet, and whatever else the system says. There may be more all the same.
    pub fn receive(&mut self, mut each: impl FnMut(SocketAddr, Ecn, &[u8])) -> io::Result<bool> {
        let count = match self.inbound.receive(self.io.as_fd()) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        for arrival in (0..count).filter_map(|place| self.inbound.arrival(place)) {
            let segment = if arrival.marks.segment == 0 { arrival.bytes.len() } else { arrival.marks.segment };
            for datagram in arrival.bytes.chunks(segment.max(1)) {
                each(arrival.from, arrival.marks.ecn, datagram);
            }
        }
        Ok(true)
    }
}
