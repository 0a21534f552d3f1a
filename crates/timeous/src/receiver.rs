//! The receiving end of a stream.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::Instant;
use timeous_engine::{CloseReason, ReceiveHalf, Received, Status, Waker, clock};

use crate::error::Error;
use crate::open::{Runner, open};
use crate::stats::{Fates, Stats};
use crate::uri::Uri;

/// What a wait for data brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram.
    Data(Received),
    /// Nothing until the deadline.
    Nothing,
    /// The peer has closed the stream in order: nothing will come any more.
    End,
}

/// Receives ADUs, each as it was sent, in the order of their arrival.
///
/// What was taken for lost and sent again, and then came after all, comes twice: who minds gives the ADUs numbers, as
/// RTP does.
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
    /// Last, so that the stream ends before what runs it does.
    _runner: Arc<Runner>,
}

impl Receiver {
    pub(crate) fn new(half: ReceiveHalf, runner: Arc<Runner>, began: Instant) -> Self {
        Self { half, began, _runner: runner }
    }

    /// Opens a stream to receive from: waits to be called, or calls. Whoever waits takes one caller, and tells the others
    /// that it is busy for as long as the stream lives; [`Listener`](crate::Listener) takes more.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::culprit`] says who can mend it.
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        let opened = open(uri)?;
        Ok(Self::new(opened.receiving, opened.runner, clock::now()))
    }

    /// Waits for a datagram, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the connection ended otherwise than in order. What came before is delivered first.
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

    /// What can be said without waiting; `None`: nothing yet.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn poll_receive(&mut self) -> Result<Option<Arrival>, Error> {
        // Read first: what came before the end is read below.
        let status = self.half.status();
        if let Some(received) = self.half.poll_received() {
            return Ok(Some(Arrival::Data(received)));
        }
        match status {
            Status::Closed(CloseReason::Peer | CloseReason::Local) => Ok(Some(Arrival::End)),
            Status::Closed(reason) => Err(Error::ended(reason, self.half.peer())),
            Status::Connecting | Status::Open => Ok(None),
        }
    }

    /// Where the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.half.status()
    }

    /// The peer's address, if it is known: where it is now, should it have changed.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.half.peer()
    }

    /// The statistics so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::new(self.began, clock::now(), &self.half.snapshot(), &Fates::default())
    }

    /// Rings when there is something to read: for an application with a loop of its own.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.half.waker()
    }

    /// Ends the stream in order.
    pub fn close(&self) {
        self.half.finish();
    }
}
