//! The Congestion Manager for an application's own datagrams (Andersen et al.; RFC 3124): it grants flows the right to
//! send, reports the state of their paths, and shares that state among all flows to one destination.
//!
//! A [`CongestionManager`] runs in this process or in the [daemon](ManagerLocation) of the host, with the same calls. There are
//! three ways to send (§2.1.2), each with an example that differs from its plain version by less than a hundred lines:
//!
//! # Buffered
//!
//! A [`BufferedSocket`] takes datagrams as a UDP socket does, and sends them as they are granted: for bulk data, and
//! for programs with a loop around a socket. Example `cm_file`, compared to `cm_file_plain` without the manager:
//!
//! ```no_run
#![doc = include_str!("../examples/cm_file.rs")]
//! ```
//!
//! # Requests and callbacks
//!
//! An application requests a packet and chooses its contents when it is [granted](Event::Granted): no stale data wait
//! in a queue. Example `cm_layers_alf`; `cm_audio` puts vat's policer and drop-head buffer before the grants (§3.6).
//!
//! ```no_run
#![doc = include_str!("../examples/cm_layers_alf.rs")]
//! ```
//!
//! # Rate callbacks
//!
//! An application with a clock of its own sends at its own pace, [reports](CongestionManager::notify_unasked) each
//! packet, and is notified when its rate crosses a [threshold](CongestionManager::thresh). Example `cm_layers_rate`:
//!
//! ```no_run
#![doc = include_str!("../examples/cm_layers_rate.rs")]
//! ```
//!
//! # Feedback
//!
//! A sender of datagrams must learn their fate and report it to the manager (§3.1). [`Feedback`] and [`Acks`] do so for
//! datagrams with room for a number; a protocol with acknowledgements of its own makes [`Update`]s of those.

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
mod uplink;

pub use buffered::{BufferedSocket, Departure};
pub use error::Error;
pub use event::Event;
pub use feedback::{Ack, Acks, Feedback, FeedbackError, MAX_RUNS, Run};
pub use flow::FlowId;
pub use manager::CongestionManager;
pub use place::ManagerLocation;
pub use timeous_cm::{CmError, Destination, FlowSpec, Implausible, Kind, Loss, Scheduling, Update};
pub use timeous_core::PathState;
pub use timeous_ipc::{ClientError, ConnectError, Refusal, daemon_socket};
