//! Congestion Manager flow on top of the kernel's congestion control: its controller holds back data that the kernel would send, to keep
//! the path's queue short. It needs no privilege and works with any kernel controller.
//!
//! The smaller of both windows limits the sending. The flow's feedback comes from the socket: cumulative acknowledgement, SACKed segments,
//! retransmissions.

use std::collections::VecDeque;

use timeous_cm::{Destination, FlowId, Kind, Loss, Manager, Update};
use timeous_core::{Duration, Instant, PathState};

use crate::info::Info;

/// Acknowledgement polls per round trip while data is held back: the kernel does not signal acknowledgements. Chosen by
/// us: a higher value costs time and sends sooner.
const LOOKS: u64 = 32;
/// Minimum of the polling interval. Chosen by us: a lower value costs time.
const SOONEST: Duration = Duration::from_millis(1);
/// Maximum of the polling interval. Chosen by us: a higher value sends later on long paths.
const LATEST: Duration = Duration::from_millis(10);
/// Segments that may be in flight whatever the window: the delayed acknowledgement of a single one (RFC 9293 §3.8.6.3)
/// looks like a queue, and a window of one would never recover. The kernel's own window still applies.
const COMPANY: usize = 2;

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
    /// Path state at the last grant.
    path: Option<PathState>,
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
}

