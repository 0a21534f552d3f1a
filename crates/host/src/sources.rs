//! Traffic sources: applications for experiments.

mod bulk;
mod cbr;
mod frames;
mod script;
mod web;

pub use bulk::Bulk;
pub use cbr::{Cbr, Describe, OnFull};
pub use frames::{Frame, Frames};
pub use script::Script;
pub use web::{Web, WebTraffic};
