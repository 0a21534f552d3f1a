//! Receiving: many datagrams per call, each with its ECN mark.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use timeous_core::{Duration, Instant, RecvMeta};

use super::system::{Arrival, SocketOption, set_option};
use crate::clock;

use super::{Socket, SocketEncapsulation, Way};

/// Longest time for which a datagram is believed to have waited on this host. Chosen by us: the receive buffer holds less
/// of a fast stream. A higher value believes a wall clock that was set; a lower one takes a longer wait for a queue.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Socket {
    /// Receives datagrams, with one call to `each` per datagram: at the time at which they were read, which is not before `now`. Returns
    /// whether there may be more.
    ///
    /// # Errors
    /// ICMP errors of earlier packets, and other errors of the system. There may be more datagrams all the same.
    pub fn receive(&mut self, now: Instant, mut each: impl FnMut(Instant, Way, RecvMeta, &[u8])) -> io::Result<bool> {
        let count = match self.inbound.receive(self.io.as_fd(), false) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let unix_offset = clock::unix_offset();
        // On a busy machine the call may have come long after `now`, and datagrams meanwhile.
        let now = clock::now().max(now);
        for arrival in (0..count).filter_map(|place| self.inbound.arrival(place)) {
            let way = Way { from: arrival.from, to: arrival.marks.to };
            let waited = arrival.marks.arrived.map_or(Duration::ZERO, |at| now - (Instant::ZERO + (at - unix_offset)));
            // The wall clock may have been set meanwhile.
            let waited = if waited < LONGEST_WAIT { waited } else { Duration::ZERO };
            let meta = RecvMeta { ecn: arrival.marks.ecn, waited };
            if self.carries != SocketEncapsulation::Udp {
                // A packet to a multicast, broadcast or foreign address starts no connection (RFC 4340 §8.1).
                if let Some(packet) = raw_packet(self.carries, &arrival).filter(|_| way.to.is_some()) {
                    each(now, way, meta, packet);
                }
                continue;
            }
            let segment = if arrival.marks.segment == 0 { arrival.bytes.len() } else { arrival.marks.segment };
            for datagram in arrival.bytes.chunks(segment.max(1)) {
                each(now, way, meta, datagram);
            }
        }
        Ok(true)
    }

    /// Switches the reporting of ICMP messages on or off. When on, the next call of any kind fails for each message.
    ///
    /// # Errors
    /// The system's.
    pub fn report_refusals(&self, on: bool) -> io::Result<()> {
        let fd = self.io.as_fd();
        set_option(fd, SocketOption::ReceiveErrors, on.into())?;
        if self.local_addr()?.is_ipv6() {
            set_option(fd, SocketOption::ReceiveErrors6, on.into())?;
        }
        Ok(())
    }

    /// Receives the ICMP messages "port unreachable", with one call to `each`: the packet's destination, and its quoted
    /// part.
    pub fn receive_refusals(&mut self, mut each: impl FnMut(SocketAddr, &[u8])) {
        while let Ok(count) = self.inbound.receive(self.io.as_fd(), true) {
            let arrivals = (0..count).filter_map(|place| self.inbound.arrival(place));
            arrivals.filter(|arrival| arrival.marks.refused).for_each(|arrival| each(arrival.from, arrival.bytes));
            if count == 0 {
                return;
            }
        }
    }
}

/// Returns the payload of an IP packet; `None` if it is malformed.
fn raw_packet<'a>(carries: SocketEncapsulation, arrival: &Arrival<'a>) -> Option<&'a [u8]> {
    match carries {
        // Header length in 32-bit words.
        SocketEncapsulation::Ipv4 => arrival.bytes.get(usize::from(arrival.bytes.first()? & 0xf) * 4..),
        _ => Some(arrival.bytes),
    }
}
