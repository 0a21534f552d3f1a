//! An endpoint: many connections, of which those that have a reason to send take turns.

use std::net::SocketAddr;

use timeous_cm::{FlowId, Manager};
use timeous_core::{DriveOrder, Instant, Misuse, NoAdus, Rng, Transport};

use crate::config::EndpointConfig;
use crate::connection::Connection;
use crate::error::{CommandError, ConnectError};
use crate::event::Event;
use crate::packets::{ConnectionId, Outgoing, Sources};
use crate::table::{EndpointStatistics, Protocol, Stage, Table};

type EventOf<P> = Event<<<P as Protocol>::Connection as Connection>::CloseReason>;
type OutgoingOf<P> = Outgoing<<P as Protocol>::Local>;

/// The connections of one protocol at a socket or a host, sans-IO: packets and time in, packets and events out.
///
/// The driver follows the call order of [`Transport`]. A connection is polled only when it has a reason to send, so the
/// driver must pass on the Congestion Manager's wake-ups ([`Manager::poll_granted`], also between two packets) by
/// [`granted`](Self::granted), and the application's by [`wake`](Self::wake).
///
/// Listening, connecting and packet input are the protocol's: its endpoint contains this one.
#[derive(Debug)]
pub struct Endpoint<P: Protocol> {
    /// The protocol's own part.
    pub protocol: P,
    /// The connections.
    pub table: Table<P>,
    order: DriveOrder,
}

impl<P: Protocol> Endpoint<P> {
    /// Creates an endpoint without connections. `rng` makes sequence numbers and ports unguessable: seed it from the
    /// system.
    pub fn new(config: EndpointConfig<P::Config>, protocol: P, rng: Rng) -> Self {
        Self { protocol, table: Table::new(config, rng), order: DriveOrder::default() }
    }

    /// Begins a connection to `remote` from an ephemeral port (RFC 6335 §6), which completes the `key`.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no room for another connection.
    pub fn begin(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        key: impl Fn(u16) -> P::Key,
        make: impl FnOnce(&EndpointConfig<P::Config>, P::Key, &mut Rng) -> P::Connection,
    ) -> Result<ConnectionId, ConnectError> {
        const FIRST: u16 = 49_152;
        const COUNT: u16 = u16::MAX - FIRST + 1;
        self.reap(now);
        let Self { protocol, table, .. } = self;
        if table.open_len() >= table.config.max_connections {
            return Err(ConnectError::TooMany(table.open_len()));
        }
        let start = table.rng.below(u64::from(COUNT)) as u16;
        let mut keys = (0..COUNT).map(|step| key(FIRST + (start + step) % COUNT));
        let is_free = |key: &P::Key| table.find(key).is_none() && !protocol.is_reserved(key);
        let key = keys.find(is_free).ok_or(ConnectError::NoPort(remote))?;
        self.order.fed(now)?;
        let connection = make(&table.config, key, &mut table.rng);
        Ok(table.add(now, key, connection, Stage::Connecting))
    }

