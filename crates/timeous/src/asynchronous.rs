//! Streams for tokio, with the feature `tokio`.

use timeous_engine::{Received, Waker};
use tokio::io::unix::AsyncFd;

use crate::error::{Error, SendError};
use crate::listener::{Incoming, Listener};
use crate::receiver::{Arrival, Receiver};
use crate::sender::{Delivery, Hints, Sender, SenderEvent};
use crate::stats::Stats;
use crate::uri::Uri;
use crate::zone::FrozenBuffer;
use timeous_core::AduSeq;

/// [`Sender`] for tokio.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use timeous::{AsyncSender, Hints};
/// let mut sender = AsyncSender::open("timeous://receiver.example:7000?passphrase=file:pass".parse()?).await?;
/// sender.send(b"position 17, 4", Hints::default()).await?;
/// sender.finish().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncSender {
    inner: Sender,
    ready: AsyncFd<Waker>,
}

impl AsyncSender {
    /// Opens a stream to send on.
    ///
    /// # Errors
    /// As [`Sender::open`].
    pub async fn open(uri: Uri) -> Result<Self, Error> {
        let inner = off_the_runtime(move || Sender::open(&uri)).await?;
        let ready = watched(inner.waker())?;
        Ok(Self { inner, ready })
    }

    /// Queues an ADU, waiting for room in the packet ring if it is full.
    ///
    /// # Errors
    /// Those of [`Sender::send`], but never [`SendError::Full`].
    pub async fn send(&mut self, bytes: &[u8], hints: Hints) -> Result<AduSeq, SendError> {
        loop {
            match self.inner.send(bytes, hints) {
                Err(SendError::Full) => rung(&self.ready).await,
                done => return done,
            }
        }
    }

    /// Queues an ADU that `fill` writes in place, waiting for room in the packet ring if it is full: see
    /// [`Sender::send_with`]. The latency counts from the time when there was room.
    ///
    /// # Errors
    /// Those of [`Sender::send_with`], but never [`SendError::Full`].
    ///
    /// # Panics
    /// As [`Sender::send_with`].
    pub async fn send_with(
        &mut self,
        len: usize,
        hints: Hints,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<AduSeq, SendError> {
        let mut fill = Some(fill);
        loop {
            let write = |buffer: &mut [u8]| fill.take().expect("a full ring does not fill a buffer")(buffer);
            match self.inner.send_with(len, hints, write) {
                Err(SendError::Full) => rung(&self.ready).await,
                done => return done,
            }
        }
    }

    /// Queues the bytes of a shared buffer, waiting for room in the packet ring if it is full.
    ///
    /// # Errors
    /// Those of [`Sender::send_shared`], but never [`SendError::Full`].
    pub async fn send_shared(&mut self, buffer: &FrozenBuffer, hints: Hints) -> Result<AduSeq, SendError> {
        loop {
            match self.inner.send_shared(buffer, hints) {
                Err(SendError::Full) => rung(&self.ready).await,
                done => return done,
            }
        }
    }

    /// Waits for the next fate of an ADU.
    ///
    /// # Errors
    /// [`Error::Closed`] when the connection is over and every fate was reported.
    pub async fn delivery(&mut self) -> Result<Delivery, Error> {
        loop {
            let status = self.inner.status();
            if let Some(delivery) = self.inner.poll_delivery() {
                return Ok(delivery);
            }
            if let timeous_engine::Status::Closed(reason) = status {
                return Err(self.inner.error_of(reason));
            }
            rung(&self.ready).await;
        }
    }

    /// Waits for the next event: advice of a stream with `policy=dbat`, or the fate of an ADU.
    ///
    /// ```no_run
    /// # async fn example(mut sender: timeous::AsyncSender, mut encoder: impl FnMut(timeous::core::Rate)) -> Result<(), timeous::Error> {
    /// use timeous::SenderEvent;
    /// while let SenderEvent::Advice(advice) = sender.event().await? {
    ///     encoder(advice.rate);
    ///     sender.get_mut().set_rate(advice.rate);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] when the connection is over and every event was reported.
    pub async fn event(&mut self) -> Result<SenderEvent, Error> {
        loop {
            let status = self.inner.status();
            if let Some(event) = self.inner.poll_event() {
                return Ok(event);
            }
            if let timeous_engine::Status::Closed(reason) = status {
                return Err(self.inner.error_of(reason));
            }
            rung(&self.ready).await;
        }
    }

    /// Waits until every queued ADU has its fate, and closes the connection gracefully.
    ///
    /// # Errors
    /// As [`Sender::finish`].
    pub async fn finish(mut self) -> Result<Stats, Error> {
        self.inner.begin_finish();
        loop {
            if let Some(ended) = self.inner.ended() {
                return ended;
            }
            rung(&self.ready).await;
        }
    }

    /// The blocking sender inside, for its ring and statistics.
    pub fn get_mut(&mut self) -> &mut Sender {
        &mut self.inner
    }
}

/// [`Receiver`] for tokio.
#[derive(Debug)]
pub struct AsyncReceiver {
    inner: Receiver,
    ready: AsyncFd<Waker>,
}

impl AsyncReceiver {
    /// Opens a stream to receive from.
    ///
    /// # Errors
    /// As [`Receiver::open`].
    pub async fn open(uri: Uri) -> Result<Self, Error> {
        let inner = off_the_runtime(move || Receiver::open(&uri)).await?;
        let ready = watched(inner.waker())?;
        Ok(Self { inner, ready })
    }

