//! A connection of a TCP agent: its sending side, its application, and its recorded results.

use timeous_core::{Instant, PathState};
use timeous_seal::Secrets;
use timeous_tcp::record::{Framing, Limits, Ordered};
use timeous_tcp::{CloseReason, Event, Segment, Seq, Statistics};

use super::feed::Feed;
use super::sent_records::SentRecords;
use crate::application::Application;
use crate::journal::{Arrivals, Journal};
use crate::ring::RingSide;
use crate::side::Side;
use crate::socket::SocketSide;
use crate::stamp;

/// Status of a connection.
pub type TcpStatus = crate::agent::Status<CloseReason>;

/// A connection, kept after its end.
pub struct TcpSession {
    pub(super) side: Box<dyn Side>,
    pub(super) call: Option<u64>,
    status: TcpStatus,
    arrivals: Arrivals,
    /// Sequence number of the stream's first byte, and the highest offset sent.
    first: Option<Seq>,
    sent: u64,
    statistics: Statistics,
    path: PathState,
    /// Secrets of its records, if they are encrypted.
    secrets: Option<Secrets>,
    /// Whether plain records are in use.
    is_plain: bool,
    /// Parser of records in an in-order stream, if there are any.
    records: Option<Ordered>,
    /// Stream of records as last sent; its bytes with all retransmissions, and payload among them.
    sent_records: SentRecords,
    sent_bytes: u64,
    sent_payload: u64,
    changes_refused: bool,
}

impl TcpSession {
    pub(super) fn new(feed: Feed, mss: usize, call: Option<u64>, (secrets, is_plain): (Option<Secrets>, bool)) -> Self {
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
            secrets,
            is_plain,
            records: None,
            sent_records: SentRecords::default(),
            sent_bytes: 0,
            sent_payload: 0,
            changes_refused: false,
        }
    }

    /// Returns the connection's status.
    pub fn status(&self) -> TcpStatus {
        self.status
    }

    /// Returns the records of the ADUs sent here.
    pub fn journal(&self) -> &Journal {
        self.side.journal()
    }

    /// Returns the records of data received from the peer, by the time at which it could be read.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Returns the transport's counters at its last event.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the path state at the same time.
    pub fn path(&self) -> &PathState {
        &self.path
    }

    /// Returns the application, by its type; `None` if it is of another type.
    pub fn application<A: Application>(&self) -> Option<&A> {
        self.side.application().downcast_ref()
    }

    /// Returns the number of stream bytes sent that were not payload: framing and padding.
    pub fn padding(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.sent_payload)
    }

    /// Returns whether the transport has found that the path rejects changed retransmissions.
    pub fn changes_refused(&self) -> bool {
        self.changes_refused
    }

    pub(super) fn expect_records(&mut self) {
        let framing = Framing::of_received(self.secrets.as_ref());
        self.records = Some(reader(if self.is_plain { framing.with_plain() } else { framing }));
    }

    pub(super) fn note(&mut self, statistics: Statistics, path: Option<PathState>) {
        self.statistics = statistics;
        self.path = path.unwrap_or(self.path);
    }

    /// Records a sent segment: the time of each ADU that ends in it, for first transmissions and retransmissions.
    pub(super) fn segment_left(&mut self, now: Instant, segment: &Segment<'_>) {
        if let Some(from) = self.offset(segment) {
            self.side.bytes_left(now, from, from + segment.payload.len() as u64);
        }
    }

    /// Returns the stream offset of a sent segment; `None` without data.
    fn offset(&mut self, segment: &Segment<'_>) -> Option<u64> {
        if segment.payload.is_empty() {
            return None;
        }
        let seq = segment.data_seq();
        let first = *self.first.get_or_insert(seq);
        // The offset nearest to the highest one sent, since sequence numbers wrap.
        let behind = seq.offset_from(first + self.sent as u32);
        let from = self.sent.saturating_add_signed(behind.into());
        self.sent = self.sent.max(from + segment.payload.len() as u64);
        Some(from)
    }

    /// Records a sent segment of records: the time of each ADU whose record ends in it.
    pub(super) fn records_left(&mut self, now: Instant, segment: &Segment<'_>) {
        let Some(from) = self.offset(segment) else { return };
        let framing = Framing::of_sent(self.secrets.as_ref());
        let framing = if self.is_plain { framing.with_plain() } else { framing };
        let Self { side, sent_bytes, sent_payload, sent_records, .. } = self;
        *sent_bytes += segment.payload.len() as u64;
        sent_records.sent(from, segment.payload, framing, |datagram| {
            *sent_payload += datagram.payload.len() as u64;
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
            Event::Acked { token, .. } => self.side.source().acked(token),
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

    /// Returns whether it closes when its peer does, having no connection attempt of its own.
    pub(super) fn ends_with_peer(&self) -> bool {
        self.call.is_none()
    }

    /// Returns whether it was closed in order.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.status, TcpStatus::Closed(CloseReason::Finished))
    }

    /// Runs the application; returns `true` if the transport has to check the source then.
    pub(super) fn run(&mut self, now: Instant) -> bool {
        self.status == TcpStatus::Open && self.side.run(now)
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        if self.status == TcpStatus::Open { self.side.poll_timeout() } else { None }
    }
}

fn reader(framing: Framing) -> Ordered {
    Ordered::new(framing, Limits::default().longest)
}
