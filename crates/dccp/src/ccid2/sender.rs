//! The sender's scoreboard: packets in flight, loss detection, and signs of congestion (RFC 4341 §5).

use std::collections::VecDeque;

use timeous_cm::Departure;
use timeous_core::{Duration, Instant};

use crate::ack_vector::{PacketState, Report};
use crate::options::{DropBlock, DropCode};
use crate::seq::Seq;

mod declared_lost;
mod reordering;

pub(crate) use declared_lost::Late;
use declared_lost::{DeclaredLost, Lost};
use reordering::Reordering;

/// Later arrivals after which a packet is considered lost, in packets (RFC 4341 §5, docs/decisions/reordering.md).
pub(super) const NUMDUPACK: usize = 3;

/// A packet that may still be acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Application data or parity; `None` for pure acknowledgements and the like, which only count for the order.
    data: Option<Data>,
    arrived: bool,
    /// When a later packet was first known to have arrived while this one was missing.
    overtaken_at: Option<Instant>,
    /// Whether the packet was reported as overdue.
    told: OverdueReport,
}

#[derive(Clone, Copy, Debug)]
struct Data {
    /// Token of the ADU in its source; `None` for parity.
    token: Option<u64>,
    /// Size reported to the Congestion Manager.
    bytes: u64,
    /// Its place in the path's model.
    departure: Departure,
}

impl Sent {
    fn outstanding(&self) -> Option<Data> {
        self.data.filter(|_| !self.arrived)
    }
}

/// Report about a packet before its fate was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverdueReport {
    No,
    /// Reported as overdue, without a later arrival.
    Late,
    /// Reported as overdue because a later packet had arrived.
    Passed,
}

/// Fate of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFate {
    Acked {
        token: Option<u64>,
        seq: Seq,
        marked: bool,
        /// Size reported to the Congestion Manager.
        bytes: u64,
    },
    /// Arrived, but did not reach the application (RFC 4340 §11.7).
    Dropped { token: Option<u64>, seq: Seq },
    Lost {
        token: Option<u64>,
        seq: Seq,
        /// Size reported to the Congestion Manager; zero after a timeout.
        bytes: u64,
    },
}

/// Newly acknowledged packet in the Acknowledgement Number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewlyAcked {
    pub(crate) seq: Seq,
    pub(crate) departure: Departure,
    /// When it was acknowledged, less the delays of the peer and of the way back.
    pub(crate) answered: Instant,
}

/// Result of an acknowledgement or a timeout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feedback {
    /// Bytes newly acknowledged.
    pub(crate) acked: u64,
    /// Bytes newly considered lost.
    pub(crate) lost: u64,
    /// Send time of the newest packet considered lost.
    pub(crate) newest_lost: Option<Instant>,
    /// Send time of the newest packet that arrived with an ECN mark.
    pub(crate) newest_marked: Option<Instant>,
    /// Whether data were dropped for protocol constraints: Drop Code 0 (RFC 4340 §11.7.2).
    pub(crate) constrained: bool,
    /// Whether the peer's application no longer reads: Drop Code 1.
    pub(crate) not_listening: bool,
    /// Data packets dropped at the peer's receive buffer: Drop Code 2.
    pub(crate) overflowed: u64,
    /// Whether a packet arrived that was reported as overdue because later ones had arrived.
    pub(crate) reordered: bool,
    /// Delay variation: the most by which a packet arrived later than one sent after it.
    pub(crate) overtaken_by: Duration,
    /// Round-trip sample, if the packet in the Acknowledgement Number is newly acknowledged.
    pub(crate) rtt: Option<Duration>,
    /// That sample without the time that the acknowledgement took beyond the least on its way back.
    pub(crate) path_rtt: Option<Duration>,
    /// That packet.
    pub(crate) observed: Option<NewlyAcked>,
    /// Packets that a timeout had declared lost and that arrived.
    pub(crate) late: Late,
    /// Fates, in order of discovery.
    pub(crate) fates: Vec<PacketFate>,
}

