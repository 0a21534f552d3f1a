//! What a host's connections have to send.

use std::collections::BTreeMap;

use timeous_core::{AduSource, NoAdus};
use timeous_tcp::{ConnectionId, Event, Outgoing, Sources, StreamBuffer};

/// There is no such connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such connection: it has ended")]
pub struct Unknown;

/// The send buffers, by connection.
#[derive(Debug)]
pub(super) struct Streams {
    buffers: BTreeMap<ConnectionId, StreamBuffer>,
    capacity: usize,
    nothing: NoAdus,
}

impl Streams {
    /// Each buffer is to hold `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { buffers: BTreeMap::new(), capacity, nothing: NoAdus }
    }

    pub(super) fn add(&mut self, id: ConnectionId) {
        self.buffers.entry(id).or_insert_with(|| StreamBuffer::new(self.capacity));
    }

    pub(super) fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, Unknown> {
        self.buffers.get_mut(&id).map(|buffer| buffer.write(bytes)).ok_or(Unknown)
    }

    /// Passes on what a source is to know.
    pub(super) fn heard(&mut self, id: ConnectionId, event: &Event) {
        match event {
            Event::Incoming { .. } => self.add(id),
            Event::Acked { token } => self.source(id).acked(*token),
            Event::Lost { token } => self.source(id).lost(*token),
            Event::Closed { .. } => drop(self.buffers.remove(&id)),
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
        match self.buffers.get_mut(&id) {
            Some(buffer) => buffer,
            None => &mut self.nothing,
        }
    }
}
