//! Packets without application data that the protocol itself sends.

use crate::packet::Header;
use crate::reset::ResetReason;
use crate::seq::Seq;

/// A packet without data, queued for sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    Request,
    Response,
    Ack,
    CloseReq,
    Close,
    Sync {
        ack: Seq,
    },
    SyncAck {
        ack: Seq,
    },
    Reset {
        with: ResetReason,
    },
    /// A Reset for a packet of no connection, with its own sequence number.
    Refusal(Header),
}
