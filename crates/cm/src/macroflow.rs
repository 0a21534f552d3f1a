//! A macroflow: flows to one destination, their shared window, pace and round-trip time (Andersen et al. §2).

use std::collections::VecDeque;
use std::net::IpAddr;

use timeous_core::{Duration, Instant, PathState, Rate};

use crate::controller::{Acked, Congestion, Controller, TimedOut};
use crate::delivery::DeliveryRate;
use crate::flow::{FlowId, Loss};
use crate::rtt::RttEstimator;
use crate::scheduler::RoundRobin;

/// What flows must have in common to share congestion state.
///
/// The port is not part of it: all flows to one host are thought to take one path (Andersen et al. §2). A DSCP other
/// than the default may be queued apart, and so is a macroflow of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The host.
    pub addr: IpAddr,
    /// The Differentiated Services code point of its packets.
    pub dscp: u8,
}

impl From<IpAddr> for Destination {
    fn from(addr: IpAddr) -> Self {
        Self { addr, dscp: 0 }
    }
}

/// A grant that is not used within this long goes to another flow.
const GRANT_LIFETIME: Duration = Duration::from_millis(50);
/// How much may leave at once where pacing would hold it back: timers are not finer than this.
const PACING_SLACK: Duration = Duration::from_millis(2);

/// The congestion that a macroflow has answered since its first flow was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Answered {
    /// Losses without a timeout, those of a window counted once.
    pub losses: u64,
    /// Marks, those of a window counted once.
    pub marks: u64,
    /// Timeouts, those that told the same loss again not counted.
    pub timeouts: u64,
}

/// A sign of congestion that a flow saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sign {
    pub(crate) loss: Loss,
    pub(crate) sent_at: Instant,
    /// A timeout of the same flow, with nothing acknowledged since its last.
    pub(crate) again: bool,
}

#[derive(Debug)]
pub(crate) struct Macroflow {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) rtt: RttEstimator,
    delivery: DeliveryRate,
    mtu: u64,
    /// Flows that are open.
    pub(crate) flows: u32,
    requests: RoundRobin,
    /// Grants given and not yet used, oldest first.
    grants: VecDeque<(FlowId, Instant)>,
    outstanding: u64,
    /// The pace: the next packet leaves not before this.
    next_release: Instant,
    last_sent: Option<Instant>,
    last_feedback: Instant,
    /// Losses of what was sent before this belong to a congestion event that has been answered.
    reduced_at: Option<Instant>,
    /// The last timeout that was answered.
    timed_out_at: Option<Instant>,
    /// The last time that the window, not the application, was the limit.
    limited_at: Option<Instant>,
    loss_share: f64,
    pub(crate) answers: Answered,
    reckoned: Reckoned,
}

/// What follows from round trips and the controller: reckoned when they change, since every packet asks for it.
#[derive(Clone, Copy, Debug, Default)]
struct Reckoned {
    /// The rate at which the macroflow may send.
    rate: Rate,
    /// The pace, and the gap after a packet of the largest size; none before there is a round-trip time.
    pace: Option<(Rate, Duration)>,
}

impl Macroflow {
    pub(crate) fn new(controller: Box<dyn Controller>, mtu: u64) -> Self {
        Self {
            controller,
            rtt: RttEstimator::default(),
            delivery: DeliveryRate::default(),
            mtu,
            flows: 0,
            requests: RoundRobin::default(),
            grants: VecDeque::new(),
            outstanding: 0,
            next_release: Instant::ZERO,
            last_sent: None,
            last_feedback: Instant::ZERO,
            reduced_at: None,
            timed_out_at: None,
            limited_at: None,
            loss_share: 0.0,
            answers: Answered::default(),
            reckoned: Reckoned::default(),
        }
    }

    /// To be called when round trips or the controller have changed.
    fn reckon(&mut self) {
        let Some(srtt) = self.rtt.smoothed() else { return };
        let delivered = self.delivery.best(self.last_feedback, srtt).unwrap_or(Rate::ZERO);
        let pace = self.controller.pace(srtt);
        self.reckoned =
            Reckoned { rate: self.controller.rate(srtt).max(delivered), pace: Some((pace, pace.time_for(self.mtu))) };
    }