impl Feedback {
    /// Notes that the acknowledgement took so much longer than the least on its way back.
    pub(crate) fn came_late(&mut self, by: Duration) {
        self.path_rtt = self.rtt.map(|rtt| rtt.saturating_sub(by));
        if let Some(NewlyAcked { answered, .. }) = &mut self.observed {
            *answered = answered.saturating_sub(by);
        }
    }

    /// Notes that a packet arrived, with the Drop Code of its data, if any.
    ///
    /// All but Drop Code 0 "MUST react as if each Data Dropped packet was marked" (RFC 4340 §11.7). A full receive
    /// buffer ends slow start and takes one packet off the window (RFC 4341 §5.2); an ECN mark does at least as much.
    fn count_arrived(&mut self, (seq, at): (Seq, Instant), data: Data, marked: bool, code: Option<DropCode>) {
        self.acked += data.bytes;
        self.constrained |= code == Some(DropCode::ProtocolConstraints);
        self.not_listening |= code == Some(DropCode::NotListening);
        self.overflowed += u64::from(code == Some(DropCode::ReceiveBuffer));
        if marked || code.is_some_and(|code| code != DropCode::ProtocolConstraints) {
            self.newest_marked = self.newest_marked.max(Some(at));
        }
        self.fates.push(match code {
            None | Some(DropCode::DeliveredCorrupt) => {
                PacketFate::Acked { token: data.token, seq, marked, bytes: data.bytes }
            }
            Some(_) => PacketFate::Dropped { token: data.token, seq },
        });
    }
}

/// A packet in flight that was not reported as overdue yet.
#[derive(Debug)]
pub(crate) struct UnreportedPacket<'a> {
    pub(crate) seq: Seq,
    pub(crate) token: u64,
    pub(crate) at: Instant,
    /// Whether a later packet has arrived.
    pub(crate) is_passed: bool,
    pub(crate) told: &'a mut OverdueReport,
}

/// Scoreboard of one half-connection.
///
/// It holds consecutive packets from the oldest one in flight. The fate of earlier packets is final: a late
/// acknowledgement changes nothing (RFC 4341 §5: "MUST NOT decrement pipe again upon receiving acknowledgement of a
/// packet previously inferred as lost"), except that it can prove a timeout spurious.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    /// Number of the first packet in `sent`.
    first: Seq,
    sent: VecDeque<Sent>,
    /// Greatest sequence numbers known to have arrived, in descending order.
    arrived: [Option<Seq>; NUMDUPACK],
    outstanding: usize,
    /// End of the window of data that contains a loss or a mark.
    congested_until: Option<Seq>,
    declared_lost: DeclaredLost,
    reordering: Reordering,
}

