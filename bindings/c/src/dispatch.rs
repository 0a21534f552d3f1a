//! Dispatch of the manager's events to callbacks.

use std::ffi::c_int;
use std::iter;

use timeous::cm::{Event, FlowId, Refusal};
use timeous::core::PathState;

use crate::failure::{Failure, of_daemon};
use crate::flows::{Callbacks, Recipe};
use crate::library::{Library, path};
use crate::sys::default;

impl Library {
    /// Calls back for all events up to now; returns the number of callbacks. Later events are left to the next call, so
    /// that a callback that requests again does not keep its caller here.
    pub(crate) fn dispatch(&self) -> c_int {
        self.report_overdue();
        let events: Vec<Event> = iter::from_fn(|| self.manager.poll_event()).collect();
        events.into_iter().map(|event| self.tell(event)).sum()
    }

    fn tell(&self, event: Event) -> c_int {
        match event {
            Event::Granted(id) => self.granted(id),
            Event::Changed(id, state) => self.changed(id, &state),
            // The grant had expired, but the packet was sent.
            Event::Refused { flow, why: Refusal::NotGranted, value } => {
                let _ = self.late(flow, value);
                0
            }
            Event::Refused { flow, why, .. } => self.refused(flow, of_daemon(why)),
            Event::Disconnected => {
                let lost = self.flows.write().lose_all();
                lost.into_iter().map(|(flow, callbacks)| wrong(flow, callbacks, libc::ECONNRESET)).sum()
            }
            Event::Reconnected => {
                let lost = self.flows.read().lost();
                lost.into_iter().map(|(flow, recipe)| self.open_again(flow, &recipe)).sum()
            }
            Event::Room => {
                self.ask_for_all();
                0
            }
            // Events added later have no callback yet.
            _ => 0,
        }
    }

    fn granted(&self, id: FlowId) -> c_int {
        // The grant of a flow that was closed meanwhile is already returned.
        let Some((flow, callbacks)) = self.flow(id) else { return 0 };
        if self.leaves(flow, id) {
            return 1;
        }
        self.flows.write().grant(flow);
        match callbacks.send {
            Some(send) => send.call(flow),
            None if default::send(flow) => {}
            None => {
                // Fails if the flow was closed meanwhile.
                let _ = self.notify(flow, 0);
                return 0;
            }
        }
        1
    }

    fn changed(&self, id: FlowId, state: &PathState) -> c_int {
        let Some((flow, callbacks)) = self.flow(id) else { return 0 };
        let path = path(state);
        match callbacks.update {
            Some(update) => update.call(flow, &path),
            None => return default::update(flow, &path).into(),
        }
        1
    }

    fn refused(&self, id: FlowId, code: c_int) -> c_int {
        self.flow(id).map_or(0, |(flow, callbacks)| wrong(flow, callbacks, code))
    }

    /// Reopens a flow under its old number, with its thresholds; pending requests and packets in flight are forgotten.
    fn open_again(&self, flow: i64, recipe: &Recipe) -> c_int {
        let opened = self.manager.open_flow(recipe.spec).and_then(|id| {
            recipe.thresholds.map_or(Ok(()), |(down, up)| self.manager.thresh(id, down, up)).map(|()| id)
        });
        let id = match opened {
            Ok(id) => id,
            Err(error) => {
                let callbacks = self.flows.read().callbacks(flow);
                return callbacks.map_or(0, |callbacks| wrong(flow, callbacks, Failure::from(error).code()));
            }
        };
        let found = self.flows.write().found(flow, id);
        match found {
            Some(callbacks) => {
                self.ask_again(flow, id);
                wrong(flow, callbacks, 0)
            }
            None => {
                // Closed meanwhile; if the daemon is gone again, the flow is closed, too.
                let _ = self.manager.close(id);
                0
            }
        }
    }

    fn flow(&self, id: FlowId) -> Option<(i64, Callbacks)> {
        self.flows.read().of(id)
    }
}

fn wrong(flow: i64, callbacks: Callbacks, code: c_int) -> c_int {
    match callbacks.error {
        Some(error) => error.call(flow, code),
        None => return default::error(flow, code).into(),
    }
    1
}
