//! Sending of data: grants of the Congestion Manager, choice of segments, and the FIN.

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduSource, Ecn, Instant, Transmit};

use super::{Connection, Event, Timer, told};
use crate::segment::{Flags, add_flags};
use crate::sender::{Fresh, Next, Room};

impl Connection {
    /// Returns a segment with data or a FIN, if there is something to send, the peer's window has room and the
    /// Congestion Manager grants it.
    pub(super) fn send_data(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let flow = self.flow?;
        let has_fresh = self.may_send_fresh() && self.sender.has_fresh(now, source);
        let fits = self.window.room(self.sender.nxt()) >= self.window.segment(self.agreed.payload);
        if std::mem::take(&mut self.owed.tail_probe)
            && let Some(transmit) = self.send_tail_probe(now, cm, flow, has_fresh && fits, source, packet)
        {
            return Some(transmit);
        }
        self.watch_window(now, cm, has_fresh && !fits);
        match self.sender.next(has_fresh && fits) {
            Some(next) => {
                if let Some(transmit) = self.send_next(now, cm, flow, next, source, packet) {
                    return Some(transmit);
                }
            }
            None => give_back(now, cm, flow),
        }
        self.send_fin(now, cm, source, packet)
    }

    fn may_send_fresh(&self) -> bool {
        self.state.may_send() && self.fin.is_none()
    }

    fn send_next(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        flow: FlowId,
        next: Next,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        match next {
            Next::AgainNow(at) => self.send_again(now, cm, flow, at, source, packet),
            Next::Again(at) => {
                // A FIN adds no data in flight.
                let bytes =
                    self.sender.segment_at(at).map_or(0, |(span, fin)| if fin { 0 } else { span.end - span.start });
                if bytes > 0 {
                    ask(now, cm, flow, bytes)?;
                }
                self.send_again(now, cm, flow, at, source, packet)
            }
            Next::Fresh => {
                let most = ask(now, cm, flow, self.sender.next_size(source))?;
                self.send_fresh(now, cm, flow, most, source, packet)
            }
        }
    }

    /// Sends new data, about `most` bytes at most: the source chooses the best at this instant.
    fn send_fresh(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        flow: FlowId,
        most: u64,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let seq = self.wire(self.sender.nxt());
        let (mut header, mut options) = self.stamped(now, seq, Flags::NONE);
        if !options.sack.is_empty() {
            if self.owes_ack(now) {
                // SACK blocks do not fit beside a full segment; the grant remains for the next call.
                self.send_ack(now, packet);
                return Some(Transmit { ecn: Ecn::NotEct, adu: None });
            }
            options.sack.truncate(0);
        }
        let path = told(cm.query(flow))?;
        let start = self.write_header(&header, &options, packet);
        let segment = self.window.segment(self.agreed.payload) as usize;
        let room = Room { segment, window: usize::try_from(most).unwrap_or(usize::MAX) };
        let Some(fresh) = self.sender.pull(now, &path, room, source, packet) else {
            give_back(now, cm, flow);
            packet.clear();
            self.tell_settled();
            return None;
        };
        self.tell_settled();
        let is_all = !self.sender.has_fresh(now, source);
        let marks = Flags::when(self.sender.ecn.take_cwr(), Flags::CWR) | Flags::when(is_all, Flags::PSH);
        header.flags |= marks;
        add_flags(packet, start, marks).expect("the segment was begun");
        let bundled = if is_all { self.bundle(now, cm, &path, (start, fresh.len), source, packet) } else { 0 };
        self.depart(&header, start, packet);
        if fresh.len == 0 {
            // An empty ADU adds no byte to the stream, so that it cannot be lost.
            give_back(now, cm, flow);
            self.events.extend(fresh.token.map(|token| Event::Acked { token, at: Instant::ZERO }));
            return Some(Transmit { ecn: Ecn::NotEct, adu: fresh.adu });
        }
        charge(now, cm, flow, fresh.len as u64 + bundled);
        self.fresh_sent(now, cm, &fresh, bundled);
        // Data is sent with ECT, but retransmissions are not (RFC 3168 §6.1.5).
        let ecn = if self.agreed.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        Some(Transmit { ecn, adu: fresh.adu })
    }

