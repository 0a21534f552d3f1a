//! Requests and grants of a macroflow: decides which flow may send now.

use timeous_core::{Duration, Instant};

use crate::controller::Sent;
use crate::flow::FlowId;
use crate::flows::{Flow, Flows};
use crate::grant::Grant;
use crate::outbox::Outbox;
use crate::scheduler::MAX_WEIGHT;
use crate::trace::Happening;

use super::Macroflow;

/// Lifetime of an unused grant, which then goes to another flow. Chosen by us; RFC 3124 §3.3 has the RTT or a
/// threshold, whichever is longer. A higher value leaves the window unused for longer; a lower one takes grants from
/// slow clients.
const GRANT_LIFETIME: Duration = Duration::from_millis(50);
/// Time by which packets may leave before their pacing time. Chosen by us: the granularity of timers. A higher value
/// makes larger bursts; a lower one loses rate to late timers.
const PACING_SLACK: Duration = Duration::from_millis(2);
/// Number of expired grants, in addition to that of held ones, at which they are removed from the queue. Chosen by us.
/// A higher value takes more memory; a lower one takes more time.
const SWEEP_THRESHOLD: usize = 32;

impl Macroflow {
    /// Whether `flow` may send one packet now, if that can be decided at once: it holds a grant, has a waiting request,
    /// or gets a grant because no request waits.
    pub(crate) fn ask_at_once(
        &mut self,
        now: Instant,
        id: FlowId,
        flow: &mut Flow,
        outbox: &mut Outbox,
    ) -> Option<bool> {
        if flow.grants() > 0 {
            return Some(true);
        }
        if flow.waiting > 0 {
            return Some(false);
        }
        self.restart_after_pause(now);
        let free = self.requests.is_empty() && self.has_room() && self.may_leave(now);
        free.then(|| {
            self.grant(now, id, flow);
            outbox.note(now, flow.macroflow, Some(id), || Happening::Granted);
            true
        })
    }

    /// Adds `count` requests of `flow`.
    pub(crate) fn request(&mut self, now: Instant, id: FlowId, flow: &mut Flow, count: u32) {
        self.restart_after_pause(now);
        self.requests.request(id, flow, count);
    }

    /// Adds a request of `flow` with a deadline.
    pub(crate) fn request_by(&mut self, now: Instant, id: FlowId, flow: &mut Flow, deadline: Instant) {
        self.restart_after_pause(now);
        self.requests.request_by(id, flow, deadline);
    }

    fn grant(&mut self, now: Instant, id: FlowId, flow: &mut Flow) {
        if !self.fits_window() {
            self.probes = self.probes.saturating_sub(1);
        }
        self.grants.push_back(Grant { flow: id, number: flow.given, given: now });
        flow.given = flow.given.wrapping_add(1);
        self.granted += 1;
        self.charge_pace(now);
    }

    /// Gives as many grants as window and pace allow.
    pub(crate) fn give_grants(&mut self, now: Instant, flows: &mut Flows, outbox: &mut Outbox) {
        while !self.requests.is_empty() {
            if !self.has_room() {
                self.limited_at = Some(now);
                return;
            }
            if !self.may_leave(now) {
                return;
            }
            let Some(id) = self.requests.next(flows) else { return };
            let Some(flow) = flows.get_mut(id) else { continue };
            self.grant(now, id, flow);
            outbox.clients.tell_grant(id, flow);
            outbox.note(now, flow.macroflow, Some(id), || Happening::Granted);
        }
    }

    /// Allows probe packets beyond the window until the next feedback.
    pub(crate) fn probe(&mut self, packets: u32) {
        self.probes = packets;
    }

    fn has_room(&self) -> bool {
        self.probes > 0 || self.fits_window()
    }

    /// Whether the window has room for one more packet. An empty path always has, or a window below one packet would block.
    fn fits_window(&self) -> bool {
        let promised = u64::from(self.granted) * self.mtu;
        let used = self.outstanding + promised;
        used == 0 || used + self.mtu <= self.reckoned.window
    }

