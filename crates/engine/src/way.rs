//! Channel from a stream to its engine: a queue to a thread, or a socket to another process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use timeous_ring::ZoneRequest;
use timeous_stream::{Order, StreamId};

use crate::line::Orders;
use crate::remote::{self, RemoteRequest};

#[derive(Debug)]
pub(crate) enum Way {
    Thread(StreamId, Orders),
    Process(Arc<OwnedFd>),
}

impl Way {
    /// Asks another process to attach a zone to the ring.
    pub(crate) fn ask_for_zone(&self, request: &ZoneRequest) {
        if let Self::Process(socket) = self {
            remote::wish(socket, RemoteRequest::Zone(request.number(), request.key()));
        }
    }

    /// Returns whether the engine is in this process.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self, Self::Thread(..))
    }

    pub(crate) fn send(&self, order: Order) {
        match (self, order) {
            (Self::Thread(id, orders), order) => {
                orders.send((*id, order));
            }
            (Self::Process(socket), Order::Notify) => remote::wish(socket, RemoteRequest::Notify),
            (Self::Process(socket), Order::Finish) => remote::wish(socket, RemoteRequest::Finish),
            (Self::Process(socket), Order::Ignore) => remote::wish(socket, RemoteRequest::Ignore),
            (Self::Process(socket), Order::Tell) => remote::wish(socket, RemoteRequest::Tell),
            (Self::Process(socket), Order::Rate(rate)) => remote::wish(socket, RemoteRequest::Rate(rate)),
            (Self::Process(socket), Order::Refuse) => remote::wish(socket, RemoteRequest::Refuse),
            (Self::Process(socket), Order::Abandon) => remote::hang_up(socket),
        }
    }
}
