//! Who has called a listener to which streams come back: it says first which one goes on, or that it is new.

use timeous_core::{Duration, Instant};
use timeous_tcp::record::Ordered;

use super::socket::Socket;
use crate::identity::{CONTROL, Hello, Identity};
use crate::listening::Listening;

/// Who says nothing for so long is a new one: a receiver of somebody else's waits for data.
const PATIENCE: Duration = Duration::from_secs(1);

/// A caller that has not said what it is.
pub(super) struct Newcomer {
    pub(super) socket: Socket,
    pub(super) listening: Listening,
    /// What it has said.
    pub(super) bytes: Vec<u8>,
    until: Instant,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unknown,
    Gone,
    New,
    /// It goes on with this stream.
    Returned(Identity),
}

impl Newcomer {
    pub(super) fn new(now: Instant, socket: Socket, listening: Listening) -> Self {
        Self { socket, listening, bytes: Vec::new(), until: now + PATIENCE }
    }

    /// Listens to it: to no more than what a hello takes.
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

    /// When it is to be looked at again, if it says nothing.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.until
    }
}
