//! The Congestion Manager beside the kernel's own control: what the kernel would let go is held back by a controller that
//! keeps the path's queue short, without a privilege and whatever control the kernel runs.
//!
//! The kernel's window says what may leave at most, and that of the manager's flow what is given to the kernel. The flow learns
//! from the acknowledgements as a socket tells them: how far they reach, how much the peer has beyond, how much left again.

use std::collections::VecDeque;
use std::net::IpAddr;

use timeous_cm::{Destination, FlowId, Kind, Loss, Manager, Update};
use timeous_core::{Duration, Instant, PathState};

use super::info::Info;

/// While something is held back the kernel is asked for acknowledgements so often in a round trip: it does not tell of them.
const LOOKS: u64 = 32;
/// And no more often, nor more rarely than this.
const SOONEST: Duration = Duration::from_millis(1);
const LATEST: Duration = Duration::from_millis(10);
/// As many segments may be under way in any case: a peer keeps the acknowledgement of a single one back (RFC 9293 §3.8.6.3),
/// which looks like a queue, and a window of one would never find out. What the kernel lets go is bounded by its own window.
const COMPANY: usize = 2;

/// A connection's flow.
#[derive(Debug)]
pub(super) struct Restraint {
    flow: FlowId,
    /// Given to the kernel and not acknowledged, in the order of the stream.
    sent: VecDeque<Sent>,
    /// Bytes that were given, and those that arrived as far as the manager knows, with what lies beyond gaps.
    given: u64,
    arrived: u64,
    /// Bytes up to the first gap.
    acked: u64,
    /// Segments that left again, and timeouts in a row, as the kernel told last.
    again: u32,
    timeouts: u8,
    /// When the kernel told last: what is acknowledged since came at any time since.
    looked: Instant,
    /// What ends before has no round trip: it waited for a gap, or left twice.
    untimed: u64,
    /// The path at the last grant.
    path: Option<PathState>,
    /// There is something to send, and no grant.
    held: bool,
    /// What is sent next was granted, and goes not only since too little is under way.
    granted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    len: u64,
    at: Instant,
    /// It left when it was given.
    at_once: bool,
}

impl Restraint {
    /// A flow to `remote` of segments of at most `mtu` bytes under this controller.
    pub(super) fn new(manager: &mut Manager, remote: IpAddr, mtu: u64, kind: Kind, info: Option<&Info>) -> Self {
        let flow = manager.open(Destination::from(remote), mtu);
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

    /// Its flow, to be closed with the connection.
    pub(super) fn flow(&self) -> FlowId {
        self.flow
    }

    /// Whether one segment may be given to the kernel.
    pub(super) fn may_send(&mut self, now: Instant, manager: &mut Manager) -> bool {
        let path = manager.ask(now, self.flow).expect("its flow is open as long as the connection");
        self.granted = path.is_some();
        self.held = path.is_none() && self.sent.len() >= COMPANY;
        self.path = path.or(self.path);
        !self.held
    }

    /// There was nothing to send after all.
    pub(super) fn give_back(&self, now: Instant, manager: &mut Manager) {
        if self.granted {
            manager.notify(now, self.flow, 0).expect("it was granted just now");
        }
    }

    /// A record was given that ends there in the stream, and left `at_once` or waits in the kernel.
    pub(super) fn sent(&mut self, now: Instant, manager: &mut Manager, (end, len): (u64, u64), at_once: bool) {
        let told = match self.granted {
            true => manager.notify(now, self.flow, len),
            false => manager.notify_unasked(now, self.flow, len),
        };
        told.expect("its flow is open, and it was granted if it was asked for");
        self.sent.push_back(Sent { end, len, at: now, at_once });
        self.given += len;
    }

    /// The peer has everything up to `reached`, and what else the kernel knows.
    pub(super) fn heard(&mut self, now: Instant, manager: &mut Manager, reached: u64, info: &Info) {
        let mut update = Update { recovering: info.holes() > 0, ..Update::default() };
        let again = info.retransmitted().wrapping_sub(self.again);
        if info.sacked() > 0 || info.holes() > 0 || again > 0 {
            self.untimed = self.sent.back().map_or(self.untimed, |last| last.end);
        }
        let before = self.sent.len();
        while let Some(record) = self.sent.front().copied().filter(|record| record.end <= reached) {
            self.sent.pop_front();
            self.acked += record.len;
            // A single one's acknowledgement may have waited for company.
            let alone = before == 1 && self.path.is_some_and(|path| path.srtt.is_some());
            let timed = record.at_once && record.end > self.untimed && !alone;
            update.rtt = timed.then(|| self.round_trip(now, record.at, info.srtt())).or(update.rtt);
        }
        self.looked = now;
        let first = self.sent.front().copied();
        // The kernel counts segments, of which each has a record.
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
            // It is under way again already.
            let done = manager.notify_unasked(now, self.flow, update.lost);
            done.expect("its flow is open as long as the connection");
        }
    }

    /// Of what left at `sent` and was acknowledged since the kernel told last: what the kernel measured and smoothed, as far as it
    /// can be.
    fn round_trip(&self, now: Instant, sent: Instant, smoothed: Option<Duration>) -> Duration {
        let most = now.saturating_since(sent);
        let least = self.looked.saturating_since(sent);
        smoothed.map_or(most, |smoothed| smoothed.clamp(least, most))
    }

    /// The path as the kernel knows it, with no more than what is given to the kernel.
    pub(super) fn path(&self, kernel: PathState) -> PathState {
        let Some(path) = self.path else { return kernel };
        PathState { rate: kernel.rate.min(path.rate), window: kernel.window.min(path.window), ..kernel }
    }

    /// How often the kernel is to be asked, while something is held back.
    pub(super) fn look(&self, srtt: Option<Duration>) -> Option<Duration> {
        self.held.then(|| srtt.map_or(LATEST, |srtt| (srtt / LOOKS).clamp(SOONEST, LATEST)))
    }

    /// Nothing is to be sent.
    pub(super) fn rests(&mut self) {
        self.held = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::LEN;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// What a kernel says: segments beyond a gap, segments lost or repaired, all that left again, timeouts in a row.
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
        restraint_by(Kind::Copa)
    }

    fn restraint_by(kind: Kind) -> (Manager, Restraint) {
        let mut manager = Manager::default();
        let restraint = Restraint::new(&mut manager, IpAddr::from([192, 0, 2, 1]), 1_000, kind, None);
        (manager, restraint)
    }

    /// Gives all that may be given, up to `most` records of 1000 bytes; how many.
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
        // An eighth of 30 ms more: it had not come when the kernel was asked at 40.
        assert_eq!(seen, (Duration::from_micros(200) * 7 + Duration::from_millis(30)) / 8);
    }

    /// The acknowledgement of a single segment comes 40 ms late: on a fast path that looked like a queue for ever.
    #[test]
    fn a_second_segment_keeps_the_first_company_whatever_the_window_is() {
        // Copa's window is two at least.
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
        give(&mut restraint, &mut manager, at(0), 4);
        restraint.heard(at(400), &mut manager, 0, &info(0, 4, 1, 1));
        let path = manager.query(restraint.flow()).unwrap();
        assert!(path.window <= 2_000, "{}", path.window);
        assert!(!restraint.may_send(at(400), &mut manager), "enough is under way");
        restraint.heard(at(401), &mut manager, 0, &info(0, 4, 1, 1));
        assert_eq!(manager.query(restraint.flow()).unwrap().window, path.window, "told once");
    }
}
