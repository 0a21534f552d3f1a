//! Congestion Manager flow on top of the kernel's congestion control: its controller holds back data that the kernel would send, to keep
//! the path's queue short. It needs no privilege and works with any kernel controller.
//!
//! The smaller of both windows limits the sending. The flow's feedback comes from the socket: cumulative acknowledgement, SACKed segments,
//! retransmissions, and when each record was acknowledged, from which the path's model learns.

use std::collections::VecDeque;

use timeous_cm::{ClientId, Departure, Destination, FlowId, FlowSpec, Kind, Loss, Manager, Observed, Update};
use timeous_core::{Arrived, Duration, Instant, PathState};

use crate::info::Info;
use crate::meter::DELAYED_ACK;
use crate::stamps::Stamps;

/// Acknowledgement polls per round trip while data is held back, on kernels that do not signal acknowledgements. Chosen by
/// us: a higher value costs time and sends sooner.
const LOOKS: u64 = 32;
/// Minimum of the polling interval. Chosen by us: a lower value costs time.
const SOONEST: Duration = Duration::from_millis(1);
/// Maximum of the polling interval. Chosen by us: a higher value sends later on long paths.
const LATEST: Duration = Duration::from_millis(10);
/// Segments that may be in flight whatever the window: the delayed acknowledgement of a single one (RFC 9293 §3.8.6.3)
/// looks like a queue, and a window of one would never recover. The kernel's own window still applies.
const COMPANY: usize = 2;
/// Bytes of a TCP header with timestamps (RFC 9293 §3.1, RFC 7323 §3.2).
const HEADER: u16 = 32;
/// Maximum time between the stamps of records that one acknowledgement covers. Chosen by us: the kernel stamps them in one loop, and
/// two acknowledgements come a packet's time on the link apart at least.
const SAME_ACK: Duration = Duration::from_micros(100);
/// Bytes that a receiver takes for a full segment at first (`TCP_MSS_DEFAULT`, RFC 9293 §3.7.1), until it has seen a longer one.
const DEFAULT_SEGMENT: u64 = 536;
/// Minimum round trip of a path whose queue is kept short. Chosen by us: on a shorter one, as within a host, threads that wait for a
/// processor look like a queue. A higher value leaves the queues of fast local networks to the kernel.
const MIN_PATH_RTT: Duration = Duration::from_millis(1);

/// Flow of a connection, with its unacknowledged records.
#[derive(Debug)]
pub(crate) struct Restraint {
    flow: FlowId,
    /// Records given to the kernel and not acknowledged, in stream order.
    sent: VecDeque<Sent>,
    /// Bytes given to the kernel, and bytes delivered as reported to the manager, SACKed ones included.
    given: u64,
    arrived: u64,
    /// Cumulatively acknowledged bytes.
    acked: u64,
    /// Retransmitted segments and consecutive timeouts in the kernel's last report.
    again: u32,
    timeouts: u8,
    /// Time of the kernel's last report: later acknowledgements arrived at an unknown time since.
    looked: Instant,
    /// Stream position up to which records give no RTT sample: they waited for a gap to be filled, or were retransmitted.
    untimed: u64,
    /// Path state at the last grant or feedback.
    path: Option<PathState>,
    /// Longest record sent, in bytes.
    longest: u64,
    /// When the newest acknowledgement came, if the kernel has stamped it, and the bytes that it covers.
    newest: Option<(Instant, u64)>,
    /// When the one before it came.
    before: Instant,
    /// Data is queued and no grant is available.
    held: bool,
    /// The next record has a grant, and is not only sent because fewer than `COMPANY` segments are in flight.
    granted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    len: u64,
    at: Instant,
    /// Sent at once, not queued in the kernel.
    at_once: bool,
    departure: Departure,
}

impl Restraint {
    /// Opens a flow to `destination` with segments of at most `mtu` bytes under the controller `kind`.
    pub(crate) fn new(
        now: Instant,
        manager: &mut Manager,
        destination: Destination,
        mtu: u64,
        kind: Kind,
        info: Option<&Info>,
    ) -> Self {
        let headers = destination.ip_header() + HEADER;
        let spec = FlowSpec { headers, ..FlowSpec::to(destination, mtu.min(u16::MAX.into())) };
        let opened = manager.open_for(now, ClientId::HOST, spec);
        let flow = opened.expect("the host is a client, and a record is no longer than a packet may be");
        if manager.controller_name(flow) != Ok(kind.name()) {
            manager.set_controller(flow, kind).expect("a flow that was opened just now");
        }
        // The handshake's, without which a delayed acknowledgement could be of a path of any length.
        if let Some(rtt) = info.and_then(Info::min_rtt) {
            let update = Update { rtt: Some(rtt), ..Update::default() };
            manager.update(now, flow, update).expect("a flow that was opened just now, with nothing in flight");
        }
        Self {
            flow,
            sent: VecDeque::new(),
            given: 0,
            arrived: 0,
            acked: 0,
            again: info.map_or(0, Info::retransmitted),
            timeouts: 0,
            looked: Instant::ZERO,
            untimed: 0,
            path: manager.query(flow).ok(),
            longest: 0,
            newest: None,
            before: Instant::ZERO,
            held: false,
            granted: false,
        }
    }

