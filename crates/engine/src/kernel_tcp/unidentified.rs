//! An accepted connection before its first record, which tells whether it continues an existing stream or starts a new
//! one.

use timeous_core::{Duration, Instant};
use timeous_tcp::record::Ordered;

use super::socket::Socket;
use crate::identity::{CONTROL, Hello, Identity};
use crate::listening::Listening;

/// Time for the first record. A caller that sends none is new: a foreign receiver, which waits for data. Chosen by us:
/// a higher value serves such receivers later.
const PATIENCE: Duration = Duration::from_secs(1);

/// An accepted connection that has not identified itself.
pub(super) struct UnidentifiedConnection {
    pub(super) socket: Socket,
    pub(super) listening: Listening,
    /// Bytes received so far.
    pub(super) bytes: Vec<u8>,
    until: Instant,
}

/// Kind of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unknown,
    Gone,
    New,
    /// Continues the stream with this identity.
    Returned(Identity),
}

impl UnidentifiedConnection {
    pub(super) fn new(now: Instant, socket: Socket, listening: Listening) -> Self {
        Self { socket, listening, bytes: Vec::new(), until: now + PATIENCE }
    }

    /// Reads the first record, and no more bytes than it takes.
    pub(super) fn look(&mut self, now: Instant) -> Kind {
        let mut buffer = [0; Hello::RECORD];
        while self.bytes.len() < Hello::RECORD {
            match self.socket.receive(&mut buffer[self.bytes.len()..]) {
                Ok(Some(0)) | Err(_) => return Kind::Gone,
                Ok(Some(len)) => {
                    let from = self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[from..from + len]);
                }
                Ok(None) if now < self.until => return Kind::Unknown,
                Ok(None) => return Kind::New,
            }
        }
        let mut hello = None;
        Ordered::default().push(&self.bytes, |datagram| {
            if datagram.substream.0 == CONTROL {
                hello = Hello::read(datagram.payload);
            }
        });
        match hello {
            Some(Hello(Some(identity))) => Kind::Returned(identity),
            _ => Kind::New,
        }
    }

    /// Returns the deadline for the first record.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.until
    }
}
