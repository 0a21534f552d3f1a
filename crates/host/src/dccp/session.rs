//! A connection of a DCCP agent: its ring, its application, and its recorded results.

use timeous_core::{BufferState, Instant, PathState, PulledAdu};
use timeous_dccp::{CloseReason, Connection, Event, Statistics};
use timeous_stream::SendSide;

use crate::application::{Application, Outlet};
use crate::journal::{Arrivals, Journal};
use crate::ring::{RingSide, Stream};
use crate::side::Side;

/// Status of a connection.
pub type Status = crate::agent::Status<CloseReason>;

/// A connection, kept after its end.
pub struct Session {
    pub(super) side: RingSide,
    status: Status,
    arrivals: Arrivals,
    /// Last known transport statistics.
    statistics: Statistics,
}

impl Session {
    pub(super) fn new(stream: Stream, max_payload: usize) -> Self {
        Self {
            side: RingSide::new(stream, max_payload),
            status: Status::Connecting,
            arrivals: Arrivals::default(),
            statistics: Statistics::default(),
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

    /// Returns the transport's counters at its last activity.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the path state at the same time.
    pub fn path(&self) -> &PathState {
        self.side.path()
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

    /// Completes the packet of an ADU, and notes that it leaves.
    pub(super) fn sent(&mut self, now: Instant, mut adu: PulledAdu, packet: &mut Vec<u8>) {
        adu.gather(self.side.source(), packet);
        self.side.sent(now, &adu);
    }

    /// Drops queued data.
    pub(super) fn abandon(&mut self, now: Instant) {
        self.side.close(now);
    }
}

impl timeous_stream::Session for Session {
    type Connection = Connection;

    fn sending(&mut self) -> &mut SendSide {
        self.side.sending()
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
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

    fn run(&mut self, now: Instant) -> bool {
        self.status == Status::Open && self.side.run(now)
    }

    fn report(&mut self, _: Instant, statistics: &Statistics, _: bool) {
        self.statistics = *statistics;
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.status == Status::Open { self.side.poll_run() } else { None }
    }
}
