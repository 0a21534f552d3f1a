//! Sending side of a TCP connection: pulls one packet at a time from the packet ring, just before the kernel's send queue runs empty.

mod feedback;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use timeous_cm::{Destination, FlowId, Kind, Manager};
use timeous_core::{AduSource, Arrived, DropReason, Duration, Instant, PathState, PulledAdu};
use timeous_seal::Secrets;
use timeous_transport::Statistics;

use crate::config::{TcpConfig, TcpFraming};
use crate::fates::Fates;
use crate::framing::{Writer, longest_payload};
use crate::identity::{END, Hello};
use crate::meter::Meter;
use crate::path_evidence::PathEvidence;
use crate::restraint::Restraint;
use crate::session::Reach;
use crate::socket::{End, LEAST_LONGEST_TIMEOUT, Released, Socket};
use crate::stamps::Stamps;
use crate::under_way::{CopiedDatagram, UnderWay};
use crate::zone::{Slot, Zone};

/// Maximum number of packets sent per turn, so that other streams have theirs. Chosen by us: a higher value costs fewer
/// wake-ups and delays the others.
const TURN: u32 = 64;

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Sending {
    /// Clock: on a busy machine a round may have begun long ago.
    pub(crate) clock: fn() -> Instant,
    pub(crate) writer: Writer,
    pub(crate) longest: usize,
    pub(crate) under_way: UnderWay,
    pub(crate) fates: Fates,
    pub(crate) meter: Meter,
    /// Memory from which the kernel sends, while late choice reaches retransmissions.
    pub(crate) zone: Option<Zone>,
    /// Number of zero-copy sends so far: the kernel numbers its completions by it.
    sends: u32,
    /// Completion notices have shown that the kernel sends from our memory without copying, so that late choice does reach retransmissions.
    proven: bool,
    /// Evidence on whether the path passes changed retransmissions.
    pub(crate) bearing: PathEvidence,
    /// Datagram copied into vacant records, with the kernel's loss state at that time.
    pub(crate) lent: Option<CopiedDatagram>,
    /// Remainder of a record that the kernel took only in part.
    rest: Option<UnsentRecord>,
    /// The record of the end is in `rest`, or was sent.
    has_said_end: bool,
    /// Next datagram to send: one that was copied into the place of a sent record, or for which the kernel had no room.
    pub(crate) held: Option<Held>,
    /// Datagrams too long for the place for which they were pulled; sent after `held`.
    pub(crate) waiting: VecDeque<Held>,
    /// Limit of unsent bytes last set on the socket.
    told_limit: u32,
    /// Maximum retransmission timeout last set on the socket.
    longest_timeout: Duration,
    /// Data is queued, and the kernel's queue is full.
    blocked: bool,
    pub(crate) scratch: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// Spare payload buffers.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) replaced: u64,
    pub(crate) padded: u64,
    /// Datagrams that expired in the kernel's queue and cannot be changed.
    pub(crate) unchanged: u64,
    /// Congestion Manager controller on top of the kernel's, if any, and the maximum segment length.
    pub(crate) controller: Option<(Kind, u64)>,
    /// Its flow, opened with the first datagram.
    restraint: Option<Restraint>,
    /// End of the newest record of which the arrival is known, and that.
    arrived: Option<(u64, Arrived)>,
    /// Acknowledgements that the kernel has stamped, and memory that it has released, both not processed.
    stamps: Stamps,
    released: Vec<Released>,
    /// Source address of another uplink than the route's own.
    uplink: Option<IpAddr>,
    /// The late choice has looked at the queue in this turn, and nothing was dropped since.
    pub(crate) is_chosen: bool,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Bytes of the stream that were given to the kernel.
    Sent(u64),
    /// The pulled datagram expired meanwhile.
    TooLate,
    /// No data is queued, or the kernel has no room.
    Nothing,
}

#[derive(Debug)]
struct UnsentRecord {
    bytes: Vec<u8>,
    from: usize,
}

/// A pulled datagram with its record number.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) pulled: PulledAdu,
    pub(crate) number: u32,
    pub(crate) payload: Vec<u8>,
    /// A copy of it may have been transmitted in another record.
    pub(crate) copied: bool,
}

/// Result of giving a record to the kernel.
enum Given {
    /// Taken, with its send number and slot if the kernel sends from our memory.
    Taken(Option<(u32, Slot)>),
    /// It has no room at all.
    Refused,
}

