//! Trace of the manager's events, for logs: disabled by default, and bounded.

use std::collections::VecDeque;

use timeous_core::{Arrived, Instant, PathState, Rate};

use crate::destination::{Destination, User};
use crate::error::Implausible;
use crate::flow::ClientId;
use crate::flow::MacroflowId;
use crate::flow::{FlowId, Loss};

/// Trace entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Time of the event.
    pub at: Instant,
    /// Macroflow of the event.
    pub macroflow: MacroflowId,
    /// Flow of the event, unless it concerns all of them.
    pub flow: Option<FlowId>,
    /// Event.
    pub what: Happening,
}

/// Kinds of trace events. Not `non_exhaustive`: each has a name in the log, and the compiler finds a missing one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happening {
    /// A flow was opened.
    Opened {
        /// Destination of its packets.
        destination: Destination,
        /// Client that opened it.
        client: ClientId,
    },
    /// A flow was closed.
    Closed,
    /// Feedback was processed; the resulting state.
    Metrics {
        /// Path state of the whole macroflow.
        state: PathState,
        /// Slow-start threshold in bytes, once there is one.
        threshold: Option<u64>,
    },
    /// A congestion event was responded to.
    Congestion {
        /// Kind of the congestion signal.
        kind: Loss,
    },
    /// Feedback was refused.
    Refused(Implausible),
    /// A macroflow was created.
    MacroflowCreated {
        /// Destination of its flows' packets.
        destination: Destination,
    },
    /// A flow has left its macroflow for this new one.
    Split,
    /// A flow has moved to this macroflow.
    Merged,
    /// A flow got a grant.
    Granted,
    /// A flow has used or returned a grant.
    Notified {
        /// Bytes sent with the grant.
        bytes: u64,
    },
    /// A user's macroflow is limited to the rate of other users, or no longer: it reports no congestion on a path where they do.
    Held {
        /// User whose macroflow it is.
        user: User,
        /// Rate limit; `None` if it has ended.
        rate: Option<Rate>,
    },
    /// A packet is known to have arrived.
    Arrived(Arrived),
    /// A macroflow restarts with a remembered window.
    Resumed {
        /// Window in bytes.
        window: u64,
    },
}

/// Queue of trace entries to be polled; the oldest is dropped when it is full.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    waiting: VecDeque<Traced>,
    missed: u64,
}

/// Maximum number of queued entries. Chosen by us. A higher value takes more memory; a lower one drops the oldest
/// entries sooner.
const MAX_ENTRIES: usize = 1 << 14;

impl Trace {
    pub(crate) fn push(&mut self, traced: Traced) {
        if self.waiting.len() >= MAX_ENTRIES {
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
