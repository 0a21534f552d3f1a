//! Packets that leave because the protocol wants them, not the application.

use crate::packet::Header;
use crate::reset::ResetReason;
use crate::seq::Seq;

/// A packet without data that is to leave.
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
    /// A Reset outside of any connection's numbers.
    Refusal(Header),
}
