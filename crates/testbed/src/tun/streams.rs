//! Send queues of a TUN host's connections.

use std::collections::BTreeMap;

use timeous_core::{AduSource, NoAdus};
use timeous_tcp::{ConnectionId, Event, Outgoing, Sources, StreamBuffer};

/// Unknown connection, or one without a write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such connection to write into: it has ended, or has a source of its own")]
pub struct Unknown;

/// Send queue of one connection.
enum Feed {
    /// Written bytes.
    Buffer(StreamBuffer),
    /// ADUs pulled from the caller's source at the instant of sending.
    Source(Box<dyn AduSource + Send>),
}

/// Send queues by connection.
pub(super) struct Streams {
    feeds: BTreeMap<ConnectionId, Feed>,
    capacity: usize,
    nothing: NoAdus,
}

impl Streams {
    /// Creates the queues; each buffer holds `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { feeds: BTreeMap::new(), capacity, nothing: NoAdus }
    }

    pub(super) fn add(&mut self, id: ConnectionId) {
        self.feeds.entry(id).or_insert_with(|| Feed::Buffer(StreamBuffer::new(self.capacity)));
    }

    pub(super) fn add_source(&mut self, id: ConnectionId, source: Box<dyn AduSource + Send>) {
        self.feeds.insert(id, Feed::Source(source));
    }

    pub(super) fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, Unknown> {
        match self.feeds.get_mut(&id) {
            Some(Feed::Buffer(buffer)) => Ok(buffer.write(bytes)),
            Some(Feed::Source(_)) | None => Err(Unknown),
        }
    }

    /// Forwards an event to the connection's source.
    pub(super) fn heard(&mut self, id: ConnectionId, event: &Event) {
        match event {
            Event::Incoming { .. } => self.add(id),
            Event::Acked { token, .. } => self.source(id).acked(*token),
            Event::Lost { token } => self.source(id).lost(*token),
            Event::Closed { .. } => drop(self.feeds.remove(&id)),
            _ => {}
        }
    }

    /// Notes a sent packet.
    pub(super) fn sent(&mut self, outgoing: &Outgoing) {
        if let (Some(id), Some(adu)) = (outgoing.connection, outgoing.transmit.adu) {
            self.source(id).sent(adu.token);
        }
    }
}

impl Sources for Streams {
    fn source(&mut self, id: ConnectionId) -> &mut dyn AduSource {
        match self.feeds.get_mut(&id) {
            Some(Feed::Buffer(buffer)) => buffer,
            Some(Feed::Source(source)) => source.as_mut(),
            None => &mut self.nothing,
        }
    }
}
