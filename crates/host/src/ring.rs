//! Sending side of a stream with a packet ring, driven as in the engine.

use std::any::Any;

use timeous_choice::Repair;
use timeous_core::{
    AduMeta, AduSeq, AduSource, BufferState, Duration, Instant, LateChoice, PathState, Priority, PulledAdu, Rate,
};
use timeous_ring::{Config, EnqueueError, Producer, RingSource, create};

use crate::application::{Application, Outlet, Refused};
use crate::journal::Journal;
use crate::side::{Ends, Side};

/// Interval of expiry scans while sending is not allowed.
const PASS_INTERVAL: Duration = Duration::from_millis(100);

/// Sending side of an application: a packet ring with late choice.
pub struct Stream {
    pub(crate) application: Box<dyn Application>,
    pub(crate) choice: Option<Box<dyn LateChoice>>,
    pub(crate) repair: Option<Priority>,
    pub(crate) slots: u32,
}

impl Stream {
    /// Creates a stream of `application`, first in, first out, with a ring of 1024 slots.
    pub fn new(application: impl Application) -> Self {
        Self { application: Box::new(application), choice: None, repair: None, slots: 1_024 }
    }

    /// Runs `choice` at the instant of sending.
    #[must_use]
    pub fn choice(mut self, choice: Box<dyn LateChoice>) -> Self {
        self.choice = Some(choice);
        self
    }

    /// Retransmits lost ADUs of at least this priority if they can still arrive in time. A DCCP caller negotiates that with its peer; a
    /// listener needs it in its settings.
    #[must_use]
    pub fn repair(mut self, least: Priority) -> Self {
        self.repair = Some(least);
        self
    }

    /// Sets the number of slots, a power of two.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }
}

/// An open ring, with its application and its journal.
pub(crate) struct RingSide {
    application: Box<dyn Application>,
    source: Repair<RingSource>,
    journal: Journal,
    producer: Producer,
    /// Ends of the ADUs in a byte stream.
    ends: Ends,
    max_payload: usize,
    /// Close when the fate of every ADU is known.
    finishing: bool,
    closed: bool,
    /// Something has happened since the application was last run.
    stirred: bool,
    next_pass: Instant,
}

impl RingSide {
    pub(crate) fn new(stream: Stream, max_payload: usize) -> Self {
        let config = Config::new(stream.slots).completions(stream.slots.saturating_mul(16));
        let (producer, consumer) = create(&config).expect("an experiment asks for a ring that can be");
        let ring = match stream.choice {
            Some(choice) => RingSource::with_choice(consumer, choice),
            None => RingSource::new(consumer),
        };
        Self {
            application: stream.application,
            source: Repair::new(ring, stream.repair),
            journal: Journal::default(),
            producer,
            ends: Ends::default(),
            max_payload,
            finishing: false,
            closed: false,
            stirred: false,
            next_pass: Instant::ZERO,
        }
    }

    /// Returns the sending interface, for use in place of the application.
    pub(crate) fn outlet(&mut self) -> impl Outlet + '_ {
        self.parts().1
    }

    /// Notes a sent datagram with an ADU.
    pub(crate) fn sent(&mut self, now: Instant, adu: &PulledAdu) {
        self.source.sent(adu.token);
        self.journal.left(now, adu.meta.seq);
        self.stirred = true;
    }

    /// Notes that an ADU should have arrived by now.
    pub(crate) fn overdue(&mut self, token: u64) {
        self.source.overdue(token);
    }

    /// Allows retransmission: the peer can tell it from new data.
    pub(crate) fn allow_repairs(&mut self) {
        self.source.allow();
    }

    /// Returns the number of retransmitted packets.
    pub(crate) fn repaired(&self) -> u64 {
        self.source.repaired()
    }

    /// Forwards fates to the journal and to the application.
    fn hear_fates(&mut self, now: Instant) {
        while let Some(done) = self.producer.poll_completion() {
            self.journal.settled(done.seq, done.fate);
            self.application.on_fate(now, done.seq, done.fate);
            self.stirred = true;
        }
    }

    /// Forwards advice of the late choice to the application.
    fn hear_advice(&mut self, now: Instant) {
        let adviser = self.source.inner_mut().adviser();
        if let Some(advice) = adviser.and_then(|adviser| adviser.poll_advice()) {
            self.application.on_advice(now, &advice);
            self.stirred = true;
        }
    }

    /// Returns the state of the send buffer, if the late choice advises the application.
    pub(crate) fn buffer(&mut self) -> Option<BufferState> {
        self.source.inner_mut().adviser().map(|adviser| adviser.state())
    }

    /// Returns the application, and its sending interface.
    fn parts(&mut self) -> (&mut dyn Application, RingOutlet<'_>) {
        let Self { application, source, producer, journal, finishing, max_payload, .. } = self;
        (&mut **application, RingOutlet { producer, source, journal, finishing, max_payload: *max_payload })
    }

    fn waits(&mut self) -> bool {
        !self.closed && self.source.inner_mut().consumer().has_queued()
    }
}

