//! Receive side of a connection: reassembly, window, content and timing of acknowledgements.
//!
//! # How a connection drives it
//!
//! 1. After the peer's SYN: [`Receiver::new`], with the SYN's sequence number and, if timestamps were agreed, its
//!    TSval.
//! 2. For every segment: [`Receiver::accept`], the first check of RFC 9293 §3.10.7.4 and PAWS. An unacceptable segment
//!    is dropped, and an acknowledgement becomes due if one is required.
//! 3. After the connection's own checks (RST, SYN, ACK): [`Receiver::on_segment`] takes data, FIN, timestamp and
//!    congestion marks, and reports what is new.
//! 4. Before each segment with an ACK is sent: [`Receiver::stamp`] fills in header and options; afterwards
//!    [`Receiver::on_sent`].
//! 5. A pure ACK is due if [`Receiver::ack_is_due`], at the latest at [`Receiver::poll_timeout`].
//! 6. The application reads by [`Receiver::read`], after which a window update may be due.

mod acks;
mod assembly;
mod config;
mod congestion;
mod datagrams;
mod delivery;
mod ranges;
mod ring;
mod sack;
mod timestamps;
mod window;

use std::ops::Range;

use timeous_core::{Ecn, Instant};

use self::acks::AckSchedule;
use self::assembly::{Assembly, Placed};
use self::congestion::Echo;
use self::delivery::Delivery;
use self::sack::Recent;
use self::timestamps::PeerClock;
use self::window::Window;
use crate::segment::{Flags, Header, Options, SackBlock, Segment};
use crate::seq::Seq;

pub use self::acks::DelayedAck;
pub use self::config::{ReceiverConfig, syn_window, window_scale_for};
pub use self::datagrams::ReceivedDatagram;

/// The receive side of a connection.
///
/// ```
/// use timeous_core::{Ecn, Instant};
/// use timeous_tcp::receiver::{Receiver, ReceiverConfig};
/// use timeous_tcp::{Header, Options, Segment, Seq};
/// let now = Instant::ZERO;
/// let mut receiver = Receiver::new(now, &ReceiverConfig::default(), Seq::new(99), None);
/// let header = Header { ack: Some(Seq::new(1)), ..Header::new(5001, 80, Seq::new(100)) };
/// let segment = Segment { header, options: Options::default(), payload: b"hello" };
/// assert!(receiver.accept(now, &segment).is_acceptable());
/// assert_eq!(receiver.on_segment(now, &segment, Ecn::NotEct).bytes, 5);
///
/// assert!(receiver.ack_is_due(now));
/// let (mut header, mut options) = (Header::new(80, 5001, Seq::new(1)), Options::default());
/// receiver.stamp(&mut header, &mut options);
/// receiver.on_sent(&header);
/// assert_eq!(header.ack, Some(Seq::new(105)));
/// assert!(!receiver.ack_is_due(now));
///
/// let mut bytes = Vec::new();
/// receiver.read(usize::MAX, &mut bytes);
/// assert_eq!(bytes, b"hello");
/// ```
#[derive(Debug)]
pub struct Receiver {
    /// Sequence number of the stream's first byte.
    first: Seq,
    assembly: Assembly,
    delivery: Delivery,
    /// Datagrams completed by the current segment.
    complete: usize,
    window: Window,
    acks: AckSchedule,
    recent: Option<Recent>,
    clock: Option<PeerClock>,
    echo: Option<Echo>,
    /// End of the stream, once a FIN has set it.
    end: Option<u64>,
    last_ack_sent: Seq,
    /// Readable data was reported since the last read.
    is_reported: bool,
    statistics: ReceiverStatistics,
}

/// Result of the first check of a segment (RFC 9293 §3.10.7.4, RFC 7323 §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acceptance {
    /// Process it.
    Acceptable,
    /// No part is in the window: drop it. It is answered, unless it is a reset.
    OutsideWindow,
    /// Rejected by PAWS as an old duplicate: drop it. It is answered.
    OldTimestamp,
    /// Lacks the negotiated timestamp: drop it silently (RFC 7323 §3.2).
    NoTimestamp,
}

