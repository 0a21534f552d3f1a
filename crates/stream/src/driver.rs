//! Driver of streams: an endpoint with the stream of each connection, without the socket.

use std::collections::BTreeSet;
use std::ops::DerefMut;

use timeous_cm::Manager;
use timeous_core::{Instant, Misuse, PathState};
use timeous_transport::{Connection, ConnectionId, Endpoint, Event, Outgoing, Protocol};

use crate::session::Session;
use crate::sessions::Sessions;

type EventOf<P> = Event<<<P as Protocol>::Connection as Connection>::CloseReason>;

/// An endpoint and its streams, run alike over a socket and in a simulated network. `E` is the endpoint of a protocol.
///
/// A round: the endpoint's packet input and [`handle_timeout`](Self::handle_timeout) for what has arrived and expired; then
/// [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event) with [`deliver`](Self::deliver), and
/// [`look_after_sources`](Self::look_after_sources) until there is no more progress; then [`end_round`](Self::end_round) and
/// [`poll_timeout`](Self::poll_timeout). Time never goes back.
///
/// Commands to connections (connect, listen, …) and packets go to the `endpoint`, and new streams to the `sessions`.
pub struct Driver<E, S> {
    /// The endpoint.
    pub endpoint: E,
    /// The streams, by connection.
    pub sessions: Sessions<S>,
    /// Streams whose reader is slow, and whose transport knows.
    slow: BTreeSet<ConnectionId>,
}