impl Side for RingSide {
    fn source(&mut self) -> &mut dyn AduSource {
        &mut self.source
    }

    fn run(&mut self, now: Instant) -> bool {
        self.hear_fates(now);
        if self.closed {
            return false;
        }
        self.hear_advice(now);
        let due = self.application.poll_timeout().is_some_and(|at| at <= now);
        if due || self.stirred {
            self.stirred = false;
            let (application, mut outlet) = self.parts();
            application.run(now, &mut outlet);
            self.hear_fates(now);
        }
        self.producer.needs_notify()
    }

    fn stir(&mut self) {
        self.stirred = true;
    }

    fn take_finish(&mut self) -> bool {
        !self.closed && std::mem::take(&mut self.finishing)
    }

    fn is_drained(&mut self, now: Instant) -> bool {
        !self.source.has_queued(now) && self.source.inner_mut().consumer().unsettled_len() == 0
    }

    fn stop_polling(&mut self) -> bool {
        !self.closed && self.source.inner_mut().stop_polling()
    }

    fn pass_expired(&mut self, now: Instant) {
        if self.waits() && now >= self.next_pass {
            self.next_pass = now + PASS_INTERVAL;
            let ring = self.source.inner_mut();
            let before = ring.queued_len();
            ring.pass_expired(now);
            self.stirred |= ring.queued_len() < before;
        }
    }

    fn poll_watch(&mut self) -> Option<Instant> {
        if self.closed { None } else { self.source.inner_mut().poll_watch() }
    }

    fn watch(&mut self, now: Instant, path: &PathState) {
        self.source.inner_mut().watch(now, path);
    }

    fn pulled(&mut self, adu: &PulledAdu) {
        self.source.sent(adu.token);
        self.ends.push(adu.len, adu.meta.seq);
        self.stirred = true;
    }

    fn bytes_left(&mut self, now: Instant, from: u64, to: u64) {
        for seq in self.ends.within(from, to) {
            self.journal.left(now, seq);
        }
    }

    fn adu_left(&mut self, now: Instant, seq: AduSeq) {
        self.journal.left(now, seq);
    }

    fn close(&mut self, now: Instant) {
        self.closed = true;
        self.source.close();
        self.hear_fates(now);
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        self.application.on_received(now, bytes);
    }

    /// Returns the earliest timer of the application, the late choice and the expiry scan.
    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let pass = self.waits().then_some(self.next_pass);
        let watch = self.poll_watch();
        self.application.poll_timeout().into_iter().chain(pass).chain(watch).min()
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn application(&self) -> &dyn Any {
        &*self.application
    }
}

/// Sending interface of a ring.
struct RingOutlet<'a> {
    producer: &'a mut Producer,
    source: &'a mut Repair<RingSource>,
    journal: &'a mut Journal,
    finishing: &'a mut bool,
    max_payload: usize,
}

impl Outlet for RingOutlet<'_> {
    fn next_seq(&self) -> AduSeq {
        self.journal.next_seq()
    }

    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        if bytes.len() > self.max_payload {
            return Err(Refused::TooLarge { len: bytes.len(), max: self.max_payload });
        }
        let meta = AduMeta { seq: self.next_seq(), ..meta };
        match self.producer.enqueue(&meta, bytes) {
            Ok(_) => {
                self.journal.offered(meta, bytes.len());
                Ok(meta.seq)
            }
            Err(EnqueueError::Full | EnqueueError::ZoneFull) => {
                self.journal.refuse();
                Err(Refused::Full)
            }
            Err(EnqueueError::Closed) => Err(Refused::Closed),
            Err(EnqueueError::TooLarge { len, buffer_size }) => Err(Refused::TooLarge { len, max: buffer_size }),
            Err(other) => unreachable!("an enqueue of fresh bytes gives {other}"),
        }
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        Some(self.producer)
    }

    fn set_rate(&mut self, rate: Rate) {
        if let Some(adviser) = self.source.inner_mut().adviser() {
            adviser.set_rate(rate);
        }
    }

    fn finish(&mut self) {
        *self.finishing = true;
    }
}
