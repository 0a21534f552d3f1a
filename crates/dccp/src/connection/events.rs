//! Events, close reasons and counters of a connection: those that all transports share.

pub use timeous_transport::{CloseReason, Statistics};

/// An event of a connection.
pub type Event = timeous_transport::Event;