    pub(crate) fn waiting(&self, flow: FlowId) -> u32 {
        self.requests.waiting(flow)
    }

    pub(crate) fn request(&mut self, now: Instant, flow: FlowId) {
        self.restart_after_idle(now);
        self.requests.request(flow);
    }

    /// Whoever asks first after an idle time ends it.
    fn restart_after_idle(&mut self, now: Instant) {
        let Some(last) = self.last_sent else { return };
        if self.outstanding > 0 || !self.requests.is_empty() || !self.grants.is_empty() {
            return;
        }
        let timeouts = now.saturating_since(last).as_nanos() / self.rtt.timeout().as_nanos().max(1);
        self.controller.on_idle(now, u32::try_from(timeouts).unwrap_or(u32::MAX));
        self.last_sent = None;
        self.reckon();
    }

    /// Whether `flow` may send one packet now: it holds a grant, or gets one. If not, it waits for one from now on.
    pub(crate) fn ask(&mut self, now: Instant, flow: FlowId, granted: &mut VecDeque<FlowId>) -> bool {
        if self.has_grant(flow) {
            return true;
        }
        if !self.requests.is_empty() && self.waiting(flow) > 0 {
            return false;
        }
        self.restart_after_idle(now);
        // Nobody waits: there is no turn to take.
        if self.requests.is_empty() && self.has_room() && self.next_release <= now + PACING_SLACK {
            self.grants.push_back((flow, now));
            self.charge_pace(now);
            return true;
        }
        self.requests.request(flow);
        self.give_grants(now, granted);
        let has_grant = self.has_grant(flow);
        if has_grant && granted.back() == Some(&flow) {
            granted.pop_back();
        }
        has_grant
    }

    /// Gives out as many grants as window and pace allow; the flows that got one are appended to `granted`.
    pub(crate) fn give_grants(&mut self, now: Instant, granted: &mut VecDeque<FlowId>) {
        while !self.requests.is_empty() {
            if !self.has_room() {
                self.limited_at = Some(now);
                return;
            }
            if self.next_release > now + PACING_SLACK {
                return;
            }
            let Some(flow) = self.requests.next() else { return };
            self.grants.push_back((flow, now));
            granted.push_back(flow);
            self.charge_pace(now);
        }
    }

    /// Room for one more packet. An empty path always has: a window below one packet would wait for ever.
    fn has_room(&self) -> bool {
        let promised = self.grants.len() as u64 * self.mtu;
        let used = self.outstanding + promised;
        used == 0 || used + self.mtu <= self.controller.window()
    }

    fn charge_pace(&mut self, now: Instant) {
        if let Some((_, gap)) = self.reckoned.pace {
            self.next_release = self.next_release.max(now) + gap;
        }
    }

    pub(crate) fn has_grant(&self, flow: FlowId) -> bool {
        self.grants.iter().any(|&(f, _)| f == flow)
    }

    /// A grant of `flow` is used for `bytes`, or given back with none. `false` if it held none.
    pub(crate) fn spend(&mut self, now: Instant, flow: FlowId, bytes: u64) -> bool {
        let Some(at) = self.grants.iter().position(|&(f, _)| f == flow) else { return false };
        self.grants.remove(at);
        self.refund_pace(now, self.mtu.saturating_sub(bytes));
        if bytes > 0 {
            self.outstanding += bytes;
            self.last_sent = Some(now);
        }
        true
    }

    /// What a grant promised and its packet did not need.
    fn refund_pace(&mut self, now: Instant, unused: u64) {
        if let Some((pace, _)) = self.reckoned.pace {
            self.next_release = self.next_release.saturating_sub(pace.time_for(unused)).max(now);
        }
    }

    /// A packet of `bytes` leaves without having been granted.
    pub(crate) fn sent_unasked(&mut self, now: Instant, bytes: u64) {
        self.charge_pace(now);
        self.outstanding += bytes;
        self.last_sent = Some(now);
    }

