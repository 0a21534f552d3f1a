//! The scoreboard: what was sent, what is known of it, and what that says about congestion (RFC 4341 §5).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use crate::ack_vector::{PacketState, Report};
use crate::options::{DropBlock, DropCode};
use crate::seq::Seq;

mod given_up;

pub(crate) use given_up::Late;
use given_up::{GivenUp, Open};

/// A packet is lost when this many later ones have arrived (RFC 4341 §5).
pub(super) const NUMDUPACK: usize = 3;

/// A packet that may still be acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// What it carries for the application; `None` for an Ack and the like, which counts for the order only.
    data: Option<Data>,
    arrived: bool,
    /// When a later packet was first known to have arrived, which this one had not.
    overtaken_at: Option<Instant>,
    /// Whether it was told that it is overdue.
    told: Told,
}

#[derive(Clone, Copy, Debug)]
struct Data {
    /// The source's name for it, unless it is parity, which nobody waits for.
    token: Option<u64>,
    /// What the Congestion Manager was told of it.
    bytes: u64,
}

impl Sent {
    fn outstanding(&self) -> Option<Data> {
        self.data.filter(|_| !self.arrived)
    }
}

/// What was said of a packet before its fate was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    No,
    /// That it is overdue.
    Late,
    /// That it is overdue, as a later one had arrived.
    Passed,
}

/// What became of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFate {
    Acked {
        token: Option<u64>,
        seq: Seq,
        marked: bool,
    },
    /// It arrived, and did not reach the application (RFC 4340 §11.7).
    Dropped {
        token: Option<u64>,
        seq: Seq,
    },
    Lost {
        token: Option<u64>,
        seq: Seq,
    },
}

/// What an acknowledgement or a timeout has taught.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feedback {
    /// Bytes that arrived, each counted once.
    pub(crate) acked: u64,
    /// Bytes that are taken for lost, each counted once.
    pub(crate) lost: u64,
    /// When the newest packet was sent that is taken for lost.
    pub(crate) newest_lost: Option<Instant>,
    /// When the newest packet was sent that arrived with a mark.
    pub(crate) newest_marked: Option<Instant>,
    /// Whether data were refused by a rule of the protocol, with Drop Code 0 (RFC 4340 §11.7.2).
    pub(crate) constrained: bool,
    /// Whether the peer's application does not listen any more: Drop Code 1.
    pub(crate) not_listening: bool,
    /// How many packets of data found no room: Drop Code 2.
    pub(crate) overflowed: u64,
    /// Whether something arrived after what was sent later, and had been told to be overdue for that.
    pub(crate) reordered: bool,
    /// Delay variation: the most by which a packet came later than one that was sent after it.
    pub(crate) overtaken_by: Duration,
    /// A round-trip time, if the packet that the peer acknowledges is newly so.
    pub(crate) rtt: Option<Duration>,
    /// What a timeout took for lost, and that arrived.
    pub(crate) late: Late,
    /// In the order in which they were found out.
    pub(crate) fates: Vec<PacketFate>,
}

impl Feedback {
    /// A packet arrived, and `code` tells what became of its data there.
    ///
    /// All but Drop Code 0 "MUST react as if each Data Dropped packet was marked" (RFC 4340 §11.7). A full buffer ends
    /// slow start and takes one packet off the window (RFC 4341 §5.2); a mark does both, and is never less.
    fn count_arrived(&mut self, (seq, at): (Seq, Instant), data: Data, marked: bool, code: Option<DropCode>) {
        self.acked += data.bytes;
        self.constrained |= code == Some(DropCode::ProtocolConstraints);
        self.not_listening |= code == Some(DropCode::NotListening);
        self.overflowed += u64::from(code == Some(DropCode::ReceiveBuffer));
        if marked || code.is_some_and(|code| code != DropCode::ProtocolConstraints) {
            self.newest_marked = self.newest_marked.max(Some(at));
        }
        self.fates.push(match code {
            None | Some(DropCode::DeliveredCorrupt) => PacketFate::Acked { token: data.token, seq, marked },
            Some(_) => PacketFate::Dropped { token: data.token, seq },
        });
    }
}

/// A packet of which nothing is known, and of whose lateness nothing was told.
#[derive(Debug)]
pub(crate) struct Untold<'a> {
    pub(crate) seq: Seq,
    pub(crate) token: u64,
    pub(crate) at: Instant,
    /// Whether a later packet has arrived.
    pub(crate) is_passed: bool,
    pub(crate) told: &'a mut Told,
}

/// The scoreboard of one half-connection.
///
/// It holds consecutive packets from the oldest one with data outstanding on. What is before that is decided: an
/// acknowledgement that comes late for it changes nothing, as the Congestion Manager has been told (RFC 4341 §5:
/// "MUST NOT decrement pipe again upon receiving acknowledgement of a packet previously inferred as lost"), but where it
/// shows that a timeout was for nothing: what is put back under way for that has come at once.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// The number of the first packet in `sent`.
    first: Seq,
    sent: VecDeque<Sent>,
    /// The greatest numbers known to have arrived, greatest first.
    arrived: [Option<Seq>; NUMDUPACK],
    outstanding: usize,
    /// The window of data in which something was lost or marked ends before this number.
    congested_until: Option<Seq>,
    given_up: GivenUp,
}

