//! Sending of data: grants of the Congestion Manager, choice of segments, bundles, and the FIN.

use timeous_cm::Manager;
use timeous_core::{AduSource, Ecn, Instant, PathState, Transmit};

use super::{Connection, Control, Event, Poll, State, Timer};
use crate::segment::{Flags, add_flags, set_seq};
use crate::sender::{Next, Room};

impl Connection {
    /// Returns a segment with data or a FIN, if there is something to send, the peer's window has room and the
    /// Congestion Manager grants it.
    pub(super) fn send_data(&mut self, poll: &mut Poll<'_>) -> Option<Transmit> {
        self.flow.id()?;
        let has_fresh = self.state.may_send() && self.sender.has_fresh(poll.now, poll.source);
        let fits = self.window.fits_segment(self.sender.nxt());
        if self.pending.take(Control::TailProbe)
            && let Some(transmit) = self.send_tail_probe(poll, has_fresh && fits)
        {
            return Some(transmit);
        }
        self.watch_window(poll.now, poll.cm, has_fresh && !fits);
        let transmit = self.send_next(poll, has_fresh && fits);
        transmit.or_else(|| self.send_fin(poll))
    }

    /// Sends new data, if there is any and it `fits`, or repeats data.
    fn send_next(&mut self, poll: &mut Poll<'_>, fits: bool) -> Option<Transmit> {
        let Some(next) = self.sender.next(fits) else {
            self.flow.give_back(poll.now, poll.cm);
            return None;
        };
        match next {
            Next::AgainNow(at) => self.send_again(poll, at),
            Next::Again(at) => {
                // A FIN adds no data in flight.
                let bytes =
                    self.sender.segment_at(at).map_or(0, |(span, fin)| if fin { 0 } else { span.end - span.start });
                if bytes > 0 {
                    self.flow.request(poll.now, poll.cm, bytes)?;
                }
                self.send_again(poll, at)
            }
            Next::Fresh => {
                let most = self.flow.request(poll.now, poll.cm, self.sender.next_size(poll.source))?;
                self.send_fresh(poll, most)
            }
        }
    }

    /// Sends new data, about `most` bytes at most: the source chooses the best at this instant.
    fn send_fresh(&mut self, poll: &mut Poll<'_>, most: u64) -> Option<Transmit> {
        let seq = self.numbers.seq(self.sender.nxt());
        let (mut header, mut options) = self.stamped(poll.now, seq, Flags::NONE);
        if !options.sack.is_empty() {
            if self.owes_ack(poll.now) {
                // SACK blocks do not fit beside a full segment; the grant remains for the next call.
                return Some(self.send_ack(poll));
            }
            options.sack.truncate(0);
        }
        let path = self.flow.path(poll.cm, self.handshake.agreed().payload())?;
        let start = self.write_header(&header, &options, poll.packet);
        let segment = self.window.segment() as usize;
        let room = Room { segment, window: usize::try_from(most).unwrap_or(usize::MAX) };
        let Some(fresh) = self.sender.pull(poll.now, &path, room, poll.source, poll.packet) else {
            self.flow.give_back(poll.now, poll.cm);
            poll.packet.clear();
            self.tell_settled();
            return None;
        };
        self.tell_settled();
        let is_all = !self.sender.has_fresh(poll.now, poll.source);
        let marks = Flags::when(self.sender.ecn.take_cwr(), Flags::CWR) | Flags::when(is_all, Flags::PSH);
        header.flags |= marks;
        add_flags(poll.packet, start, marks).expect("the segment was begun");
        let bundled = if is_all { self.bundle(poll, &path, (start, fresh.len)) } else { 0 };
        self.depart(&header, start, poll.packet);
        if fresh.len == 0 {
            // An empty ADU adds no byte to the stream, so that it cannot be lost.
            self.flow.give_back(poll.now, poll.cm);
            self.events.extend(fresh.token.map(|token| Event::Acked { token, at: Instant::ZERO, exactly: None }));
            return Some(Transmit { ecn: Ecn::NotEct, adu: fresh.adu });
        }
        self.flow.sent(poll.now, poll.cm, fresh.len as u64 + bundled);
        self.sender.sent_fresh(poll.now, &fresh);
        self.flow.with(|id| poll.cm.departure(id)).into_iter().for_each(|departure| self.sender.departed(departure));
        self.sender.sent_bundle(bundled);
        self.statistics.bundles += u64::from(bundled > 0);
        self.statistics.bytes_bundled += bundled;
        self.statistics.data_sent += 1;
        self.statistics.bytes_sent += fresh.len as u64;
        self.watch_for_acks(poll.now, poll.cm);
        self.schedule_tail_probe(poll.now, poll.cm);
        Some(Transmit { ecn: self.handshake.agreed().ecn(), adu: fresh.adu })
    }