impl Acceptance {
    /// Returns whether to process the segment.
    pub const fn is_acceptable(self) -> bool {
        matches!(self, Self::Acceptable)
    }
}

/// New data in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Receipt {
    /// Number of bytes that became readable in order.
    pub bytes: usize,
    /// Number of datagrams that became readable, where they are received as such.
    pub datagrams: usize,
    /// The FIN was reached by this segment: no data follows.
    pub finished: bool,
}

/// Counters of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStatistics {
    /// Segments without new data.
    pub duplicates: u64,
    /// Segments beyond a gap.
    pub out_of_order: u64,
    /// Segments with data beyond the window, or dropped because there were too many gaps.
    pub refused: u64,
    /// Segments outside of the window.
    pub unacceptable: u64,
    /// Segments rejected by PAWS, or without a timestamp.
    pub strays: u64,
}

impl Receiver {
    /// Creates a receiver of the data behind the SYN numbered `syn`, whose TSval is `timestamp` if timestamps were
    /// negotiated.
    pub fn new(now: Instant, config: &ReceiverConfig, syn: Seq, timestamp: Option<u32>) -> Self {
        let buffer = config.buffer.min(ReceiverConfig::MAX_BUFFER);
        Self {
            first: syn + 1,
            assembly: Assembly::new(buffer, config.max_islands),
            delivery: Delivery::new(&ReceiverConfig { buffer, ..config.clone() }),
            complete: 0,
            window: Window::new(buffer, config.window_scale, config.mss),
            acks: AckSchedule::new(config.delayed_ack),
            recent: config.sack.then(Recent::default),
            clock: timestamp.map(|value| PeerClock::new(now, value)),
            echo: config.ecn.then(Echo::default),
            end: None,
            last_ack_sent: syn + 1,
            is_reported: false,
            statistics: ReceiverStatistics::default(),
        }
    }

    /// Returns whether `seq` is that of the stream's first byte.
    pub(crate) fn is_first(&self, seq: Seq) -> bool {
        seq == self.first
    }

    /// Returns whether the SYN of a new connection is beyond any segment of this one, by timestamp or number (RFC 6191).
    pub(crate) fn is_outlived_by(&self, syn: &Segment<'_>) -> bool {
        let clocks = self.clock.zip(syn.options.timestamps);
        let is_later = clocks.is_some_and(|(last, this)| this.value.wrapping_sub(last.echo()) as i32 > 0);
        is_later || syn.header.seq.is_after(self.next())
    }

    /// Returns RCV.NXT, after the FIN if that was reached.
    pub fn next(&self) -> Seq {
        self.seq_of(self.assembly.next()) + u32::from(self.is_finished())
    }

    /// Returns whether the FIN was reached: all data of the peer is here.
    pub fn is_finished(&self) -> bool {
        self.end == Some(self.assembly.next())
    }

    /// Returns the number of readable bytes or, where datagrams are received, of readable datagrams.
    pub fn readable(&self) -> usize {
        self.delivery.readable(&self.assembly)
    }

    /// Returns the receiver's counters.
    pub const fn statistics(&self) -> ReceiverStatistics {
        self.statistics
    }

    /// Returns the memory used for unread bytes.
    pub fn capacity(&self) -> usize {
        self.assembly.capacity()
    }

    /// Returns the number of islands (contiguous ranges) beyond the first gap.
    pub fn islands(&self) -> usize {
        self.assembly.islands().len()
    }

    /// Checks a segment for acceptability, with PAWS, and schedules an acknowledgement where one is owed.
    pub fn accept(&mut self, now: Instant, segment: &Segment<'_>) -> Acceptance {
        let is_reset = segment.has(Flags::RST);
        if let Some(clock) = self.clock.filter(|_| !is_reset) {
            let Some(timestamps) = segment.options.timestamps else {
                self.statistics.strays += 1;
                return Acceptance::NoTimestamp;
            };
            if clock.is_old(now, timestamps.value) {
                self.statistics.strays += 1;
                self.answer(now, segment);
                return Acceptance::OldTimestamp;
            }
        }
        if self.touches_window(segment) {
            return Acceptance::Acceptable;
        }
        self.statistics.unacceptable += 1;
        if !is_reset {
            self.answer(now, segment);
        }
        Acceptance::OutsideWindow
    }

