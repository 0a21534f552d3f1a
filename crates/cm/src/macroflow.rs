//! A macroflow: flows to one destination, their shared window, pace and round-trip time (Andersen et al. §2).

mod feedback;
mod grants;
mod held;
mod hold;
mod restart;
mod signs;
mod undo;
mod validation;
mod watch;

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, PathState, Rate};

use crate::calm::Calm;
use crate::carried::Carried;
use crate::controller::{Controller, steered::Steered};
use crate::delivery::DeliveryRate;
use crate::destination::Destination;
use crate::flow::{FlowId, Steering};
use crate::flows::{Flow, Totals};
use crate::goodput::Goodput;
use crate::grant::Grant;
use crate::resumption::Resumption;
use crate::rtt::RttEstimator;
use crate::scheduler::{Requests, Scheduling};
use hold::Hold;
use signs::Signs;

/// The congestion that a macroflow has answered since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Answered {
    /// Losses without a timeout, those of a window counted once.
    pub losses: u64,
    /// Marks, those of a window counted once.
    pub marks: u64,
    /// Timeouts, those that told the same loss again not counted.
    pub timeouts: u64,
}

/// What makes a controller, given the packet size.
pub(crate) type MakeController = fn(u64) -> Box<dyn Controller>;

#[derive(Debug)]
pub(crate) struct Macroflow {
    pub(crate) destination: Destination,
    /// It is not the one that new flows to its destination join.
    pub(crate) apart: bool,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) make: MakeController,
    pub(crate) rtt: RttEstimator,
    delivery: DeliveryRate,
    carried: Carried,
    /// The largest packet of any of its flows.
    mtu: u64,
    /// Flows that are open, and the sum of their weights.
    pub(crate) flows: u32,
    weights: u64,
    pub(crate) requests: Requests,
    /// Somebody chose the order in which requests are served.
    pub(crate) order_chosen: bool,
    /// Grants, oldest first. Some are gone: the flow knows.
    grants: VecDeque<Grant>,
    /// Grants given and not yet used.
    granted: u32,
    /// As many packets may leave beyond the window, until something is heard.
    probes: u32,
    outstanding: u64,
    /// Of what is outstanding: bytes of flows that are gone, and until when they count.
    abandoned: VecDeque<(Instant, u64)>,
    /// The pace: the next packet leaves not before this.
    next_release: Instant,
    last_sent: Option<Instant>,
    last_feedback: Instant,
    /// Losses of what was sent before this belong to a congestion event that has been answered.
    reduced_at: Option<Instant>,
    /// The last timeout that was answered.
    timed_out_at: Option<Instant>,
    /// What `reduced_at` was before it, if it can still be taken back.
    undoable: Option<Option<Instant>>,
    /// The last time that the window, not the application, was the limit.
    limited_at: Option<Instant>,
    /// A packet was last charged to the pace then.
    charged_at: Option<Instant>,
    /// Since the last packet there was a time in which nothing was to be sent.
    starved: bool,
    loss_share: f64,
    pub(crate) answers: Answered,
    pub(crate) totals: Totals,
    /// It had no flow since it last sent.
    pub(crate) reopened: bool,
    /// A remembered window is being tried.
    resumption: Option<Resumption>,
    /// The first window after a pause leaves at a pace.
    spreading: bool,
    /// Bytes that may leave without one.
    burst: u64,
    /// The window that holds instead of the controller's, as long as others than its flows have a share in it.
    companions: Option<u64>,
    /// What others can see of it, and what it is held to because of what is seen of them.
    signs: Signs,
    goodput: Goodput,
    compared_at: Option<Instant>,
    held: Option<Hold>,
    /// When what was learnt is next told.
    pub(crate) learnt_at: Instant,
    /// Flows whose clients want to hear of their rates, and within what rates none does.
    watchers: Vec<FlowId>,
    calm: Calm,
    reckoned: Reckoned,
}

/// What follows from round trips and the controller: reckoned when they change, since every packet asks for it.
#[derive(Clone, Copy, Debug, Default)]
struct Reckoned {
    /// How many bytes may be outstanding.
    window: u64,
    /// The rate at which the macroflow may send.
    rate: Rate,
    /// The pace, and the gap after a packet of the largest size; none before there is a round-trip time.
    pace: Option<(Rate, Duration)>,
}

impl Macroflow {
    pub(crate) fn new(destination: Destination, make: MakeController, mtu: u64) -> Self {
        let mut macroflow = Self {
            destination,
            apart: false,
            controller: make(mtu),
            make,
            rtt: RttEstimator::default(),
            delivery: DeliveryRate::default(),
            carried: Carried::default(),
            mtu,
            flows: 0,
            weights: 0,
            requests: Requests::default(),
            order_chosen: false,
            grants: VecDeque::new(),
            granted: 0,
            probes: 0,
            outstanding: 0,
            abandoned: VecDeque::new(),
            next_release: Instant::ZERO,
            last_sent: None,
            last_feedback: Instant::ZERO,
            reduced_at: None,
            timed_out_at: None,
            undoable: None,
            limited_at: None,
            charged_at: None,
            starved: false,
            loss_share: 0.0,
            answers: Answered::default(),
            totals: Totals::default(),
            reopened: false,
            resumption: None,
            spreading: false,
            burst: 0,
            companions: None,
            signs: Signs::default(),
            goodput: Goodput::default(),
            compared_at: None,
            held: None,
            learnt_at: Instant::ZERO,
            watchers: Vec::new(),
            calm: Calm::default(),
            reckoned: Reckoned::default(),
        };
        macroflow.reckon();
        macroflow
    }