    /// Retransmits the segment at index `at`, with or without a grant.
    fn send_again(&mut self, poll: &mut Poll<'_>, at: usize) -> Option<Transmit> {
        let path = self.flow.path(poll.cm, self.handshake.agreed().payload())?;
        let (span, fin) = self.sender.segment_at(at)?;
        let (header, mut options) = self.stamped(poll.now, self.numbers.seq(span.start), Flags::when(fin, Flags::FIN));
        options.sack.truncate(0);
        let start = self.write_header(&header, &options, poll.packet);
        let adu = self.sender.repeat(poll.now, &path, at, poll.source, poll.packet);
        self.tell_settled();
        self.depart(&header, start, poll.packet);
        let bytes = if fin { 0 } else { span.end - span.start };
        self.flow.sent(poll.now, poll.cm, bytes);
        self.sender.sent_again(poll.now, at);
        self.statistics.retransmissions += 1;
        self.statistics.bytes_retransmitted += bytes;
        if at == 0 {
            // The "more careful variant" of RFC 6675 §6: the timer restarts when the first segment is retransmitted.
            self.restart_retransmission_timer(poll.now, poll.cm);
        }
        self.watch_for_acks(poll.now, poll.cm);
        Some(Transmit { ecn: Ecn::NotEct, adu })
    }

    /// `TLP_send_probe` of RFC 8985 §7.3: new data if there is any, else the last segment.
    fn send_tail_probe(&mut self, poll: &mut Poll<'_>, fresh: bool) -> Option<Transmit> {
        let sent = self.statistics.data_sent;
        let mut transmit = None;
        if fresh {
            transmit = self.send_fresh(poll, u64::MAX);
            if transmit.is_some() && self.statistics.data_sent == sent {
                // An acknowledgement was sent first: the probe is still due.
                self.pending.set(Control::TailProbe, true);
                return transmit;
            }
        }
        let repeats = transmit.is_none();
        if repeats {
            transmit = self.send_again(poll, self.sender.last_segment()?);
        }
        self.statistics.tail_probes += 1;
        self.sender.sent_probe(repeats);
        self.timers.stop(Timer::TailProbe);
        self.restart_retransmission_timer(poll.now, poll.cm);
        transmit
    }

    /// Sends the FIN after the application has closed and all data was sent. It needs no room in the window, since it
    /// carries no data.
    fn send_fin(&mut self, poll: &mut Poll<'_>) -> Option<Transmit> {
        if !self.closing.is_requested() || !self.state.may_send() || self.sender.has_fresh(poll.now, poll.source) {
            return None;
        }
        let (header, mut options) = self.stamped(poll.now, self.numbers.seq(self.sender.nxt()), Flags::FIN);
        options.sack.truncate(0);
        let transmit = self.send_bare(&header, &options, poll);
        self.sender.sent_fin(poll.now);
        self.closing.sent_fin(self.sender.nxt());
        self.state = if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
        self.watch_for_acks(poll.now, poll.cm);
        self.schedule_tail_probe(poll.now, poll.cm);
        Some(transmit)
    }

    /// Starts the persist timer if the window is closed and nothing is in flight: a lost window update would not be
    /// repeated.
    fn watch_window(&mut self, now: Instant, cm: &Manager, is_held: bool) {
        if !is_held || !self.sender.is_idle() {
            self.timers.stop(Timer::Persist);
        } else if !self.timers.is_set(Timer::Persist) {
            self.set_persist_timer(now, cm);
        }
    }

    /// Prepends previously sent data to the new data of the segment that begins at `start`, which is the last `len` bytes of `packet`.
    /// Returns the number of bytes added.
    fn bundle(&mut self, poll: &mut Poll<'_>, path: &PathState, (start, len): (usize, usize)) -> u64 {
        let Poll { now, ref mut cm, ref mut source, ref mut packet } = *poll;
        if !self.config.bundling || len == 0 {
            return 0;
        }
        let (segment, window) = self.room_for_bundle(now, cm, len as u64, *source);
        let mut span = self.sender.worth_bundling(now, path, segment, *source);
        if span.end - span.start > window {
            self.flow.with(|flow| cm.held_back(now, flow));
            span = self.sender.worth_bundling(now, path, window, *source);
        }
        if span.is_empty() {
            return 0;
        }
        set_seq(packet, start, self.numbers.seq(span.start)).expect("the segment was begun");
        let data = packet.len() - len;
        self.sender.bundle(&span, packet);
        packet[data..].rotate_left(len);
        span.end - span.start
    }

    /// Returns the remaining bytes in the segment, and in the congestion window beside this segment and as much fresh data as is in flight:
    /// if this segment is lost, it occupies the window for longer, and fresh data must not wait for it.
    fn room_for_bundle(&self, now: Instant, cm: &Manager, len: u64, source: &dyn AduSource) -> (u64, u64) {
        let fresh = self.sender.fresh_under_way().max(self.sender.next_size(source)).max(len);
        let window = self.flow.room(now, cm, self.handshake.agreed().payload()).saturating_sub(len + fresh);
        (self.window.segment().saturating_sub(len), window)
    }
}
