//! Table of C's flow numbers, with the manager's flow and the callbacks of each.

use std::collections::BTreeMap;

use timeous::cm::{Feedback, FlowId, FlowSpec};
use timeous::core::{Duration, Instant, Schedule};

use crate::failure::Failure;
use crate::sys::callback::{Callback, ErrorFn, SendFn, UpdateFn};

/// Time for which the kernel's answer about a route counts, so that not each packet takes system calls. Chosen by us: a higher value learns later
/// that less passes.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// Callbacks of a flow; `None` stands for the program's own `cmapp_…`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Callbacks {
    pub(crate) send: Option<Callback<SendFn>>,
    pub(crate) update: Option<Callback<UpdateFn>>,
    pub(crate) error: Option<Callback<ErrorFn>>,
}

/// Parameters with which a flow is reopened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) spec: FlowSpec,
    pub(crate) thresholds: Option<(f64, f64)>,
}

#[derive(Debug)]
struct Flow {
    /// `None` while the daemon is gone.
    id: Option<FlowId>,
    recipe: Recipe,
    callbacks: Callbacks,
    /// Grants reported to the application and not answered yet.
    told: u32,
    /// The sender's half of the library's own feedback, from the first numbered packet on.
    feedback: Option<Feedback>,
    /// Largest packet, and when the kernel was asked.
    path_mtu: Option<(Instant, u64)>,
}

/// All flows. Numbers are never reused, so that a stale one is recognized.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    by_number: BTreeMap<i64, Flow>,
    numbers: BTreeMap<FlowId, i64>,
    /// Times at which numbered packets of flows are overdue.
    overdue: Schedule<i64>,
    last: i64,
}

impl Flows {
    /// Assigns a number to an open flow.
    pub(crate) fn add(&mut self, id: FlowId, recipe: Recipe) -> i64 {
        self.last += 1;
        let callbacks = Callbacks::default();
        self.by_number
            .insert(self.last, Flow { id: Some(id), recipe, callbacks, told: 0, feedback: None, path_mtu: None });
        self.numbers.insert(id, self.last);
        self.last
    }

    /// Removes a flow; returns the manager's flow to be closed, if any.
    pub(crate) fn remove(&mut self, number: i64) -> Result<Option<FlowId>, Failure> {
        let flow = self.by_number.remove(&number).ok_or_else(|| Failure::not_open(number))?;
        self.overdue.forget(number);
        if let Some(id) = flow.id {
            self.numbers.remove(&id);
        }
        Ok(flow.id)
    }

    /// Manager's ID of the flow.
    pub(crate) fn id(&self, number: i64) -> Result<FlowId, Failure> {
        let flow = self.by_number.get(&number).ok_or_else(|| Failure::not_open(number))?;
        flow.id.ok_or_else(|| Failure::gone(number))
    }

    /// How the flow was opened, and its largest packet, if the kernel was asked lately.
    pub(crate) fn path_mtu(&self, number: i64, now: Instant) -> Result<(FlowSpec, Option<u64>), Failure> {
        self.id(number)?;
        let flow = self.by_number.get(&number).ok_or_else(|| Failure::not_open(number))?;
        let known = flow.path_mtu.filter(|(asked, _)| now.saturating_since(*asked) < ASKED_AGAIN);
        Ok((flow.recipe.spec, known.map(|(_, mtu)| mtu)))
    }

    /// Notes the largest packet of a flow, as the kernel said at `now`.
    pub(crate) fn learn_mtu(&mut self, number: i64, now: Instant, mtu: u64) {
        if let Some(flow) = self.by_number.get_mut(&number) {
            flow.path_mtu = Some((now, mtu));
        }
    }

    /// Notes that the application is told of a grant, unless it has closed the flow.
    pub(crate) fn grant(&mut self, number: i64) {
        if let Some(flow) = self.by_number.get_mut(&number) {
            flow.told += 1;
        }
    }

    /// Notes that the application answers a grant, and returns the manager's flow. The manager knows whether the grant
    /// has expired; an answer without a grant is an error.
    pub(crate) fn answer(&mut self, number: i64) -> Result<FlowId, Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        let id = flow.id.ok_or_else(|| Failure::gone(number))?;
        flow.told = flow.told.checked_sub(1).ok_or_else(|| Failure::not_granted(number))?;
        Ok(id)
    }

    /// Lets `work` use the sender's half of a flow's feedback; returns its result, and the manager's flow.
    pub(crate) fn with_feedback<T>(
        &mut self,
        number: i64,
        work: impl FnOnce(&mut Feedback) -> T,
    ) -> Result<(FlowId, T), Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        let id = flow.id.ok_or_else(|| Failure::gone(number))?;
        let feedback = flow.feedback.get_or_insert_default();
        let result = work(feedback);
        self.overdue.set_timeout(number, feedback.poll_timeout());
        Ok((id, result))
    }

    /// Returns the next flow whose packets are overdue.
    pub(crate) fn next_overdue(&mut self, now: Instant) -> Option<i64> {
        self.overdue.next_due(now)
    }

    /// Time at which the first packets of a flow are overdue.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.overdue.first_timeout()
    }

    /// Callbacks of a flow, for modification.
    pub(crate) fn callbacks_mut(&mut self, number: i64) -> Result<&mut Callbacks, Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        Ok(&mut flow.callbacks)
    }

    /// Parameters for reopening, for modification; `None` if it is closed.
    pub(crate) fn recipe_mut(&mut self, number: i64) -> Option<&mut Recipe> {
        self.by_number.get_mut(&number).map(|flow| &mut flow.recipe)
    }

    /// Number and callbacks of a flow, if it is still open.
    pub(crate) fn of(&self, id: FlowId) -> Option<(i64, Callbacks)> {
        let number = *self.numbers.get(&id)?;
        Some((number, self.by_number.get(&number)?.callbacks))
    }

    /// Marks all flows as lost after the daemon is gone; returns those that were open.
    pub(crate) fn lose_all(&mut self) -> Vec<(i64, Callbacks)> {
        self.numbers.clear();
        let open = self.by_number.iter_mut().filter(|(_, flow)| flow.id.is_some());
        open.map(|(&number, flow)| {
            (flow.id, flow.told) = (None, 0);
            (number, flow.callbacks)
        })
        .collect()
    }

    /// Flows that wait for a daemon.
    pub(crate) fn lost(&self) -> Vec<(i64, Recipe)> {
        let lost = self.by_number.iter().filter(|(_, flow)| flow.id.is_none());
        lost.map(|(&number, flow)| (number, flow.recipe)).collect()
    }

    /// Notes that a lost flow is open again under its number; returns its callbacks, or `None` if it was closed
    /// meanwhile.
    pub(crate) fn found(&mut self, number: i64, id: FlowId) -> Option<Callbacks> {
        let flow = self.by_number.get_mut(&number).filter(|flow| flow.id.is_none())?;
        flow.id = Some(id);
        flow.feedback.iter_mut().for_each(Feedback::forget);
        self.overdue.set_timeout(number, None);
        self.numbers.insert(id, number);
        Some(flow.callbacks)
    }

    /// Callbacks of a flow, lost or not.
    pub(crate) fn callbacks(&self, number: i64) -> Option<Callbacks> {
        self.by_number.get(&number).map(|flow| flow.callbacks)
    }
}
