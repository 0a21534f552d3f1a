//! Macroflow: flows to one destination with a shared window, pacing rate and RTT (Andersen et al. §2).

mod feedback;
mod grants;
mod heard;
mod held;
mod hold;
mod restart;
mod signs;
mod silence;
mod undo;
mod validation;
mod watch;
mod watched;

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, PathState, Rate};

use crate::carried::Carried;
use crate::controller::{Controller, steered::Steered};
use crate::delivery::DeliveryRate;
use crate::destination::Destination;
use crate::event_free_band::EventFreeBand;
use crate::flow::{FlowId, Steering};
use crate::flows::{Flow, Totals};
use crate::goodput::Goodput;
use crate::grant::Grant;
use crate::path_model::PathModel;
use crate::resumption::Resumption;
use crate::rtt::RttEstimator;
use crate::scheduler::{Requests, Scheduling};
use heard::Heard;
use hold::Hold;
use signs::Signs;
use watched::Watched;

/// Congestion events that a macroflow has responded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Answered {
    /// Losses without a timeout, counted once per window.
    pub losses: u64,
    /// ECN marks, counted once per window.
    pub marks: u64,
    /// Timeouts, repeated ones for the same loss not counted.
    pub timeouts: u64,
}

/// Constructor of a controller for a given packet size.
pub(crate) type MakeController = fn(u64) -> Box<dyn Controller>;

#[derive(Debug)]
pub(crate) struct Macroflow {
    pub(crate) destination: Destination,
    /// Split off: new flows to its destination do not join it.
    pub(crate) apart: bool,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) make: MakeController,
    pub(crate) rtt: RttEstimator,
    delivery: DeliveryRate,
    pub(crate) model: PathModel,
    carried: Carried,
    /// Maximum packet size of its flows.
    mtu: u64,
    /// Number of open flows, and sum of their weights.
    pub(crate) flows: u32,
    weights: u64,
    pub(crate) requests: Requests,
    /// Whether the scheduling was chosen explicitly.
    pub(crate) order_chosen: bool,
    /// Grants, oldest first, including some that were used since, as the flows know.
    grants: VecDeque<Grant>,
    /// Grants given and not yet used.
    granted: u32,
    /// Probe packets that may be sent beyond the window until the next feedback.
    probes: u32,
    outstanding: u64,
    /// Bytes in flight of closed flows, and until when they count as outstanding.
    abandoned: VecDeque<(Instant, u64)>,
    /// Earliest time of the next packet by the pacing rate.
    next_release: Instant,
    last_sent: Option<Instant>,
    last_feedback: Instant,
    heard: Heard,
    /// Losses of packets sent before this time belong to a congestion event already responded to.
    reduced_at: Option<Instant>,
    /// Last response to a timeout.
    timed_out_at: Option<Instant>,
    /// `reduced_at` before the last timeout, if that can still be undone.
    undoable: Option<Option<Instant>>,
    /// Last time when the window, not the application, was the limit.
    limited_at: Option<Instant>,
    /// Last time when the pace was charged for a packet.
    charged_at: Option<Instant>,
    /// Whether the macroflow was application-limited since the last packet.
    starved: bool,
    loss_share: f64,
    pub(crate) answers: Answered,
    pub(crate) totals: Totals,
    /// Whether it has been without flows since it last sent.
    pub(crate) reopened: bool,
    /// A remembered window on trial.
    resumption: Option<Resumption>,
    /// Whether the first window after a pause is paced.
    spreading: bool,
    /// Bytes that may leave unpaced after a pause.
    burst: u64,
    /// Window set from outside while connections outside of this manager share the path; overrides the controller's.
    companions: Option<u64>,
    /// Congestion history, for comparisons between users, and the rate limit that follows from them.
    signs: Signs,
    goodput: Goodput,
    compared_at: Option<Instant>,
    held: Option<Hold>,
    /// Next time when the path's state is reported for storage.
    pub(crate) learnt_at: Instant,
    /// Flows with rate thresholds, and the rate band within which none is crossed.
    watchers: Vec<FlowId>,
    watched: Watched,
    calm: EventFreeBand,
    reckoned: Reckoned,
}

/// Values cached from RTT and controller, as every packet needs them; updated when those change.
#[derive(Clone, Copy, Debug, Default)]
struct Reckoned {
    /// Congestion window, in bytes.
    window: u64,
    /// Sending rate of the macroflow.
    rate: Rate,
    /// Pacing rate and the gap after a full-size packet; `None` before the first RTT sample.
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
            model: PathModel::default(),
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
            heard: Heard::default(),
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
            watched: Watched::default(),
            calm: EventFreeBand::default(),
            reckoned: Reckoned::default(),
        };
        macroflow.reckon();
        macroflow
    }

    /// Updates the cached values; to be called after changes of RTT or controller.
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
            // The controller paces by its own, smaller window.
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

    /// Adds a flow of packets of at most `mtu` bytes.
    pub(crate) fn take_in(&mut self, mtu: u64, weight: u32) {
        self.flows += 1;
        self.weights += u64::from(weight);
        self.mtu = self.mtu.max(mtu);
        self.reckon();
    }

    /// Changes a flow's weight.
    pub(crate) fn reweigh(&mut self, old: u32, new: u32) {
        self.weights = self.weights - u64::from(old) + u64::from(new);
    }

    /// Raises the maximum packet size of its flows.
    pub(crate) fn raise_mtu(&mut self, mtu: u64) {
        self.mtu = self.mtu.max(mtu);
    }

    /// Maximum packet size of its flows.
    pub(crate) fn mtu(&self) -> u64 {
        self.mtu
    }

    /// Bytes in flight.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Grants given and not yet used.
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Whether the window limited its flows during the last round trip.
    pub(crate) fn was_limited_at(&self, now: Instant) -> bool {
        let round = self.rtt.smoothed().unwrap_or(RttEstimator::INITIAL_TIMEOUT);
        self.limited_at.is_some_and(|at| now.saturating_since(at) <= round)
    }

    /// Overrides the controller's window, or ends that.
    pub(crate) fn share_with(&mut self, window: Option<u64>) {
        self.companions = window;
        self.reckon();
    }

    /// Lets the transport of its only flow set rate and window.
    pub(crate) fn steer(&mut self, steering: Steering) {
        self.controller = Box::new(Steered(steering));
        self.reckon();
    }

    /// Replaces the controller. Its window is adopted if anything was sent; before that it says nothing about the path.
    pub(crate) fn change_controller(&mut self, make: MakeController) {
        let threshold = self.controller.threshold();
        let known = (self.totals.sent > 0).then(|| self.controller.window());
        self.make = make;
        self.controller = make(self.mtu);
        self.controller.adopt(known.unwrap_or(self.controller.window()), threshold);
        self.reckon();
    }

    /// Path state shared by all of its flows.
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
            // A receiver that reports rates does not say which packets arrived: lost ones stay outstanding meanwhile.
            delivered: self.delivery.latest().filter(|_| self.controller.told().is_none()),
            contended: self.controller.is_among_others() || self.controller.grows_by_use_alone(),
            arrivals: self.model.predictions(self.rtt.min()),
        }
    }

    /// Path state for one flow, whose rate is its share.
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