    /// Bytes that may be sent now without a grant, if only `flow` has waiting requests.
    pub(crate) fn room(&self, now: Instant, flow: &Flow) -> u64 {
        if self.requests.waiting() > u64::from(flow.waiting) || !self.may_leave(now) {
            return 0;
        }
        let used = self.outstanding + u64::from(self.granted) * self.mtu;
        self.reckoned.window.saturating_sub(used)
    }

    /// Notes that the window limits a flow without requests, unless the pace does.
    pub(crate) fn held_back(&mut self, now: Instant) {
        if self.may_leave(now) {
            self.limited_at = Some(now);
        }
    }

    /// Time by which a packet may leave before its pacing time: at least one gap, since acknowledgements come for two
    /// packets at once, and spreading the pair would add a gap to the RTT of a small window.
    fn slack(&self) -> Duration {
        self.reckoned.pace.map_or(PACING_SLACK, |(_, gap)| gap.max(PACING_SLACK))
    }

    fn may_leave(&self, now: Instant) -> bool {
        self.next_release <= now + self.slack()
    }

    /// Packets that may be sent now in addition to granted ones, as long as no request waits.
    pub(crate) fn spare(&self, now: Instant) -> u32 {
        if !self.requests.is_empty() {
            return 0;
        }
        let used = self.outstanding + u64::from(self.granted) * self.mtu;
        let room = self.reckoned.window.saturating_sub(used) / self.mtu;
        let ahead = (now + self.slack()).saturating_since(self.next_release).as_nanos();
        let gap = self.reckoned.pace.map_or(0, |(_, gap)| gap.as_nanos());
        let paced = ahead.checked_div(gap).unwrap_or(u64::MAX);
        u32::try_from(room.min(paced)).unwrap_or(u32::MAX)
    }

    fn charge_pace(&mut self, now: Instant) {
        // Window and pace would have allowed a packet earlier and none was requested: application-limited.
        let was_held = self.limited_at.is_some_and(|at| self.charged_at.is_none_or(|last| at >= last));
        self.charged_at = Some(now);
        self.starved |= !was_held && now > self.next_release + self.slack();
        if let Some((_, gap)) = self.reckoned.pace {
            if self.burst > 0 && self.held.is_none() {
                self.burst = self.burst.saturating_sub(self.mtu);
                return;
            }
            self.next_release = self.next_release.max(now) + gap;
        }
    }

    /// Uses a grant of `flow` for `bytes`, or returns it with 0 bytes. `false` if the flow held none.
    pub(crate) fn spend(&mut self, now: Instant, flow: &mut Flow, bytes: u64) -> bool {
        if flow.grants() == 0 {
            return false;
        }
        flow.lose_grant();
        self.granted -= 1;
        let unused = self.mtu.saturating_sub(bytes);
        self.refund_pace(now, unused);
        self.requests.refund(flow, flow.mtu.saturating_sub(bytes));
        if bytes > 0 {
            self.sent(now, flow, bytes);
        }
        true
    }

    /// Counts a packet that was sent without a grant.
    pub(crate) fn sent_unasked(&mut self, now: Instant, flow: &mut Flow, bytes: u64) {
        self.charge_pace(now);
        self.sent(now, flow, bytes);
    }

    fn sent(&mut self, now: Instant, flow: &mut Flow, bytes: u64) {
        if flow.outstanding == 0 {
            flow.silence.since = now;
        }
        flow.outstanding += bytes;
        flow.totals.sent += bytes;
        self.outstanding += bytes;
        self.totals.sent += bytes;
        self.model.sent(now, (bytes, flow.headers), self.rtt.min());
        self.signs.sends(now, self.last_sent);
        self.last_sent = Some(now);
        let app_limited = std::mem::take(&mut self.starved);
        self.controller.on_sent(now, Sent { bytes, outstanding: self.outstanding, app_limited });
        if let Some(ledger) = &mut flow.ledger {
            ledger.sent(now, bytes);
        }
        if let Some(resumption) = &mut self.resumption {
            resumption.sent(now, bytes);
        }
    }