impl Sender {
    pub(crate) fn new() -> Self {
        let (sent, arrived) = (VecDeque::new(), [None; NUMDUPACK]);
        Self { first: Seq::new(0), sent, arrived, outstanding: 0, congested_until: None, given_up: GivenUp::default() }
    }

    /// Data packets whose fate is open.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// How many sequence numbers the open packets span.
    pub(crate) fn span(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Whether the congestion window must not grow for what was acknowledged: it grows "for every window of data
    /// acknowledged without lost or marked packets" (RFC 4341 §5), and while a gap is open it is not known whether this
    /// is one. `congested`: something is newly known to be lost or marked.
    pub(crate) fn holds_window(&mut self, congested: bool) -> bool {
        if congested {
            self.congested_until = Some(self.first + self.span());
        }
        self.congested_until = self.congested_until.filter(|&end| self.first.is_before(end) && self.outstanding > 0);
        let gap = self.outstanding > 0 && self.arrived[0].is_some_and(|newest| newest.is_after(self.first));
        gap || self.congested_until.is_some()
    }

    /// The packet `seq` was sent with data. Every packet must be told, in order.
    pub(crate) fn sent_data(&mut self, now: Instant, seq: Seq, token: Option<u64>, bytes: u64) {
        self.push(
            seq,
            Sent { at: now, data: Some(Data { token, bytes }), arrived: false, overtaken_at: None, told: Told::No },
        );
        self.outstanding += 1;
    }

    /// The packet `seq` was sent without data.
    pub(crate) fn sent_other(&mut self, now: Instant, seq: Seq) {
        // Before the first open packet it would tell nothing.
        if self.outstanding > 0 {
            self.push(seq, Sent { at: now, data: None, arrived: false, overtaken_at: None, told: Told::No });
        }
    }

    fn push(&mut self, seq: Seq, sent: Sent) {
        if self.sent.is_empty() {
            self.first = seq;
        }
        debug_assert_eq!(self.first + self.sent.len() as u64, seq, "a packet was sent without telling the scoreboard");
        self.sent.push_back(sent);
    }

    /// The peer has acknowledged `ack`, with these reports, having held it for `elapsed`. What is in `dropped` did not
    /// reach its application.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: Seq,
        elapsed: Duration,
        dropped: &[DropBlock],
        reports: impl Iterator<Item = Report>,
    ) -> Feedback {
        let mut feedback = Feedback::default();
        // Only data make the peer answer at once: for another packet the time that it held it may be unknown.
        let fresh = self.get(ack).filter(|sent| sent.outstanding().is_some()).map(|sent| sent.at);
        let (newest, mut late_at) = (self.arrived[0], None);
        for report in reports.filter(|report| report.state.has_arrived()) {
            late_at = late_at.or(self.given_up.came(ack, &report, &mut feedback.late));
            self.mark_range(now, &report, dropped, &mut feedback);
        }
        self.mark_overtaken(now, newest);
        let is_news = self.get(ack).is_some_and(|sent| sent.arrived);
        feedback.rtt = late_at.or(fresh.filter(|_| is_news)).map(|at| round_trip(now, at, elapsed));
        self.declare_lost(&mut feedback);
        self.trim();
        feedback
    }

