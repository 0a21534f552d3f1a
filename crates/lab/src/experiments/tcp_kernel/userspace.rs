//! End of a transfer with our TCP, on a TUN device.

use std::io::{self, ErrorKind};
use std::net::SocketAddrV4;

use timeous::core::Instant;
use timeous_engine::clock;
use timeous_testbed::tun::{CloseReason, ConnectionId, Event, TcpStatistics, TunError, TunHost};

use super::kernel::ArrivedBytes;

/// End of a connection of ours, with a deadline.
pub(super) struct UserspaceConnection<'a> {
    pub(super) host: &'a mut TunHost,
    pub(super) deadline: Instant,
    /// Statistics of the connection when last read.
    pub(super) statistics: TcpStatistics,
}

impl UserspaceConnection<'_> {
    /// Opens a connection.
    pub(super) fn connect(&mut self, to: SocketAddrV4) -> io::Result<ConnectionId> {
        let id = self.host.connect(to).map_err(io::Error::other)?;
        while !matches!(self.next(id)?, Event::Connected) {}
        Ok(id)
    }

    /// Waits for a connection.
    pub(super) fn accept(&mut self) -> io::Result<ConnectionId> {
        loop {
            match self.host.wait(self.deadline).map_err(io::Error::other)? {
                Some((id, Event::Connected)) => return Ok(id),
                Some(_) => {}
                None => return Err(ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Sends all of `content` and closes the stream, then waits for the peer to close.
    pub(super) fn send(&mut self, id: ConnectionId, content: &[u8]) -> io::Result<()> {
        let mut left = content;
        loop {
            if !left.is_empty() {
                let written = self.host.write(id, left).map_err(io::Error::other)?;
                left = &left[written..];
                if left.is_empty() {
                    self.host.close(id);
                }
            }
            match self.next(id)? {
                Event::PeerFinished if left.is_empty() => return Ok(()),
                Event::PeerFinished => return Err(ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
    }

    /// Receives until the end of the stream.
    pub(super) fn receive(&mut self, id: ConnectionId, content: &[u8]) -> io::Result<ArrivedBytes> {
        let (mut buffer, mut place, mut same, mut at) = (Vec::new(), 0, true, clock::now());
        loop {
            let event = self.next(id)?;
            let len = self.host.read(id, &mut buffer);
            if len > 0 {
                at = clock::now();
            }
            same &= content.get(place..place + len) == Some(&buffer[..]);
            place += len;
            buffer.clear();
            if event == Event::PeerFinished {
                self.host.close(id);
                return Ok(ArrivedBytes { same: same && place == content.len(), at });
            }
        }
    }

    /// Continues until both ends have closed.
    pub(super) fn finish(&mut self, id: ConnectionId) -> io::Result<()> {
        loop {
            match self.host.wait(self.deadline).map_err(io::Error::other)? {
                Some((of, Event::Closed { reason: CloseReason::Finished })) if of == id => return Ok(()),
                Some((of, Event::Closed { reason })) if of == id => return Err(io::Error::other(reason)),
                Some(_) => {}
                None => return Err(ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Returns the next event; an early end of the connection is an error.
    fn next(&mut self, id: ConnectionId) -> io::Result<Event> {
        loop {
            let heard: Result<_, TunError> = self.host.wait(self.deadline);
            if let Some(statistics) = self.host.statistics(id) {
                self.statistics = statistics;
            }
            match heard.map_err(io::Error::other)? {
                Some((of, _)) if of != id => {}
                Some((_, Event::Closed { reason })) => return Err(io::Error::other(reason)),
                Some((_, event)) => return Ok(event),
                None => return Err(ErrorKind::TimedOut.into()),
            }
        }
    }
}
