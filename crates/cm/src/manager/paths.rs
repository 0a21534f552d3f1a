//! Paths: their remembered state, and sharing with flows outside of this manager.

use timeous_core::{Duration, Instant};

use crate::destination::Destination;
use crate::resumption::Learnt;

use super::Manager;

/// Summary of all flows to a destination, for sharing with flows outside of this manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ensemble {
    /// Open flows.
    pub flows: u32,
    /// Flows that wait for a grant, or all flows if the window limited them during the last round trip.
    pub waiting: u32,
    /// Bytes in flight.
    pub outstanding: u64,
    /// Bytes acknowledged since the macroflow began.
    pub acked: u64,
    /// Congestion events responded to since then: losses, marks and timeouts.
    pub congestions: u64,
    /// Maximum packet size of its flows.
    pub mtu: u64,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
}

/// Share of a path that flows outside of this manager leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companions {
    /// Window of all flows of the macroflow together, in bytes.
    pub window: u64,
}

impl Manager {
    /// Returns a path's state for storage beyond the life of this process: when the last flow of a macroflow is closed,
    /// and once a minute while in use. At most 1 024 are kept; polling is optional.
    pub fn poll_learnt(&mut self) -> Option<(Destination, Learnt)> {
        self.memory.poll_learnt()
    }

    /// Restores a path's state learnt `age` ago: the next flow opened to it starts carefully from there, unless there
    /// is a newer state. At most 1 024 unused states are kept.
    pub fn recall(&mut self, destination: Destination, learnt: Learnt, age: Duration) {
        if !self.by_destination.contains_key(&destination) {
            self.memory.recall(destination, learnt, age);
        }
    }

    /// Destinations of flows, including recent ones.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> {
        self.by_destination.keys().copied()
    }

    /// Summary of all flows to a destination that share congestion state.
    pub fn ensemble(&self, now: Instant, destination: Destination) -> Option<Ensemble> {
        let &name = self.by_destination.get(&destination)?;
        let macroflow = self.macroflows.get(name)?;
        let waits = |flow: &crate::flows::Flow| flow.macroflow == name && (flow.waiting > 0 || flow.grants() > 0);
        let waiting = if macroflow.was_limited_at(now) {
            macroflow.flows
        } else {
            self.flows.iter().filter(|(_, flow)| waits(flow)).count() as u32
        };
        let answers = macroflow.answers;
        Some(Ensemble {
            flows: macroflow.flows,
            waiting,
            outstanding: macroflow.outstanding(),
            acked: macroflow.totals.acked,
            congestions: answers.losses + answers.marks + answers.timeouts,
            mtu: macroflow.mtu(),
            srtt: macroflow.rtt.smoothed(),
        })
    }

    /// Sets the window that flows outside of this manager leave at a destination; `None` returns to the controller,
    /// which has kept running. Does nothing without flows to the destination.
    pub fn companions(&mut self, now: Instant, destination: Destination, companions: Option<Companions>) {
        let Some(&name) = self.by_destination.get(&destination) else { return };
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.share_with(companions.map(|companions| companions.window));
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        self.settle(now, name);
    }
}
