//! Sender of a stream.

mod large;
mod shared;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use timeous_core::{
    AduMeta, AduSeq, Advice, Arrived, DropReason, Duration, Fate, FrameId, Instant, Priority, Rate, References,
    SubStream,
};
use timeous_engine::{EnqueueError, Producer, SendHalf, Status, Waker, clock};

use crate::error::{Error, SendError};
use crate::open::{self, Opened, Purpose, Runner, open};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::stats::{Fates, Stats};
use crate::uri::Uri;
use crate::zone::Zone;

/// Metadata of an ADU; [`Hints::default`] sets none. A literal ends with `..Hints::default()`: fields may be added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Latest time to send it; `None`: the stream's latency from now.
    pub deadline: Option<Instant>,
    /// Value relative to other ADUs.
    pub priority: Priority,
    /// Sub-stream of the ADU.
    pub substream: SubStream,
    /// Frame that it is part of.
    pub frame: FrameId,
    /// Frames without which it is useless.
    pub references: References,
}

/// Fate of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Number returned by [`Sender::send`] or [`Sender::send_with`].
    pub seq: AduSeq,
    /// Its fate.
    pub fate: Fate,
    /// Predicted and actual arrival, if an acknowledgement told it: over DCCP each tells that of one packet, over TCP only one that the receiver
    /// has not delayed.
    pub arrived: Option<Arrived>,
}

/// Event of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SenderEvent {
    /// Advice: fill level of the send buffer, and a suitable rate.
    Advice(Advice),
    /// Fate of an ADU.
    Delivery(Delivery),
}

/// Sends ADUs that go stale.
///
/// ```no_run
/// use timeous::{Hints, Sender};
/// let mut sender = Sender::open(&"timeous://receiver.example:7000?passphrase=file:pass&latency=200ms".parse()?)?;
/// let seq = sender.send(b"position 17, 4", Hints::default())?;
/// while let Some(delivery) = sender.poll_delivery() {
///     println!("{:?}: {:?}", delivery.seq, delivery.fate);
/// }
/// sender.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Rate adaptation
///
/// With `policy=dbat` the stream warns before its send buffer is too full, and tells when there is room for a higher
/// rate. Example `adaptive`:
///
/// ```no_run
#[doc = include_str!("../examples/adaptive.rs")]
/// ```
#[derive(Debug)]
pub struct Sender {
    half: SendHalf,
    options: Options,
    next_seq: u64,
    /// Size of the ring's buffers.
    buffer_size: usize,
    /// Buffers of ADUs that are larger, from the first one on.
    large: Option<Zone>,
    fates: Fates,
    began: Instant,
    stream_id: Option<Arc<str>>,
    /// Dropped last: the stream must end before its runner.
    _runner: Arc<Runner>,
}

