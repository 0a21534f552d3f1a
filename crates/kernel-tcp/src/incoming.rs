//! An accepted connection before its stream: where UDP streams may move here, its first record tells whether it
//! continues one of them.

use timeous_core::{Duration, Instant};
use timeous_tcp::record::Ordered;

use crate::identity::{CONTROL, Hello, Identity};
use crate::socket::Socket;

/// Time for the first record. A caller that sends none is new: a foreign receiver, which waits for data. Chosen by us:
/// a higher value serves such receivers later.
const PATIENCE: Duration = Duration::from_secs(1);

/// An accepted connection. Dropping it closes it.
#[derive(Debug)]
pub struct Incoming<L> {
    /// Listener's data, as given by its owner.
    pub listening: L,
    /// Stream that the connection continues; `None`: a new one.
    pub identity: Option<Identity>,
    pub(crate) socket: Socket,
    /// Bytes received so far.
    pub(crate) bytes: Vec<u8>,
    /// Deadline for the first record; `None` if none is waited for.
    pub(crate) until: Option<Instant>,
    /// Whether the peer closed the connection before its first record.
    pub(crate) is_gone: bool,
}

impl<L> Incoming<L> {
    /// Takes over an accepted connection; `may_continue`: it may continue a stream.
    pub(crate) fn new(now: Instant, socket: Socket, listening: L, may_continue: bool) -> Self {
        let until = may_continue.then_some(now + PATIENCE);
        Self { listening, identity: None, socket, bytes: Vec::new(), until, is_gone: false }
    }

    /// Refuses the connection as busy: by a reset.
    pub fn refuse(self) {
        self.socket.reset();
    }

    /// Reads the first record, and no more bytes than it takes; returns whether the stream is known.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let Some(until) = self.until else { return true };
        let mut buffer = [0; Hello::RECORD];
        while self.bytes.len() < Hello::RECORD {
            match self.socket.receive(&mut buffer[self.bytes.len()..]) {
                Ok(Some(0)) | Err(_) => {
                    self.is_gone = true;
                    return true;
                }
                Ok(Some(len)) => {
                    let from = self.bytes.len();
                    self.bytes.extend_from_slice(&buffer[from..from + len]);
                }
                Ok(None) => return now >= until,
            }
        }
        Ordered::default().push(&self.bytes, |datagram| {
            if datagram.substream.0 == CONTROL {
                self.identity = Hello::read(datagram.payload).and_then(|hello| hello.0);
            }
        });
        true
    }
}
