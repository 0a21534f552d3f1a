//! CCID 3, TCP-Friendly Rate Control: the transport's part (RFC 4342), also used by CCID 4 for small packets (RFC
//! 5622).
//!
//! The receiver groups losses into loss intervals by the sender's window counter, and reports them. The sender verifies
//! the reports against the packets sent, and feeds them to a [`timeous_cm::tfrc::Sender`], whose rate the Congestion
//! Manager enforces by its grants.

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
