//! Interface of a stream's application side for a TCP connection.

use std::net::SocketAddr;

use timeous_core::{Instant, SubStream};
use timeous_seal::SealError;
use timeous_stream::{Session, StreamId};
use timeous_transport::{CloseReason, Connection, Statistics};

/// A stream with its application, over a TCP connection.
pub trait TcpSession: Session<Connection: Connection<CloseReason = CloseReason, Statistics = Statistics>> {
    /// Returns the stream's identifier.
    fn id(&self) -> StreamId;

    /// Returns the counters of a carrier before this one, which go on.
    fn statistics(&self) -> Statistics;

    /// Sets the peer's address.
    fn set_peer(&self, peer: SocketAddr);

    /// Queues a received datagram for the application.
    fn received(&mut self, now: Instant, substream: SubStream, bytes: Vec<u8>);

    /// Notes that no more is received, though the stream goes on.
    fn peer_ended(&mut self);

    /// Ends the stream: its two ends could not agree on keys.
    fn fail(&mut self, error: SealError);

    /// Sets the connection's state, before a [`report`](Session::report).
    fn set_view(&mut self, view: TcpView);
}

/// Reach of late choice: the point up to which a datagram that cannot play in time is still withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reach {
    /// Until transmission: there is no queue behind the packet ring. DCCP has this reach.
    #[default]
    Sending,
    /// Until the kernel's unsent queue, which is kept at one packet. Data in that queue and retransmissions are not changed.
    Queue,
    /// Through the kernel's queue to every retransmission: sent data stays in our memory until it is acknowledged.
    Retransmissions,
}

/// State of a connection, with counters of late choice behind the packet ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpView {
    /// Reach of late choice.
    pub reach: Reach,
    /// Datagrams handed to the kernel whose place a fresh one took, as they could not arrive in time: directly, or after padding had been
    /// there.
    pub replaced: u64,
    /// Datagrams handed to the kernel and replaced by padding.
    pub padded: u64,
    /// Datagrams handed to the kernel that could not arrive in time and could not be changed: TCP may have retransmitted them after their
    /// deadline.
    pub unchanged: u64,
    /// Whether sending is stalled by the peer's closed window: the peer does not read.
    pub stalled: bool,
    /// Whether datagrams are received out of order, by a packet tap.
    pub tapped: bool,
    /// Datagrams delivered before earlier missing ones, or before they were read from the stream.
    pub early: u64,
    /// Longest datagram that leaves in one segment, and is changed in place, in bytes; zero: not known yet.
    pub longest: usize,
}
