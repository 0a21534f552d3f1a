//! A listening port that accepts any number of streams.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::Instant;
use timeous_engine::{Engine, Stream, Waker, clock};
use timeous_seal::Intent;

use crate::error::Error;
use crate::open::{Opened, listen, stream_id};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::sender::{Sender, both_of};
use crate::uri::Uri;

/// Accepts any number of callers on one port, each with a stream of its own; with `transport=auto` over DCCP and TCP.
///
/// A caller comes in when its handshake is complete, so an incomplete one blocks nobody. Callers beyond the
/// [limit](Self::set_room), beyond 128 that wait to be accepted, and those not accepted when the listener is dropped
/// get [`Error::Busy`] at once. Accepted streams outlive the listener.
///
/// ```no_run
/// use timeous::{Arrival, Listener};
/// let mut listener = Listener::open(&"timeous://:7000".parse()?)?;
/// while let Some(caller) = listener.accept(None)? {
///     std::thread::spawn(move || {
///         println!("{} has called", caller.peer());
///         let (_sender, mut receiver) = caller.accept();
///         while let Ok(Arrival::Data(adu)) = receiver.receive(None) {
///             println!("{} bytes", adu.bytes.len());
///         }
///     });
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One thread can serve the listener and all its streams: a [`ReadyList`](crate::ReadyList) names those that have
/// something to do.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use timeous::{Arrival, Listener, ReadyList};
/// const LISTENER: u64 = 0;
/// let mut listener = Listener::open(&"timeous://:7000".parse()?)?;
/// let (ready, mut streams) = (ReadyList::new()?, BTreeMap::new());
/// ready.add(listener.waker(), LISTENER);
/// loop {
///     ready.wait(None);
///     while let Some(key) = ready.poll() {
///         if key == LISTENER {
///             listener.waker().clear();
///             while let Some(caller) = listener.poll_accept()? {
///                 let (sender, receiver) = caller.accept();
///                 let key = streams.last_key_value().map_or(1, |(last, _)| last + 1);
///                 ready.add(receiver.waker(), key);
///                 streams.insert(key, (sender, receiver));
///             }
///         } else if let Some((_sender, receiver)) = streams.get_mut(&key) {
///             receiver.waker().clear();
///             loop {
///                 match receiver.poll_receive() {
///                     Ok(Some(Arrival::Data(adu))) => println!("stream {key}: {} bytes", adu.bytes.len()),
///                     Ok(None | Some(Arrival::Nothing)) => break,
///                     Ok(Some(Arrival::End)) | Err(_) => {
///                         streams.remove(&key);
///                         break;
///                     }
///                 }
///             }
///         }
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    inner: timeous_engine::Listener,
    options: Options,
    /// Dropped last: the listener must end before its engine.
    engine: Arc<Engine>,
}

impl Listener {
    /// Opens the URI's port. This process runs the listener: `daemon=auto` has no effect here.
    ///
    /// # Errors
    /// [`Error::Engine`] if the port is taken; [`Error::Uri`] if the URI calls, or names a daemon.
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        let (engine, inner) = listen(uri)?;
        Ok(Self { inner, options: uri.options.clone(), engine })
    }

    /// The local address, with the real port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    /// Options of the streams: those of the URI.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Limits the callers accepted from now on; `None`, the initial value: no limit. A server for one caller at a time
    /// sets `Some(1)` again when a stream has ended.
    pub fn set_room(&self, room: Option<usize>) {
        self.inner.set_room(room);
    }

    /// Waits for a caller until `deadline`; `None` if none came.
    ///
    /// # Errors
    /// A system error, see [`Error`].
    pub fn accept(&mut self, deadline: Option<Instant>) -> Result<Option<Incoming>, Error> {
        loop {
            if let Some(incoming) = self.poll_accept()? {
                return Ok(Some(incoming));
            }
            let left = deadline.map(|at| at.saturating_since(clock::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.waker().wait(left);
        }
    }

    /// Returns a caller that has come in, if any.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&mut self) -> Result<Option<Incoming>, Error> {
        let Some(stream) = self.inner.poll_accept() else { return Ok(None) };
        let (options, engine) = (self.options.clone(), self.engine.clone());
        let stream_id = stream_id(&stream);
        Ok(Some(Incoming { stream: Some(stream), stream_id, options, engine }))
    }

    /// Waker that rings when a caller has come in: for an application with an event loop.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.inner.waker()
    }
}

/// A caller whose handshake is complete. Dropping it refuses it.
#[derive(Debug)]
pub struct Incoming {
    stream: Option<Stream>,
    stream_id: Option<Arc<str>>,
    options: Options,
    engine: Arc<Engine>,
}

impl Incoming {
    /// The caller's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        let peer = self.stream.as_ref().and_then(Stream::peer);
        // The TCP connection was gone before its address was read.
        peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// ID of the stream that the caller named, and was admitted to; `None` without one, and without encryption.
    #[must_use]
    pub fn stream_id(&self) -> Option<&str> {
        self.stream_id.as_deref()
    }

    /// Direction of the data for which the caller was admitted: to send ([`Intent::Publish`]) or to receive ([`Intent::Play`]);
    /// `None` without encryption. The stream goes both ways all the same: a listener that admits both takes no data of a caller
    /// with the right to receive.
    #[must_use]
    pub fn intent(&self) -> Option<Intent> {
        self.stream.as_ref().and_then(Stream::intent)
    }

    /// Accepts the stream, in both directions. Its late choice is that of the listener's URI; each stream has its own.
    #[must_use]
    pub fn accept(mut self) -> (Sender, Receiver) {
        let stream = self.stream.take().expect("only dropping it takes it elsewhere");
        both_of(Opened::by_engine(stream, self.engine.clone(), None), self.options.clone())
    }

    /// Tells the caller at once that this end is busy. Its data are not read.
    pub fn refuse(self) {}
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.refuse();
        }
    }
}
