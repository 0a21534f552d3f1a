//! Interface of a connection to its endpoint and its driver.

use std::fmt::Debug;

use timeous_cm::{FlowId, Manager};
use timeous_core::{Duration, Instant, Misuse, Transport};

use crate::event::Event;

/// A connection of an endpoint.
pub trait Connection:
    Debug + Transport<Congestion = Manager, Event = Event<<Self as Connection>::CloseReason>>
{
    /// Reason for the end of a connection.
    type CloseReason: Debug + Clone + PartialEq;
    /// Counters of a connection.
    type Statistics;

    /// Closes the connection gracefully; ends with [`Event::Closed`].
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    fn close(&mut self, now: Instant) -> Result<(), Misuse>;

    /// Returns its counters.
    fn statistics(&self) -> &Self::Statistics;

    /// Returns its flow in the Congestion Manager, from the end of the handshake to the end of the connection.
    fn flow(&self) -> Option<FlowId>;

    /// Returns the round-trip time of the handshake, if it was measured.
    fn handshake_rtt(&self) -> Option<Duration> {
        None
    }

    /// Returns whether [`poll_event`](Transport::poll_event) has an event.
    fn has_news(&self) -> bool;

    /// Returns whether the connection is over (TIME-WAIT included), with everything sent, read and reported.
    fn is_drained(&self) -> bool;

    /// Returns whether the connection is in TIME-WAIT.
    fn is_in_time_wait(&self) -> bool;

    /// Sets the receive buffer in bytes, and whether its reader is slow, for a protocol that tells its peer.
    fn set_receive_room(&mut self, room: usize, is_slow: bool) {
        let _ = (room, is_slow);
    }
}
