//! A connection of a DCCP agent: its ring, its application, and its recorded results.

use timeous_core::{BufferState, Instant, PathState};
use timeous_dccp::{CloseReason, Event, Statistics};

use crate::application::{Application, Outlet};
use crate::journal::{Arrivals, Journal};
use crate::ring::{RingSide, Stream};
use crate::side::Side;

/// Status of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Handshake in progress.
    Connecting,
    /// Established: data can flow.
    Open,
    /// Closed.
    Closed(CloseReason),
}

/// A connection, kept after its end.
pub struct Session {
    pub(super) side: RingSide,
    status: Status,
    arrivals: Arrivals,
    /// Last known transport statistics.
    statistics: Statistics,
    path: PathState,
}

impl Session {
    pub(super) fn new(stream: Stream, max_payload: usize) -> Self {
        Self {
            side: RingSide::new(stream, max_payload),
            status: Status::Connecting,
            arrivals: Arrivals::default(),
            statistics: Statistics::default(),
            path: PathState::default(),
        }
    }

    /// Returns the connection's status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the records of the ADUs sent here.
    pub fn journal(&self) -> &Journal {
        self.side.journal()
    }

    /// Returns the records of data received from the peer.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Returns the transport's counters at its last event.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the path state at the same time.
    pub fn path(&self) -> &PathState {
        &self.path
    }

    /// Returns the number of retransmitted packets.
    pub fn repaired(&self) -> u64 {
        self.side.repaired()
    }

    /// Returns the state of the send buffer, if the late choice advises the application.
    pub fn buffer(&mut self) -> Option<BufferState> {
        self.side.buffer()
    }

    /// Returns the application, by its type; `None` if it is of another type.
    pub fn application<A: Application>(&self) -> Option<&A> {
        self.side.application().downcast_ref()
    }

    /// Returns the application's sending interface, for an experiment that acts in its place.
    pub fn outlet(&mut self) -> impl Outlet + '_ {
        self.side.outlet()
    }

    pub(super) fn note(&mut self, statistics: Statistics, path: Option<PathState>) {
        self.statistics = statistics;
        self.path = path.unwrap_or(self.path);
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        self.side.sending().handle_event(&event);
        match event {
            Event::Connected => self.status = Status::Open,
            Event::Received(bytes) => {
                self.arrivals.datagram(now, &bytes);
                self.side.on_received(now, &bytes);
            }
            Event::Closed { reason } => {
                self.status = Status::Closed(reason);
                self.side.close(now);
            }
            _ => {}
        }
        self.side.stir();
    }

    /// Runs the application; returns `true` if the transport has to check the ring then.
    pub(super) fn run(&mut self, now: Instant) -> bool {
        self.status == Status::Open && self.side.run(now)
    }

    /// Returns, once, whether the application has ended the stream and the fate of every ADU is known.
    pub(super) fn is_finished(&mut self, now: Instant) -> bool {
        self.side.sending().take_finished(now)
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        if self.status == Status::Open { self.side.poll_timeout() } else { None }
    }
}
