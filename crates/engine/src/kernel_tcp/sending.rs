//! From the packet ring into a socket: one packet at a time, pulled when the kernel is about to run dry.

use std::collections::VecDeque;
use std::io;

use timeous_cm::{FlowId, Kind, Manager};
use timeous_core::{AduSource, DropReason, Duration, Instant, PathState, PulledAdu};
use timeous_dccp::Statistics;

use super::bearing::{Bearing, Version};
use super::framing::{Writer, longest_payload, longest_record};
use super::meter::Meter;
use super::restraint::Restraint;
use super::socket::{End, LEAST_LONGEST_TIMEOUT, Socket};
use super::under_way::{Lent, UnderWay};
use super::zone::{Slot, Zone};
use crate::carrier::{Reach, TcpConfig, TcpFraming};
use crate::clock;
use crate::identity::Hello;

/// As many packets leave in one turn, so that other streams have theirs.
const TURN: u32 = 64;

/// The sending side of a connection.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) writer: Writer,
    pub(super) longest: usize,
    pub(super) under_way: UnderWay,
    pub(super) meter: Meter,
    /// Where the kernel sends from, while late choice reaches retransmissions.
    pub(super) zone: Option<Zone>,
    /// Zero-copy sends so far: the kernel numbers them.
    sends: u32,
    /// What the kernel has let go of showed that late choice does reach retransmissions.
    proven: bool,
    /// Whether the path bears that what has left is changed.
    pub(super) bearing: Bearing,
    /// What lies in vacant records, and how the repairs stood when it was put there.
    pub(super) lent: Option<Lent>,
    /// A record that the kernel took in part only.
    rest: Option<Rest>,
    /// A datagram that was put in the place of one under way, or that the kernel had no room for: it goes next.
    pub(super) held: Option<Held>,
    /// Datagrams that were too long for the place that they were pulled for: they go after that.
    pub(super) waiting: VecDeque<Held>,
    /// What the kernel was told of how much may be unsent.
    told_limit: u32,
    /// And of how long a timeout may become.
    longest_timeout: Duration,
    /// There is something to send, and the kernel has enough.
    blocked: bool,
    pub(super) scratch: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// Buffers of datagrams that the kernel has.
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) replaced: u64,
    pub(super) padded: u64,
    /// Datagrams in the kernel whose deadline has come there, and that cannot be changed.
    pub(super) unchanged: u64,
    /// By which controller the kernel is held back, if it is, and the longest segment.
    pub(super) controller: Option<(Kind, u64)>,
    /// From the first datagram on.
    restraint: Option<Restraint>,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// So many bytes of the stream.
    Sent(u64),
    /// What was chosen is stale by now.
    TooLate,
    /// There is nothing to send, or no room for it.
    Nothing,
}

#[derive(Debug)]
struct Rest {
    bytes: Vec<u8>,
    from: usize,
}

/// A datagram with its number.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pulled: PulledAdu,
    pub(super) number: u32,
    pub(super) payload: Vec<u8>,
    /// Whether it may have left from another place.
    pub(super) copied: bool,
}

/// What the kernel made of a record.
enum Given {
    /// It has it; where it lies, if it sends it from there.
    Taken(Option<(u32, Slot)>),
    /// It has no room at all.
    Refused,
}

impl Sending {
    /// For a socket that is connected.
    pub(super) fn new(config: &TcpConfig, socket: &Socket) -> io::Result<Self> {
        let wanted = config.into_retransmissions && config.framing == TcpFraming::Records;
        let zone = if wanted && socket.allow_zero_copy() { Some(Zone::new(longest_record(config))?) } else { None };
        if zone.is_some() {
            socket.widen()?;
        }
        socket.set_unsent_limit(1)?;
        Ok(Self {
            writer: Writer::new(config.framing),
            longest: longest_payload(config),
            under_way: UnderWay::default(),
            meter: Meter::default(),
            zone,
            sends: 0,
            proven: false,
            bearing: Bearing::default(),
            lent: None,
            rest: None,
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
            controller: config.controller.map(|kind| (kind, longest_record(config) as u64)),
            restraint: None,
        })
    }

    /// Whether there is something to send as soon as the kernel has room.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// How far late choice reaches, as far as is known by now.
    pub(super) fn reach(&self) -> Reach {
        if self.zone.is_some() && self.proven && !self.bearing.is_refused() {
            Reach::Retransmissions
        } else {
            Reach::Queue
        }
    }

    pub(super) fn path(&self) -> PathState {
        let path = self.meter.path();
        self.restraint.as_ref().map_or(path, |restraint| restraint.path(path))
    }

    /// Its flow of the Congestion Manager, if it has one: to be closed with the connection.
    pub(super) fn flow(&self) -> Option<FlowId> {
        self.restraint.as_ref().map(Restraint::flow)
    }

