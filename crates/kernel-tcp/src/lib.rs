//! Streams over the kernel's TCP: a packet ring in front of a plain socket, and late choice in the socket's send queue.
//!
//! [`KernelTcp`] runs the connections and listeners of one thread, each connection with its stream, a [`TcpSession`]. It sleeps nowhere
//! and reads no clock of its own: its owner polls the [descriptors](KernelTcp::poll_fds), and gives it the time.

#![deny(unsafe_code)]

mod call;
mod company;
mod config;
mod connection;
mod fates;
mod framing;
mod handshake;
mod identity;
mod incoming;
mod info;
mod late;
mod listener;
mod meter;
mod others;
mod path_evidence;
mod ports;
mod readiness;
mod receiving;
mod restraint;
mod route;
mod sending;
mod session;
#[allow(unsafe_code, reason = "the room that gives addresses to the kernel")]
mod socket;
mod stamps;
mod tap;
mod trial;
mod under_way;
mod vacant;
#[allow(unsafe_code, reason = "memory that the kernel sends from while it is written")]
mod zone;

pub use call::Call;
pub use config::{TcpConfig, TcpFraming, Unordered};
pub use framing::MAX_UNFRAMED;
pub use handshake::HandshakeFailure;
pub use identity::{Hello, Identity, SequenceNumbers};
pub use incoming::Incoming;
pub use ports::KernelTcp;
pub use route::Route;
pub use session::{Reach, TcpSession, TcpView};
pub use trial::{TRIAL_LEN, Trial, TrialView, trial_bytes};
