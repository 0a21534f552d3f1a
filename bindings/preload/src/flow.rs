//! Flow to one destination: decides how it is paced, and reports its datagrams' fate to the Congestion Manager.

use std::collections::VecDeque;
use std::net::SocketAddr;

use timeous::cm::{FlowId, Loss, Update};
use timeous::core::{Duration, Instant, PathState, Rate};

use crate::rare::INTERVAL;
use crate::subscriber::{Answer, Subscriber};
use crate::tracker::Tracker;
use crate::wire::{Key, Report};

/// Time for which knowledge of a path that does not change is still believed: other flows' round trips are measured more often.
/// Chosen by us: as long as RFC 8085 §3.1.3 waits where nothing is known. A higher value believes flows that have ended.
const FRESH: Duration = INTERVAL;
/// Time after which a datagram without a report counts as arrived or lost, if the round-trip time is not known. Chosen by us:
/// longer than most round trips (RFC 6298 §2 begins with 1 s). A higher value keeps the window of other flows for longer.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_secs(1);

/// Pacing of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Grants, while the receiver is asked for reports.
    Asking,
    /// Grants, with the receiver's reports.
    Reports,
    /// Grants, with what the manager learns of the path from other flows.
    Others,
    /// The user's rate (RFC 8085 §3.1.9).
    Rate(Rate),
    /// A datagram every three seconds (RFC 8085 §3.1.3).
    LowVolume,
}

impl Pace {
    /// Whether a datagram needs a grant.
    pub(crate) fn is_granted(self) -> bool {
        matches!(self, Self::Asking | Self::Reports | Self::Others)
    }
}

/// Flow to one destination.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Flow of the manager; `None` while the daemon is gone.
    pub(crate) id: Option<FlowId>,
    /// Grants requested and not received yet.
    pub(crate) requested: usize,
    /// Subscription to the receiver's reports.
    pub(crate) subscriber: Subscriber,
    /// Datagrams in flight that will be reported.
    pub(crate) tracker: Tracker,
    /// Rate that the user gives for paths without reports.
    rate: Option<Rate>,
    pace: Pace,
    /// Bytes sent while the receiver was asked: nobody will report them.
    unreported: u64,
    /// Bytes without a report, with the time at which they have left the path.
    leaving: VecDeque<(Instant, u64)>,
    /// Time of the next datagram without grants.
    next: Instant,
    /// Latest round-trip time of the path, and when it changed.
    latest: (Option<Duration>, Instant),
    /// Time of the last datagram.
    pub(crate) last_sent: Instant,
}

impl Flow {
    /// Creates a flow, which asks for reports at the ports from `feedback_port` on.
    pub(crate) fn new(now: Instant, to: SocketAddr, feedback_port: u16, key: Key, rate: Option<Rate>) -> Self {
        Self {
            id: None,
            requested: 0,
            subscriber: Subscriber::new(now, to, feedback_port, key),
            tracker: Tracker::new(),
            rate,
            pace: Pace::Asking,
            unreported: 0,
            leaving: VecDeque::new(),
            next: now,
            latest: (None, Instant::ZERO),
            last_sent: now,
        }
    }

    /// Pacing of the flow.
    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Updates the pacing. Returns an update for the manager if bytes in flight will not be reported.
    pub(crate) fn decide(&mut self, now: Instant, path: Option<&PathState>) -> Option<Update> {
        let latest = path.and_then(|path| path.latest_rtt.or(path.srtt));
        if latest != self.latest.0 {
            self.latest = (latest, now);
        }
        let is_known = latest.is_some() && now.saturating_since(self.latest.1) < FRESH;
        let pace = match (self.subscriber.answer(), self.rate) {
            (Answer::Awaited, _) => Pace::Asking,
            (Answer::Accepted, _) => Pace::Reports,
            (Answer::Missing, _) if is_known => Pace::Others,
            (Answer::Missing, Some(rate)) => Pace::Rate(rate),
            (Answer::Missing, None) => Pace::LowVolume,
        };
        let before = std::mem::replace(&mut self.pace, pace);
        let bytes = match (before, pace) {
            (Pace::Asking, pace) if pace != Pace::Asking => std::mem::take(&mut self.unreported),
            (Pace::Reports, pace) if pace != Pace::Reports => self.tracker.forget(),
            _ => 0,
        };
        (bytes > 0).then(|| of_unknown_fate(now, bytes))
    }

    /// Notes a datagram of `bytes` that leaves now.
    pub(crate) fn sent(&mut self, now: Instant, datagram: &[u8], bytes: u64) {
        self.last_sent = now;
        match self.pace {
            Pace::Asking => self.unreported += bytes,
            Pace::Reports => self.tracker.sent(now, self.subscriber.key(), datagram, bytes),
            Pace::Others => self.leave(now, bytes),
            Pace::Rate(rate) => {
                self.next = self.next.max(now) + rate.time_for(bytes);
                self.leave(now, bytes);
            }
            Pace::LowVolume => {
                self.next = now + INTERVAL;
                self.leave(now, bytes);
            }
        }
    }

    fn leave(&mut self, now: Instant, bytes: u64) {
        self.leaving.push_back((now + self.latest.0.unwrap_or(UNKNOWN_ROUND_TRIP), bytes));
    }

    /// Notes bytes whose report the daemon did not believe: it learnt too late that they had left.
    pub(crate) fn was_disbelieved(&mut self, at: Instant, bytes: u64) {
        self.leaving.push_back((at, bytes));
    }

    /// Processes a report; returns the update for the manager, if it has news.
    pub(crate) fn handle_report(&mut self, now: Instant, report: &Report) -> Option<Update> {
        (self.pace == Pace::Reports).then(|| self.tracker.handle_report(now, report)).flatten()
    }

