//! The streams of an endpoint, found by connection; a round looks only at those that something happened to.

use std::collections::VecDeque;

use timeous_core::{AduSource, IdMap, Instant, NoAdus, Schedule};
use timeous_transport::{ConnectionId, Sources};

use crate::session::Session;

/// A stream, and the queues that it is in.
struct Entry<S> {
    session: S,
    /// In `touched`.
    is_touched: bool,
    /// In `changed`.
    is_changed: bool,
}

/// The streams of an endpoint.
pub struct Sessions<S> {
    entries: IdMap<ConnectionId, Box<Entry<S>>>,
    /// Streams that something happened to, whose sources were not looked after since.
    touched: VecDeque<ConnectionId>,
    /// Streams that something happened to in this round.
    changed: Vec<ConnectionId>,
    timers: Schedule<ConnectionId>,
    /// Empty source, for a connection without a stream.
    nothing: NoAdus,
    /// Number of packets for which the driver has room.
    pub(crate) room: u32,
}

impl<S> Default for Sessions<S> {
    fn default() -> Self {
        let (entries, touched, changed) = Default::default();
        Self { entries, touched, changed, timers: Schedule::default(), nothing: NoAdus, room: 1 }
    }
}

impl<S> Sessions<S> {
    /// Adds the stream of a connection.
    pub fn insert(&mut self, connection: ConnectionId, session: S) {
        self.entries.insert(connection, Box::new(Entry { session, is_touched: false, is_changed: false }));
        self.touch(connection);
    }

    /// Removes a stream, which lives on without its connection.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<S> {
        self.timers.forget(connection);
        Some(self.entries.remove(connection)?.session)
    }

    /// Returns whether there is no stream.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a stream.
    pub fn get(&self, connection: ConnectionId) -> Option<&S> {
        self.entries.get(connection).map(|entry| &entry.session)
    }

    /// Returns a stream that something happens to: it is looked after in this round.
    pub fn get_mut(&mut self, connection: ConnectionId) -> Option<&mut S> {
        let Self { entries, touched, changed, .. } = self;
        let entry = entries.get_mut(connection)?;
        entry.touch(connection, touched, changed);
        Some(&mut entry.session)
    }

    /// Notes that something happened to a stream.
    pub fn touch(&mut self, connection: ConnectionId) {
        self.get_mut(connection);
    }

    /// Notes that something happened to every stream.
    pub fn touch_all(&mut self) {
        self.ids().into_iter().for_each(|connection| self.touch(connection));
    }

    /// Returns the connections of all streams, in the order in which they began.
    pub fn ids(&self) -> Vec<ConnectionId> {
        self.entries.ids()
    }

    /// Returns all streams, in the order in which their connections began.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &S)> {
        self.ids().into_iter().filter_map(|connection| Some((connection, self.get(connection)?)))
    }

    /// Returns the next stream whose source has to be looked after.
    pub(crate) fn poll_touched(&mut self) -> Option<(ConnectionId, &mut S)> {
        // Streams may have been removed meanwhile.
        while let Some(connection) = self.touched.pop_front() {
            if self.entries.contains(connection) {
                let entry = self.entries.get_mut(connection)?;
                entry.is_touched = false;
                return Some((connection, &mut entry.session));
            }
        }
        None
    }

    /// Takes the streams that something happened to in this round.
    pub(crate) fn take_changed(&mut self) -> Vec<ConnectionId> {
        let changed = std::mem::take(&mut self.changed);
        for &connection in &changed {
            if let Some(entry) = self.entries.get_mut(connection) {
                entry.is_changed = false;
            }
        }
        changed
    }

    /// Returns a stream without noting that something happens to it.
    pub(crate) fn look_at(&mut self, connection: ConnectionId) -> Option<&mut S> {
        self.entries.get_mut(connection).map(|entry| &mut entry.session)
    }

    /// Sets the time at which a stream is looked after even if nothing happens to it.
    pub(crate) fn set_timer(&mut self, connection: ConnectionId, at: Option<Instant>) {
        self.timers.set_timeout(connection, at);
    }

    /// Returns the next stream whose timer has expired.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<ConnectionId> {
        let connection = self.timers.next_due(now)?;
        self.touch(connection);
        Some(connection)
    }

    /// Returns the time of the next timer of a stream.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first_timeout()
    }
}

impl<S> Entry<S> {
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

impl<S: Session> Sources for Sessions<S> {
    fn source(&mut self, id: ConnectionId) -> &mut dyn AduSource {
        let Self { entries, touched, changed, nothing, room, .. } = self;
        match entries.get_mut(id) {
            Some(entry) => {
                entry.touch(id, touched, changed);
                entry.session.sending().source_with_room(*room)
            }
            None => nothing,
        }
    }
}
