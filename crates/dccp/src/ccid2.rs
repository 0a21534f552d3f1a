//! CCID 2, TCP-like congestion control: the transport's part (RFC 4341).
//!
//! The sender's half finds the fate of each packet, the receiver's half schedules acknowledgements. The congestion
//! window is in the Congestion Manager, shared by all flows to a host. It counts bytes where RFC 4341 §5 counts
//! packets: small packets do not get a large packet's worth of window each.

mod ack_ratio;
mod receiver;
mod sender;

pub(crate) use ack_ratio::{AckRatio, PeerGaps};
pub(crate) use receiver::{DataArrival, Receiver};
pub(crate) use sender::{Feedback, Late, OverdueReport, PacketFate, Sender, UnreportedPacket};
