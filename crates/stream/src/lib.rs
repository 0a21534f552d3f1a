//! Streams over a transport, sans-IO: the sending side of a stream, driven alike over sockets and in a simulated network.
//!
//! A [`SendSide`] joins packet ring, late choice and retransmission of one stream, for any transport that pulls from an
//! [`AduSource`](timeous_core::AduSource). A [`Driver`] runs an endpoint of any protocol with the streams of its connections, each a [`Session`]:
//! over a socket or a simulated network, with applications in threads, other processes or virtual time.

#![forbid(unsafe_code)]

mod driver;
mod fragments;
mod order;
mod send_side;
mod session;
mod sessions;
mod settings;

pub use driver::{Driver, in_order};
pub use fragments::MAX_ADU;
pub use order::{Order, StreamId};
pub use send_side::{SCAN_INTERVAL, SendSide};
pub use session::Session;
pub use sessions::Sessions;
pub use settings::ring_settings;
