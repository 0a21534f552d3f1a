//! The flows that C knows by number: what each is in the manager, and whom it calls back.

use std::collections::BTreeMap;

use timeous::cm::{FlowId, FlowSpec};

use crate::failure::Failure;
use crate::sys::callback::{Callback, ErrorFn, SendFn, UpdateFn};

/// Whom a flow calls back; `None` is the program's own `cmapp_…`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Callbacks {
    pub(crate) send: Option<Callback<SendFn>>,
    pub(crate) update: Option<Callback<UpdateFn>>,
    pub(crate) error: Option<Callback<ErrorFn>>,
}

/// What has to be known to open a flow again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    pub(crate) spec: FlowSpec,
    pub(crate) thresholds: Option<(f64, f64)>,
}

#[derive(Debug)]
struct Flow {
    /// `None` from when a daemon goes until there is one again.
    id: Option<FlowId>,
    recipe: Recipe,
    callbacks: Callbacks,
    /// Grants that the application was told of and has not answered.
    told: u32,
}

/// All of them. Numbers grow for ever, so that a stale one is known as such.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    by_number: BTreeMap<i64, Flow>,
    numbers: BTreeMap<FlowId, i64>,
    last: i64,
}

impl Flows {
    /// A number for a flow that was opened.
    pub(crate) fn add(&mut self, id: FlowId, recipe: Recipe) -> i64 {
        self.last += 1;
        self.by_number.insert(self.last, Flow { id: Some(id), recipe, callbacks: Callbacks::default(), told: 0 });
        self.numbers.insert(id, self.last);
        self.last
    }

    /// Forgets a flow; what is to be closed in the manager, if anything.
    pub(crate) fn remove(&mut self, number: i64) -> Result<Option<FlowId>, Failure> {
        let flow = self.by_number.remove(&number).ok_or_else(|| Failure::not_open(number))?;
        if let Some(id) = flow.id {
            self.numbers.remove(&id);
        }
        Ok(flow.id)
    }

    /// What the manager calls it.
    pub(crate) fn id(&self, number: i64) -> Result<FlowId, Failure> {
        let flow = self.by_number.get(&number).ok_or_else(|| Failure::not_open(number))?;
        flow.id.ok_or_else(|| Failure::gone(number))
    }

    /// The application is told of a grant, if it has not closed the flow.
    pub(crate) fn grant(&mut self, number: i64) {
        if let Some(flow) = self.by_number.get_mut(&number) {
            flow.told += 1;
        }
    }

    /// The application answers a grant: what the manager calls the flow. Whether the grant has lapsed meanwhile is the
    /// manager's to say, but one that was never told is a mistake.
    pub(crate) fn answer(&mut self, number: i64) -> Result<FlowId, Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        let id = flow.id.ok_or_else(|| Failure::gone(number))?;
        flow.told = flow.told.checked_sub(1).ok_or_else(|| Failure::not_granted(number))?;
        Ok(id)
    }

    /// Whom it calls back, to be changed.
    pub(crate) fn callbacks_mut(&mut self, number: i64) -> Result<&mut Callbacks, Failure> {
        let flow = self.by_number.get_mut(&number).ok_or_else(|| Failure::not_open(number))?;
        Ok(&mut flow.callbacks)
    }

    /// How it would be opened again, to be changed; nothing if it is closed.
    pub(crate) fn recipe_mut(&mut self, number: i64) -> Option<&mut Recipe> {
        self.by_number.get_mut(&number).map(|flow| &mut flow.recipe)
    }

    /// Its number and whom it calls back, if it is open still.
    pub(crate) fn of(&self, id: FlowId) -> Option<(i64, Callbacks)> {
        let number = *self.numbers.get(&id)?;
        Some((number, self.by_number.get(&number)?.callbacks))
    }

    /// The daemon is gone: all that were open are not. Each is named once.
    pub(crate) fn lose_all(&mut self) -> Vec<(i64, Callbacks)> {
        self.numbers.clear();
        let open = self.by_number.iter_mut().filter(|(_, flow)| flow.id.is_some());
        open.map(|(&number, flow)| {
            (flow.id, flow.told) = (None, 0);
            (number, flow.callbacks)
        })
        .collect()
    }

    /// Those that wait for a daemon.
    pub(crate) fn lost(&self) -> Vec<(i64, Recipe)> {
        let lost = self.by_number.iter().filter(|(_, flow)| flow.id.is_none());
        lost.map(|(&number, flow)| (number, flow.recipe)).collect()
    }

    /// A flow that was lost is open again under its number: whom it calls back, or `None` if it is not waited for.
    pub(crate) fn found(&mut self, number: i64, id: FlowId) -> Option<Callbacks> {
        let flow = self.by_number.get_mut(&number).filter(|flow| flow.id.is_none())?;
        flow.id = Some(id);
        self.numbers.insert(id, number);
        Some(flow.callbacks)
    }

    /// Whom a flow calls back, whether it is lost or not.
    pub(crate) fn callbacks(&self, number: i64) -> Option<Callbacks> {
        self.by_number.get(&number).map(|flow| flow.callbacks)
    }
}
