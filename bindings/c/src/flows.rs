//! Table of C's flow numbers, with the manager's flow and the callbacks of each.

use std::collections::BTreeMap;

use timeous::cm::{Feedback, FlowId, FlowSpec};
use timeous::core::Instant;

use crate::failure::Failure;
use crate::sys::callback::{Callback, ErrorFn, SendFn, UpdateFn};

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
}

/// All flows. Numbers are never reused, so that a stale one is recognized.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    by_number: BTreeMap<i64, Flow>,
    numbers: BTreeMap<FlowId, i64>,
    last: i64,
}

impl Flows {
    /// Assigns a number to an open flow.
    pub(crate) fn add(&mut self, id: FlowId, recipe: Recipe) -> i64 {
        self.last += 1;
        let callbacks = Callbacks::default();
        self.by_number.insert(self.last, Flow { id: Some(id), recipe, callbacks, told: 0, feedback: None });
        self.numbers.insert(id, self.last);
        self.last
    }

    /// Removes a flow; returns the manager's flow to be closed, if any.
    pub(crate) fn remove(&mut self, number: i64) -> Result<Option<FlowId>, Failure> {
        let flow = self.by_number.remove(&number).ok_or_else(|| Failure::not_open(number))?;
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

    /// Manager's ID of the flow, and how it was opened.
    pub(crate) fn opened(&self, number: i64) -> Result<(FlowId, FlowSpec), Failure> {
        let flow = self.by_number.get(&number).ok_or_else(|| Failure::not_open(number))?;
        Ok((flow.id.ok_or_else(|| Failure::gone(number))?, flow.recipe.spec))
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

    /// The sender's half of a flow's feedback, with the manager's flow.
    pub(crate) fn feedback(&mut self, number: i64) -> Result<(FlowId, &mut Feedback), Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        let id = flow.id.ok_or_else(|| Failure::gone(number))?;
        Ok((id, flow.feedback.get_or_insert_default()))
    }

    /// The feedback of all flows that have some.
    pub(crate) fn all_feedback(&mut self) -> impl Iterator<Item = (FlowId, &mut Feedback)> {
        self.by_number.values_mut().filter_map(|flow| Some((flow.id?, flow.feedback.as_mut()?)))
    }

    /// Time at which the first packets of a flow are overdue.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.by_number.values().filter_map(|flow| flow.feedback.as_ref()?.poll_timeout()).min()
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
        self.numbers.insert(id, number);
        Some(flow.callbacks)
    }

    /// Callbacks of a flow, lost or not.
    pub(crate) fn callbacks(&self, number: i64) -> Option<Callbacks> {
        self.by_number.get(&number).map(|flow| flow.callbacks)
    }
}
