//! What happened in the manager, for logs: off unless asked for, and bounded.

use std::collections::VecDeque;

use timeous_core::{Instant, PathState, Rate};

use crate::destination::{Destination, User};
use crate::error::Implausible;
use crate::flow::ClientId;
use crate::flow::MacroflowId;
use crate::flow::{FlowId, Loss};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// When.
    pub at: Instant,
    /// The macroflow that it concerns.
    pub macroflow: MacroflowId,
    /// The flow, unless it concerns all of them.
    pub flow: Option<FlowId>,
    /// What.
    pub what: Happening,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happening {
    /// A flow was opened.
    Opened {
        /// Where its packets go.
        destination: Destination,
        /// Who opened it.
        client: ClientId,
    },
    /// A flow was closed.
    Closed,
    /// Feedback was taken in; this is what is known now.
    Metrics {
        /// Of the whole macroflow.
        state: PathState,
        /// The slow start threshold in bytes, once there is one.
        threshold: Option<u64>,
    },
    /// Congestion was answered.
    Congestion {
        /// How it was seen.
        kind: Loss,
    },
    /// Feedback was refused.
    Refused(Implausible),
    /// A macroflow began.
    MacroflowCreated {
        /// Where its flows' packets go.
        destination: Destination,
    },
    /// A flow has left its macroflow for one of its own, which is this.
    Split,
    /// A flow has moved to this macroflow.
    Merged,
    /// A flow may send a packet.
    Granted,
    /// A flow has told what became of a grant.
    Notified {
        /// What was sent on it.
        bytes: u64,
    },
    /// A user's macroflow is held to what others have of its path, or no longer: he tells of no congestion where they
    /// meet it.
    Held {
        /// Whose it is.
        user: User,
        /// What it is held to; none if it is free again.
        rate: Option<Rate>,
    },
    /// A macroflow starts again from a window that it remembers.
    Resumed {
        /// In bytes.
        window: u64,
    },
}

/// What waits to be polled; the oldest goes when there is too much.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    waiting: VecDeque<Traced>,
    missed: u64,
}

/// How much may wait.
const LIMIT: usize = 1 << 14;

impl Trace {
    pub(crate) fn push(&mut self, traced: Traced) {
        if self.waiting.len() >= LIMIT {
            self.waiting.pop_front();
            self.missed += 1;
        }
        self.waiting.push_back(traced);
    }

    pub(crate) fn poll(&mut self) -> Option<Traced> {
        self.waiting.pop_front()
    }

    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }
}
