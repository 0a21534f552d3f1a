//! CCID 3, TCP-Friendly Rate Control, as far as it is the transport's (RFC 4342); CCID 4 is the same for small packets
//! (RFC 5622).
//!
//! The receiver's half divides what arrives into loss intervals by the sender's window counter, and tells them. The sender's
//! half checks what it is told against what it sent, and feeds a [`timeous_cm::tfrc::Sender`], whose rate the Congestion
//! Manager then grants by.

mod arrivals;
mod average;
mod counter;
mod heard;
mod history;
pub mod options;
mod plausible;
mod receiver;
mod reported;
mod sender;
mod sent;

pub(crate) use heard::Heard;
pub use plausible::Implausible;
pub(crate) use receiver::{Arrived, Receiver};
pub(crate) use reported::covered;
pub(crate) use sender::{Acknowledged, Sender};
