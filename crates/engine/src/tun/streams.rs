//! What a host's connections have to send.

use std::collections::BTreeMap;

use timeous_core::{AduSource, NoAdus};
use timeous_tcp::{ConnectionId, Event, Outgoing, Sources, StreamBuffer};

/// There is no such connection, or nothing is written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such connection to write into: it has ended, or has a source of its own")]
pub struct Unknown;

/// What a connection has to send, and from where.
enum Feed {
    /// What was written.
    Buffer(StreamBuffer),
    /// What the caller's source gives at the instant of sending.
    Source(Box<dyn AduSource + Send>),
}

/// What there is to send, by connection.
pub(super) struct Streams {
    feeds: BTreeMap<ConnectionId, Feed>,
    capacity: usize,
    nothing: NoAdus,
}

impl Streams {
    /// Each buffer is to hold `capacity` bytes.
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

    /// Passes on what a source is to know.
    pub(super) fn heard(&mut self, id: ConnectionId, event: &Event) {
        match event {
            Event::Incoming { .. } => self.add(id),
            Event::Acked { token } => self.source(id).acked(*token),
            Event::Lost { token } => self.source(id).lost(*token),
            Event::Closed { .. } => drop(self.feeds.remove(&id)),
            _ => {}
        }
    }

    /// A packet has left.
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