    /// Returns pacing time for the unused bytes of a grant.
    fn refund_pace(&mut self, now: Instant, unused: u64) {
        if unused > 0
            && let Some((pace, _)) = self.reckoned.pace
        {
            self.next_release = self.next_release.saturating_sub(pace.time_for(unused)).max(now);
        }
    }

    /// Removes used and expired grants from the front, so that the first one is the oldest held; and from the whole
    /// queue if they are many.
    pub(crate) fn tidy_grants(&mut self, flows: &Flows) {
        if self.granted == 0 {
            self.grants.clear();
            return;
        }
        let is_held = |grant: &Grant| flows.get(grant.flow).is_some_and(|flow| flow.holds(grant.number));
        while self.grants.front().is_some_and(|grant| !is_held(grant)) {
            self.grants.pop_front();
        }
        if self.grants.len() > 2 * self.granted as usize + SWEEP_THRESHOLD {
            self.grants.retain(is_held);
        }
    }

    /// Removes a flow with its requests and grants. Its bytes in flight still count until `until`, if given.
    pub(crate) fn let_go(&mut self, id: FlowId, flow: &mut Flow, until: Option<Instant>) {
        self.requests.forget(id, flow);
        self.grants.retain(|grant| grant.flow != id);
        self.granted -= flow.grants();
        self.watchers.retain(|&watcher| watcher != id);
        self.flows -= 1;
        self.reopened |= self.flows == 0;
        self.weights -= u64::from(flow.weight);
        match until {
            Some(until) if flow.outstanding > 0 => self.abandoned.push_back((until, flow.outstanding)),
            _ => self.outstanding -= flow.outstanding.min(self.outstanding),
        }
    }

    /// Adds a flow from another macroflow, with its bytes in flight, its grants and `waiting` requests.
    pub(crate) fn welcome(&mut self, now: Instant, id: FlowId, flow: &mut Flow, waiting: u32) {
        debug_assert!((1..=MAX_WEIGHT).contains(&flow.weight), "weights are checked when they are set");
        self.take_in(flow.mtu, flow.weight);
        self.outstanding += flow.outstanding;
        if flow.outstanding > 0 {
            self.last_sent = Some(now);
        }
        for n in 0..flow.grants() {
            self.grants.push_back(Grant { flow: id, number: flow.gone.wrapping_add(n), given: now });
            self.granted += 1;
        }
        flow.silence.due = None;
        self.watch_silence(now, id, flow);
        (flow.pass, flow.credit) = (0, 0);
        if flow.thresholds.is_some() {
            self.watchers.push(id);
        }
        self.requests.request(id, flow, waiting);
    }

