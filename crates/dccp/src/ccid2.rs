//! CCID 2, TCP-like congestion control, as far as it is the transport's (RFC 4341).
//!
//! The sender's half finds out what became of each packet, the receiver's half says when to acknowledge. The window
//! itself is the Congestion Manager's, where it is shared with the other flows to the same host, and it counts bytes
//! where RFC 4341 §5 counts packets: a flow of small packets does not get a large packet's worth of window for each.

mod ack_ratio;
mod receiver;
mod sender;

pub(crate) use ack_ratio::{AckRatio, PeerGaps};
pub(crate) use receiver::{DataArrival, Receiver};
pub(crate) use sender::{Feedback, Late, PacketFate, Sender, Told};