    /// Says something to the other end, before anything else.
    pub(super) fn say(&mut self, hello: Hello) {
        let mut bytes = Vec::new();
        hello.write(self.writer.number(), &mut bytes);
        self.under_way.skip(bytes.len());
        self.rest = Some(Rest { bytes, from: 0 });
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty() && !self.has_pulled()
    }

    /// Whether what was pulled waits for its turn.
    fn has_pulled(&self) -> bool {
        self.held.is_some() || !self.waiting.is_empty()
    }

    /// Since when data wait for the peer's window.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.meter.stalled_since()
    }

    /// When it is to be looked at again, which is to be at least `often` while anything is open.
    pub(super) fn poll_timeout(&self, now: Instant, often: Duration) -> Option<Instant> {
        let held = self.restraint.as_ref().and_then(|restraint| restraint.look(self.meter.path().srtt));
        let often = held.map_or(often, |held| held.min(often));
        let look = (!self.is_empty() || self.rest.is_some()).then_some(now + often);
        // When nothing that leaves can be there in time any more, and when it may not leave at all.
        let way = self.meter.path().one_way();
        let deadline = self.under_way.next_deadline().filter(|_| self.zone.is_some()).into_iter();
        let expiry = deadline.flat_map(|at| [at.saturating_sub(way), at + Duration::from_nanos(1)]);
        look.into_iter().chain(expiry.filter(|at| *at > now)).min()
    }

    /// Asks the kernel how the path is, if that was long ago.
    pub(super) fn measure(&mut self, now: Instant, socket: &Socket, manager: &mut Manager) -> io::Result<()> {
        if !self.meter.is_due(now) {
            return Ok(());
        }
        let unsent = socket.unsent()?;
        let unacknowledged = socket.unacknowledged()?;
        let info = socket.info()?;
        self.meter.take(now, info, unacknowledged.saturating_sub(unsent).into(), unsent.into());
        let reached = self.given().saturating_sub(unacknowledged.into());
        if let Some(restraint) = &mut self.restraint {
            restraint.heard(now, manager, reached, &info);
        }
        let limit = self.meter.queue_limit();
        // Not for every change of the rate.
        if limit.abs_diff(self.told_limit) > self.told_limit / 4 {
            socket.set_unsent_limit(limit)?;
            self.told_limit = limit;
        }
        let longest = self.meter.longest_timeout();
        if longest.max(self.longest_timeout) > longest.min(self.longest_timeout) * 5 / 4 {
            socket.set_longest_timeout(longest);
            self.longest_timeout = longest;
        }
        Ok(())
    }

    /// Pulls and gives what the kernel can send; whether anything was given.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
        manager: &mut Manager,
    ) -> io::Result<bool> {
        self.blocked = false;
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

    /// Whether there is something to send, and the Congestion Manager lets it go, where it is asked.
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
            none => none.insert(Restraint::new(manager, socket.peer()?.ip(), longest, kind, self.meter.info())),
        };
        Ok(restraint.may_send(now, manager))
    }

    /// `false` if the kernel has no room for it.
    fn finish_rest(&mut self, socket: &Socket) -> io::Result<bool> {
        let Some(rest) = &mut self.rest else { return Ok(true) };
        rest.from += socket.send(&rest.bytes[rest.from..], End::of(self.zone.is_some(), false))?.unwrap_or(0);
        if rest.from == rest.bytes.len() {
            self.rest = None;
        }
        Ok(self.rest.is_none())
    }

    /// **The instant of choice.** What came of it.
    fn send_next(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<Next> {
        let Some((pulled, number, copied)) = self.next(now, source) else { return Ok(Next::Nothing) };
        // The round may have begun long ago, on a busy machine.
        if pulled.meta.is_expired(clock::now()) {
            Self::give_up(&pulled, copied, source);
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
                // Nothing of it is the kernel's: so long its deadline is kept here.
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

    /// The next datagram, in `payload`, its number, and whether it may have left from another place.
    fn next(&mut self, now: Instant, source: &mut dyn AduSource) -> Option<(PulledAdu, u32, bool)> {
        if let Some(Held { pulled, number, payload, copied }) = self.held.take() {
            if !pulled.meta.is_expired(now) {
                self.payload = payload;
                return Some((pulled, number, copied));
            }
            Self::give_up(&pulled, copied, source);
        }
        self.give_up_useless(now, source);
        if let Some(Held { pulled, number, payload, .. }) = self.waiting.pop_front() {
            self.payload = payload;
            return Some((pulled, number, false));
        }
        let (pulled, number) = self.pull(now, source)?;
        Some((pulled, number, false))
    }

    /// A fresh datagram, in `payload`, and its number.
    pub(super) fn pull(&mut self, now: Instant, source: &mut dyn AduSource) -> Option<(PulledAdu, u32)> {
        self.payload.clear();
        let path = self.path();
        let mut pulled = source.pull(now, &path, self.longest, &mut self.payload)?;
        pulled.gather(source, &mut self.payload);
        Some((pulled, self.writer.number()))
    }

    /// A datagram's deadline has come before the kernel took it.
    pub(super) fn give_up(pulled: &PulledAdu, copied: bool, source: &mut dyn AduSource) {
        if copied {
            // It may have arrived in another's place; nobody can tell.
            source.lost(pulled.token);
        } else {
            source.dropped(pulled.token, DropReason::Expired);
        }
    }

    /// Gives the record in `scratch` to the kernel, by zero-copy if that is possible; another follows at once, in the same segment, if
    /// it has company.
    fn send_record(&mut self, socket: &Socket, has_company: bool) -> io::Result<Given> {
        if let Some(zone) = &mut self.zone
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
                    // Two segments at least, which may be lost one without the other: it stays as it is.
                    self.under_way.linger(number, slot);
                    self.rest = Some(Rest { bytes: self.scratch.clone(), from: taken });
                    return Ok(Given::Taken(None));
                }
                Ok(None) => {
                    zone.give_back(slot);
                    return Ok(Given::Refused);
                }
                // No more pages may be pinned, or no more notes kept: this one is copied.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => zone.give_back(slot),
                Err(error) => return Err(error),
            }
        }
        let ends = End::of(self.zone.is_some(), has_company);
        let Some(taken) = socket.send(&self.scratch, ends)? else { return Ok(Given::Refused) };
        if taken < self.scratch.len() {
            self.rest = Some(Rest { bytes: self.scratch.clone(), from: taken });
        }
        Ok(Given::Taken(None))
    }

    /// How much of the stream the kernel has been given.
    fn given(&self) -> u64 {
        self.under_way.end() - self.rest.as_ref().map_or(0, |rest| rest.bytes.len() - rest.from) as u64
    }

    /// How much of it has left, if so many bytes are unsent in the kernel.
    pub(super) fn sent(&self, unsent: u32) -> u64 {
        self.given().saturating_sub(unsent.into())
    }

    /// How much of it the peer has without a gap.
    pub(super) fn acknowledged(&self, socket: &Socket) -> io::Result<u64> {
        Ok(self.given().saturating_sub(socket.unacknowledged()?.into()))
    }

    /// Hears what the peer has acknowledged, and which memory the kernel has let go of.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<bool> {
        let mut released = Vec::new();
        while let Some(range) = socket.released()? {
            released.push(range);
        }
        let acked = self.acknowledged(socket)?;
        let mut progress = !released.is_empty();
        while let Some(version) = self.under_way.next_version(acked) {
            let retransmitted = match version {
                Version::Restored { .. } => socket.info()?.retransmitted(),
                Version::First | Version::Changed { .. } => 0,
            };
            self.bearing.learn(now, version, retransmitted);
            let Some(arrived) = self.under_way.pop_acked(acked) else { break };
            progress = true;
            let Some(token) = arrived.token else { continue };
            let as_it_was = match arrived.overwritten {
                Some(retransmitted) => socket.info()?.retransmitted() == retransmitted,
                None => !(arrived.boarded && socket.info()?.is_reordered()),
            };
            if as_it_was {
                source.acked(token);
                counts.acked += 1;
            } else {
                source.lost(token);
                counts.lost += 1;
            }
        }
        self.look_for_cuts(acked, socket)?;
        for range in released {
            // Let go of before it has arrived: the kernel has made a copy when it was given. A device of this host that
            // copies, as loopback does, does so at each transmission.
            let too_early = range.copied && self.under_way.has_send(range.last);
            if let Some(zone) = &mut self.zone {
                self.under_way.released(range.first, range.last, |slot| zone.give_back(slot));
            }
            if too_early {
                tracing::debug!("the kernel copies what is sent: late choice ends at its queue");
                self.zone = None;
                self.under_way.forget_places();
            } else {
                self.proven = true;
            }
        }
        Ok(progress)
    }

    /// Sees whether the first record that is open arrives in parts.
    fn look_for_cuts(&mut self, acked: u64, socket: &Socket) -> io::Result<()> {
        let Some(mss) = self.meter.info().map(|info| info.mss() as usize) else { return Ok(()) };
        if self.zone.is_some() && self.under_way.cut(acked, u64::MAX, mss).is_some() {
            let sent = self.sent(socket.unsent()?);
            if let Some(start) = self.under_way.cut(acked, sent, mss) {
                self.bearing.is_cut(start);
            }
        }
        Ok(())
    }

    /// The connection is over: what it had has no other fate than that.
    pub(super) fn end(&mut self, source: &mut dyn AduSource) {
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