    /// Processes the content of an acceptable segment.
    pub fn on_segment(&mut self, now: Instant, segment: &Segment<'_>, ecn: Ecn) -> Receipt {
        if let (Some(clock), Some(timestamps)) = (&mut self.clock, segment.options.timestamps) {
            clock.hear(now, timestamps.value, segment.header.seq, self.last_ack_sent);
        }
        let has_fin = segment.has(Flags::FIN);
        if segment.payload.is_empty() && !has_fin {
            return Receipt::default();
        }
        // Only data is sent with ECT, so that only a mark on data counts (RFC 3168 §6.1.4).
        if let Some(echo) = self.echo.as_mut().filter(|_| !segment.payload.is_empty())
            && echo.arrived(ecn, segment.has(Flags::CWR))
        {
            self.acks.at_once();
        }
        let was_finished = self.is_finished();
        let at = self.offset_of(segment.data_seq());
        if has_fin {
            self.note_end(at + segment.payload.len() as i64);
        }
        let next = self.assembly.next();
        self.take(now, at, segment.payload);
        let bytes = (self.assembly.next() - next) as usize;
        let datagrams = std::mem::take(&mut self.complete);
        Receipt { bytes, datagrams, finished: self.is_finished() && !was_finished }
    }

    /// Appends the payload of the next datagram to `out`, where they are received as such; `None` if there is none.
    pub fn read_datagram(&mut self, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        self.is_reported = false;
        let received = self.delivery.read_datagram(&mut self.assembly, out)?;
        self.tell_window();
        Some(received)
    }

    /// Appends readable bytes to `out`, at most `limit`, and returns their number.
    pub fn read(&mut self, limit: usize, out: &mut Vec<u8>) -> usize {
        self.is_reported = false;
        let count = self.delivery.read(&mut self.assembly, limit, out);
        if count > 0 {
            self.tell_window();
        }
        count
    }

    /// Returns whether readable data is to be reported: once until the next read.
    pub(crate) fn report_readable(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// Schedules a window update, if reading has opened the window far enough.
    fn tell_window(&mut self) {
        if !self.is_finished() && self.window.is_news(self.assembly.next(), self.delivery.freed()) {
            self.acks.at_once();
        }
    }

    /// Makes an acknowledgement due now, such as a challenge ACK (RFC 5961 §3.2).
    pub fn demand_ack(&mut self) {
        self.acks.at_once();
    }

    /// Returns whether an acknowledgement must be sent now, with data or without.
    pub fn ack_is_due(&self, now: Instant) -> bool {
        self.acks.is_due(now)
    }

    /// Returns when a delayed acknowledgement becomes due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.acks.timeout()
    }

    /// Fills in the receive side's fields of a segment: acknowledgement, window, ECE, timestamp echo, and as many SACK
    /// blocks as fit. The number of SACK blocks may be reduced afterwards.
    pub fn stamp(&self, header: &mut Header, options: &mut Options) {
        header.ack = Some(self.next());
        let is_syn = header.flags.contains(Flags::SYN);
        header.window = self.window.field(self.assembly.next(), self.delivery.freed(), is_syn);
        header.flags |= Flags::when(!is_syn && self.echo.is_some_and(Echo::is_on), Flags::ECE);
        if let (Some(clock), Some(timestamps)) = (&self.clock, &mut options.timestamps) {
            timestamps.echo = clock.echo();
        }
        if let Some(recent) = self.recent.as_ref().filter(|_| !is_syn) {
            let room = options.room_for_sack();
            options.sack = recent.blocks(self.assembly.islands(), room, |span| self.sack_block(&span));
        }
    }

    /// Notes that the segment with this stamped header was sent.
    pub fn on_sent(&mut self, header: &Header) {
        self.last_ack_sent = self.next();
        self.window.told(self.assembly.next(), header.window, header.flags.contains(Flags::SYN));
        self.acks.sent();
        if let Some(recent) = &mut self.recent {
            recent.told();
        }
    }

