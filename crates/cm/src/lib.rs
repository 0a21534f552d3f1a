//! Congestion Manager: one host, one view of each path, for every flow (Andersen et al.; RFC 3124).
//!
//! Flows to one destination form a [macroflow] and share its congestion state. A [`Manager`] decides *when* a flow may
//! send; *what* it sends is the flow's own late choice. Sans-IO: the time is passed as an argument.

#![forbid(unsafe_code)]

mod carried;
pub mod client;
pub mod controller;
mod delivery;
pub mod destination;
pub mod error;
mod event_free_band;
pub mod flow;
mod flows;
mod goodput;
mod grant;
mod kind;
mod ledger;
pub mod macroflow;
pub mod manager;
mod memory;
mod outbox;
mod path_model;
mod resumption;
pub mod rtt;
pub mod scheduler;
mod sign;
mod slab;
pub mod tfrc;
mod timetable;
pub mod trace;
pub mod view;

pub use client::ClientEvent;
pub use controller::{
    Acked, Controller, aimd::Aimd, bbr::Bbr, copa::Copa, cubic::Cubic, live::Live, newreno::NewReno, scream::Scream,
    tfrc::Tfrc,
};
pub use delivery::DeliveryRate;
pub use destination::{Destination, User};
pub use error::{CmError, Implausible};
pub use flow::{ClientId, FlowId, FlowSpec, Loss, MacroflowId, Steering, Update};
pub use kind::{Kind, UnknownController};
pub use macroflow::Answered;
pub use manager::{
    Manager,
    paths::{Companions, Ensemble},
};
pub use path_model::{Departure, Observed};
pub use resumption::Learnt;
pub use rtt::RttEstimator;
pub use scheduler::Scheduling;
pub use trace::{Happening, Traced};
pub use view::{AddressedFlow, FlowView, MacroflowView, Snapshot};
