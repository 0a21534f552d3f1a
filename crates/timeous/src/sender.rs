//! The sending end of a stream.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::{AduMeta, AduSeq, Advice, Duration, Fate, FrameId, Instant, Priority, Rate, References, SubStream};
use timeous_engine::{EnqueueError, Producer, SendHalf, Status, Waker, clock};

use crate::error::{Error, SendError};
use crate::open::{Opened, Runner, open};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::stats::{Fates, Stats};
use crate::uri::Uri;

/// What an application says about an ADU; [`Hints::default`] says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// After this instant it must not leave; `None`: the stream's latency from now on.
    pub deadline: Option<Instant>,
    /// Its worth beside others.
    pub priority: Priority,
    /// Its sub-stream.
    pub substream: SubStream,
    /// The frame that it is part of.
    pub frame: FrameId,
    /// The frames without which it is useless.
    pub references: References,
}

/// What became of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number that [`Sender::send`] gave.
    pub seq: AduSeq,
    /// Its fate.
    pub fate: Fate,
}

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// How full the send buffer is, and which rate would suit it.
    Advice(Advice),
    /// What became of an ADU.
    Delivery(Delivery),
}

/// Sends ADUs that go stale.
///
/// ```no_run
/// use timeous::{Hints, Sender};
/// let mut sender = Sender::open(&"timeous://receiver.example:7000?latency=200ms".parse()?)?;
/// let seq = sender.send(b"position 17, 4", Hints::default())?;
/// while let Some(delivery) = sender.poll_delivery() {
///     println!("{:?}: {:?}", delivery.seq, delivery.fate);
/// }
/// sender.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A source that follows
///
/// With `policy=dbat` the stream says before its send buffer is too full, and when there is room for more. The example
/// `adaptive`, whole:
///
/// ```no_run
#[doc = include_str!("../examples/adaptive.rs")]
/// ```
#[derive(Debug)]
pub struct Sender {
    half: SendHalf,
    options: Options,
    next_seq: u64,
    fates: Fates,
    began: Instant,
    /// Last, so that the stream ends before what runs it does.
    _runner: Arc<Runner>,
}

impl Sender {
    /// Opens a stream to send on: calls, or waits to be called. Whoever waits takes one caller, and tells the others
    /// that it is busy for as long as the stream lives; [`Listener`](crate::Listener) takes more.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::culprit`] says who can mend it.
    pub fn open(uri: &Uri) -> Result<Self, Error> {
        Ok(open_both(uri)?.0)
    }

    /// Queues an ADU and returns at once. It leaves when congestion control allows it, unless it is given up before.
    ///
    /// # Errors
    /// See [`SendError`]. Nothing that was queued before is lost.
    pub fn send(&mut self, bytes: &[u8], hints: Hints) -> Result<AduSeq, SendError> {
        if let Status::Closed(reason) = self.half.status() {
            return Err(SendError::Closed(reason));
        }
        let max = self.max_payload();
        if bytes.len() > max {
            return Err(SendError::TooLarge { len: bytes.len(), max });
        }
        let seq = AduSeq(self.next_seq);
        let meta = self.meta(seq, hints, clock::now());
        self.half.enqueue(&meta, bytes).map_err(|error| self.explain(&error, bytes.len()))?;
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
            (EnqueueError::TooLarge { .. }, _) => SendError::TooLarge { len, max: self.max_payload() },
            _ => SendError::Full,
        }
    }

    /// The largest ADU.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.options.max_payload()
    }

    /// What became of an ADU: each gets exactly one fate.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        let done = self.half.poll_completion()?;
        self.fates.count(done.fate);
        Some(Delivery { seq: done.seq, fate: done.fate })
    }

    /// Tells a stream with `policy=dbat` the rate of its source, from now on; other policies take no notice. It is what
    /// the send buffer's thresholds come from. A stream that says nothing has the rate of its last second; zero takes back
    /// what was said.
    pub fn set_rate(&self, rate: Rate) {
        self.half.set_rate(rate);
    }

    /// What a stream with `policy=dbat` advises its source, if there is something new: at most once a round trip, also
    /// while the path stands still. Advice that nobody took gives way to newer advice.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.half.poll_advice()
    }

    /// The next that there is to be told, of either kind.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        let advice = self.poll_advice().map(SenderEvent::Advice);
        advice.or_else(|| self.poll_delivery().map(SenderEvent::Delivery))
    }

    /// Sleeps until there is something to learn or room in the ring, but not beyond `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.half.wait(deadline)
    }

    /// The packet ring: to look over what is queued, pull it back, change, drop or reorder it until it leaves. Call
    /// [`notify`](Self::notify) when what was pulled back is released.
    pub fn ring(&mut self) -> &mut Producer {
        self.half.ring()
    }

    /// Tells the engine that the ring has something to send, if it has asked to be told: it may have found nothing
    /// while all was pulled back. [`send`](Self::send) does it by itself.
    pub fn notify(&mut self) {
        self.half.notify_if_asked();
    }

    /// How many ADUs have no fate yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.next_seq - self.fates.total()
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
        Stats::new(self.began, clock::now(), &self.half.snapshot(), &self.fates)
    }

    /// The options of the stream.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Rings when there is something to learn, or room in the ring: for an application with a loop of its own.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.half.waker()
    }

    /// Lets everything that is queued have its fate, closes the connection in order, and returns the statistics.
    ///
    /// # Errors
    /// [`Error::Closed`] if the peer was gone before.
    pub fn finish(mut self) -> Result<Stats, Error> {
        self.begin_finish();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            self.half.wait(Some(clock::now() + Duration::from_millis(200)));
        }
    }

    /// Ends the stream in order as soon as everything that is queued has had its fate, without waiting for it:
    /// [`status`](Self::status) tells when that is.
    pub fn begin_finish(&self) {
        self.half.finish();
    }

    /// The end of the stream, if it has come.
    pub(crate) fn ended(&mut self) -> Option<Result<Stats, Error>> {
        // Read first: what was written before the end is read below.
        let status = self.half.status();
        while self.poll_delivery().is_some() {}
        let Status::Closed(reason) = status else { return None };
        match reason {
            timeous_engine::CloseReason::Local => Some(Ok(self.stats())),
            other => Some(Err(Error::ended(other, self.half.peer()))),
        }
    }
}

/// Opens a stream in both directions: each end may send.
///
/// # Errors
/// See [`Error`].
pub fn open_both(uri: &Uri) -> Result<(Sender, Receiver), Error> {
    Ok(both_of(open(uri)?, uri.options.clone()))
}

/// Both directions of a stream that is open.
pub(crate) fn both_of(opened: Opened, options: Options) -> (Sender, Receiver) {
    let began = clock::now();
    let receiver = Receiver::new(opened.receiving, opened.runner.clone(), began);
    let (half, fates) = (opened.sending, Fates::default());
    let sender = Sender { half, options, next_seq: 0, fates, began, _runner: opened.runner };
    (sender, receiver)
}
