//! Transports over real sockets: one thread in the application's process, many connections.

#![forbid(unsafe_code)]

pub mod clock;
mod inbox;
mod socket;
pub mod waker;

pub use inbox::Received;
pub use waker::Waker;
