//! The Congestion Manager for applications' own datagrams (Andersen et al.; RFC 3124): it says when a flow may send, and
//! what is known of its path, and lets all flows to one destination share that.
//!
//! A [`CongestionManager`] is in this process or in the [daemon](Where) of the host, with the same calls. There are
//! three ways to send (§2.1.2), each with an example that differs from its plain version by less than a hundred lines:
//!
//! # Buffered
//!
//! A [`BufferedSocket`] takes datagrams as a UDP socket does and sends them as they are granted: for bulk data, and for
//! programs with a loop around a socket. Whole: the example `cm_file`, which `cm_file_plain` is without the manager.
//!
//! ```no_run
#![doc = include_str!("../examples/cm_file.rs")]
//! ```
//!
//! # Requests and callbacks
//!
//! An application asks to send a packet and decides what it is when it is [granted](Event::Granted): nothing waits in a
//! queue that nobody can change any more. The example `cm_layers_alf`; `cm_audio` puts vat's policer and its buffer, which
//! drops from the head, before the grants (§3.6).
//!
//! ```no_run
#![doc = include_str!("../examples/cm_layers_alf.rs")]
//! ```
//!
//! # Rate callbacks
//!
//! An application with a clock of its own sends as it likes, tells [so](CongestionManager::notify_unasked), and hears
//! when its rate has crossed a [threshold](CongestionManager::thresh). The example `cm_layers_rate`.
//!
//! ```no_run
#![doc = include_str!("../examples/cm_layers_rate.rs")]
//! ```
//!
//! # Feedback
//!
//! Whoever sends datagrams must learn what became of them, and tell the manager (§3.1). [`Feedback`] and [`Acks`] do it
//! for datagrams that have room for a number; a protocol with acknowledgements of its own makes [`Update`]s of those.

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
