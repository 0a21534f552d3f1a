//! The Congestion Manager: one host, one view of each path, for every flow (Andersen et al.; RFC 3124).
//!
//! Flows to one destination form a [macroflow] and share its congestion state. A [`Manager`] says *when*
//! a flow may send; *what* it sends is the flow's own late choice. Sans-IO: time comes in as an argument.

#![forbid(unsafe_code)]

pub mod controller;
mod delivery;
pub mod flow;
mod kind;
pub mod macroflow;
pub mod manager;
pub mod rtt;
pub mod scheduler;

pub use controller::{Acked, Controller, aimd::Aimd, cubic::Cubic, newreno::NewReno};
pub use flow::{FlowId, Loss, Update};
pub use kind::{Kind, UnknownController};
pub use macroflow::{Answered, Destination};
pub use manager::{CmError, Manager};
pub use rtt::RttEstimator;