    /// Waits for a datagram; `None` when the peer has closed the stream gracefully.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub async fn receive(&mut self) -> Result<Option<Received>, Error> {
        loop {
            match self.inner.poll_receive()? {
                Some(Arrival::Data(received)) => return Ok(Some(received)),
                Some(Arrival::End) => return Ok(None),
                Some(Arrival::Nothing) | None => rung(&self.ready).await,
            }
        }
    }

    /// The blocking receiver inside.
    pub fn get_mut(&mut self) -> &mut Receiver {
        &mut self.inner
    }
}

/// Opens a stream in both directions, for tokio: each end may send.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use timeous::{Hints, asynchronous};
/// let (mut sender, mut receiver) = asynchronous::open_both("timeous://peer.example:7000".parse()?).await?;
/// sender.send(b"question", Hints::default()).await?;
/// let answer = receiver.receive().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`open_both`](crate::open_both); the runtime's, if it does not watch descriptors.
pub async fn open_both(uri: Uri) -> Result<(AsyncSender, AsyncReceiver), Error> {
    let (sender, receiver) = off_the_runtime(move || crate::sender::open_both(&uri)).await?;
    both_of(sender, receiver)
}

fn both_of(sender: Sender, receiver: Receiver) -> Result<(AsyncSender, AsyncReceiver), Error> {
    let (to, from) = (watched(sender.waker())?, watched(receiver.waker())?);
    Ok((AsyncSender { inner: sender, ready: to }, AsyncReceiver { inner: receiver, ready: from }))
}

/// [`Listener`] for tokio.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use timeous::AsyncListener;
/// let mut listener = AsyncListener::open(&"timeous://:7000".parse()?)?;
/// loop {
///     let (_sender, mut receiver) = listener.accept().await?.accept_async()?;
///     tokio::spawn(async move { while let Ok(Some(_adu)) = receiver.receive().await {} });
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncListener {
    inner: Listener,
    ready: AsyncFd<Waker>,
}

impl AsyncListener {
    /// Opens the URI's port.
    ///
    /// # Errors
    /// As [`Listener::open`].
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        let inner = Listener::open(uri)?;
        let ready = watched(inner.waker())?;
        Ok(Self { inner, ready })
    }

    /// Waits for a caller.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept(&mut self) -> Result<Incoming, Error> {
        loop {
            match self.inner.poll_accept()? {
                Some(incoming) => return Ok(incoming),
                None => rung(&self.ready).await,
            }
        }
    }

    /// The blocking listener inside.
    pub fn get_mut(&mut self) -> &mut Listener {
        &mut self.inner
    }
}

impl Incoming {
    /// Accepts the stream, for tokio (feature `tokio`).
    ///
    /// # Errors
    /// The runtime's, if it does not watch descriptors.
    pub fn accept_async(self) -> Result<(AsyncSender, AsyncReceiver), Error> {
        let (sender, receiver) = self.accept();
        both_of(sender, receiver)
    }
}

/// Runs a blocking call (name resolution, handshake) on a thread outside of the runtime.
async fn off_the_runtime<T: Send + 'static>(
    open: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(open).await {
        Ok(opened) => opened,
        Err(ended) => Err(system(std::io::Error::other(ended))),
    }
}

fn system(error: std::io::Error) -> Error {
    Error::Engine(error.into())
}

/// Registers the waker with the runtime.
#[allow(deprecated, reason = "its successor is unsafe, for types that change their descriptor: a waker never does")]
fn watched(waker: &Waker) -> Result<AsyncFd<Waker>, Error> {
    AsyncFd::new(waker.clone()).map_err(system)
}

/// Waits until the waker rings, and clears it.
async fn rung(ready: &AsyncFd<Waker>) {
    // An error means that the runtime is shutting down: the caller checks that next.
    if let Ok(mut guard) = ready.readable().await {
        guard.get_inner().clear();
        guard.clear_ready();
    }
}
