//! Packet headers: the generic part and the fields of each type (RFC 4340 §5).

use crate::packet_type::PacketType;
use crate::reset::ResetCode;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// Packet type with its own header fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// DCCP-Request.
    Request {
        /// Service Code requested.
        service: ServiceCode,
    },
    /// DCCP-Response.
    Response {
        /// Sequence Number of the Request.
        ack: Seq,
        /// Service Code of the Request.
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
    /// DCCP-Reset; its data area may hold an error text in UTF-8.
    Reset {
        /// The greatest number received.
        ack: Seq,
        /// Reset Code.
        code: ResetCode,
        /// Data 1 to Data 3, as the code defines them.
        data: [u8; 3],
    },
    /// DCCP-Sync.
    Sync {
        /// A received Sequence Number, whether or not its packet could be processed.
        ack: Seq,
    },
    /// DCCP-SyncAck.
    SyncAck {
        /// Sequence Number of the Sync.
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
    /// CCVal: four bits for the sender's CCID.
    pub ccval: u8,
    /// Checksum Coverage: 0 for the whole packet, else header and the first `(cscov - 1) * 4` bytes of data (§9.2).
    pub cscov: u8,
    /// Sequence Number; on a parsed packet with short numbers only its low 24 bits.
    pub seq: Seq,
    /// X: whether numbers have 48 bits on the wire rather than 24.
    pub extended: bool,
    /// Type and its own fields.
    pub body: Body,
}

impl Header {
    /// Creates a header with 48-bit numbers, full checksum coverage and CCVal 0.
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

    /// Size of this header in bytes, without options.
    pub const fn len(&self) -> usize {
        self.packet_type().header_len(self.extended)
    }

    /// Always `false`: a header has at least 12 bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Extends short numbers to 48 bits (RFC 4340 §7.6), relative to the greatest Sequence Number received (GSR) and
    /// sent (GSS). A header with long numbers is unchanged.
    ///
    /// `extended` still tells the size on the wire.
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
