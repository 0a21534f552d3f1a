//! A connection of a DCCP agent: its ring, its application, and what was noted of it.

use timeous_core::{BufferState, Instant, PathState};
use timeous_dccp::{CloseReason, Event, Statistics};

use crate::application::{Application, Outlet};
use crate::journal::{Arrivals, Journal};
use crate::ring::{RingSide, Stream};
use crate::side::Side;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The handshake is not complete.
    Connecting,
    /// Data may flow.
    Open,
    /// It has ended.
    Closed(CloseReason),
}

/// A connection, also after its end.
pub struct Session {
    pub(super) side: RingSide,
    status: Status,
    arrivals: Arrivals,
    /// The last that was known.
    statistics: Statistics,
    path: PathState,
    /// To be closed when everything has its fate.
    finishing: bool,
}

impl Session {
    pub(super) fn new(stream: Stream, max_payload: usize) -> Self {
        Self {
            side: RingSide::new(stream, max_payload),
            status: Status::Connecting,
            arrivals: Arrivals::default(),
            statistics: Statistics::default(),
            path: PathState::default(),
            finishing: false,
        }
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.status
    }

    /// What became of each ADU that was offered here.
    pub fn journal(&self) -> &Journal {
        self.side.journal()
    }

    /// What came from the peer.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The transport's counters when it last told of anything.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What was known of the path then.
    pub fn path(&self) -> &PathState {
        &self.path
    }

    /// How many lost packets were sent again.
    pub fn repaired(&self) -> u64 {
        self.side.repaired()
    }

    /// How its queue stands, where its choice advises the application.
    pub fn buffer(&mut self) -> Option<BufferState> {
        self.side.buffer()
    }

    /// The application, by its type; `None` if it is of another.
    pub fn application<A: Application>(&self) -> Option<&A> {
        self.side.application().downcast_ref()
    }

    /// The way into its ring, for an experiment that acts in its application's place.
    pub fn outlet(&mut self) -> impl Outlet + '_ {
        self.side.outlet()
    }

    pub(super) fn note(&mut self, statistics: Statistics, path: Option<PathState>) {
        self.statistics = statistics;
        self.path = path.unwrap_or(self.path);
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            // Every application of a simulated host listens to its end, and no host has another address.
            Event::Incoming { .. } | Event::NotListening | Event::Moved { .. } => {}
            Event::Connected => self.status = Status::Open,
            Event::Received(bytes) => {
                self.arrivals.datagram(now, &bytes);
                self.side.on_received(now, &bytes);
            }
            Event::Acked { token, at } => self.side.source().arrived(token, at),
            Event::Lost { token } => self.side.source().lost(token),
            Event::Overdue { token } => self.side.overdue(token),
            Event::TakesRepeats => self.side.allow_repairs(),
            Event::Closed { reason } => {
                self.status = Status::Closed(reason);
                self.side.close(now);
            }
        }
        self.side.stir();
    }

    /// Runs the application; `true` if the transport has to look at the ring then.
    pub(super) fn run(&mut self, now: Instant) -> bool {
        self.status == Status::Open && self.side.run(now)
    }

    /// Whether the application wanted it to end, and everything that was queued has its fate: said once.
    pub(super) fn is_finished(&mut self, now: Instant) -> bool {
        self.finishing |= self.side.take_finish();
        let finished = self.finishing && self.status == Status::Open && self.side.is_drained(now);
        self.finishing &= !finished;
        finished
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        if self.status == Status::Open { self.side.poll_timeout() } else { None }
    }
}