    /// Next time when a grant may be given or expires, bytes of closed flows stop counting, or a flow may be silent.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let expiry = self.grants.front().map(|grant| grant.given + GRANT_LIFETIME);
        let paced =
            (!self.requests.is_empty() && self.has_room()).then(|| self.next_release.saturating_sub(self.slack()));
        let released = self.abandoned.front().map(|&(until, _)| until);
        expiry.into_iter().chain(paced).chain(released).chain(self.watched.next()).min()
    }

    /// Expires unused grants. One that its client was not told of becomes a request again.
    pub(crate) fn expire(&mut self, now: Instant, flows: &mut Flows) {
        while let Some(&Grant { flow: id, number, given }) = self.grants.front()
            && now >= given + GRANT_LIFETIME
        {
            self.grants.pop_front();
            let Some(flow) = flows.get_mut(id).filter(|flow| flow.holds(number)) else { continue };
            let unheard = flow.untold == flow.grants();
            flow.lose_grant();
            self.granted -= 1;
            self.refund_pace(now, self.mtu);
            if unheard {
                self.requests.request(id, flow, 1);
            }
        }
        while let Some(&(until, bytes)) = self.abandoned.front()
            && now >= until
        {
            self.abandoned.pop_front();
            self.outstanding -= bytes.min(self.outstanding);
        }
        self.tidy_grants(flows);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use timeous_core::Rate;

    use super::*;
    use crate::controller::{Acked, Congestion, Controller, TimedOut};
    use crate::{Manager, Update};

    const MTU: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    /// Window of two packets with a pacing gap of 10 ms; larger once the sender was application-limited.
    #[derive(Debug)]
    struct Fixed(u64);

    impl Controller for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }
        fn window(&self) -> u64 {
            self.0
        }
        fn on_sent(&mut self, _: Instant, sent: Sent) {
            if sent.app_limited {
                self.0 = 9 * MTU;
            }
        }
        fn on_acked(&mut self, _: Instant, _: Acked) {}
        fn on_congestion(&mut self, _: Instant, _: Congestion) {}
        fn on_timeout(&mut self, _: Instant, _: TimedOut) {}
        fn on_idle(&mut self, _: Instant, _: u32) {}
        fn pace(&self, _: Duration) -> Rate {
            Rate::from_bps(MTU * 8 * 100)
        }
    }

    #[test]
    fn probes_leave_beyond_the_window_and_count_until_something_is_heard() {
        let mut cm = Manager::new(|_| Box::new(Fixed(9 * MTU)));
        let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), MTU);
        // Paced: one packet every 10 ms.
        let send = |cm: &mut Manager, from: u64| {
            (0..10).fold(0, |sent, n| {
                let at = Instant::ZERO + Duration::from_millis(from + 10 * n);
                let has_grant = cm.ask(at, flow).unwrap().is_some();
                if has_grant {
                    cm.notify(at, flow, MTU).unwrap();
                }
                sent + u64::from(has_grant)
            })
        };
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let come = |cm: &mut Manager, millis, packets| {
            let update = Update { acked: packets * MTU, rtt: Some(RTT), ..Update::default() };
            cm.update(at(millis), flow, update).unwrap();
        };
        assert_eq!(send(&mut cm, 0), 9);
        cm.probe(at(200), flow, 2).unwrap();
        assert_eq!((send(&mut cm, 200), cm.query(flow).unwrap().outstanding), (2, 11 * MTU));
        come(&mut cm, 310, 2);
        assert_eq!(send(&mut cm, 310), 0, "they count");
        cm.probe(at(400), flow, 2).unwrap();
        // The packet that waited for a grant is sent as the first probe.
        assert!(cm.has_grant(flow));
        cm.notify(at(400), flow, MTU).unwrap();
        come(&mut cm, 400, 1);
        assert_eq!(send(&mut cm, 500), 0, "something was heard");
    }

    /// Found by `timeous-lab short-beside`: a flow that requested just before its pacing time and found the window full
    /// counted as application-limited when the window opened.
    #[test]
    fn who_asked_and_found_the_window_full_was_not_limited_by_its_application() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut cm = Manager::new(|_| Box::new(Fixed(2 * MTU)));
        let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), MTU);
        let send = |cm: &mut Manager, millis| {
            while cm.poll_granted().is_some() {
                cm.notify(at(millis), flow, MTU).unwrap();
            }
        };
        let ask = |cm: &mut Manager, millis| {
            cm.request(at(millis), flow).unwrap();
            send(cm, millis);
        };
        let come = |cm: &mut Manager, millis| {
            let update = Update { acked: MTU, rtt: Some(RTT), ..Update::default() };
            cm.update(at(millis), flow, update).unwrap();
            send(cm, millis);
        };
        // The third packet waits for the first, and the fourth, which the pace would allow at 110, for the second.
        (0..3).for_each(|_| ask(&mut cm, 0));
        come(&mut cm, 100);
        ask(&mut cm, 100);
        come(&mut cm, 200);
        [300, 310].into_iter().for_each(|millis| come(&mut cm, millis));
        assert_eq!(cm.query(flow).unwrap().window, 2 * MTU);
        ask(&mut cm, 400);
        come(&mut cm, 500);
        assert_eq!(cm.query(flow).unwrap().window, 9 * MTU, "before the fifth there was nothing");
    }
}
