//! Late choice behind `send()`: a stale datagram is overwritten where it lies in the kernel's queue.
//!
//! The kernel transmits and retransmits from our memory. A stale record is overwritten there with one of the same length, which every later
//! transmission carries (McQuistin §3.2). Sent data may have arrived in its first form, so a fresh datagram put there is a copy that is
//! also sent in turn; the receiver drops the duplicate by its number.

use std::io;

use timeous_cm::Manager;
use timeous_core::{AduMeta, AduSource, DropReason, Instant, PathState, PulledAdu};
use timeous_stream::SendSide;
use timeous_transport::Statistics;

use crate::framing::len_within;
use crate::info::Info;
use crate::meter::DELAYED_ACK;
use crate::sending::{Held, Sending};
use crate::socket::Socket;
use crate::under_way::Record;

/// Maximum number of datagrams pulled ahead of their turn, because they did not fit into the free place. Chosen by us:
/// a higher value fills more places, and chooses earlier.
const MOST_WAITING: usize = 4;

/// Returns the path as a retransmission of `len` bytes sees it: the lost original is not in flight.
fn without(path: PathState, len: usize) -> PathState {
    PathState { outstanding: path.outstanding.saturating_sub(len as u64), ..path }
}

/// Returns whether the last transmission may still arrive in time, so that overwriting would be premature. The kernel does not tell which
/// segment it retransmitted last, so `until` may be too late: past its deadline no record is spared.
fn may_arrive_as_it_left(now: Instant, until: Option<Instant>, meta: &AduMeta) -> bool {
    !meta.is_expired(now) && until.is_some_and(|until| now < until)
}

