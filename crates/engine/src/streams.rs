//! Factory of streams, both sides of each, and of their identifiers.

use timeous_core::IdMap;
use timeous_stream::StreamId;

use crate::command::{Made, Offer, PortLife, User};
use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::inbox::Inbox;
use crate::line::Orders;
use crate::remote::{self, Served};
use crate::session::Session;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::waker::Waker;

/// Inbox capacity of a stream for another process, in bytes, in addition to the socket's buffer. Chosen by us: a higher
/// value takes more memory for a slow reader.
const UNREAD_ELSEWHERE: usize = 1 << 20;

/// Creates streams and assigns their identifiers.
pub(crate) struct Streams {
    orders: Orders,
    next: u64,
    /// Port of each stream over DCCP.
    ports: IdMap<StreamId, u64>,
}

impl Streams {
    pub(crate) fn new(orders: Orders) -> Self {
        Self { orders, next: 0, ports: IdMap::default() }
    }

    /// Notes the port that runs a stream.
    pub(crate) fn place(&mut self, id: StreamId, port: u64) {
        self.ports.insert(id, port);
    }

    /// Returns the port that runs a stream, or ran it before it went on over TCP; `None`: no port did.
    pub(crate) fn port(&self, id: StreamId) -> Option<u64> {
        self.ports.get(id).copied()
    }

    /// Forgets a stream.
    pub(crate) fn forget(&mut self, id: StreamId) {
        self.ports.remove(id);
    }

    /// Creates both sides of a new stream.
    pub(crate) fn make(
        &mut self,
        user: User,
        config: &StreamConfig,
        port: PortLife,
    ) -> Result<(Session, Made), EngineError> {
        let id = StreamId(self.next);
        self.next += 1;
        let ring = config.ring();
        match user {
            User::Here => {
                let (producer, consumer) = timeous_ring::create(&ring)?;
                let shared = Shared::new()?;
                let session = Session::new(id, consumer, config, shared.clone());
                Ok((session, Made::Here(Box::new(Stream::new(id, producer, shared, self.orders.clone())))))
            }
            User::Elsewhere => {
                let (consumer, ring) = timeous_ring::create_shared_for_producer(&ring)?;
                let (here, there) = remote::pair()?;
                let bell = Waker::new()?;
                let shared = Shared::with(Inbox::new(UNREAD_ELSEWHERE), bell.clone(), bell.clone());
                let zones = consumer.zones();
                let session = Session::new(id, consumer, config, shared.clone());
                let served = Served::new((id, shared), self.orders.clone(), bell, here, zones);
                Ok((session, Made::Elsewhere(Box::new(Offer { served, ring, socket: there, port }))))
            }
        }
    }
}