impl Restraint {
    /// Opens a flow to `destination` with segments of at most `mtu` bytes under the controller `kind`.
    pub(crate) fn new(
        manager: &mut Manager,
        destination: Destination,
        mtu: u64,
        kind: Kind,
        info: Option<&Info>,
    ) -> Self {
        let flow = manager.open(destination, mtu);
        if manager.controller_name(flow) != Ok(kind.name()) {
            manager.set_controller(flow, kind).expect("a flow that was opened just now");
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
            path: None,
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
        self.held = path.is_none() && self.sent.len() >= COMPANY;
        self.path = path.or(self.path);
        !self.held
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
        self.sent.push_back(Sent { end, len, at: now, at_once });
        self.given += len;
    }

    /// Reports acknowledgements up to `reached`, and losses in the kernel's report, to the manager.
    pub(crate) fn heard(&mut self, now: Instant, manager: &mut Manager, reached: u64, info: &Info) {
        let mut update = Update { recovering: info.holes() > 0, ..Update::default() };
        let again = info.retransmitted().wrapping_sub(self.again);
        if info.sacked() > 0 || info.holes() > 0 || again > 0 {
            self.untimed = self.sent.back().map_or(self.untimed, |last| last.end);
        }
        let before = self.sent.len();
        while let Some(record) = self.sent.front().copied().filter(|record| record.end <= reached) {
            self.sent.pop_front();
            self.acked += record.len;
            // The acknowledgement of a single segment may have been delayed.
            let alone = before == 1 && self.path.is_some_and(|path| path.srtt.is_some());
            let timed = record.at_once && record.end > self.untimed && !alone;
            update.rtt = timed.then(|| self.round_trip(now, record.at, info.srtt())).or(update.rtt);
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
    }

    /// Returns the RTT sample of a record sent at `sent` and acknowledged since the last report: the kernel's smoothed RTT, within the
    /// bounds that both times give.
    fn round_trip(&self, now: Instant, sent: Instant, smoothed: Option<Duration>) -> Duration {
        let most = now.saturating_since(sent);
        let least = self.looked.saturating_since(sent);
        smoothed.map_or(most, |smoothed| smoothed.clamp(least, most))
    }

    /// Returns the kernel's path state, limited by the flow's rate and window.
    pub(crate) fn path(&self, kernel: PathState) -> PathState {
        let Some(path) = self.path else { return kernel };
        PathState { rate: kernel.rate.min(path.rate), window: kernel.window.min(path.window), ..kernel }
    }

    /// Returns the polling interval, while data is held back.
    pub(crate) fn look(&self, srtt: Option<Duration>) -> Option<Duration> {
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
        let restraint = Restraint::new(&mut manager, IpAddr::from([192, 0, 2, 1]).into(), 1_000, kind, None);
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
        restraint.heard(at(40), &mut manager, reached, &info(0, 0, 0, 0));
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
        restraint.heard(at(40), &mut manager, 1_000, &info(0, 0, 0, 0));
        let sacked = u32::try_from(given).unwrap() - 2;
        restraint.heard(at(41), &mut manager, 1_000, &info(sacked, 1, 1, 0));
        let path = manager.query(restraint.flow()).unwrap();
        assert_eq!(path.outstanding, 1_000, "what was repaired is under way");
        restraint.heard(at(81), &mut manager, restraint.given, &info(0, 0, 1, 0));
        let path = manager.query(restraint.flow()).unwrap();
        assert_eq!((path.outstanding, path.srtt), (0, Some(Duration::from_millis(40))));
    }

    #[test]
    fn the_time_until_somebody_looks_is_no_part_of_a_round_trip() {
        let (mut manager, mut restraint) = restraint();
        let mut kernel = [0; LEN];
        kernel[68..72].copy_from_slice(&200_u32.to_ne_bytes());
        give(&mut restraint, &mut manager, at(0), 1);
        restraint.heard(at(10), &mut manager, 1_000, &Info::new(kernel));
        let rtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
        assert_eq!(rtt(&manager, &restraint), Some(Duration::from_micros(200)), "the kernel's, who looked at once");
        give(&mut restraint, &mut manager, at(10), 2);
        restraint.heard(at(40), &mut manager, 1_000, &Info::new(kernel));
        restraint.heard(at(42), &mut manager, 3_000, &Info::new(kernel));
        let seen = rtt(&manager, &restraint).unwrap();
        // One eighth of 30 ms: the acknowledgement had not arrived at the poll at 40 ms.
        assert_eq!(seen, (Duration::from_micros(200) * 7 + Duration::from_millis(30)) / 8);
    }

    /// Regression: the ACK of a single segment is delayed by 40 ms, which looked like a standing queue on a fast path.
    #[test]
    fn a_second_segment_keeps_the_first_company_whatever_the_window_is() {
        // NewReno, since Live's window is at least two segments.
        let (mut manager, mut restraint) = restraint_by(Kind::NewReno);
        give(&mut restraint, &mut manager, at(0), 2);
        restraint.heard(at(1), &mut manager, 2_000, &info(0, 0, 0, 0));
        give(&mut restraint, &mut manager, at(1), 1);
        restraint.heard(at(401), &mut manager, 2_000, &info(0, 1, 1, 1));
        assert_eq!(manager.query(restraint.flow()).unwrap().window, 1_000, "a timeout");
        assert_eq!(give(&mut restraint, &mut manager, at(402), 10), 1, "two are under way");
        let srtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
        let before = srtt(&manager, &restraint);
        restraint.heard(at(403), &mut manager, 3_000, &info(0, 0, 1, 0));
        restraint.heard(at(443), &mut manager, 4_000, &info(0, 0, 1, 0));
        assert_eq!(srtt(&manager, &restraint), before, "one alone tells nothing of the path");
    }

    #[test]
    fn a_timeout_leaves_the_window_of_two_segments() {
        let (mut manager, mut restraint) = restraint();
        give(&mut restraint, &mut manager, at(0), 10);
        restraint.heard(at(400), &mut manager, 0, &info(0, 10, 1, 1));
        let path = manager.query(restraint.flow()).unwrap();
        assert!(path.window <= 2_000, "{}", path.window);
        assert!(!restraint.may_send(at(400), &mut manager), "enough is under way");
        restraint.heard(at(401), &mut manager, 0, &info(0, 10, 1, 1));
        assert_eq!(manager.query(restraint.flow()).unwrap().window, path.window, "told once");
    }
}
