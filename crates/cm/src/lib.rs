//! The Congestion Manager: one host, one view of each path, for every flow (Andersen et al.; RFC 3124).
//!
//! Flows to one destination form a [macroflow] and share its congestion state. A [`Manager`] says *when*
//! a flow may send; *what* it sends is the flow's own late choice. Sans-IO: time comes in as an argument.

#![forbid(unsafe_code)]

pub mod client;
pub mod controller;
mod delivery;
pub mod destination;
pub mod error;
pub mod flow;
mod flows;
mod kind;
mod ledger;
pub mod macroflow;
pub mod manager;
mod memory;
mod outbox;
pub mod rtt;
pub mod scheduler;
mod slab;
mod timetable;
pub mod trace;
pub mod view;

pub use client::{ClientEvent, ClientId};
pub use controller::{Acked, Controller, aimd::Aimd, cubic::Cubic, newreno::NewReno};
pub use destination::{Destination, User};
pub use error::{CmError, Implausible};
pub use flow::{FlowId, FlowSpec, Loss, Update};
pub use kind::{Kind, UnknownController};
pub use macroflow::{Answered, MacroflowId, restart::Learnt};
pub use manager::{
    Manager,
    paths::{Companions, Ensemble},
};
pub use rtt::RttEstimator;
pub use scheduler::Scheduling;
pub use trace::{Happening, Traced};
pub use view::{FlowView, MacroflowView, Snapshot};
