//! Paths as wholes: what is remembered of them, and others than this manager's flows that share in them.

use timeous_core::{Duration, Instant};

use crate::destination::Destination;
use crate::resumption::Learnt;

use super::Manager;

/// All flows to a destination, for who brings others into the share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ensemble {
    /// Flows that are open.
    pub flows: u32,
    /// Flows that wait for a grant, or all of them if the window held them back during the last round trip.
    pub waiting: u32,
    /// Bytes under way.
    pub outstanding: u64,
    /// Bytes acknowledged since the macroflow began.
    pub acked: u64,
    /// Congestion answered since then: losses, marks and timeouts.
    pub congestions: u64,
    /// The largest packet of any flow.
    pub mtu: u64,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// What others than this manager's flows leave of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companions {
    /// The window of all flows of the macroflow together, in bytes.
    pub window: u64,
}

impl Manager {
    /// What was learnt of a path, to be kept longer than this process lives: told when the last flow of a macroflow is
    /// closed, and once a minute while it is in use. At most 1 024 wait; nobody need poll them.
    pub fn poll_learnt(&mut self) -> Option<(Destination, Learnt)> {
        self.memory.poll_learnt()
    }

    /// What was learnt of a path `age` ago: the next flow that is opened to it starts carefully from there, unless
    /// something fresher is known. At most 1 024 wait to be used.
    pub fn recall(&mut self, destination: Destination, learnt: Learnt, age: Duration) {
        if !self.by_destination.contains_key(&destination) {
            self.memory.recall(destination, learnt, age);
        }
    }

    /// Where flows go, or went lately.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> {
        self.by_destination.keys().copied()
    }

    /// All flows to a destination, as far as they share congestion state.
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

    /// Others have a share in the path to a destination, and this is what they leave of it; or they are gone, and the
    /// controller, which has gone on by itself, has its say again. Nothing happens if no flow goes there.
    pub fn companions(&mut self, now: Instant, destination: Destination, companions: Option<Companions>) {
        let Some(&name) = self.by_destination.get(&destination) else { return };
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.share_with(companions.map(|companions| companions.window));
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        self.settle(now, name);
    }
}