    /// To be called when round trips or the controller have changed.
    pub(crate) fn reckon(&mut self) {
        let tried = self.resumption.as_ref().map_or(0, Resumption::window);
        let window = self.companions.unwrap_or_else(|| self.controller.window().max(tried));
        self.reckoned.window = window;
        let held = self.held.map(|held| held.rate);
        let most = held.unwrap_or(Rate::MAX);
        if let Some(rate) = self.controller.told().map(|rate| rate.min(most)) {
            (self.reckoned.rate, self.reckoned.pace) = (rate, Some((rate, rate.time_for(self.mtu))));
            return;
        }
        let Some(srtt) = self.rtt.smoothed() else {
            self.reckoned.pace = held.map(|held| (held, held.time_for(self.mtu)));
            return;
        };
        let of_window = Rate::from_bytes_in(window, srtt);
        let (mut rate, mut pace) = if self.companions.is_some() {
            (of_window, Rate::from_bytes_in(window.saturating_add(window / 5), srtt))
        } else {
            (self.controller.rate(srtt), self.controller.pace(srtt))
        };
        if self.resumption.is_some() {
            // The controller's own pace is that of its small window.
            (rate, pace) = (rate.max(of_window), pace.max(of_window));
        }
        if self.spreading {
            pace = pace.min(of_window);
        }
        let delivered = self.delivery.best(self.last_feedback, srtt).unwrap_or(Rate::ZERO);
        (rate, pace) = (rate.max(delivered).min(most), pace.min(most));
        self.reckoned.rate = rate;
        self.reckoned.pace = Some((pace, pace.time_for(self.mtu)));
    }

    /// A flow of packets of at most `mtu` bytes belongs to it from now on.
    pub(crate) fn take_in(&mut self, mtu: u64, weight: u32) {
        self.flows += 1;
        self.weights += u64::from(weight);
        self.mtu = self.mtu.max(mtu);
        self.reckon();
    }

    /// A flow's weight becomes another.
    pub(crate) fn reweigh(&mut self, old: u32, new: u32) {
        self.weights = self.weights - u64::from(old) + u64::from(new);
    }

    /// The largest packet of any of its flows.
    pub(crate) fn mtu(&self) -> u64 {
        self.mtu
    }

    /// What is under way.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Grants given and not yet used.
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Whether the window held its flows back during the last round trip.
    pub(crate) fn was_limited_at(&self, now: Instant) -> bool {
        let round = self.rtt.smoothed().unwrap_or(RttEstimator::INITIAL_TIMEOUT);
        self.limited_at.is_some_and(|at| now.saturating_since(at) <= round)
    }

    /// Another window than the controller's holds, or its own again.
    pub(crate) fn share_with(&mut self, window: Option<u64>) {
        self.companions = window;
        self.reckon();
    }

    /// The transport of its one flow says how fast it sends.
    pub(crate) fn steer(&mut self, steering: Steering) {
        self.controller = Box::new(Steered(steering));
        self.reckon();
    }

    /// Another controller takes over what this one knew: nothing of the path, as long as nothing was sent.
    pub(crate) fn change_controller(&mut self, make: MakeController) {
        let threshold = self.controller.threshold();
        let known = (self.totals.sent > 0).then(|| self.controller.window());
        self.make = make;
        self.controller = make(self.mtu);
        self.controller.adopt(known.unwrap_or(self.controller.window()), threshold);
        self.reckon();
    }

    /// What all of its flows share.
    pub(crate) fn state(&self) -> PathState {
        PathState {
            rate: self.reckoned.rate,
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.deviation(),
            min_rtt: self.rtt.min(),
            latest_rtt: self.rtt.latest(),
            window: self.reckoned.window,
            outstanding: self.outstanding,
            loss_ppm: (self.loss_share * 1e6) as u32,
            // A receiver that reports rates leaves open which packets came: what was lost stays outstanding meanwhile.
            delivered: self.delivery.latest().filter(|_| self.controller.told().is_none()),
            contended: self.controller.is_among_others() || self.controller.grows_by_use_alone(),
        }
    }

    /// The same for one flow, whose rate is its share.
    pub(crate) fn state_of(&self, flow: &Flow) -> PathState {
        let rate = self.reckoned.rate.as_bps();
        let rate = if self.requests.kind() == Scheduling::Weighted {
            let share = u128::from(rate) * u128::from(flow.weight) / u128::from(self.weights.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        } else {
            rate / u64::from(self.flows.max(1))
        };
        PathState { rate: Rate::from_bps(rate), ..self.state() }
    }
}
