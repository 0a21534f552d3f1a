//! CCID 2, TCP-like congestion control: the sender's part (RFC 4341).
//!
//! It finds the fate of each packet. The congestion window is in the Congestion Manager, shared by all flows to a host.
//! It counts bytes where RFC 4341 §5 counts packets: small packets do not get a large packet's worth of window each.

mod ack_ratio;
mod sender;

pub(crate) use ack_ratio::{AckRatio, PeerGaps};
pub(crate) use sender::{Feedback, Late, NewlyAcked, OverdueReport, PacketFate, Sender};
