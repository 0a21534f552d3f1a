//! What the manager tells becomes callbacks.

use std::ffi::c_int;
use std::iter;

use timeous::cm::{Event, FlowId, Refusal};
use timeous::core::PathState;

use crate::failure::{Failure, of_daemon};
use crate::flows::{Callbacks, Recipe};
use crate::library::{Library, path};
use crate::sys::default;

impl Library {
    /// Calls back for all that has happened until now; how often. What happens meanwhile is for the next time, so that a
    /// callback that asks again does not keep its caller here.
    pub(crate) fn dispatch(&self) -> c_int {
        let events: Vec<Event> = iter::from_fn(|| self.manager.poll_event()).collect();
        events.into_iter().map(|event| self.tell(event)).sum()
    }

    fn tell(&self, event: Event) -> c_int {
        match event {
            Event::Granted(id) => self.granted(id),
            Event::Changed(id, state) => self.changed(id, &state),
            // The grant had lapsed by then, but the packet has left.
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
            // What a later manager may tell has no callback yet.
            _ => 0,
        }
    }

    fn granted(&self, id: FlowId) -> c_int {
        // Of a flow that was closed meanwhile the manager has taken it back.
        let Some((flow, callbacks)) = self.flow(id) else { return 0 };
        if self.leaves(flow, id) {
            return 1;
        }
        self.flows.write().grant(flow);
        match callbacks.send {
            Some(send) => send.call(flow),
            None if default::send(flow) => {}
            None => {
                // In vain if the flow is closed meanwhile.
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

    /// A flow under its old number, with its thresholds; what it had asked and what was outstanding is forgotten.
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
                // Closed meanwhile. If the daemon has gone again it is closed, too.
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