impl Sending {
    /// Sends as much as possible; returns whether there was progress.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        socket: &Socket,
        stream: &mut SendSide,
        counts: &mut Statistics,
        manager: &mut Manager,
    ) -> io::Result<bool> {
        self.is_chosen = false;
        let source = stream.source();
        // First, so that fates have the arrivals that it finds.
        self.measure(now, socket, manager)?;
        let settled = self.settle(now, socket, source, counts)?;
        if settled && self.under_way.is_empty() {
            // The last acknowledgement may have no stamp, and none follows that would be measured.
            self.measure(now, socket, manager)?;
        }
        self.tell_of_overdue(now, source);
        self.board(now, socket, source, counts)?;
        self.go_back_if_stuck(now, source, counts);
        let replaced = self.replace_expired(now, socket, source, counts)?;
        self.fill_padding(now, socket, source, counts)?;
        let sent = self.transmit(now, socket, source, counts, manager)?;
        self.lend(now, socket)?;
        if settled || sent || replaced {
            stream.note_news();
        }
        Ok(sent)
    }

    /// Overwrites expired records: with a fresh datagram where that can still be transmitted, else with padding.
    pub(crate) fn replace_expired(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<bool> {
        // A retransmission now may arrive too late for deadlines before `horizon`; whether it is worth trying is the policy's decision.
        let path = self.meter.path();
        let horizon = now + path.one_way();
        if self.under_way.next_deadline().is_none_or(|deadline| deadline >= horizon) {
            return Ok(false);
        }
        let sent = self.sent(socket.unsent()?);
        let info = socket.info()?;
        let mss = info.mss() as usize;
        let holes = info.holes() > 0 || info.sacked() > 0 || info.timeouts() > 0;
        let soonest = path.min_rtt.unwrap_or_default();
        // A record given to the kernel within the minimum RTT cannot need a retransmission yet; the kernel repairs the first hole first.
        let repaired = self.meter.repaired(now, &info).filter(|_| holes).map(|at| at + soonest);
        let first = self.under_way.first();
        let worth = |record: &Record, meta: &AduMeta| {
            let given = (record.start < sent).then_some(record.given + soonest);
            let repaired = repaired.filter(|_| Some(record.start) == first);
            may_arrive_as_it_left(now, given.max(repaired), meta)
                || source.is_worth_repeating(now, &without(path, record.len()), meta)
        };
        let (expired, fixed) = self.under_way.take_useless(horizon, worth);
        self.unchanged += fixed;
        // From the end, so that unsent stale records are not taken for fresh ones.
        for &place in expired.iter().rev() {
            // A record split over two segments might arrive as a mix of both versions.
            if self.under_way.record(place).len() > mss {
                self.stays(place);
                continue;
            }
            let was_datagram = self.under_way.record(place).token.is_some() && !self.under_way.is_overwritten(place);
            let fresh = if self.is_unsent(place, socket)? {
                self.replace_unsent(now, place, socket, source, counts)?
            } else if !self.bearing.allows(now) {
                self.stays(place);
                continue;
            } else {
                // With a hole, the record that the peer waits for is retransmitted next.
                let awaited = holes && place == 0;
                let head = awaited && self.held.is_none();
                self.keep_first(place, awaited.then_some(now), info.timeouts());
                // The first version may have arrived, or the last retransmission may yet arrive: the acknowledgement will show.
                self.under_way.overwrite(place, info.retransmitted());
                let fresh = head && (self.copy_unsent(place, socket)? || self.place_copy(now, place, source));
                if !fresh {
                    self.write_padding(place);
                }
                fresh
            };
            match (was_datagram, fresh) {
                (true, true) => self.replaced += 1,
                (true, false) => self.padded += 1,
                // Copy of another record's datagram.
                (false, _) => {}
            }
        }
        Ok(!expired.is_empty())
    }

    /// Reports datagrams without an acknowledgement that would be known by now, had they arrived in time, to the late choice.
    fn tell_of_overdue(&mut self, now: Instant, source: &mut dyn AduSource) {
        let Some(least) = self.meter.path().min_rtt else { return };
        for meta in self.under_way.overdue(now.saturating_sub(least / 2 + DELAYED_ACK)) {
            source.missed(&meta);
        }
    }

    /// Counts a datagram that stays unchanged and may be retransmitted after its deadline.
    fn stays(&mut self, place: usize) {
        self.unchanged += u64::from(self.under_way.record(place).token.is_some());
    }

    /// Saves the record's first version before it is overwritten. `awaited`: the current time, if the peer waits for the record.
    fn keep_first(&mut self, place: usize, awaited: Option<Instant>, timeouts: u8) {
        let record = self.under_way.record(place);
        if let (Some(zone), Some((_, slot))) = (&self.zone, &record.slot) {
            let mut first = Vec::with_capacity(record.len());
            zone.read(slot, record.len(), &mut first);
            // A copy of the first version may be in flight.
            let round_trip = self.meter.path().srtt.unwrap_or_default();
            self.under_way.change(place, first, awaited.map(|at| at + round_trip * 2), timeouts);
        }
    }

    /// Restores the first version of records that the peer waits for and does not get since they were changed; restores all records on a
    /// path that does not pass changed data.
    fn go_back_if_stuck(&mut self, now: Instant, source: &mut dyn AduSource, counts: &mut Statistics) {
        let mss = self.meter.info().map_or(0, |info| info.mss() as usize);
        let stuck = self.meter.info().is_some_and(|info| {
            let timeouts = self.under_way.timeouts_since_change(info.timeouts(), mss);
            // The last timeout retransmitted the changed version, which may have arrived.
            self.meter.is_timeout_answered(now) && self.bearing.is_stuck(timeouts, info.sacked(), info.is_reordered())
        });
        let retransmitted = self.meter.info().map_or(0, Info::retransmitted);
        let concerned = match (self.bearing.is_refused(), stuck) {
            // Without evidence that the path passes changes, every other changed record would be waited for as long.
            (false, true) if self.bearing.is_borne() => self.under_way.beside_first(mss),
            (true, _) | (false, true) => self.under_way.len(),
            (false, false) => 0,
        };
        for place in 0..concerned {
            if self.under_way.is_boarded(place) {
                self.retire(place, source, counts);
            }
            if let Some(first) = self.under_way.go_back(place, retransmitted) {
                tracing::debug!("a changed record does not arrive: it is sent as it was");
                self.scratch = first;
                self.write_record(place);
                self.unchanged += 1;
            }
        }
    }

    fn is_unsent(&self, place: usize, socket: &Socket) -> io::Result<bool> {
        Ok(self.under_way.record(place).start >= self.sent(socket.unsent()?))
    }

    /// Reports the datagram in `place` as lost: it is not retransmitted.
    pub(crate) fn retire(&mut self, place: usize, source: &mut dyn AduSource, counts: &mut Statistics) {
        if let Some(token) = self.under_way.replace(place, None) {
            source.lost(token);
            counts.lost += 1;
        }
    }

    /// Replaces an unsent record by a fresh datagram, or by padding, unless the kernel has sent it meanwhile.
    fn replace_unsent(
        &mut self,
        now: Instant,
        place: usize,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<bool> {
        let fresh = self.pull_for(now, place, source);
        match &fresh {
            Some(_) => self.write_record(place),
            None => self.write_padding(place),
        }
        self.take_back_copies(place);
        // The kernel reads a segment's bytes before it counts it as sent; this call waits for a transmission in progress.
        let info = socket.info()?;
        let sent = self.sent(info.unsent());
        if self.under_way.record(place).start < sent {
            self.retire(place, source, counts);
            let is_fresh = fresh.is_some();
            if let Some((pulled, number)) = fresh {
                self.copied(place, pulled, number);
            }
            return Ok(is_fresh);
        }
        if self.under_way.is_copied(place, info.retransmitted()) {
            self.retire(place, source, counts);
        }
        let pulled = fresh.map(|(pulled, _)| pulled);
        if let Some(token) = self.under_way.replace(place, pulled.as_ref()) {
            source.dropped(token, DropReason::Expired);
        }
        if let Some(pulled) = &pulled {
            source.sent(pulled.token);
        }
        Ok(pulled.is_some())
    }

    /// Replaces unsent padding by datagrams that were queued since.
    fn fill_padding(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<()> {
        let Some(padding) = self.under_way.last_padding() else { return Ok(()) };
        let has_more = !self.waiting.is_empty() || source.has_queued(now);
        if self.held.is_none() && has_more && self.is_unsent(padding, socket)? {
            self.replaced += u64::from(self.replace_unsent(now, padding, socket, source, counts)?);
        }
        Ok(())
    }

    /// Puts a copy of the first datagram in the kernel's unsent queue into a retransmission, if there is one.
    fn copy_unsent(&mut self, place: usize, socket: &Socket) -> io::Result<bool> {
        let sent = self.sent(socket.unsent()?);
        let len = self.under_way.record(place).len();
        let Some(zone) = &self.zone else { return Ok(false) };
        let Some((slot, fresh_len, meta)) = self.under_way.copy_first_fresh(sent, len) else { return Ok(false) };
        let mut record = Vec::with_capacity(fresh_len);
        zone.read(slot, fresh_len, &mut record);
        if !self.write_copy(&record, place) {
            return Ok(false);
        }
        self.under_way.carries(place, meta);
        Ok(true)
    }

    /// Puts a copy of the next fresh datagram of the ring into a retransmission, if there is one.
    fn place_copy(&mut self, now: Instant, place: usize, source: &mut dyn AduSource) -> bool {
        let Some((pulled, number)) = self.pull_for(now, place, source) else { return false };
        self.write_record(place);
        self.copied(place, pulled, number);
        true
    }

    /// Marks the datagram in `place` as a copy: it is also sent in turn.
    pub(crate) fn copied(&mut self, place: usize, pulled: PulledAdu, number: u32) {
        self.under_way.carries(place, Some(pulled.meta));
        self.held = Some(Held { pulled, number, payload: self.payload.clone(), copied: true });
    }

    /// Pulls a fresh datagram that fits into `place`, into `payload`, with its record in `scratch`, padded to the place's length.
    pub(crate) fn pull_for(
        &mut self,
        now: Instant,
        place: usize,
        source: &mut dyn AduSource,
    ) -> Option<(PulledAdu, u32)> {
        // A datagram that already waits for its turn goes first.
        if self.held.is_some() {
            return None;
        }
        let len = self.under_way.record(place).len();
        let room = self.writer.room(len)?.min(self.longest);
        let (pulled, number) = self.pull_within(now, room, source)?;
        self.scratch.clear();
        self.writer.write(&pulled.meta, number, &self.payload, &mut self.scratch);
        self.writer.pad(len - self.scratch.len(), &mut self.scratch);
        Some((pulled, number))
    }

    /// Pulls the next fresh datagram of at most `room` bytes into `payload`. Longer ones before it wait for their own turn.
    fn pull_within(&mut self, now: Instant, room: usize, source: &mut dyn AduSource) -> Option<(PulledAdu, u32)> {
        self.give_up_useless(now, source);
        let fitting = self.waiting.iter().position(|held| len_within(&held.pulled.meta, &held.payload) <= room);
        if let Some(Held { pulled, number, payload, .. }) = fitting.and_then(|at| self.waiting.remove(at)) {
            self.payload = payload;
            return Some((pulled, number));
        }
        while self.waiting.len() < MOST_WAITING {
            let (pulled, number) = self.pull(now, source)?;
            if len_within(&pulled.meta, &self.payload) <= room {
                return Some((pulled, number));
            }
            let payload = std::mem::take(&mut self.payload);
            self.waiting.push_back(Held { pulled, number, payload, copied: false });
        }
        None
    }

    /// Drops waiting datagrams that are expired or not worth sending any more.
    pub(crate) fn give_up_useless(&mut self, now: Instant, source: &mut dyn AduSource) {
        let (path, before) = (self.path(), self.waiting.len());
        self.waiting.retain(|Held { pulled, .. }| {
            let is_expired = pulled.meta.is_expired(now);
            let is_worth_it = !is_expired && source.is_worth_repeating(now, &path, &pulled.meta);
            if !is_worth_it {
                let reason = if is_expired { DropReason::Expired } else { source.why_not(&pulled.meta) };
                source.dropped(pulled.token, reason);
            }
            is_worth_it
        });
        self.is_chosen &= self.waiting.len() == before;
    }

    pub(crate) fn write_padding(&mut self, place: usize) {
        self.scratch.clear();
        self.writer.pad(self.under_way.record(place).len(), &mut self.scratch);
        self.write_record(place);
    }

    /// Writes a copy of another record, which is no longer, into the record at `place`; `false`: there can be none.
    pub(crate) fn write_copy(&mut self, record: &[u8], place: usize) -> bool {
        self.scratch.clear();
        if !self.writer.copy(record, &mut self.scratch) {
            return false;
        }
        self.writer.pad(self.under_way.record(place).len() - self.scratch.len(), &mut self.scratch);
        self.write_record(place);
        true
    }

    pub(crate) fn write_record(&mut self, place: usize) {
        if let (Some(zone), Some((_, slot))) = (&mut self.zone, &self.under_way.record(place).slot) {
            zone.write(slot, &self.scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_choice::Layers;
    use timeous_core::{Duration, LateChoice, Rate};

    use super::*;

    /// Regression, found by `timeous-peer-trials` with an RTT of half the deadline: retransmissions of other datagrams protected a late one,
    /// which was retransmitted.
    #[test]
    fn what_is_late_is_not_spared_for_a_repair_that_may_be_of_another() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let meta = AduMeta { deadline: Some(at(300)), ..AduMeta::default() };
        assert!(
            may_arrive_as_it_left(at(290), Some(at(400)), &meta)
                && may_arrive_as_it_left(at(300), Some(at(400)), &meta)
        );
        assert!(!may_arrive_as_it_left(at(301), Some(at(400)), &meta));
        assert!(!may_arrive_as_it_left(at(290), Some(at(290)), &meta) && !may_arrive_as_it_left(at(290), None, &meta));
    }

    /// Regression, found by `ldc-layers --real`: the last datagram of a base layer was dropped, since it seemed to wait behind itself.
    #[test]
    fn what_has_to_leave_again_does_not_wait_behind_itself() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        // 40 ms per segment: the datagram's own, and one behind it.
        let rtt = Some(Duration::from_millis(200));
        let path = PathState {
            rate: Rate::from_kbps(200),
            srtt: rtt,
            min_rtt: Some(Duration::from_millis(20)),
            outstanding: 2_000,
            ..PathState::default()
        };
        let meta = AduMeta { deadline: Some(at(50)), ..AduMeta::default() };
        assert!(!Layers::default().is_worth_repeating(at(0), &path, &meta));
        assert!(Layers::default().is_worth_repeating(at(0), &without(path, 1_000), &meta));
    }
}