    /// Returns the next update that time has brought: silence of the receiver, or bytes without reports that have left the path.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Update> {
        if self.leaving.front().is_some_and(|&(at, _)| at <= now) {
            let bytes = self.leaving.pop_front().map_or(0, |(_, bytes)| bytes);
            return Some(of_unknown_fate(now, bytes));
        }
        self.tracker.poll_timeout().filter(|&at| at <= now)?;
        self.tracker.handle_timeout(now)
    }

    /// Whether a datagram may leave now without a grant.
    pub(crate) fn may_leave(&self, now: Instant) -> bool {
        !self.pace.is_granted() && self.next <= now
    }

    /// Rate that bounds the send queue; `None` before anything is known.
    pub(crate) fn queue_rate(&self, path: Option<&PathState>) -> Option<Rate> {
        match self.pace {
            Pace::Rate(rate) => Some(rate),
            Pace::LowVolume => Some(Rate::from_bps(0)),
            _ => path.filter(|path| path.srtt.is_some()).map(|path| path.rate),
        }
    }

    /// Forgets all in flight: the daemon is gone, and the flow with it.
    pub(crate) fn lose(&mut self) {
        (self.id, self.requested, self.unreported) = (None, 0, 0);
        self.leaving.clear();
        self.tracker.forget();
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due, or a datagram may leave if there is one.
    pub(crate) fn poll_timeout(&self, has_data: bool) -> Instant {
        let timed = (has_data && !self.pace.is_granted()).then_some(self.next);
        let times = self.tracker.poll_timeout().into_iter().chain(self.leaving.front().map(|&(at, _)| at)).chain(timed);
        times.fold(self.subscriber.poll_timeout(), Instant::min)
    }
}

/// Update for bytes that have left the path with a fate that nobody will tell: neither growth nor congestion.
fn of_unknown_fate(now: Instant, bytes: u64) -> Update {
    Update { lost: bytes, loss: Some((Loss::None, now)), ..Update::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Ask, Message};

    const KEY: Key = [1; 16];

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1_000 + millis)
    }

    fn to() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 5_004))
    }

    fn flow(rate: Option<Rate>) -> Flow {
        Flow::new(at(0), to(), 6_512, KEY, rate)
    }

    /// Path whose latest round trip took so many milliseconds.
    fn path(rtt: Option<u64>) -> PathState {
        let rtt = rtt.map(Duration::from_millis);
        PathState {
            rate: Rate::from_kbps(1_000),
            srtt: rtt,
            rttvar: Duration::ZERO,
            min_rtt: rtt,
            latest_rtt: rtt,
            window: 10_000,
            outstanding: 0,
            loss_ppm: 0,
            delivered: None,
            contended: false,
            arrivals: None,
        }
    }

    fn accept(flow: &mut Flow, now: Instant) {
        let ask = Ask { port: 5_004, key: KEY, cookie: 1 };
        flow.subscriber.handle_answer(now, to(), &Message::Accepted(ask));
    }

    fn until_missing(flow: &mut Flow) -> Instant {
        while flow.subscriber.answer() != Answer::Missing {
            let now = flow.subscriber.poll_timeout();
            flow.subscriber.poll_transmit(now);
        }
        at(1_500)
    }

    #[test]
    fn what_left_before_reports_began_is_neither_growth_nor_congestion() {
        let mut flow = flow(None);
        assert_eq!(flow.decide(at(0), None), None);
        flow.sent(at(0), b"a", 1_000);
        accept(&mut flow, at(90));
        let update = flow.decide(at(90), Some(&path(None))).unwrap();
        assert_eq!((update.acked, update.lost, update.loss), (0, 1_000, Some((Loss::None, at(90)))));
        assert_eq!(flow.pace(), Pace::Reports);
        flow.sent(at(91), b"b", 500);
        assert_eq!(flow.tracker.forget(), 500);
    }

    #[test]
    fn without_reports_a_flow_lives_on_what_others_learn_while_they_do() {
        let mut flow = flow(None);
        let start = until_missing(&mut flow);
        flow.decide(start, Some(&path(Some(40))));
        assert_eq!(flow.pace(), Pace::Others);
        flow.sent(start, b"a", 800);
        assert_eq!(flow.handle_timeout(start + Duration::from_millis(39)), None);
        let update = flow.handle_timeout(start + Duration::from_millis(40)).unwrap();
        assert_eq!((update.acked, update.lost), (0, 800), "it has left the path, and nothing is learnt");
        flow.decide(start + Duration::from_millis(2_900), Some(&path(Some(41))));
        assert_eq!(flow.pace(), Pace::Others);
        flow.decide(start + Duration::from_millis(5_900), Some(&path(Some(41))));
        assert_eq!(flow.pace(), Pace::LowVolume, "nobody has measured the path for three seconds");
    }

    #[test]
    fn where_nothing_is_known_a_datagram_leaves_every_three_seconds() {
        let mut flow = flow(None);
        let start = until_missing(&mut flow);
        flow.decide(start, Some(&path(None)));
        assert!(flow.may_leave(start));
        flow.sent(start, b"a", 800);
        assert!(!flow.may_leave(start + Duration::from_millis(2_999)) && flow.may_leave(start + INTERVAL));
    }

    #[test]
    fn the_users_rate_is_kept() {
        let mut flow = flow(Some(Rate::from_kbps(80)));
        let start = until_missing(&mut flow);
        flow.decide(start, Some(&path(None)));
        let mut now = start;
        let mut bytes = 0;
        while now < start + Duration::from_secs(2) {
            if flow.may_leave(now) {
                flow.sent(now, b"a", 1_000);
                bytes += 1_000;
            }
            now += Duration::from_millis(1);
        }
        assert_eq!(bytes, 20_000);
    }
}