impl Sender {
    /// Data packets in flight.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Send time of the oldest packet in flight.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.sent.front().map(|sent| sent.at)
    }

    /// Greatest sequence number known to have arrived.
    pub(crate) fn newest_arrived(&self) -> Option<Seq> {
        self.arrived[0]
    }

    /// Sequence numbers spanned by the packets on the scoreboard.
    pub(crate) fn span(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Whether the congestion window must not grow: it grows "for every window of data acknowledged without lost or
    /// marked packets" (RFC 4341 §5), and with an open gap that is not known yet. `congested`: a loss or mark was just
    /// found.
    pub(crate) fn holds_window(&mut self, congested: bool) -> bool {
        if congested {
            self.congested_until = Some(self.first + self.span());
        }
        self.congested_until = self.congested_until.filter(|&end| self.first.is_before(end) && self.outstanding > 0);
        let gap = self.outstanding > 0 && self.arrived[0].is_some_and(|newest| newest.is_after(self.first));
        gap || self.congested_until.is_some()
    }

    /// Adds a data packet. Every sent packet must be added, in order.
    pub(crate) fn sent_data(
        &mut self,
        now: Instant,
        seq: Seq,
        token: Option<u64>,
        (bytes, departure): (u64, Departure),
    ) {
        self.push(
            seq,
            Sent {
                at: now,
                data: Some(Data { token, bytes, departure }),
                arrived: false,
                overtaken_at: None,
                told: OverdueReport::No,
            },
        );
        self.outstanding += 1;
    }

    /// Adds a packet without data.
    pub(crate) fn sent_other(&mut self, now: Instant, seq: Seq) {
        // Irrelevant before the first data packet in flight.
        if self.outstanding > 0 {
            self.push(seq, Sent { at: now, data: None, arrived: false, overtaken_at: None, told: OverdueReport::No });
        }
    }

    fn push(&mut self, seq: Seq, sent: Sent) {
        if self.sent.is_empty() {
            self.first = seq;
        }
        debug_assert_eq!(self.first + self.sent.len() as u64, seq, "a packet was sent without telling the scoreboard");
        self.sent.push_back(sent);
    }

    /// Processes an acknowledgement of `ack` with these reports, which the peer held for `elapsed`. The packets in
    /// `dropped` did not reach the application.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: Seq,
        elapsed: Duration,
        dropped: &[DropBlock],
        reports: impl Iterator<Item = Report>,
    ) -> Feedback {
        let mut feedback = Feedback::default();
        // Only data packets trigger an acknowledgement at once: for others the peer's delay may be unknown.
        let fresh = self.get(ack).and_then(|sent| Some((sent.at, sent.outstanding()?.departure)));
        let (newest, mut late_at) = (self.arrived[0], None);
        for report in reports.filter(|report| report.state.has_arrived()) {
            let came = self.declared_lost.came(now, ack, &report);
            late_at = late_at.or(came.sent_at);
            feedback.late.bytes += came.late.bytes;
            feedback.late.is_spurious |= came.late.is_spurious;
            if let Some(by) = came.overtaken_by {
                (feedback.reordered, feedback.overtaken_by) = (true, feedback.overtaken_by.max(by));
            }
            self.mark_range(now, &report, dropped, &mut feedback);
        }
        self.mark_overtaken(now, newest);
        let is_news = self.get(ack).is_some_and(|sent| sent.arrived);
        let fresh = fresh.filter(|_| is_news);
        feedback.rtt = late_at.or(fresh.map(|(at, _)| at)).map(|at| round_trip(now, at, elapsed));
        self.reordering.note(now, feedback.overtaken_by, feedback.rtt);
        feedback.observed = fresh.map(|(at, departure)| {
            let answered = at + round_trip(now, at, elapsed);
            NewlyAcked { seq: ack, departure, answered }
        });
        self.declare_lost(now, &mut feedback);
        self.trim();
        feedback
    }

    /// Returns the oldest data packet in flight that was not reported as overdue, and whether a later packet has
    /// arrived.
    pub(crate) fn first_untold(&mut self) -> Option<UnreportedPacket<'_>> {
        let (first, newest) = (self.first, self.arrived[0]);
        let (index, sent) = self.sent.iter_mut().enumerate().find(|(_, sent)| {
            sent.told == OverdueReport::No && sent.outstanding().is_some_and(|data| data.token.is_some())
        })?;
        let seq = first + index as u64;
        let (token, at) = (sent.data?.token?, sent.at);
        Some(UnreportedPacket {
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

    /// Marks the packets of a report as arrived, if still on the scoreboard.
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
            feedback.reordered |= sent.told == OverdueReport::Passed;
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

    /// Notes when the newest arrival overtook the packets that are missing between it and `known`, the newest one before.
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

    /// Updates the greatest numbers that arrived.
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

    /// Declares packets lost that precede the `NUMDUPACK` greatest numbers that arrived, and were overtaken longer ago than packets of
    /// this path are.
    fn declare_lost(&mut self, now: Instant, feedback: &mut Feedback) {
        let Some(third) = self.arrived[NUMDUPACK - 1] else { return };
        let patience = self.reordering.longest();
        let is_open = |sent: &Sent| sent.overtaken_at.is_some_and(|at| now.saturating_since(at) < patience);
        while self.first.is_before(third)
            && self.sent.front().is_some_and(|sent| sent.outstanding().is_none() || !is_open(sent))
        {
            self.decide_first(None, feedback);
        }
    }

    /// By how much packets arrive later than ones sent after them.
    pub(crate) fn reordering(&self) -> Duration {
        self.reordering.longest()
    }

    /// Removes the first packet; if it was in flight, declares it lost, and returns whether it was. `timeout`: whether a timeout
    /// that declares it lost waited for it.
    fn decide_first(&mut self, timeout: Option<bool>, feedback: &mut Feedback) -> bool {
        let Some(sent) = self.sent.pop_front() else { return false };
        let seq = self.first;
        self.first = seq.next();
        let Some(data) = sent.outstanding() else { return false };
        self.outstanding -= 1;
        let Sent { at, overtaken_at, .. } = sent;
        if overtaken_at.is_some() || timeout.is_some() {
            let bytes = timeout.map_or(0, |_| data.bytes);
            self.declared_lost.add(Lost { seq, at, overtaken_at, bytes, is_oldest: timeout == Some(true) });
        }
        feedback.lost += data.bytes;
        feedback.newest_lost = feedback.newest_lost.max(Some(at));
        feedback.fates.push(PacketFate::Lost { token: data.token, seq, bytes: data.bytes });
        true
    }

    /// Removes packets from the front whose fate is known.
    fn trim(&mut self) {
        while self.sent.front().is_some_and(|sent| sent.outstanding().is_none()) {
            self.sent.pop_front();
            self.first = self.first.next();
        }
    }

    /// Declares packets lost that were sent at least `patience` ago and before one that arrived: with fewer than
    /// [`NUMDUPACK`] later packets, only a timeout would detect them (RFC 8985 §6.2).
    pub(crate) fn declare_passed(&mut self, now: Instant, patience: Duration) -> Feedback {
        let mut feedback = Feedback::default();
        while self.passed().is_some_and(|sent_at| now - sent_at >= patience) {
            self.decide_first(None, &mut feedback);
            self.trim();
        }
        feedback
    }

    /// Send time of the oldest packet in flight, if a later one has arrived.
    pub(crate) fn passed(&self) -> Option<Instant> {
        let first = self.sent.front().filter(|sent| sent.outstanding().is_some())?;
        self.arrived[0].filter(|newest| newest.is_after(self.first)).map(|_| first.at)
    }

    /// Declares all packets in flight lost.
    pub(crate) fn give_up(&mut self) -> Feedback {
        let mut feedback = Feedback::default();
        while !self.sent.is_empty() {
            self.decide_first(None, &mut feedback);
        }
        feedback
    }

    /// Handles a timeout. For congestion control nothing is in flight any more (RFC 4341 §5: "the sender sets pipe to
    /// zero"), but the fate of packets sent less than `patience` ago stays open (RFC 8985 §6.3).
    pub(crate) fn time_out(&mut self, now: Instant, patience: Duration) -> Feedback {
        let mut feedback = Feedback::default();
        // The timeout was for the oldest packet.
        let mut is_oldest = true;
        loop {
            is_oldest &= !self.decide_first(Some(is_oldest), &mut feedback);
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

/// Round-trip sample without the peer's delay, which is ignored if it exceeds the whole time.
fn round_trip(now: Instant, sent: Instant, elapsed: Duration) -> Duration {
    let whole = now.saturating_since(sent);
    if elapsed < whole { whole - elapsed } else { whole }
}

#[cfg(test)]
mod tests;