impl Sending {
    /// Creates the sending side of a connected socket, which may use another uplink than the route's own; with `secrets`, records are
    /// encrypted.
    pub(crate) fn new(
        clock: fn() -> Instant,
        (config, uplink): (&TcpConfig, Option<IpAddr>),
        socket: &Socket,
        secrets: Option<&Secrets>,
    ) -> io::Result<Self> {
        let wanted = config.into_retransmissions && config.framing == TcpFraming::Records;
        let writer = Writer::new(config.framing, secrets);
        let longest_record = writer.longest_record(config.longest);
        let zone = if wanted && socket.allow_zero_copy() {
            Some(Zone::new(writer.longest_record(config.longest + 1))?)
        } else {
            None
        };
        if zone.is_some() {
            socket.widen()?;
        }
        socket.set_unsent_limit(1)?;
        if config.controller.is_some() && !socket.stamp_acknowledgements() {
            tracing::debug!("the kernel does not tell when it was acknowledged");
        }
        Ok(Self {
            clock,
            writer,
            longest: longest_payload(config),
            under_way: UnderWay::default(),
            fates: Fates::default(),
            // Bytes of the handshake belong to no datagram.
            meter: Meter::new(socket.info()?.acknowledged()),
            zone,
            sends: 0,
            proven: false,
            bearing: PathEvidence::default(),
            lent: None,
            rest: None,
            has_said_end: false,
            held: None,
            waiting: VecDeque::new(),
            told_limit: 1,
            longest_timeout: LEAST_LONGEST_TIMEOUT,
            blocked: false,
            scratch: Vec::new(),
            payload: Vec::new(),
            spare: Vec::new(),
            replaced: 0,
            padded: 0,
            unchanged: 0,
            controller: config.controller.map(|kind| (kind, longest_record as u64)),
            restraint: None,
            arrived: None,
            stamps: Stamps::default(),
            released: Vec::new(),
            uplink,
            is_chosen: false,
        })
    }

    /// Returns whether data is queued that the kernel has no room for.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the longest datagram that leaves in one segment, in bytes; zero: not known yet.
    pub(crate) fn one_segment(&self) -> usize {
        let room = self.meter.info().and_then(|info| self.writer.room(info.mss() as usize));
        room.map_or(0, |room| room.saturating_sub(1).min(self.longest))
    }

    /// Returns the reach of late choice, as far as it is proven by now.
    pub(crate) fn reach(&self) -> Reach {
        if self.zone.is_some() && self.proven && !self.bearing.is_refused() {
            Reach::Retransmissions
        } else {
            Reach::Queue
        }
    }

    pub(crate) fn path(&self) -> PathState {
        let path = self.meter.path();
        self.restraint.as_ref().map_or(path, |restraint| restraint.path(path))
    }

    /// Returns its flow of the Congestion Manager, if any, to be closed with the connection.
    pub(crate) fn flow(&self) -> Option<FlowId> {
        self.restraint.as_ref().map(Restraint::flow)
    }

    /// Sends a hello to the other engine, before any datagram.
    pub(crate) fn say(&mut self, hello: &Hello) {
        self.say_body(&hello.body());
    }

    fn say_body(&mut self, body: &[u8]) {
        let mut bytes = Vec::new();
        let number = self.writer.number();
        self.writer.control(number, body, &mut bytes);
        self.under_way.skip(bytes.len());
        self.rest = Some(UnsentRecord { bytes, from: 0 });
    }

    /// Tells the other engine of an encrypted stream, behind all records, that the stream ends in order; returns whether the kernel has it.
    pub(crate) fn say_end(&mut self, socket: &Socket) -> io::Result<bool> {
        if !self.writer.is_encrypted() {
            return Ok(true);
        }
        if !self.has_said_end && self.finish_rest(socket)? {
            self.say_body(END);
            self.has_said_end = true;
        }
        let is_said = self.finish_rest(socket)? && self.has_said_end;
        self.blocked |= !is_said;
        Ok(is_said)
    }

