//! Streams over a transport, sans-IO: the sending side of a stream, driven alike over sockets and in a simulated network.
//!
//! A [`SendSide`] joins packet ring, late choice and retransmission of one stream, for any transport that pulls from an
//! [`AduSource`](timeous_core::AduSource).

#![forbid(unsafe_code)]

mod send_side;
mod settings;

pub use send_side::{SCAN_INTERVAL, SendSide};
pub use settings::ring_settings;
