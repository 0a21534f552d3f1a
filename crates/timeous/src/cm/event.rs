//! What the Congestion Manager tells an application.

use timeous_core::PathState;
use timeous_ipc::Refusal;

use super::flow::FlowId;

/// What [`CongestionManager::poll_event`](super::CongestionManager::poll_event) tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The flow may send one packet of at most its MTU now (the paper's `cmapp_send`), and tells by
    /// [`notify`](super::CongestionManager::notify) what it sent, 0 if nothing. One event a grant. A grant that is not
    /// used within some 50 ms goes to another flow.
    Granted(FlowId),
    /// What is known of the flow's path has changed by more than its thresholds (`cmapp_update`). Changes that were not
    /// polled in time are one: only the present state matters.
    Changed(FlowId, PathState),
    /// Something that was asked of a daemon without waiting for an answer was refused. In process the call itself says
    /// so.
    Refused {
        /// The flow.
        flow: FlowId,
        /// Why.
        why: Refusal,
        /// What it was about: bytes sent or claimed, packets requested.
        value: u64,
    },
    /// There is room in the queue to a daemon again, after a call found it full. Never comes in process.
    Room,
    /// The daemon is gone, and all flows with it: whatever is asked of them is [`Error::Disconnected`](super::Error::Disconnected). What was granted
    /// must not be used any more. Never comes in process.
    Disconnected,
    /// A daemon is there again. Flows have to be opened again, and what was outstanding is forgotten.
    Reconnected,
}