    /// Returns whether any of the segment is between the last acknowledgement and the edge of the window.
    ///
    /// This is wider than RFC 9293 §3.10.7.4, as in Linux: it accepts data before RCV.NXT that was not acknowledged yet
    /// (an overtaken ACK still counts), and a segment right at the edge (so do ACKs and RSTs of a peer that has filled
    /// the window).
    fn touches_window(&self, segment: &Segment<'_>) -> bool {
        let edge = self.seq_of(self.window.promised()).max(self.next());
        segment.end().is_at_or_after(self.last_ack_sent) && segment.header.seq.is_at_or_before(edge)
    }

    fn answer(&mut self, now: Instant, segment: &Segment<'_>) {
        let is_empty = segment.seq_len() == 0 || segment.has(Flags::SYN);
        self.acks.answer(now, is_empty);
        let at = self.offset_of(segment.data_seq());
        let end = at + segment.payload.len() as i64;
        if end <= self.next_offset() && !segment.payload.is_empty() {
            self.statistics.duplicates += 1;
            self.report_duplicate(at, end);
        }
    }

    /// Notes the end of the stream, if `end` is plausible: the first FIN counts, later ones do not.
    fn note_end(&mut self, end: i64) {
        if self.end.is_none() && end >= self.next_offset() && end <= self.window.promised() as i64 {
            self.end = Some(end as u64);
            self.assembly.truncate(end as u64);
        }
        self.acks.at_once();
    }

    /// Takes the data that starts at `at`, cut to the part that is new and within the window.
    fn take(&mut self, now: Instant, at: i64, payload: &[u8]) {
        let next = self.next_offset();
        let limit = self.end.unwrap_or(u64::MAX).min(self.window.promised()) as i64;
        let end = at + payload.len() as i64;
        let known = (next - at).clamp(0, payload.len() as i64);
        let beyond = (end - limit).clamp(0, payload.len() as i64 - known);
        let wanted = &payload[known as usize..payload.len() - beyond as usize];
        if known > 0 {
            self.report_duplicate(at, at + known);
        }
        if beyond > 0 {
            self.statistics.refused += 1;
            self.acks.at_once();
        }
        if wanted.is_empty() {
            self.statistics.duplicates += u64::from(known > 0);
            self.acks.at_once();
            return;
        }
        self.place(now, (at + known) as u64, wanted);
    }

    fn place(&mut self, now: Instant, at: u64, wanted: &[u8]) {
        let next = self.assembly.next();
        let placed = self.assembly.insert(at, wanted);
        if placed != Placed::Refused {
            self.complete += self.delivery.arrived(&mut self.assembly, next, at, wanted);
        }
        match placed {
            Placed::InOrder { filled } => {
                self.acks.in_order(now);
                if filled {
                    self.acks.at_once();
                }
            }
            Placed::Island(island) => {
                self.statistics.out_of_order += 1;
                self.acks.at_once();
                if let Some(recent) = &mut self.recent {
                    recent.touch(&island, self.assembly.islands());
                }
            }
            Placed::Known(island) => {
                self.statistics.duplicates += 1;
                self.acks.at_once();
                if let Some(recent) = &mut self.recent {
                    recent.touch(&island, self.assembly.islands());
                }
                self.report_duplicate(at as i64, (at + wanted.len() as u64) as i64);
            }
            Placed::Refused => {
                self.statistics.refused += 1;
                self.acks.at_once();
            }
        }
    }

    /// Notes duplicate data from `start` to `end`. A hostile peer may report a range before the stream.
    fn report_duplicate(&mut self, start: i64, end: i64) {
        if let Some(recent) = self.recent.as_mut().filter(|_| start >= 0 && start < end) {
            recent.duplicate(start as u64..end as u64);
        }
        self.acks.at_once();
    }

    fn sack_block(&self, block: &Range<u64>) -> SackBlock {
        SackBlock { left: self.seq_of(block.start), right: self.seq_of(block.end) }
    }

    fn seq_of(&self, offset: u64) -> Seq {
        self.first + offset as u32
    }

    /// Returns the stream offset of `seq`, the one nearest to the next expected byte.
    fn offset_of(&self, seq: Seq) -> i64 {
        self.next_offset() + i64::from(seq.offset_from(self.seq_of(self.assembly.next())))
    }

    fn next_offset(&self) -> i64 {
        self.assembly.next() as i64
    }
}

#[cfg(test)]
mod tests;