    /// The oldest packet with data of whose lateness nothing was told: its number, what it carries, when it was sent, and
    /// whether anything that was sent after it has arrived.
    pub(crate) fn first_untold(&mut self) -> Option<Untold<'_>> {
        let (first, newest) = (self.first, self.arrived[0]);
        let (index, sent) =
            self.sent.iter_mut().enumerate().find(|(_, sent)| {
                sent.told == Told::No && sent.outstanding().is_some_and(|data| data.token.is_some())
            })?;
        let seq = first + index as u64;
        let (token, at) = (sent.data?.token?, sent.at);
        Some(Untold {
            seq,
            token,
            at,
            is_passed: newest.is_some_and(|newest| newest.is_after(seq)),
            told: &mut sent.told,
        })
    }

    fn get(&self, seq: Seq) -> Option<&Sent> {
        self.sent.get(usize::try_from(seq.distance_from(self.first)).ok()?)
    }

    /// Marks the packets of a report as arrived, as far as they are still on the board.
    fn mark_range(&mut self, now: Instant, report: &Report, dropped: &[DropBlock], feedback: &mut Feedback) {
        let newest = report.newest.offset_from(self.first);
        if newest < 0 {
            return;
        }
        let oldest = report.oldest.offset_from(self.first).max(0) as u64;
        let end = (newest as u64 + 1).min(self.sent.len() as u64);
        for index in (oldest..end).rev() {
            let sent = &mut self.sent[index as usize];
            if sent.arrived {
                continue;
            }
            sent.arrived = true;
            feedback.reordered |= sent.told == Told::Passed;
            let by = sent.overtaken_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
            feedback.overtaken_by = feedback.overtaken_by.max(by);
            let (at, data) = (sent.at, sent.data);
            let seq = self.first + index;
            self.note_arrived(seq);
            if let Some(data) = data {
                self.outstanding -= 1;
                let block = dropped.iter().find(|block| seq.is_in_window(block.oldest, block.newest));
                let code = block.and_then(|block| block.code);
                feedback.count_arrived((seq, at), data, report.state == PacketState::Marked, code);
            }
        }
    }

    /// Notes which packets the newest arrival has overtaken, as far as the one before it, `known`, had not.
    fn mark_overtaken(&mut self, now: Instant, known: Option<Seq>) {
        let Some(newest) = self.arrived[0].filter(|&newest| known.is_none_or(|known| newest.is_after(known))) else {
            return;
        };
        let from = known.map_or(0, |known| known.offset_from(self.first).max(0) as usize);
        let end = newest.offset_from(self.first).clamp(0, self.sent.len() as i64) as usize;
        for sent in self.sent.range_mut(from.min(end)..end).filter(|sent| !sent.arrived) {
            sent.overtaken_at = Some(now);
        }
    }

    /// Keeps the greatest numbers that arrived.
    fn note_arrived(&mut self, seq: Seq) {
        let mut seq = Some(seq);
        for place in &mut self.arrived {
            match (*place, seq) {
                (Some(old), Some(new)) if !new.is_after(old) => {}
                _ => std::mem::swap(place, &mut seq),
            }
            if seq.is_none() {
                return;
            }
        }
    }

    /// What was sent before the `NUMDUPACK` greatest numbers that arrived, and is not among what arrived, is lost.
    fn declare_lost(&mut self, feedback: &mut Feedback) {
        let Some(third) = self.arrived[NUMDUPACK - 1] else { return };
        while !self.sent.is_empty() && self.first.is_before(third) {
            self.decide_first(feedback);
        }
    }

    /// Takes the first packet off the board; if it was open, it is lost. Gives it then.
    fn decide_first(&mut self, feedback: &mut Feedback) -> Option<Open> {
        let sent = self.sent.pop_front()?;
        let seq = self.first;
        self.first = seq.next();
        let data = sent.outstanding()?;
        self.outstanding -= 1;
        feedback.lost += data.bytes;
        feedback.newest_lost = feedback.newest_lost.max(Some(sent.at));
        feedback.fates.push(PacketFate::Lost { token: data.token, seq });
        Some(Open { seq, at: sent.at, bytes: data.bytes })
    }

    /// Drops what is decided from the front.
    fn trim(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.outstanding().is_none()) {
            self.sent.pop_front();
            self.first = self.first.next();
        }
    }

    /// What was sent `patience` ago or earlier, and before something that arrived, is lost: where fewer than [`NUMDUPACK`] later
    /// ones follow, nothing else would tell but a timeout (RFC 8985 §6.2).
    pub(crate) fn declare_passed(&mut self, now: Instant, patience: Duration) -> Feedback {
        let mut feedback = Feedback::default();
        while self.passed().is_some_and(|sent_at| now - sent_at >= patience) {
            self.decide_first(&mut feedback);
            self.trim();
        }
        feedback
    }

    /// When the oldest packet was sent of which nothing is known, if a later one has arrived.
    pub(crate) fn passed(&self) -> Option<Instant> {
        let first = self.sent.front().filter(|sent| sent.outstanding().is_some())?;
        self.arrived[0].filter(|newest| newest.is_after(self.first)).map(|_| first.at)
    }

    /// Nothing can come any more: all that is open is lost.
    pub(crate) fn give_up(&mut self) -> Feedback {
        let mut feedback = Feedback::default();
        while !self.sent.is_empty() {
            self.decide_first(&mut feedback);
        }
        feedback
    }

    /// Nothing came back in time. For congestion control nothing is under way any more (RFC 4341 §5: "the sender sets pipe to
    /// zero"). But what was sent less than `patience` ago cannot have been heard of: its fate stays open (RFC 8985 §6.3).
    pub(crate) fn time_out(&mut self, now: Instant, patience: Duration) -> Feedback {
        let mut feedback = Feedback::default();
        // The oldest is what was waited for.
        let mut is_oldest = true;
        loop {
            if let Some(open) = self.decide_first(&mut feedback) {
                self.given_up.add(open, std::mem::take(&mut is_oldest));
            }
            self.trim();
            if self.sent.front().is_none_or(|sent| now - sent.at < patience) {
                break;
            }
        }
        for sent in &mut self.sent {
            if let Some(data) = sent.data.as_mut().filter(|data| !sent.arrived && data.bytes > 0) {
                feedback.lost += std::mem::take(&mut data.bytes);
                feedback.newest_lost = feedback.newest_lost.max(Some(sent.at));
            }
        }
        feedback
    }
}

/// The peer's word for how long it held the acknowledgement is taken unless it is longer than the whole round trip.
fn round_trip(now: Instant, sent: Instant, elapsed: Duration) -> Duration {
    let whole = now.saturating_since(sent);
    if elapsed < whole { whole - elapsed } else { whole }
}

#[cfg(test)]
mod tests;