    fn fresh_sent(&mut self, now: Instant, cm: &Manager, fresh: &Fresh, bundled: u64) {
        self.sender.sent_fresh(now, fresh);
        self.sender.sent_bundle(bundled);
        self.statistics.bundles += u64::from(bundled > 0);
        self.statistics.bytes_bundled += bundled;
        self.statistics.data_sent += 1;
        self.statistics.bytes_sent += fresh.len as u64;
        self.watch_for_acks(now, cm);
        self.schedule_tail_probe(now, cm);
    }

    /// Retransmits the segment at index `at`, with or without a grant.
    fn send_again(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        flow: FlowId,
        at: usize,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = told(cm.query(flow))?;
        let (span, fin) = self.sender.segment_at(at)?;
        let (header, mut options) = self.stamped(now, self.wire(span.start), Flags::when(fin, Flags::FIN));
        options.sack.truncate(0);
        let start = self.write_header(&header, &options, packet);
        let adu = self.sender.repeat(now, &path, at, source, packet);
        self.tell_settled();
        self.depart(&header, start, packet);
        let bytes = if fin { 0 } else { span.end - span.start };
        charge(now, cm, flow, bytes);
        self.sender.sent_again(now, at);
        self.statistics.retransmissions += 1;
        self.statistics.bytes_retransmitted += bytes;
        if at == 0 {
            // The "more careful variant" of RFC 6675 §6: the timer restarts when the first segment is retransmitted.
            self.restart_retransmission_timer(now, cm);
        }
        self.watch_for_acks(now, cm);
        Some(Transmit { ecn: Ecn::NotEct, adu })
    }

    /// `TLP_send_probe` of RFC 8985 §7.3: new data if there is any, else the last segment.
    fn send_tail_probe(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        flow: FlowId,
        fresh: bool,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let sent = self.statistics.data_sent;
        let mut transmit = None;
        if fresh {
            transmit = self.send_fresh(now, cm, flow, u64::MAX, source, packet);
            if transmit.is_some() && self.statistics.data_sent == sent {
                // An acknowledgement was sent first: the probe is still due.
                self.owed.tail_probe = true;
                return transmit;
            }
        }
        let repeats = transmit.is_none();
        if repeats {
            transmit = self.send_again(now, cm, flow, self.sender.last_segment()?, source, packet);
        }
        self.statistics.tail_probes += 1;
        self.sender.sent_probe(repeats);
        self.timers.stop(Timer::TailProbe);
        self.restart_retransmission_timer(now, cm);
        transmit
    }

    /// Sends the FIN after the application has closed and all data was sent. It needs no room in the window, since it
    /// carries no data.
    fn send_fin(
        &mut self,
        now: Instant,
        cm: &Manager,
        source: &mut dyn AduSource,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !self.is_closing || !self.may_send_fresh() || self.sender.has_fresh(now, source) {
            return None;
        }
        let (header, mut options) = self.stamped(now, self.wire(self.sender.nxt()), Flags::FIN);
        options.sack.truncate(0);
        let start = self.write_header(&header, &options, packet);
        self.depart(&header, start, packet);
        self.sender.sent_fin(now);
        self.fin_sent();
        self.watch_for_acks(now, cm);
        self.schedule_tail_probe(now, cm);
        Some(Transmit { ecn: Ecn::NotEct, adu: None })
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
}

/// Requests a grant for a segment of about `bytes` bytes. Returns how many bytes may be sent now: any number with a
/// grant, else the window's room if it suffices for `bytes` (RFC 5681 §3.1).
fn ask(now: Instant, cm: &mut Manager, flow: FlowId, bytes: u64) -> Option<u64> {
    if !cm.has_grant(flow) && !cm.is_waiting(flow) {
        told(cm.request(now, flow));
    }
    if cm.has_grant(flow) {
        return Some(u64::MAX);
    }
    Some(cm.room(now, flow)).filter(|&room| room >= bytes)
}

fn give_back(now: Instant, cm: &mut Manager, flow: FlowId) {
    if cm.has_grant(flow) {
        told(cm.notify(now, flow, 0));
    }
}

/// Reports sent data to the Congestion Manager, on a grant if there is one.
fn charge(now: Instant, cm: &mut Manager, flow: FlowId, bytes: u64) {
    if cm.has_grant(flow) {
        told(cm.notify(now, flow, bytes));
    } else if bytes > 0 {
        told(cm.notify_unasked(now, flow, bytes));
    }
}