    /// Returns whether nothing is queued or in flight here, and every fate is reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.fates.is_empty() && !self.has_pulled()
    }

    /// Returns whether a pulled datagram waits for its turn.
    fn has_pulled(&self) -> bool {
        self.held.is_some() || !self.waiting.is_empty()
    }

    /// Returns since when data is blocked by the peer's window.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        self.meter.stalled_since()
    }

    /// Returns the time of the next check, at most `often` from now while data is in flight.
    pub(crate) fn poll_timeout(&self, now: Instant, often: Duration) -> Option<Instant> {
        let held = self.restraint.as_ref().and_then(|restraint| restraint.look(self.meter.path().srtt));
        let often = held.map_or(often, |held| held.min(often));
        let look = (!self.is_empty() || self.rest.is_some() || held.is_some()).then_some(now + often);
        // Two checks: when a retransmission can no longer arrive in time, and when the deadline has passed.
        let way = self.meter.path().one_way();
        let deadline = self.under_way.next_deadline().filter(|_| self.zone.is_some()).into_iter();
        let expiry = deadline.flat_map(|at| [at.saturating_sub(way), at + Duration::from_nanos(1)]);
        look.into_iter().chain(expiry.filter(|at| *at > now)).min()
    }

    /// Pulls and sends what the kernel has room for; returns whether anything was sent.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
        manager: &mut Manager,
    ) -> io::Result<bool> {
        self.blocked = false;
        self.is_chosen = false;
        for given in 0..TURN {
            if !self.finish_rest(socket)? || socket.unsent()? >= self.told_limit {
                self.blocked = self.rest.is_some() || self.has_pulled() || source.has_queued(now);
                return Ok(given > 0);
            }
            if !self.may_send(now, socket, source, manager)? {
                return Ok(given > 0);
            }
            let done = self.send_next(now, socket, source, counts)?;
            if let Some(restraint) = &mut self.restraint {
                match done {
                    Next::Sent(len) => {
                        let at_once = socket.unsent()? == 0;
                        restraint.sent(now, manager, (self.under_way.end(), len), at_once);
                    }
                    Next::TooLate | Next::Nothing => restraint.give_back(now, manager),
                }
            }
            if matches!(done, Next::Nothing) {
                self.blocked = self.held.is_some();
                return Ok(given > 0);
            }
        }
        Ok(true)
    }

    /// Returns whether data is queued and the Congestion Manager, if one is used, grants it.
    fn may_send(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        manager: &mut Manager,
    ) -> io::Result<bool> {
        let Some((kind, longest)) = self.controller else { return Ok(true) };
        if !self.has_pulled() && !source.has_queued(now) {
            self.restraint.iter_mut().for_each(Restraint::rests);
            return Ok(false);
        }
        let restraint = match &mut self.restraint {
            Some(restraint) => restraint,
            none => {
                let destination = Destination { source: self.uplink, ..Destination::from(socket.peer()?.ip()) };
                none.insert(Restraint::new(now, manager, destination, longest, kind, self.meter.info()))
            }
        };
        Ok(restraint.may_send(now, manager))
    }

    /// Returns `false` if the kernel has no room for it.
    fn finish_rest(&mut self, socket: &Socket) -> io::Result<bool> {
        let Some(rest) = &mut self.rest else { return Ok(true) };
        rest.from += socket.send(&rest.bytes[rest.from..], End::of(self.zone.is_some(), false))?.unwrap_or(0);
        if rest.from == rest.bytes.len() {
            self.rest = None;
        }
        Ok(self.rest.is_none())
    }

    /// Pulls and sends the next datagram. **This is the instant of choice.**
    fn send_next(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<Next> {
        let Some((pulled, number, copied)) = self.next(now, source) else { return Ok(Next::Nothing) };
        // On a busy machine the round may have begun long ago.
        if pulled.meta.is_expired((self.clock)()) {
            self.give_up(&pulled, copied, source);
            return Ok(Next::TooLate);
        }
        let mut next = Held { pulled, number, payload: std::mem::take(&mut self.payload), copied };
        let mut sent = 0;
        loop {
            self.scratch.clear();
            self.writer.write(&next.pulled.meta, next.number, &next.payload, &mut self.scratch);
            let len = self.scratch.len();
            let company = self.company(now, sent + len, source);
            let Given::Taken(slot) = self.send_record(socket, company.is_some())? else {
                // The kernel took nothing: the datagram stays here, where its deadline can still be checked.
                self.held = Some(next);
                company.into_iter().for_each(|company| self.waiting.push_front(company));
                return Ok(if sent > 0 { Next::Sent(sent as u64) } else { Next::Nothing });
            };
            sent += len;
            self.under_way.push(now, &next.pulled, len, slot, next.copied);
            self.meter.gave(len);
            source.sent(next.pulled.token);
            counts.data_sent += 1;
            counts.bytes_sent += next.payload.len() as u64;
            let used = std::mem::replace(&mut self.payload, next.payload);
            self.keep_spare(used);
            match company {
                Some(company) if self.rest.is_none() => next = company,
                company => {
                    company.into_iter().for_each(|company| self.waiting.push_front(company));
                    return Ok(Next::Sent(sent as u64));
                }
            }
        }
    }

    /// Returns the next datagram, in `payload`, with its number and whether a copy may have been transmitted in another record.
    fn next(&mut self, now: Instant, source: &mut dyn AduSource) -> Option<(PulledAdu, u32, bool)> {
        if let Some(Held { pulled, number, payload, copied }) = self.held.take() {
            if !pulled.meta.is_expired(now) {
                self.payload = payload;
                return Some((pulled, number, copied));
            }
            self.give_up(&pulled, copied, source);
        }
        self.give_up_useless(now, source);
        if let Some(Held { pulled, number, payload, .. }) = self.waiting.pop_front() {
            self.payload = payload;
            return Some((pulled, number, false));
        }
        let (pulled, number) = self.pull(now, source)?;
        Some((pulled, number, false))
    }

    /// Pulls a fresh datagram into `payload` and numbers it. The choice is made once in a turn: it looks at the whole queue, and what a turn
    /// gives to the kernel fills its queue for two milliseconds at most.
    pub(crate) fn pull(&mut self, now: Instant, source: &mut dyn AduSource) -> Option<(PulledAdu, u32)> {
        self.payload.clear();
        let path = self.path();
        let (most, is_chosen) =
            (self.longest.max(self.writer.most_adu()), std::mem::replace(&mut self.is_chosen, true));
        let mut pulled = match is_chosen {
            true => source.pull_chosen(now, &path, most, &mut self.payload)?,
            false => source.pull(now, &path, most, &mut self.payload)?,
        };
        pulled.gather(source, &mut self.payload);
        Some((pulled, self.writer.number()))
    }

    /// Drops a datagram whose deadline passed before the kernel took it.
    pub(crate) fn give_up(&mut self, pulled: &PulledAdu, copied: bool, source: &mut dyn AduSource) {
        self.is_chosen = false;
        if copied {
            // A copy may have arrived in another record: lost, not dropped.
            source.lost(pulled.token);
        } else {
            source.dropped(pulled.token, DropReason::Expired);
        }
    }

    /// Gives the record in `scratch` to the kernel, by zero-copy where possible. `has_company`: another record follows in the same segment.
    fn send_record(&mut self, socket: &Socket, has_company: bool) -> io::Result<Given> {
        if let Some(zone) = self.zone.as_mut().filter(|zone| zone.holds(self.scratch.len()))
            && let Some(slot) = zone.take()
        {
            zone.write(&slot, &self.scratch);
            match socket.send_from(&zone.part(&slot, 0, self.scratch.len()), has_company) {
                Ok(Some(taken)) => {
                    let number = self.sends;
                    self.sends = self.sends.wrapping_add(1);
                    if taken == self.scratch.len() {
                        return Ok(Given::Taken(Some((number, slot))));
                    }
                    // Split over two segments at least, which may be lost separately: it is not changed any more.
                    self.under_way.linger(number, slot);
                    self.rest = Some(UnsentRecord { bytes: self.scratch.clone(), from: taken });
                    return Ok(Given::Taken(None));
                }
                Ok(None) => {
                    zone.give_back(slot);
                    return Ok(Given::Refused);
                }
                // The limit of pinned pages or of completion notices is reached: this record is copied.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => zone.give_back(slot),
                Err(error) => return Err(error),
            }
        }
        let ends = End::of(self.zone.is_some(), has_company);
        let Some(taken) = socket.send(&self.scratch, ends)? else { return Ok(Given::Refused) };
        if taken < self.scratch.len() {
            self.rest = Some(UnsentRecord { bytes: self.scratch.clone(), from: taken });
        }
        Ok(Given::Taken(None))
    }

    /// Reports everything in flight as lost: the connection is over.
    pub(crate) fn end(&mut self, source: &mut dyn AduSource) {
        for token in self.under_way.drain() {
            source.lost(token);
        }
        if let Some(held) = self.held.take() {
            source.lost(held.pulled.token);
        }
        for held in self.waiting.drain(..) {
            source.dropped(held.pulled.token, DropReason::Closed);
        }
    }
}

#[cfg(test)]
mod tests;
