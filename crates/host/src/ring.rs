//! A packet ring with its application and its journal, for both transports.

use std::any::Any;

use timeous_core::{
    AduMeta, AduSeq, AduSource, BufferState, Instant, LateChoice, PathState, Priority, PulledAdu, Rate,
};
use timeous_ring::{EnqueueError, Index, Producer, create};
use timeous_stream::{SendSide, ring_settings};

use crate::application::{Application, Outlet, Refused};
use crate::journal::Journal;
use crate::side::{Ends, Side};

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
    sending: SendSide,
    journal: Journal,
    producer: Producer,
    /// Ends of the ADUs in a byte stream.
    ends: Ends,
    max_payload: usize,
    /// Something has happened since the application was last run.
    stirred: bool,
}

impl RingSide {
    pub(crate) fn new(stream: Stream, max_payload: usize) -> Self {
        let settings = ring_settings(stream.slots, max_payload);
        let (producer, consumer) = create(&settings).expect("an experiment asks for a ring that can be");
        Self {
            application: stream.application,
            sending: SendSide::new(consumer, stream.choice, stream.repair),
            journal: Journal::default(),
            producer,
            ends: Ends::default(),
            max_payload,
            stirred: false,
        }
    }

    /// Returns the sending interface, for use in place of the application.
    pub(crate) fn outlet(&mut self) -> impl Outlet + '_ {
        self.parts().1
    }

    /// Returns the sending side.
    pub(crate) fn sending(&mut self) -> &mut SendSide {
        &mut self.sending
    }

    /// Returns the last path state.
    pub(crate) fn path(&self) -> &PathState {
        self.sending.path()
    }

    /// Returns the time at which the application wants to run.
    pub(crate) fn poll_run(&mut self) -> Option<Instant> {
        if self.sending.is_closed() { None } else { self.application.poll_timeout() }
    }

    /// Notes a sent datagram with an ADU.
    pub(crate) fn sent(&mut self, now: Instant, adu: &PulledAdu) {
        self.sending.sent(adu.token);
        self.journal.left(now, adu.meta.seq);
        self.stirred = true;
    }

    /// Returns the number of retransmitted packets.
    pub(crate) fn repaired(&self) -> u64 {
        self.sending.repaired()
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
        if let Some(advice) = self.sending.poll_advice() {
            self.application.on_advice(now, &advice);
            self.stirred = true;
        }
    }

    /// Returns the state of the send buffer, if the late choice advises the application.
    pub(crate) fn buffer(&mut self) -> Option<BufferState> {
        self.sending.buffer()
    }

    /// Returns the application, and its sending interface.
    fn parts(&mut self) -> (&mut dyn Application, RingOutlet<'_>) {
        let Self { application, sending, producer, journal, max_payload, .. } = self;
        (&mut **application, RingOutlet { producer, sending, journal, max_payload: *max_payload })
    }
}

impl Side for RingSide {
    fn source(&mut self) -> &mut dyn AduSource {
        self.sending.source()
    }

    fn run(&mut self, now: Instant) -> bool {
        self.hear_fates(now);
        if self.sending.is_closed() {
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
        self.sending.take_finish()
    }

    fn stop_polling(&mut self) -> bool {
        self.sending.stop_polling()
    }

    fn pass_expired(&mut self, now: Instant) {
        self.stirred |= self.sending.drop_expired(now);
    }

    fn watch(&mut self, now: Instant, path: &PathState) {
        self.sending.set_path(*path);
        self.sending.watch(now);
    }

    fn pulled(&mut self, adu: &PulledAdu) {
        self.sending.sent(adu.token);
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
        self.sending.close();
        self.hear_fates(now);
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        self.application.on_received(now, bytes);
    }

    /// Returns the earliest timer of the application, the late choice and the expiry scan.
    fn poll_timeout(&mut self) -> Option<Instant> {
        self.poll_run().into_iter().chain(self.sending.poll_timeout()).min()
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
    sending: &'a mut SendSide,
    journal: &'a mut Journal,
    max_payload: usize,
}

impl RingOutlet<'_> {
    /// Notes in the journal what became of an ADU that was offered.
    fn offered(&mut self, meta: AduMeta, len: usize, queued: Result<(), EnqueueError>) -> Result<AduSeq, Refused> {
        match queued {
            Ok(()) => {
                self.journal.offered(meta, len);
                Ok(meta.seq)
            }
            Err(EnqueueError::Full | EnqueueError::ZoneFull) => {
                self.journal.refuse();
                Err(Refused::Full)
            }
            Err(EnqueueError::Closed) => Err(Refused::Closed),
            Err(EnqueueError::TooLarge { len, buffer_size }) => Err(Refused::TooLarge { len, max: buffer_size }),
            Err(other) => unreachable!("fresh bytes in a place that exists give {other}"),
        }
    }
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
        let queued = self.producer.enqueue(&meta, bytes);
        self.offered(meta, bytes.len(), queued.map(|_| ()))
    }

    fn rewrite(&mut self, index: Index, meta: AduMeta, bytes: &[u8]) -> Result<Option<AduSeq>, Refused> {
        let meta = AduMeta { seq: self.next_seq(), ..meta };
        let Ok(mut pulled) = self.producer.pull_back_all() else { return Err(Refused::Closed) };
        let Some(place) = pulled.place_of(index) else { return Ok(None) };
        let rewritten = pulled.rewrite(place, &meta, bytes);
        drop(pulled);
        self.offered(meta, bytes.len(), rewritten).map(Some)
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        Some(self.producer)
    }

    fn set_rate(&mut self, rate: Rate) {
        self.sending.set_rate(rate);
    }

    fn finish(&mut self) {
        self.sending.finish();
    }
}