impl Sender {
    /// Opens a stream to send on: calls, or listens. A listening sender takes one caller and tells others that it is
    /// busy while the stream lives; [`Listener`](crate::Listener) takes more.
    ///
    /// The URI names the policy that drops queued ADUs, or [has one of the application's own](Uri::with_choice).
    ///
    /// # Errors
    /// See [`Error`]; [`Error::culprit`] tells who can fix it.
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        Ok(both_of(open(uri, Purpose::Send)?, uri.options.clone()).0)
    }

    /// Queues an ADU and returns at once. It is sent when congestion control permits, unless it is dropped before.
    ///
    /// # Errors
    /// See [`SendError`]. ADUs queued before are not affected.
    pub fn send(&mut self, bytes: &[u8], hints: Hints) -> Result<AduSeq, SendError> {
        if bytes.len() > self.buffer_size {
            return self.send_large(bytes.len(), hints, |buffer| buffer.copy_from_slice(bytes));
        }
        self.queue(bytes.len(), hints, |half, meta| half.ring().enqueue(meta, bytes).map(drop))
    }

    /// Queues an ADU of `len` bytes, which `fill` writes in place, into the memory that the transport sends from: like
    /// [`send`](Self::send), without a copy. The buffer has `len` bytes with arbitrary old contents. The latency counts
    /// from the call, not from the end of `fill`.
    ///
    /// ```
    /// use timeous::{Hints, SendError, Sender};
    /// fn send_position(sender: &mut Sender, x: u32, y: u32) -> Result<(), SendError> {
    ///     sender.send_with(8, Hints::default(), |buffer| {
    ///         buffer[..4].copy_from_slice(&x.to_be_bytes());
    ///         buffer[4..].copy_from_slice(&y.to_be_bytes());
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`send`](Self::send); `fill` is not called then.
    ///
    /// # Panics
    /// If `fill` panics. The ADU is not queued then, and gets no number.
    pub fn send_with(&mut self, len: usize, hints: Hints, fill: impl FnOnce(&mut [u8])) -> Result<AduSeq, SendError> {
        if len > self.buffer_size {
            return self.send_large(len, hints, fill);
        }
        self.queue(len, hints, |half, meta| half.ring().enqueue_with(meta, len, fill).map(drop))
    }

    /// Checks an ADU of `len` bytes, numbers it, and lets `enqueue` put it into the ring.
    fn queue(
        &mut self,
        len: usize,
        hints: Hints,
        enqueue: impl FnOnce(&mut SendHalf, &AduMeta) -> Result<(), EnqueueError>,
    ) -> Result<AduSeq, SendError> {
        if let Status::Closed(reason) = self.half.status() {
            return Err(SendError::Closed(reason));
        }
        let max = self.options.max_adu();
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        let seq = AduSeq(self.next_seq);
        let meta = self.meta(seq, hints, clock::now());
        enqueue(&mut self.half, &meta).map_err(|error| self.explain(&error, len))?;
        self.half.notify_if_asked();
        self.next_seq += 1;
        Ok(seq)
    }

    fn meta(&self, seq: AduSeq, hints: Hints, now: Instant) -> AduMeta {
        let Hints { deadline, priority, substream, frame, references } = hints;
        let deadline = self.options.has_deadlines().then(|| deadline.unwrap_or(now + self.options.latency));
        AduMeta { seq, deadline, priority, substream, frame, references, enqueued: now }
    }

    fn explain(&self, error: &EnqueueError, len: usize) -> SendError {
        match (error, self.half.status()) {
            (_, Status::Closed(reason)) => SendError::Closed(reason),
            (EnqueueError::TooLarge { .. }, _) => SendError::TooLarge { len, max: self.options.max_adu() },
            // The peer's application has stopped reading, which leaves the connection open.
            (EnqueueError::Closed, _) => SendError::Closed(timeous_engine::CloseReason::Peer),
            // Whoever runs the other side of the ring has corrupted it.
            (EnqueueError::Broken(_), _) => SendError::Closed(timeous_engine::CloseReason::Abandoned),
            (EnqueueError::ForeignBuffer, _) => SendError::ForeignZone,
            _ => SendError::Full,
        }
    }

    /// Largest ADU in bytes that leaves in one packet, as far as the path's size is known: it follows path MTU discovery.
    /// Larger ones, up to [`Options::max_adu`], are cut, and arrive whole or not at all.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.half.packet_payload().unwrap_or_else(|| self.options.max_payload())
    }

    /// Returns the next fate of an ADU: each ADU gets exactly one.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        let done = self.half.poll_completion()?;
        self.fates.count(done.fate);
        Some(Delivery { seq: done.seq, fate: done.fate, arrived: done.arrived })
    }

    /// Sets the rate of the source, from which the thresholds of `policy=dbat` follow; other policies ignore it.
    /// Without it the rate of the last second is used; zero unsets it.
    pub fn set_rate(&self, rate: Rate) {
        self.half.set_rate(rate);
    }

    /// Returns new advice to the source with `policy=dbat`: at most once a round trip, also while the path is blocked.
    /// Advice that was not polled is replaced by newer advice.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.half.poll_advice()
    }

    /// Returns the next event: advice, or the fate of an ADU.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        let advice = self.poll_advice().map(SenderEvent::Advice);
        advice.or_else(|| self.poll_delivery().map(SenderEvent::Delivery))
    }

    /// Sleeps until there is an event or room in the ring, at most until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.half.wait(deadline)
    }

    /// The packet ring: queued ADUs can be inspected, pulled back, changed, dropped or reordered until they are sent.
    /// Call [`notify`](Self::notify) after releasing pulled ADUs.
    pub fn ring(&mut self) -> &mut Producer {
        self.half.ring()
    }

    /// Wakes the engine, if it waits for ADUs: it may have found none while all were pulled back. [`send`](Self::send)
    /// and [`send_with`](Self::send_with) do so by themselves.
    pub fn notify(&mut self) {
        self.half.notify_if_asked();
    }

    /// Number of ADUs without a fate yet, including those enqueued through [`ring`](Self::ring). A fate counts once it
    /// was polled.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.half.enqueued().saturating_sub(self.fates.total() + self.half.completions_lost())
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
        Stats::new(self.began, clock::now(), &self.half.snapshot(), &self.fates)
    }

    /// Options of the stream.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Waker that rings when there is an event or room in the ring: for an application with an event loop.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.half.waker()
    }

    /// Waits until every queued ADU has its fate, closes the connection gracefully, and returns the statistics.
    ///
    /// # Errors
    /// [`Error::Closed`] if the peer was gone before: also if it ended the stream in order, unless every ADU has arrived or
    /// was dropped for its age or by the policy.
    pub fn finish(mut self) -> Result<Stats, Error> {
        self.begin_finish();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            self.half.wait(Some(clock::now() + Duration::from_millis(200)));
        }
    }

    /// Closes the stream gracefully once every queued ADU has its fate, without waiting for it: see
    /// [`status`](Self::status).
    pub fn begin_finish(&self) {
        self.half.finish();
    }

    /// Error for the end of the stream.
    pub(crate) fn error_of(&self, reason: timeous_engine::CloseReason) -> Error {
        Error::ended(reason, self.half.peer(), self.half.seal_error())
    }

    /// Whether the end of the stream has cut nothing off.
    fn is_whole(&self) -> bool {
        self.pending() == 0 && self.fates.lost == 0 && self.fates.dropped_for(DropReason::Closed) == 0
    }

    /// Result of the stream, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<Result<Stats, Error>> {
        // Read before the fates, so that those reported before the end are counted.
        let status = self.half.status();
        while self.poll_delivery().is_some() {}
        let Status::Closed(reason) = status else { return None };
        match reason {
            timeous_engine::CloseReason::Local => Some(Ok(self.stats())),
            // Both ends may finish, and one is the first.
            timeous_engine::CloseReason::Peer if self.is_whole() => Some(Ok(self.stats())),
            other => Some(Err(self.error_of(other))),
        }
    }
}

