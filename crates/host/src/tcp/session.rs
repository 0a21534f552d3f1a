//! A connection of a TCP agent: its feed, its application, and what was noted of it.

use timeous_core::{Instant, PathState};
use timeous_tcp::record::Ordered;
use timeous_tcp::{CloseReason, Event, Segment, Seq, Statistics};

use super::feed::Feed;
use crate::application::Application;
use crate::journal::{Arrivals, Journal};
use crate::ring::RingSide;
use crate::side::Side;
use crate::socket::SocketSide;
use crate::stamp;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpStatus {
    /// The handshake is not complete.
    Connecting,
    /// Data may flow.
    Open,
    /// It has ended.
    Closed(CloseReason),
}

/// A connection, also after its end.
pub struct TcpSession {
    pub(super) side: Box<dyn Side>,
    pub(super) call: Option<u64>,
    status: TcpStatus,
    arrivals: Arrivals,
    /// The sequence number of the stream's first byte, and how far copies of it have left.
    first: Option<Seq>,
    sent: u64,
    statistics: Statistics,
    path: PathState,
    /// Reads the records in a stream that comes in order, if there are any.
    records: Option<Ordered>,
    /// Bytes of padding that left.
    padding: u64,
    changes_refused: bool,
}

impl TcpSession {
    pub(super) fn new(feed: Feed, mss: usize, call: Option<u64>) -> Self {
        let side: Box<dyn Side> = match feed {
            Feed::Socket(socket) => Box::new(SocketSide::new(socket)),
            Feed::Ring(stream) => Box::new(RingSide::new(stream, mss)),
        };
        Self {
            side,
            call,
            status: TcpStatus::Connecting,
            arrivals: Arrivals::default(),
            first: None,
            sent: 0,
            statistics: Statistics::default(),
            path: PathState::default(),
            records: None,
            padding: 0,
            changes_refused: false,
        }
    }

    /// Where it stands.
    pub fn status(&self) -> TcpStatus {
        self.status
    }

    /// What became of each ADU that was offered here.
    pub fn journal(&self) -> &Journal {
        self.side.journal()
    }

    /// What came from the peer, as it could be read.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The transport's counters when it last told of anything.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What was known of the path then.
    pub fn path(&self) -> &PathState {
        &self.path
    }

    /// The application, by its type; `None` if it is of another.
    pub fn application<A: Application>(&self) -> Option<&A> {
        self.side.application().downcast_ref()
    }

    /// Bytes of the stream that left and were no datagram's payload: framing, padding.
    pub fn padding(&self) -> u64 {
        self.padding
    }

    /// Whether the transport has found out that the path does not bear what is sent again as something else.
    pub fn changes_refused(&self) -> bool {
        self.changes_refused
    }

    pub(super) fn expect_records(&mut self) {
        self.records = Some(Ordered::default());
    }

    pub(super) fn note(&mut self, statistics: Statistics, path: Option<PathState>) {
        self.statistics = statistics;
        self.path = path.unwrap_or(self.path);
    }

    /// A segment leaves: the journal gets a time for each ADU that ends in it, whether it is sent first or again.
    pub(super) fn segment_left(&mut self, now: Instant, segment: &Segment<'_>) {
        if segment.payload.is_empty() {
            return;
        }
        let seq = segment.data_seq();
        let first = *self.first.get_or_insert(seq);
        // The offset nearest to what has left, since numbers wrap.
        let behind = seq.offset_from(first + self.sent as u32);
        let from = self.sent.saturating_add_signed(behind.into());
        let to = from + segment.payload.len() as u64;
        self.sent = self.sent.max(to);
        self.side.bytes_left(now, from, to);
    }

    /// A segment of records leaves: the journal gets a time for each ADU in it, whatever the transport meant to send.
    pub(super) fn records_left(&mut self, now: Instant, segment: &Segment<'_>) {
        let Self { side, padding, .. } = self;
        *padding += segment.payload.len() as u64;
        Ordered::default().push(segment.payload, |datagram| {
            *padding -= datagram.payload.len() as u64;
            if let Some(seq) = stamp::read(datagram.payload) {
                side.adu_left(now, seq);
            }
        });
    }

    pub(super) fn received_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.arrivals.datagram(now, bytes);
        self.side.on_received(now, bytes);
    }

    pub(super) fn received(&mut self, now: Instant, bytes: &[u8]) {
        let Self { side, arrivals, records, .. } = self;
        match records {
            Some(records) => records.push(bytes, |datagram| {
                arrivals.datagram(now, datagram.payload);
                side.on_received(now, datagram.payload);
            }),
            None => {
                arrivals.bytes(now, bytes.len());
                side.on_received(now, bytes);
            }
        }
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => self.status = TcpStatus::Open,
            Event::Acked { token } => self.side.source().acked(token),
            Event::Lost { token } => self.side.source().lost(token),
            Event::ChangesRefused => self.changes_refused = true,
            Event::Closed { reason } => {
                self.status = TcpStatus::Closed(reason);
                self.side.close(now);
            }
            _ => {}
        }
        self.side.stir();
    }

    /// Whether it has nothing to say for itself, and ends when its peer does.
    pub(super) fn ends_with_peer(&self) -> bool {
        self.call.is_none()
    }

    /// Whether it ended in order.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.status, TcpStatus::Closed(CloseReason::Finished))
    }

    /// Runs the application; `true` if the transport has to look at the source then.
    pub(super) fn run(&mut self, now: Instant) -> bool {
        self.status == TcpStatus::Open && self.side.run(now)
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        if self.status == TcpStatus::Open { self.side.poll_timeout() } else { None }
    }
}