impl<E, S, P> Driver<E, S>
where
    E: DerefMut<Target = Endpoint<P>>,
    S: Session<Connection = P::Connection>,
    P: Protocol,
{
    /// Creates a driver without streams.
    pub fn new(endpoint: E) -> Self {
        Self { endpoint, sessions: Sessions::default(), slow: BTreeSet::new() }
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        in_order(self.endpoint.handle_timeout(now, cm));
        while let Some(connection) = self.sessions.next_due(now) {
            let Some(session) = self.sessions.look_at(connection) else { continue };
            let sending = session.sending();
            sending.drop_expired(now);
            if let Some(path) = path(&self.endpoint, cm, connection) {
                sending.set_path(path);
            }
            sending.watch(now);
        }
    }

    /// Writes the next packet into the empty `packet`, for a caller with room for `room` packets at this instant. **This is the instant of
    /// late choice.** A payload that is [apart](timeous_core::PulledAdu::apart) is the caller's to gather, before it confirms with
    /// [`SendSide::sent`](crate::SendSide::sent).
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        room: u32,
        packet: &mut Vec<u8>,
    ) -> Option<Outgoing<P::Local>> {
        self.sessions.room = room;
        in_order(self.endpoint.poll_transmit(now, cm, &mut self.sessions, packet))
    }

    /// Returns the next event. The caller adds the stream of an incoming connection, and then calls [`deliver`](Self::deliver).
    pub fn poll_event(&mut self) -> Option<(ConnectionId, EventOf<P>)> {
        self.endpoint.poll_event()
    }

    /// Delivers an event to its stream.
    pub fn deliver(&mut self, now: Instant, cm: &Manager, connection: ConnectionId, event: EventOf<P>) {
        match event {
            // Lost data may be retransmitted.
            Event::Lost { .. } | Event::Overdue { .. } => self.endpoint.wake(connection),
            // The final report, before the application learns of the end.
            Event::Closed { .. } => {
                self.slow.remove(&connection);
                if let Some(session) = self.sessions.look_at(connection) {
                    report(now, cm, &self.endpoint, connection, session, true);
                }
            }
            _ => {}
        }
        if let Some(session) = self.sessions.get_mut(connection) {
            session.handle_event(now, event);
        }
    }

    /// Runs applications in virtual time, closes streams with nothing left to send, and requests a notification from empty rings; returns
    /// whether there was progress.
    pub fn look_after_sources(&mut self, now: Instant) -> bool {
        let mut progress = false;
        // An application's timer may have expired though nothing called for the others.
        while self.sessions.next_due(now).is_some() {}
        while let Some((connection, session)) = self.sessions.poll_touched() {
            let has_data = session.run(now) || session.sending().stop_polling();
            let is_finished = session.sending().take_finished(now);
            if has_data {
                self.endpoint.wake(connection);
            }
            if is_finished {
                // Fails only for an ended connection.
                let _ended = self.endpoint.close(now, connection);
            }
            progress |= has_data || is_finished;
        }
        progress
    }

    /// Ends a round: reports, and sets the timers of streams that something happened to. A timer may be due at once.
    pub fn end_round(&mut self, now: Instant, cm: &Manager) {
        for connection in self.sessions.take_changed() {
            let Some(session) = self.sessions.look_at(connection) else { continue };
            if session.wants_report(now) {
                report(now, cm, &self.endpoint, connection, session, false);
            }
            if session.sending().is_advised()
                && let Some(path) = path(&self.endpoint, cm, connection)
            {
                session.sending().set_path(path);
            }
            let room = session.new_room();
            session.end_round(now);
            let timer = session.sending().poll_timeout().into_iter().chain(session.poll_timeout()).min();
            self.sessions.set_timer(connection, timer);
            if let Some(room) = room {
                self.set_room(connection, room);
            }
        }
    }

    /// Reports the free receive buffer to the transports of slow readers, and of those that were slow: to be called before datagrams are
    /// received. Data received within one round uses the room at its beginning, or drops older data.
    pub fn tell_rooms(&mut self) {
        let slow: Vec<_> = self.slow.iter().copied().collect();
        for connection in slow {
            if let Some(room) = self.sessions.look_at(connection).and_then(Session::new_room) {
                self.set_room(connection, room);
            }
        }
    }

    fn set_room(&mut self, connection: ConnectionId, (room, is_slow): (usize, bool)) {
        self.endpoint.set_receive_room(connection, room, is_slow);
        if is_slow {
            self.slow.insert(connection);
        } else {
            self.slow.remove(&connection);
        }
    }

    /// Notes new data in the ring of a stream whose transport asked for that.
    pub fn notify(&mut self, connection: ConnectionId) {
        self.sessions.touch(connection);
        self.endpoint.wake(connection);
    }

    /// Requests a close of a stream once the fate of every ADU is known.
    pub fn finish(&mut self, connection: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(connection) {
            session.sending().finish();
        }
        self.endpoint.wake(connection);
    }

    /// Removes a stream, after a report of its counters. The caller ends its connection.
    pub fn remove(&mut self, now: Instant, connection: ConnectionId) -> Option<S> {
        self.slow.remove(&connection);
        if let (Some(session), Some(state)) = (self.sessions.look_at(connection), self.endpoint.connection(connection))
        {
            session.report(now, state.statistics(), false);
        }
        self.sessions.remove(connection)
    }

    /// Returns the time of the next timer of the endpoint or a stream.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        in_order(self.endpoint.poll_timeout()).into_iter().chain(self.sessions.poll_timeout()).min()
    }
}

/// Reports a connection's counters and path to its stream.
fn report<P: Protocol>(
    now: Instant,
    cm: &Manager,
    endpoint: &Endpoint<P>,
    connection: ConnectionId,
    session: &mut impl Session<Connection = P::Connection>,
    last: bool,
) {
    if let Some(path) = path(endpoint, cm, connection) {
        session.sending().set_path(path);
    }
    if let Some(state) = endpoint.connection(connection) {
        session.report(now, state.statistics(), last);
    }
}

/// Returns the path state of a connection, if the Congestion Manager knows its flow.
fn path(endpoint: &Endpoint<impl Protocol>, cm: &Manager, connection: ConnectionId) -> Option<PathState> {
    let state = endpoint.connection(connection)?;
    let mut path = cm.query(state.flow()?).ok()?;
    // Until data are acknowledged, the handshake tells the round trip.
    if path.srtt.is_none() {
        (path.srtt, path.min_rtt) = (state.handshake_rtt(), state.handshake_rtt());
    }
    Some(path)
}

/// Unwraps the result of a transport call whose caller keeps the driving order.
///
/// # Panics
/// If the order was broken, or time went back.
pub fn in_order<T>(result: Result<T, Misuse>) -> T {
    result.expect("the driver keeps the driving order, and its time does not go back")
}

#[cfg(test)]
mod tests;
