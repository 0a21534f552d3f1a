//! Events of the Congestion Manager for an application.

use timeous_core::PathState;
use timeous_ipc::Refusal;

use super::flow::FlowId;

/// Event from [`CongestionManager::poll_event`](super::CongestionManager::poll_event).
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The flow may send one packet of at most its MTU now (the paper's `cmapp_send`), and must report its size by
    /// [`notify`](super::CongestionManager::notify), 0 if none was sent. One event per grant. An unused grant expires
    /// after some 50 ms and goes to another flow.
    Granted(FlowId),
    /// The state of the flow's path has changed by more than its thresholds (`cmapp_update`). Unpolled changes are
    /// merged: only the latest state counts.
    Changed(FlowId, PathState),
    /// An asynchronous call to a daemon was refused. In process the call itself returns the error.
    Refused {
        /// The flow.
        flow: FlowId,
        /// Reason.
        why: Refusal,
        /// Value concerned: bytes sent or acknowledged, packets requested.
        value: u64,
    },
    /// There is room again in the queue to a daemon, after a call found it full. Never in process.
    Room,
    /// The daemon is gone, and with it all flows: calls on them return
    /// [`Error::Disconnected`](super::Error::Disconnected). Grants must not be used any more. Never in process.
    Disconnected,
    /// The daemon is back. Flows must be opened again, and packets in flight are forgotten.
    Reconnected,
}
