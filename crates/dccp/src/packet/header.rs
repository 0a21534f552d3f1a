//! The header and what each type adds to it (RFC 4340 §5).

use crate::packet_type::PacketType;
use crate::reset::ResetCode;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// What a packet's type adds to the generic header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// DCCP-Request.
    Request {
        /// The service asked for.
        service: ServiceCode,
    },
    /// DCCP-Response.
    Response {
        /// The Request's number.
        ack: Seq,
        /// The Request's service.
        service: ServiceCode,
    },
    /// DCCP-Data.
    Data,
    /// DCCP-Ack.
    Ack {
        /// The greatest number received.
        ack: Seq,
    },
    /// DCCP-DataAck.
    DataAck {
        /// The greatest number received.
        ack: Seq,
    },
    /// DCCP-CloseReq.
    CloseReq {
        /// The greatest number received.
        ack: Seq,
    },
    /// DCCP-Close.
    Close {
        /// The greatest number received.
        ack: Seq,
    },
    /// DCCP-Reset; its application data area holds an error text in UTF-8, perhaps.
    Reset {
        /// The greatest number received.
        ack: Seq,
        /// Why.
        code: ResetCode,
        /// Data 1 to Data 3, as the code defines them.
        data: [u8; 3],
    },
    /// DCCP-Sync.
    Sync {
        /// A received number, whether or not its packet could be processed.
        ack: Seq,
    },
    /// DCCP-SyncAck.
    SyncAck {
        /// The Sync's number.
        ack: Seq,
    },
}

impl Body {
    /// The packet's type.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Request { .. } => PacketType::Request,
            Self::Response { .. } => PacketType::Response,
            Self::Data => PacketType::Data,
            Self::Ack { .. } => PacketType::Ack,
            Self::DataAck { .. } => PacketType::DataAck,
            Self::CloseReq { .. } => PacketType::CloseReq,
            Self::Close { .. } => PacketType::Close,
            Self::Reset { .. } => PacketType::Reset,
            Self::Sync { .. } => PacketType::Sync,
            Self::SyncAck { .. } => PacketType::SyncAck,
        }
    }

    /// The Acknowledgement Number, if this type has one.
    pub const fn ack(&self) -> Option<Seq> {
        match *self {
            Self::Request { .. } | Self::Data => None,
            Self::Response { ack, .. }
            | Self::Ack { ack }
            | Self::DataAck { ack }
            | Self::CloseReq { ack }
            | Self::Close { ack }
            | Self::Reset { ack, .. }
            | Self::Sync { ack }
            | Self::SyncAck { ack } => Some(ack),
        }
    }
}

/// The header without its options (RFC 4340 §5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's DCCP port.
    pub source_port: u16,
    /// The receiver's DCCP port.
    pub dest_port: u16,
    /// Four bits of the sender's CCID.
    pub ccval: u8,
    /// Checksum Coverage: 0 for the whole packet, else header and the first `(cscov - 1) * 4` bytes of data (§9.2).
    pub cscov: u8,
    /// The Sequence Number; its low 24 bits only, while `extended` is false on a parsed packet.
    pub seq: Seq,
    /// X: whether numbers travel in 48 bits rather than 24.
    pub extended: bool,
    /// The type and its own fields.
    pub body: Body,
}

impl Header {
    /// A header with 48-bit numbers, full checksum coverage and CCVal 0.
    pub const fn new(source_port: u16, dest_port: u16, seq: Seq, body: Body) -> Self {
        Self { source_port, dest_port, ccval: 0, cscov: 0, seq, extended: true, body }
    }

    /// The packet's type.
    pub const fn packet_type(&self) -> PacketType {
        self.body.packet_type()
    }

    /// The Acknowledgement Number, if the type has one.
    pub const fn ack(&self) -> Option<Seq> {
        self.body.ack()
    }

    /// The bytes of this header before its options.
    pub const fn len(&self) -> usize {
        self.packet_type().header_len(self.extended)
    }

    /// Never: a header has 12 bytes or more.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The header with short numbers extended to 48 bits (RFC 4340 §7.6), from the greatest Sequence Number received
    /// (GSR) and the greatest sent (GSS). A header with long numbers stays as it is.
    ///
    /// `extended` still says how the packet travelled.
    #[must_use]
    pub fn widened(mut self, gsr: Seq, gss: Seq) -> Self {
        if !self.extended {
            self.seq = Seq::extend_short(self.seq.short(), gsr);
            if let Body::Ack { ack } | Body::DataAck { ack } = &mut self.body {
                *ack = Seq::extend_short(ack.short(), gss);
            }
        }
        self
    }
}
