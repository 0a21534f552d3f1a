//! Congestion Manager flow on top of the kernel's congestion control: its controller holds back data that the kernel would send, to keep
//! the path's queue short. It needs no privilege and works with any kernel controller.
//!
//! The smaller of both windows limits the sending. The flow's feedback comes from the socket: cumulative acknowledgement, SACKed segments,
//! retransmissions, and when each record was acknowledged, from which the path's model learns.

use std::collections::VecDeque;

use timeous_cm::{ClientId, Departure, Destination, FlowId, FlowSpec, Kind, Loss, Manager, Observed, Update};
use timeous_core::{Duration, Instant, PathState};

use crate::info::Info;
use crate::meter::DELAYED_ACK;

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

/// When a record was acknowledged: the end of the record in the stream, and the time.
pub(crate) type Stamp = (u64, Instant);

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
    /// to the manager.
    pub(crate) fn heard(&mut self, now: Instant, manager: &mut Manager, reached: u64, stamps: &[Stamp], info: &Info) {
        let mut update = Update { recovering: info.holes() > 0, ..Update::default() };
        let again = info.retransmitted().wrapping_sub(self.again);
        if info.sacked() > 0 || info.holes() > 0 || again > 0 {
            self.untimed = self.sent.back().map_or(self.untimed, |last| last.end);
        }
        let observed = self.acknowledge(now, reached, stamps, info, &mut update);
        if let (Some(observed), Some(least)) = (observed, self.path.and_then(|path| path.min_rtt)) {
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
            return;
        }
        if let Err(error) = manager.update(now, self.flow, update) {
            tracing::debug!(%error, "the kernel tells what cannot be");
            return;
        }
        if update.lost > 0 {
            // The retransmission is in flight already.
            let done = manager.notify_unasked(now, self.flow, update.lost);
            done.expect("its flow is open as long as the connection");
        }
        if let Some(observed) = observed {
            manager.observe(self.flow, observed).expect("its flow is open as long as the connection");
        }
        self.path = manager.query(self.flow).ok().or(self.path);
    }

    /// Removes acknowledged records, and returns the arrival of the last one.
    fn acknowledge(
        &mut self,
        now: Instant,
        reached: u64,
        stamps: &[Stamp],
        info: &Info,
        update: &mut Update,
    ) -> Option<Observed> {
        let is_alone = self.sent.len() == 1 && self.path.is_some_and(|path| path.srtt.is_some());
        let full = self.longest.max(DEFAULT_SEGMENT).min(info.mss().into());
        // After a step of the clock that stamps, a record may seem to have arrived before it left.
        let least = info.min_rtt().unwrap_or_default() / 2;
        let mut stamps = stamps.iter().peekable();
        let mut observed = None;
        while let Some(record) = self.sent.front().copied().filter(|record| record.end <= reached) {
            self.sent.pop_front();
            self.acked += record.len;
            if record.end <= self.untimed {
                continue;
            }
            while stamps.next_if(|(end, _)| *end < record.end).is_some() {}
            let stamped = stamps.next_if(|(end, _)| *end == record.end).map(|&(_, at)| at);
            let stamped = stamped.filter(|&at| at >= record.at + least);
            let is_prompt = stamped.is_some_and(|at| self.is_prompt(at, record.len, full));
            let (answered, uncertain) = match stamped {
                Some(at) if is_prompt => (at, Duration::ZERO),
                Some(at) => (at, DELAYED_ACK),
                None => (now, now.saturating_since(self.looked) + DELAYED_ACK),
            };
            observed = Some(Observed { departure: record.departure, answered, uncertain });
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
mod tests {
    use std::net::IpAddr;

    use timeous_core::Rate;

    use super::super::info::LEN;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Fakes a kernel report: SACKed segments, lost or repaired segments, retransmissions in total, consecutive timeouts.
    fn info(sacked: u32, holes: u32, again: u32, timeouts: u8) -> Info {
        let mut bytes = [0; LEN];
        bytes[2] = timeouts;
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(28, sacked);
        put(32, holes);
        put(100, again);
        Info::new(bytes)
    }

    fn restraint() -> (Manager, Restraint) {
        restraint_by(Kind::Live)
    }

    fn restraint_by(kind: Kind) -> (Manager, Restraint) {
        let mut manager = Manager::default();
        let restraint =
            Restraint::new(Instant::ZERO, &mut manager, IpAddr::from([192, 0, 2, 1]).into(), 1_000, kind, None);
        (manager, restraint)
    }

    /// Sends as many records of 1000 bytes as are granted, up to `most`; returns their number.
    fn give(restraint: &mut Restraint, manager: &mut Manager, now: Instant, most: u64) -> u64 {
        let mut count = 0;
        while count < most && restraint.may_send(now, manager) {
            let end = restraint.given + 1_000;
            restraint.sent(now, manager, (end, 1_000), true);
            count += 1;
        }
        count
    }

    #[test]
    fn what_the_manager_does_not_grant_is_not_given_to_the_kernel() {
        let (mut manager, mut restraint) = restraint();
        let first = give(&mut restraint, &mut manager, at(0), 1_000);
        assert!((1..=10).contains(&first), "an initial window: {first}");
        assert!(restraint.look(None).is_some(), "acknowledgements are looked for");
        let reached = restraint.given;
        restraint.heard(at(40), &mut manager, reached, &[], &info(0, 0, 0, 0));
        let path = manager.query(restraint.flow()).unwrap();
        assert_eq!((path.outstanding, path.srtt), (0, Some(Duration::from_millis(40))));
        assert!(restraint.may_send(at(40), &mut manager));
        restraint.give_back(at(40), &mut manager);
        assert_eq!(restraint.look(None), None);
    }

    #[test]
    fn a_gap_is_a_loss_once_and_what_waited_for_it_has_no_round_trip() {
        let (mut manager, mut restraint) = restraint();
        let given = give(&mut restraint, &mut manager, at(0), 4);
        assert!(given > 2);
        restraint.heard(at(40), &mut manager, 1_000, &[], &info(0, 0, 0, 0));
        let sacked = u32::try_from(given).unwrap() - 2;
        restraint.heard(at(41), &mut manager, 1_000, &[], &info(sacked, 1, 1, 0));
        let path = manager.query(restraint.flow()).unwrap();
        assert_eq!(path.outstanding, 1_000, "what was repaired is under way");
        restraint.heard(at(81), &mut manager, restraint.given, &[], &info(0, 0, 1, 0));
        let path = manager.query(restraint.flow()).unwrap();
        assert_eq!((path.outstanding, path.srtt), (0, Some(Duration::from_millis(40))));
    }

    #[test]
    fn the_time_until_somebody_looks_is_no_part_of_a_round_trip() {
        let (mut manager, mut restraint) = restraint();
        let mut kernel = [0; LEN];
        kernel[68..72].copy_from_slice(&200_u32.to_ne_bytes());
        give(&mut restraint, &mut manager, at(0), 1);
        restraint.heard(at(10), &mut manager, 1_000, &[], &Info::new(kernel));
        let rtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
        assert_eq!(rtt(&manager, &restraint), Some(Duration::from_micros(200)), "the kernel's, who looked at once");
        give(&mut restraint, &mut manager, at(10), 2);
        restraint.heard(at(40), &mut manager, 1_000, &[], &Info::new(kernel));
        restraint.heard(at(42), &mut manager, 3_000, &[], &Info::new(kernel));
        let seen = rtt(&manager, &restraint).unwrap();
        // One eighth of 30 ms: the acknowledgement had not arrived at the poll at 40 ms.
        assert_eq!(seen, (Duration::from_micros(200) * 7 + Duration::from_millis(30)) / 8);
    }

    /// A flow after a handshake of 40 ms.
    fn shaken() -> (Manager, Restraint) {
        let mut manager = Manager::default();
        let mut kernel = [0; LEN];
        kernel[148..152].copy_from_slice(&40_000_u32.to_ne_bytes());
        let host = IpAddr::from([192, 0, 2, 1]).into();
        let restraint = Restraint::new(at(0), &mut manager, host, 1_000, Kind::Live, Some(&Info::new(kernel)));
        (manager, restraint)
    }

    #[test]
    fn the_path_is_known_by_when_each_record_was_acknowledged() {
        let (mut manager, mut restraint) = shaken();
        let four_leave = |restraint: &mut Restraint, manager: &mut Manager, now| {
            (0..4).for_each(|_| restraint.sent(now, manager, (restraint.given + 1_000, 1_000), true));
        };
        four_leave(&mut restraint, &mut manager, at(0));
        // The link takes 10 ms for a record, and nobody looks before all have come.
        let stamps: Vec<Stamp> = (1..=4).map(|n| (n * 1_000, at(40 + 10 * n))).collect();
        restraint.heard(at(95), &mut manager, 4_000, &stamps, &info(0, 0, 0, 0));
        let path = restraint.path(PathState { rate: Rate::from_kbps(1_000), window: 99_999, ..PathState::default() });
        let model = path.arrivals.unwrap();
        assert!(model.is_exact, "the last one came too soon after the one before it to be delayed");
        four_leave(&mut restraint, &mut manager, at(95));
        let stamps: Vec<Stamp> = (1..=4).map(|n| (4_000 + n * 1_000, at(135 + 10 * n))).collect();
        for (n, stamp) in stamps.iter().enumerate() {
            restraint.heard(stamp.1, &mut manager, 5_000 + 1_000 * n as u64, &[*stamp], &info(0, 0, 0, 0));
        }
        let path = manager.query(restraint.flow()).unwrap();
        // With the headers of IP and TCP.
        let capacity = path.arrivals.unwrap().capacity.unwrap();
        assert!(capacity.as_bps().abs_diff(1_052 * 8 * 100) < 10, "{capacity:?}");
    }

    #[test]
    fn an_acknowledgement_is_late_by_a_timer_only_if_one_may_have_run() {
        let (_, mut restraint) = shaken();
        assert!(!restraint.is_prompt(at(100), 1_000, 1_000), "one alone");
        assert!(!restraint.is_prompt(at(140), 1_000, 1_000), "40 ms after the one before it");
        assert!(restraint.is_prompt(at(179), 1_000, 1_000));
        assert!(!restraint.is_prompt(at(300), 500, 1_000), "half a segment");
        assert!(restraint.is_prompt(at(300), 501, 1_000), "and another, by the same acknowledgement");
    }

    /// Found by review: the clock that stamps was set between a departure and its acknowledgement, and the minimum RTT stayed zero.
    #[test]
    fn a_stamp_from_before_the_record_could_arrive_is_none_and_one_alone_is_no_round_trip() {
        let (mut manager, mut restraint) = shaken();
        let mut kernel = [0; LEN];
        kernel[148..152].copy_from_slice(&40_000_u32.to_ne_bytes());
        kernel[16..20].copy_from_slice(&1_400_u32.to_ne_bytes());
        let kernel = Info::new(kernel);
        for n in 1..=2 {
            restraint.sent(at(100), &mut manager, (1_000 * n, 1_000), true);
        }
        restraint.heard(at(150), &mut manager, 2_000, &[(1_000, at(90)), (2_000, at(119))], &kernel);
        let path = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap();
        assert_eq!(path(&manager, &restraint).min_rtt, Some(Duration::from_millis(40)));
        let srtt = path(&manager, &restraint).srtt;
        restraint.sent(at(200), &mut manager, (3_000, 1_000), true);
        restraint.heard(at(280), &mut manager, 3_000, &[(3_000, at(280))], &kernel);
        assert_eq!(path(&manager, &restraint).srtt, srtt, "it may have been delayed by 40 ms");
    }

    #[test]
    fn a_path_within_a_host_is_left_to_the_kernel() {
        let (mut manager, mut restraint) = shaken();
        give(&mut restraint, &mut manager, at(0), 1_000);
        restraint.path = restraint.path.map(|path| PathState { min_rtt: Some(Duration::from_micros(999)), ..path });
        assert!(restraint.may_send(at(0), &mut manager));
    }

    /// Found by `timeous-peer-trials --links share`: held back by the smaller of both windows, a stream had a quarter of what the kernel's
    /// BBR has alone.
    #[test]
    fn among_others_the_kernels_window_alone_decides() {
        let (mut manager, mut restraint) = shaken();
        give(&mut restraint, &mut manager, at(0), 1_000);
        assert!(!restraint.may_send(at(0), &mut manager));
        restraint.path = restraint.path.map(|path| PathState { contended: true, ..path });
        assert!(restraint.may_send(at(0), &mut manager));
        let kernel = PathState { rate: Rate::from_kbps(9_000), window: 99_999, ..PathState::default() };
        assert_eq!(restraint.path(kernel), kernel);
    }

    /// Regression: the ACK of a single segment is delayed by 40 ms, which looked like a standing queue on a fast path.
    #[test]
    fn a_second_segment_keeps_the_first_company_whatever_the_window_is() {
        // NewReno, since Live's window is at least two segments.
        let (mut manager, mut restraint) = restraint_by(Kind::NewReno);
        give(&mut restraint, &mut manager, at(0), 2);
        restraint.heard(at(1), &mut manager, 2_000, &[], &info(0, 0, 0, 0));
        give(&mut restraint, &mut manager, at(1), 1);
        restraint.heard(at(401), &mut manager, 2_000, &[], &info(0, 1, 1, 1));
        assert_eq!(manager.query(restraint.flow()).unwrap().window, 1_000, "a timeout");
        assert_eq!(give(&mut restraint, &mut manager, at(402), 10), 1, "two are under way");
        let srtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
        let before = srtt(&manager, &restraint);
        restraint.heard(at(403), &mut manager, 3_000, &[], &info(0, 0, 1, 0));
        restraint.heard(at(443), &mut manager, 4_000, &[], &info(0, 0, 1, 0));
        assert_eq!(srtt(&manager, &restraint), before, "one alone tells nothing of the path");
    }

    #[test]
    fn a_timeout_leaves_the_window_of_two_segments() {
        let (mut manager, mut restraint) = restraint();
        give(&mut restraint, &mut manager, at(0), 10);
        restraint.heard(at(400), &mut manager, 0, &[], &info(0, 10, 1, 1));
        let path = manager.query(restraint.flow()).unwrap();
        assert!(path.window <= 2_000, "{}", path.window);
        assert!(!restraint.may_send(at(400), &mut manager), "enough is under way");
        restraint.heard(at(401), &mut manager, 0, &[], &info(0, 10, 1, 1));
        assert_eq!(manager.query(restraint.flow()).unwrap().window, path.window, "told once");
    }
}