    /// Closes a connection gracefully; [`Event::Closed`] follows.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn close(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.close(now))
    }

    /// Carries out a command to a connection.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn command(
        &mut self,
        now: Instant,
        id: ConnectionId,
        command: impl FnOnce(&mut P::Connection) -> Result<(), Misuse>,
    ) -> Result<(), CommandError> {
        if !self.table.slots.contains(id) {
            return Err(CommandError::Unknown(id));
        }
        self.order.fed(now)?;
        Ok(self.update(id, command)?)
    }

    /// Notes input at `now`, before it is processed, and forgets connections that are over.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn fed(&mut self, now: Instant) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reap(now);
        Ok(())
    }

    /// Changes a connection that may then have packets to send and events to report; none is no error.
    ///
    /// # Errors
    /// That of `change`.
    pub fn update(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut P::Connection) -> Result<(), Misuse>,
    ) -> Result<(), Misuse> {
        if let Some(slot) = self.table.slots.get_mut(id) {
            change(&mut slot.connection)?;
            self.changed(id);
        }
        Ok(())
    }

    /// Notes that a connection has changed, as by [`update`](Self::update).
    pub fn changed(&mut self, id: ConnectionId) {
        self.table.schedule.make_ready(id);
        self.settle(id);
    }

    /// Sets the receive buffer of a connection, as [`Connection::set_receive_room`].
    pub fn set_receive_room(&mut self, id: ConnectionId, room: usize, is_slow: bool) {
        if let Some(slot) = self.table.slots.get_mut(id) {
            slot.connection.set_receive_room(room, is_slow);
        }
    }

    /// Notes that the Congestion Manager has granted `flow` a packet. Returns whether the flow is one of this
    /// endpoint's.
    pub fn granted(&mut self, flow: FlowId) -> bool {
        let id = self.table.flows.get(flow).copied();
        if let Some(id) = id {
            self.table.schedule.make_ready(id);
        }
        id.is_some()
    }

    /// Notes that the application has queued data in the connection's source.
    pub fn wake(&mut self, id: ConnectionId) {
        if self.table.slots.contains(id) {
            self.table.schedule.make_ready(id);
        }
    }

    /// Returns a connection, until its end was reported by [`poll_event`](Self::poll_event), everything was sent and read, and the next
    /// call is made.
    pub fn connection(&self, id: ConnectionId) -> Option<&P::Connection> {
        let slot = self.table.slots.get(id).filter(|slot| slot.stage != Stage::Lingering);
        slot.map(|slot| &slot.connection)
    }

    /// Returns the IDs of all connections, half-open ones included, without those in TIME-WAIT.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.table.slots.ids().into_iter().filter(|&id| !self.table.is_lingering(id))
    }

    /// Returns the number of half-open connections: requested by a client and not established.
    pub fn half_open(&self) -> usize {
        self.table.half_open.len()
    }

    /// Returns the counters of the endpoint.
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.table.statistics
    }

    /// Advances time: to be called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Misuse> {
        self.fed(now)?;
        self.protocol.handle_timeout(now);
        while let Some(id) = self.table.schedule.next_due(now) {
            self.update(id, |connection| connection.handle_timeout(now, cm))?;
        }
        Ok(())
    }

    /// Writes the next packet into the empty `packet`; `None` if there is none. Connections take turns.
    ///
    /// # Errors
    /// [`Misuse`] if the driver broke the call order.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        sources: &mut dyn Sources,
        packet: &mut Vec<u8>,
    ) -> Result<Option<OutgoingOf<P>>, Misuse> {
        if !packet.is_empty() {
            return Err(Misuse::BufferNotEmpty { len: packet.len() });
        }
        self.order.advance(now)?;
        let polled = match self.protocol.poll_transmit(now, &mut self.table, packet) {
            Some(outgoing) => Ok(Some(outgoing)),
            None => self.poll_connections(now, cm, sources, packet),
        };
        if let Ok(outgoing) = &polled {
            self.order.polled(now, outgoing.is_some())?;
        }
        polled
    }

    fn poll_connections(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        sources: &mut dyn Sources,
        packet: &mut Vec<u8>,
    ) -> Result<Option<OutgoingOf<P>>, Misuse> {
        while let Some(id) = self.table.schedule.first_ready() {
            let Table { slots, schedule, .. } = &mut self.table;
            let Some(slot) = slots.get_mut(id) else {
                schedule.first_is_done();
                continue;
            };
            let mut nothing = NoAdus;
            let source = if slot.stage == Stage::Connected { sources.source(id) } else { &mut nothing };
            let polled = slot.connection.poll_transmit(now, cm, source, packet);
            let (from, to) = P::addresses(&slot.key);
            match &polled {
                Ok(Some(_)) => schedule.take_turns(),
                Ok(None) => {
                    let timeout = slot.connection.poll_timeout()?;
                    schedule.first_is_done();
                    schedule.set_timeout(id, timeout);
                }
                Err(_) => {}
            }
            // A data packet usually changes none of these.
            let is_quiet = matches!(slot.stage, Stage::Connecting | Stage::Connected);
            if !is_quiet || slot.flow != slot.connection.flow() || slot.connection.has_news() {
                self.settle(id);
            }
            if matches!(polled, Ok(None)) {
                continue;
            }
            // `polled` is moved last: moving it right after it is written stalls on those writes.
            return polled
                .map(|transmit| transmit.map(|transmit| Outgoing { to, from, connection: Some(id), transmit }));
        }
        Ok(None)
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due; `None`: not before something else happens.
    ///
    /// # Errors
    /// [`Misuse::NotDrained`] while packets may wait.
    pub fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        // Reads and wake-ups since the last drain may have made a packet due at once.
        let at_once = Some(self.order.now()).filter(|_| self.table.schedule.first_ready().is_some());
        Ok(self.table.schedule.first_timeout().into_iter().chain(at_once).min())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, EventOf<P>)> {
        self.reap(self.order.now());
        let (id, event) = self.table.events.pop_front()?;
        if matches!(event, Event::Closed { .. })
            && let Some(slot) = self.table.slots.get_mut(id)
        {
            slot.stage = Stage::Ended;
            self.table.to_reap.push(id);
        }
        Some((id, event))
    }

    /// Collects a connection's events and updates the tables.
    fn settle(&mut self, id: ConnectionId) {
        let Table { slots, flows, half_open, events, statistics, to_reap, .. } = &mut self.table;
        let Some(slot) = slots.get_mut(id) else { return };
        let flow = slot.connection.flow();
        if flow != slot.flow {
            if let Some(old) = slot.flow.take() {
                flows.remove(old);
            }
            if let Some(new) = flow {
                flows.insert(new, id);
            }
            slot.flow = flow;
        }
        while let Some(event) = slot.connection.poll_event() {
            if event == Event::Connected {
                if slot.stage == Stage::HalfOpen {
                    let Some(port) = self.protocol.accept(&mut slot.connection, &slot.key) else {
                        // It stays half-open, and so invisible to the application, until its end.
                        statistics.refused += 1;
                        continue;
                    };
                    half_open.remove(&id);
                    events.push_back((id, Event::Incoming { port }));
                }
                slot.stage = Stage::Connected;
            }
            // The application does not know of a connection that was never established.
            if slot.stage != Stage::HalfOpen {
                events.push_back((id, event));
            }
        }
        match slot.stage {
            Stage::HalfOpen if slot.connection.is_drained() => self.table.remove(id),
            Stage::Ended if slot.connection.is_drained() => to_reap.push(id),
            Stage::Lingering if !slot.connection.is_in_time_wait() => self.table.remove(id),
            _ => {}
        }
    }

    /// Removes connections whose end was reported, once everything was sent and read. In TIME-WAIT they may stay on their own.
    fn reap(&mut self, now: Instant) {
        while let Some(id) = self.table.to_reap.pop() {
            let Some(slot) = self.table.slots.get(id) else { continue };
            if slot.stage != Stage::Ended || !slot.connection.is_drained() {
                continue;
            }
            if slot.connection.is_in_time_wait() && self.protocol.keeps(now, &slot.connection, &slot.key) {
                self.table.leave(id);
            } else {
                self.table.remove(id);
            }
        }
    }
}