/// Opens a stream in both directions: each end may send.
///
/// # Errors
/// See [`Error`].
pub fn open_both(uri: &Uri) -> Result<(Sender, Receiver), Error> {
    Ok(both_of(open(uri, Purpose::Both)?, uri.options.clone()))
}

/// Runs a stream in both directions over a TCP connection that the application has made or accepted, such as one behind a
/// proxy. Bytes that are not of the stream, such as a proxy's header, have to be read before.
///
/// The stream is not encrypted: unless the peer is this host, the options have to say so
/// ([`Security::is_plain`](crate::Security::is_plain)).
///
/// # Errors
/// See [`Error`].
pub fn adopt(socket: TcpStream, options: &Options) -> Result<(Sender, Receiver), Error> {
    Ok(both_of(open::adopt(socket, options)?, options.clone()))
}

/// Creates both halves of an open stream.
pub(crate) fn both_of(opened: Opened, options: Options) -> (Sender, Receiver) {
    let began = clock::now();
    let Opened { sending: half, receiving, runner, stream_id } = opened;
    let receiver = Receiver::new(receiving, runner.clone(), stream_id.clone(), began);
    let mut half = half;
    let buffer_size = half.ring().buffer_size();
    let sender = Sender {
        half,
        options,
        next_seq: 0,
        buffer_size,
        large: None,
        fates: Fates::default(),
        began,
        stream_id,
        _runner: runner,
    };
    (sender, receiver)
}
