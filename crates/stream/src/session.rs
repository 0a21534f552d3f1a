//! Interface of a stream's application side for the driver.

use timeous_core::Instant;
use timeous_transport::{Connection, Event};

use crate::send_side::SendSide;

/// A stream with its application: in another thread, in another process, or in virtual time.
pub trait Session {
    /// The transport's connection.
    type Connection: Connection;

    /// Returns the sending side.
    fn sending(&mut self) -> &mut SendSide;

    /// Processes an event of the transport, for the sending side as well ([`SendSide::handle_event`]).
    fn handle_event(&mut self, now: Instant, event: Event<<Self::Connection as Connection>::CloseReason>);

    /// Runs an application in virtual time; returns whether it queued data that the transport was not notified of.
    fn run(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Returns whether a [`report`](Self::report) is wanted at the end of this round.
    fn wants_report(&self, now: Instant) -> bool {
        let _ = now;
        true
    }

    /// Receives the transport's counters, beside the path state of the sending side: at the end of a round in which something happened, if
    /// it is [wanted](Self::wants_report), when the stream is removed from its driver, and before [`Event::Closed`], as the `last` report.
    fn report(&mut self, now: Instant, statistics: &<Self::Connection as Connection>::Statistics, last: bool);

    /// Returns the free receive buffer in bytes, and whether the reader is slow, when the transport should learn of it.
    fn new_room(&mut self) -> Option<(usize, bool)> {
        None
    }

    /// Ends a round in which something happened: wakes an application elsewhere. What is due of the sending side may be done here, rather
    /// than in another round at once.
    fn end_round(&mut self, now: Instant) {
        let _ = now;
    }

    /// Returns the time at which an application in virtual time wants to run.
    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }
}
