//! The Congestion Manager for applications' own datagrams (Andersen et al.; RFC 3124).

mod buffered;
mod control;
mod error;
mod event;
mod feedback;
mod flow;
mod local;
mod manager;
mod place;
mod poll;
mod remote;

pub use buffered::{BufferedSocket, Departure};
pub use error::Error;
pub use event::Event;
pub use feedback::{Ack, Acks, Feedback, FeedbackError, MAX_RUNS, Run};
pub use flow::FlowId;
pub use manager::CongestionManager;
pub use place::Where;
pub use timeous_cm::{CmError, Destination, FlowSpec, Implausible, Kind, Loss, Scheduling, Update};
pub use timeous_core::PathState;
pub use timeous_ipc::{ClientError, ConnectError, Refusal, daemon_socket};
