//! The streams of a port, found by connection or identifier; a round looks only at those that something happened to.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{AduSource, Instant, NoAdus, Schedule};
use timeous_dccp::{ConnectionId, Sources};
use timeous_ring::Payload;

use crate::batch::Payloads;
use crate::order::StreamId;
use crate::session::Session;

/// A stream's session, and the queues that it is in.
struct Entry {
    session: Session,
    /// In `touched`.
    is_touched: bool,
    /// In `changed`.
    is_changed: bool,
}

/// The streams of a port.
#[derive(Default)]
pub(crate) struct Sessions {
    entries: BTreeMap<ConnectionId, Box<Entry>>,
    by_stream: BTreeMap<StreamId, ConnectionId>,
    /// Streams that something happened to, whose sources were not looked after since.
    touched: VecDeque<ConnectionId>,
    /// Streams that something happened to in this round.
    changed: Vec<ConnectionId>,
    timers: Schedule<ConnectionId>,
    /// Empty source, for a connection without a stream.
    nothing: NoAdus,
    /// Number of packets for which the batch has room.
    pub(crate) room: u32,
}

impl Sessions {
    pub(crate) fn insert(&mut self, connection: ConnectionId, session: Session) {
        self.by_stream.insert(session.id, connection);
        self.entries.insert(connection, Box::new(Entry { session, is_touched: false, is_changed: false }));
        self.touch(connection);
    }

    pub(crate) fn remove(&mut self, connection: ConnectionId) -> Option<Session> {
        let entry = self.entries.remove(&connection)?;
        self.by_stream.remove(&entry.session.id);
        self.timers.forget(connection);
        Some(entry.session)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the connection of a stream.
    pub(crate) fn connection(&self, id: StreamId) -> Option<ConnectionId> {
        self.by_stream.get(&id).copied()
    }

    pub(crate) fn get(&self, connection: ConnectionId) -> Option<&Session> {
        self.entries.get(&connection).map(|entry| &entry.session)
    }

    /// Returns a session that something happens to: it is looked after in this round.
    pub(crate) fn get_mut(&mut self, connection: ConnectionId) -> Option<&mut Session> {
        let Self { entries, touched, changed, .. } = self;
        let entry = entries.get_mut(&connection)?;
        entry.touch(connection, touched, changed);
        Some(&mut entry.session)
    }

    /// Notes that something happened to a stream.
    pub(crate) fn touch(&mut self, connection: ConnectionId) {
        self.get_mut(connection);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Session)> {
        self.entries.iter().map(|(&connection, entry)| (connection, &entry.session))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut Session)> {
        self.entries.iter_mut().map(|(&connection, entry)| (connection, &mut entry.session))
    }

    /// Returns the next stream whose source has to be looked after.
    pub(crate) fn poll_touched(&mut self) -> Option<(ConnectionId, &mut Session)> {
        // Those that were removed meanwhile are skipped.
        while let Some(connection) = self.touched.pop_front() {
            if self.entries.contains_key(&connection) {
                let entry = self.entries.get_mut(&connection)?;
                entry.is_touched = false;
                return Some((connection, &mut entry.session));
            }
        }
        None
    }

    /// Takes the streams that something happened to in this round.
    pub(crate) fn take_changed(&mut self) -> Vec<ConnectionId> {
        let changed = std::mem::take(&mut self.changed);
        for connection in &changed {
            if let Some(entry) = self.entries.get_mut(connection) {
                entry.is_changed = false;
            }
        }
        changed
    }

    /// Returns a session without noting that something happens to it.
    pub(crate) fn look_at(&mut self, connection: ConnectionId) -> Option<&mut Session> {
        self.entries.get_mut(&connection).map(|entry| &mut entry.session)
    }

    /// Sets the time at which a stream is looked after even if nothing happens to it.
    pub(crate) fn set_timer(&mut self, connection: ConnectionId, at: Option<Instant>) {
        self.timers.set_timeout(connection, at);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(connection) = self.timers.next_due(now) {
            self.touch(connection);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first_timeout()
    }
}

impl Entry {
    fn touch(
        &mut self,
        connection: ConnectionId,
        touched: &mut VecDeque<ConnectionId>,
        changed: &mut Vec<ConnectionId>,
    ) {
        if !std::mem::replace(&mut self.is_touched, true) {
            touched.push_back(connection);
        }
        if !std::mem::replace(&mut self.is_changed, true) {
            changed.push(connection);
        }
    }
}

impl Sources for Sessions {
    fn source(&mut self, id: ConnectionId) -> &mut dyn AduSource {
        let Self { entries, touched, changed, nothing, room, .. } = self;
        match entries.get_mut(&id) {
            Some(entry) => {
                entry.touch(id, touched, changed);
                entry.session.sending.source_with_room(*room)
            }
            None => nothing,
        }
    }
}

impl Payloads for Sessions {
    fn payload(&self, connection: ConnectionId, token: u64) -> Option<Payload<'_>> {
        self.get(connection)?.sending.payload(token)
    }

    fn sent(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.get_mut(connection) {
            session.sending.sent(token);
        }
    }

    fn expired(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.get_mut(connection) {
            session.sending.expired(token);
        }
    }
}