    /// Takes in what was acknowledged. While its flow is `recovering` the window stays.
    pub(crate) fn acked(&mut self, now: Instant, bytes: u64, rtt: Option<Duration>, recovering: bool) {
        self.last_feedback = now;
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        let srtt = self.rtt.smoothed();
        if let Some(srtt) = srtt {
            self.delivery.acked(now, bytes, srtt);
        }
        let window_limited = self.was_limited(now, bytes);
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.count_loss(bytes, 0);
        if !recovering || self.controller.grows_while_recovering() {
            self.controller.on_acked(now, Acked { bytes, outstanding: self.outstanding, rtt, srtt, window_limited });
        }
        self.reckon();
    }

    /// Whether the window was the limit during the last round trip, or is as good as full now.
    fn was_limited(&self, now: Instant, bytes: u64) -> bool {
        let round = self.rtt.smoothed().unwrap_or(RttEstimator::INITIAL_TIMEOUT);
        let lately = self.limited_at.is_some_and(|at| now.saturating_since(at) <= round);
        lately || self.outstanding.max(bytes) + self.mtu > self.controller.window()
    }

    /// `bytes` are no longer under way, since they were lost.
    pub(crate) fn lost(&mut self, now: Instant, bytes: u64) {
        self.last_feedback = now;
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.count_loss(0, bytes);
        self.reckon();
    }

    /// Answers congestion, once for all that was sent before an answer. `outstanding` is what was under way when the
    /// news came.
    pub(crate) fn congested(&mut self, now: Instant, outstanding: u64, sign: Sign) {
        let Sign { loss, sent_at, again } = sign;
        // What leaves at the very instant of an answer leaves after it: a driver feeds first and drains then.
        let answered = self.reduced_at.is_some_and(|at| sent_at < at);
        match loss {
            Loss::Persistent => {
                let again = again || self.timed_out_at.is_some_and(|at| sent_at < at);
                self.controller.on_timeout(now, TimedOut { outstanding, again });
                self.timed_out_at = Some(now);
                self.answers.timeouts += u64::from(!again);
            }
            Loss::Transient | Loss::Ecn if !answered => {
                let marked = loss == Loss::Ecn;
                self.controller.on_congestion(now, Congestion { outstanding, marked });
                let count = if marked { &mut self.answers.marks } else { &mut self.answers.losses };
                *count += 1;
            }
            Loss::None | Loss::Transient | Loss::Ecn => return,
        }
        self.reduced_at = Some(now);
        self.reckon();
    }

    /// What is under way.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    fn count_loss(&mut self, acked: u64, lost: u64) {
        // An average over about the last hundred packets.
        let packets = (acked + lost) as f64 / self.mtu as f64;
        let gain = (packets / 100.0).min(1.0);
        let share = if acked + lost == 0 { 0.0 } else { lost as f64 / (acked + lost) as f64 };
        self.loss_share += (share - self.loss_share) * gain;
    }

    /// A flow is gone with `outstanding` bytes of which nobody will hear.
    pub(crate) fn forget(&mut self, flow: FlowId, outstanding: u64) {
        self.requests.forget(flow);
        self.grants.retain(|&(f, _)| f != flow);
        self.outstanding = self.outstanding.saturating_sub(outstanding);
        self.flows = self.flows.saturating_sub(1);
    }

    /// When grants can be given or taken back by the passing of time alone.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let expiry = self.grants.front().map(|&(_, given)| given + GRANT_LIFETIME);
        let paced =
            (!self.requests.is_empty() && self.has_room()).then(|| self.next_release.saturating_sub(PACING_SLACK));
        expiry.into_iter().chain(paced).min()
    }

    /// Takes back grants that nobody used.
    pub(crate) fn expire_grants(&mut self, now: Instant) {
        while self.grants.front().is_some_and(|&(_, given)| now >= given + GRANT_LIFETIME) {
            self.grants.pop_front();
            self.refund_pace(now, self.mtu);
        }
    }

    pub(crate) fn state(&self) -> PathState {
        PathState {
            rate: Rate::from_bps(self.reckoned.rate.as_bps() / u64::from(self.flows.max(1))),
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.deviation(),
            min_rtt: self.rtt.min(),
            window: self.controller.window(),
            outstanding: self.outstanding,
            loss_ppm: (self.loss_share * 1e6) as u32,
        }
    }
}
