//! Receiver of a stream.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::Instant;
use timeous_engine::{CloseReason, ReceiveHalf, Received, Status, Waker, clock};

use crate::error::Error;
use crate::open::{Opened, Purpose, Runner, open};
use crate::stats::{Fates, Stats};
use crate::uri::Uri;

/// Result of a wait for data. These three are all: a wait ends with data, without, or with the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram.
    Data(Received),
    /// No datagram before the deadline.
    Nothing,
    /// The peer has closed the stream gracefully: nothing more will come.
    End,
}

/// Receives ADUs as they were sent, in the order of arrival.
///
/// An ADU that was retransmitted although it arrived may come twice: an application that cares numbers its ADUs, as RTP
/// does.
///
/// ```no_run
/// use timeous::{Arrival, Receiver};
/// let mut receiver = Receiver::open(&"timeous://:7000".parse()?)?;
/// while let Arrival::Data(adu) = receiver.receive(None)? {
///     println!("{} bytes at {:?}", adu.bytes.len(), adu.at);
/// }
/// # Ok::<(), timeous::Error>(())
/// ```
#[derive(Debug)]
pub struct Receiver {
    half: ReceiveHalf,
    began: Instant,
    stream_id: Option<Arc<str>>,
    /// Dropped last: the stream must end before its runner.
    _runner: Arc<Runner>,
}

impl Receiver {
    pub(crate) fn new(half: ReceiveHalf, runner: Arc<Runner>, stream_id: Option<Arc<str>>, began: Instant) -> Self {
        Self { half, began, stream_id, _runner: runner }
    }

    /// Opens a stream to receive from: listens, or calls. A listening receiver takes one caller and tells others that
    /// it is busy while the stream lives; [`Listener`](crate::Listener) takes more.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::culprit`] tells who can fix it.
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        let Opened { receiving, runner, stream_id, .. } = open(uri, Purpose::Receive)?;
        Ok(Self::new(receiving, runner, stream_id, clock::now()))
    }

    /// Waits for a datagram until `deadline`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the connection did not end gracefully. Earlier data are delivered first.
    pub fn receive(&mut self, deadline: Option<Instant>) -> Result<Arrival, Error> {
        loop {
            if let Some(arrival) = self.poll_receive()? {
                return Ok(arrival);
            }
            if deadline.is_some_and(|at| clock::now() >= at) {
                return Ok(Arrival::Nothing);
            }
            self.half.wait(deadline);
        }
    }

    /// Returns what has arrived, without waiting; `None`: nothing yet.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn poll_receive(&mut self) -> Result<Option<Arrival>, Error> {
        // Read before the data, so that data received before the end are delivered.
        let (status, has_peer_ended) = (self.half.status(), self.half.has_peer_ended());
        if let Some(received) = self.half.poll_received() {
            return Ok(Some(Arrival::Data(received)));
        }
        match status {
            Status::Closed(CloseReason::Peer | CloseReason::Local) => Ok(Some(Arrival::End)),
            Status::Closed(reason) => Err(Error::ended(reason, self.half.peer(), self.half.seal_error())),
            // One direction of a byte stream.
            _ if has_peer_ended => Ok(Some(Arrival::End)),
            _ => Ok(None),
        }
    }

    /// State of the connection.
    #[must_use]
    pub fn status(&self) -> Status {
        self.half.status()
    }

    /// Current address of the peer, if known.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.half.peer()
    }

    /// ID of the stream, as the caller named it and the listener admitted it; `None` without one, and without encryption.
    #[must_use]
    pub fn stream_id(&self) -> Option<&str> {
        self.stream_id.as_deref()
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::new(self.began, clock::now(), &self.half.snapshot(), &Fates::default())
    }

    /// Waker that rings when there is data to read: for an application with an event loop.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.half.waker()
    }

    /// Closes the stream gracefully.
    pub fn close(&self) {
        self.half.finish();
    }
}