    /// Returns its flow, to be closed with the connection.
    pub(crate) fn flow(&self) -> FlowId {
        self.flow
    }

    /// Returns whether it has not been told of the acknowledgement of all records.
    pub(crate) fn awaits_any(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Returns whether one segment may be given to the kernel.
    pub(crate) fn may_send(&mut self, now: Instant, manager: &mut Manager) -> bool {
        let path = manager.ask(now, self.flow).expect("its flow is open as long as the connection");
        self.granted = path.is_some();
        self.held = path.is_none() && self.sent.len() >= COMPANY && !self.leaves_it_to_the_kernel();
        self.path = path.or(self.path);
        !self.held
    }

    /// Whether the kernel's window alone decides: where others fill the path's queue, since the smaller of two windows that compete would
    /// lose; and on a path too short to have a queue that matters.
    fn leaves_it_to_the_kernel(&self) -> bool {
        self.path.is_some_and(|path| path.contended || path.min_rtt.is_some_and(|rtt| rtt < MIN_PATH_RTT))
    }

    /// Returns an unused grant: there was nothing to send.
    pub(crate) fn give_back(&self, now: Instant, manager: &mut Manager) {
        if self.granted {
            manager.notify(now, self.flow, 0).expect("it was granted just now");
        }
    }

    /// Reports a record given to the kernel that ends at `end` in the stream; `at_once`: it was sent and does not wait in the kernel.
    pub(crate) fn sent(&mut self, now: Instant, manager: &mut Manager, (end, len): (u64, u64), at_once: bool) {
        let told = match self.granted {
            true => manager.notify(now, self.flow, len),
            false => manager.notify_unasked(now, self.flow, len),
        };
        told.expect("its flow is open, and it was granted if it was asked for");
        let departure = manager.departure(self.flow).expect("its flow is open as long as the connection");
        self.sent.push_back(Sent { end, len, at: now, at_once, departure });
        self.given += len;
        self.longest = self.longest.max(len);
    }

    /// Reports acknowledgements up to `reached`, when they came as far as the kernel has stamped them, and losses in the kernel's report,
    /// to the manager. Returns the end of the last acknowledged record and its arrival, if that is known exactly.
    pub(crate) fn heard(
        &mut self,
        now: Instant,
        manager: &mut Manager,
        reached: u64,
        stamps: &mut Stamps,
        info: &Info,
    ) -> Option<(u64, Arrived)> {
        let mut update = Update { recovering: info.holes() > 0, ..Update::default() };
        let again = info.retransmitted().wrapping_sub(self.again);
        if info.sacked() > 0 || info.holes() > 0 || again > 0 {
            self.untimed = self.sent.back().map_or(self.untimed, |last| last.end);
        }
        let observed = self.acknowledge(now, reached, stamps, info, &mut update);
        if let (Some((_, observed)), Some(least)) = (observed, self.path.and_then(|path| path.min_rtt)) {
            update.path_rtt = Some(observed.path_rtt(least));
        }
        self.looked = now;
        let first = self.sent.front().copied();
        // The kernel counts segments, with one record in each.
        let beyond = first.map_or(0, |first| first.len * u64::from(info.sacked()));
        let arrived = (self.acked + beyond).clamp(self.arrived, self.given);
        update.acked = arrived - self.arrived;
        self.arrived = arrived;
        update.lost = first.map_or(0, |first| first.len * u64::from(again)).min(self.given - arrived);
        let timed_out = info.timeouts() > self.timeouts;
        (self.again, self.timeouts) = (info.retransmitted(), info.timeouts());
        update.loss = first.filter(|_| timed_out || again > 0).map(|first| {
            let kind = if timed_out { Loss::Persistent } else { Loss::Transient };
            (kind, first.at)
        });
        if update == (Update { recovering: update.recovering, ..Update::default() }) {
            return None;
        }
        if let Err(error) = manager.update(now, self.flow, update) {
            tracing::debug!(%error, "the kernel tells what cannot be");
            return None;
        }
        if update.lost > 0 {
            // The retransmission is in flight already.
            let done = manager.notify_unasked(now, self.flow, update.lost);
            done.expect("its flow is open as long as the connection");
        }
        let arrived = observed.and_then(|(end, observed)| {
            let arrived = manager.observe(self.flow, observed).expect("its flow is open as long as the connection");
            Some((end, arrived?))
        });
        self.path = manager.query(self.flow).ok().or(self.path);
        arrived
    }

    /// Removes acknowledged records, and returns the end and the arrival of the last one.
    fn acknowledge(
        &mut self,
        now: Instant,
        reached: u64,
        stamps: &mut Stamps,
        info: &Info,
        update: &mut Update,
    ) -> Option<(u64, Observed)> {
        let is_alone = self.sent.len() == 1 && self.path.is_some_and(|path| path.srtt.is_some());
        let full = self.longest.max(DEFAULT_SEGMENT).min(info.mss().into());
        // After a step of the clock that stamps, a record may seem to have arrived before it left.
        let least = info.min_rtt().unwrap_or_default() / 2;
        let mut observed = None;
        while let Some(record) = self.sent.front().copied().filter(|record| record.end <= reached) {
            self.sent.pop_front();
            self.acked += record.len;
            if record.end <= self.untimed {
                continue;
            }
            let stamped = stamps.take(record.end).filter(|&at| at >= record.at + least);
            let is_prompt = stamped.is_some_and(|at| self.is_prompt(at, record.len, full));
            let (answered, uncertain) = match stamped {
                Some(at) if is_prompt => (at, Duration::ZERO),
                Some(at) => (at, DELAYED_ACK),
                None => (now, now.saturating_since(self.looked) + DELAYED_ACK),
            };
            observed = Some((record.end, Observed { departure: record.departure, answered, uncertain }));
            // The acknowledgement of a single segment may have been delayed.
            update.rtt = match stamped {
                Some(at) if is_prompt || !is_alone => Some(at.saturating_since(record.at)),
                None if record.at_once && !is_alone => Some(self.round_trip(now, record.at, info.srtt())),
                _ => update.rtt,
            };
        }
        observed
    }

    /// Returns whether the acknowledgement of a record of `len` bytes, which came at `at`, was not delayed: it covers more than a `full`
    /// segment, or it comes so soon after the one before it that no timer has run since the record arrived (RFC 9293 §3.8.6.3).
    fn is_prompt(&mut self, at: Instant, len: u64, full: u64) -> bool {
        let covered = match self.newest {
            Some((before, covered)) if at.saturating_since(before) <= SAME_ACK => covered + len,
            newest => {
                self.before = newest.map_or(Instant::ZERO, |(at, _)| at);
                len
            }
        };
        self.newest = Some((at, covered));
        covered > full || at.saturating_since(self.before) < DELAYED_ACK
    }

    /// Returns the RTT sample of a record sent at `sent` and acknowledged since the last report: the kernel's smoothed RTT, within the
    /// bounds that both times give.
    fn round_trip(&self, now: Instant, sent: Instant, smoothed: Option<Duration>) -> Duration {
        let most = now.saturating_since(sent);
        let least = self.looked.saturating_since(sent);
        smoothed.map_or(most, |smoothed| smoothed.clamp(least, most))
    }

    /// Returns the kernel's path state, limited by the flow's rate and window. A kernel's window that is small says nothing if the flow's is
    /// smaller.
    pub(crate) fn path(&self, kernel: PathState) -> PathState {
        let Some(path) = self.path.filter(|_| !self.leaves_it_to_the_kernel()) else { return kernel };
        PathState {
            rate: kernel.rate.min(path.rate),
            window: kernel.window.min(path.window),
            contended: kernel.contended && kernel.window < path.window,
            arrivals: path.arrivals,
            ..kernel
        }
    }

    /// Returns the polling interval, while data is held back. Where the kernel stamps acknowledgements, that wakes this thread.
    pub(crate) fn look(&self, srtt: Option<Duration>) -> Option<Duration> {
        let srtt = srtt.filter(|_| self.newest.is_none());
        self.held.then(|| srtt.map_or(LATEST, |srtt| (srtt / LOOKS).clamp(SOONEST, LATEST)))
    }

    /// Clears the held state: there is nothing to send.
    pub(crate) fn rests(&mut self) {
        self.held = false;
    }
}

#[cfg(test)]
mod tests;
