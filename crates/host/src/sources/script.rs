//! Scripted actions of an experiment at given times.

use std::collections::VecDeque;

use timeous_core::Instant;

use crate::application::{Application, Outlet};

type Act = Box<dyn FnOnce(Instant, &mut dyn Outlet) + Send>;

/// Actions at given times, or when the transport opens if that is later.
#[derive(Default)]
pub struct Script {
    acts: VecDeque<(Instant, Act)>,
}

impl Script {
    /// Appends an action; its time is not before that of the previous ones.
    #[must_use]
    pub fn at(mut self, at: Instant, act: impl FnOnce(Instant, &mut dyn Outlet) + Send + 'static) -> Self {
        self.acts.push_back((at, Box::new(act)));
        self
    }
}

impl Application for Script {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while self.acts.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, act)) = self.acts.pop_front() {
                act(now, outlet);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.acts.front().map(|(at, _)| *at)
    }
}
