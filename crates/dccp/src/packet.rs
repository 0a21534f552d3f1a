//! Packets: the ten types, their headers, and how they travel (RFC 4340 §5; RFC 6773 §3).

mod checksum;
mod emit;
mod parse;

use std::fmt;
use std::net::IpAddr;

pub use emit::{EmitError, begin, begin_encoded, finish};
pub use parse::WireError;

use crate::reset::ResetCode;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// The packet types of RFC 4340 §5.1, table 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// The client asks for a connection (§5.2).
    Request = 0,
    /// The server agrees (§5.3).
    Response = 1,
    /// Application data (§5.4).
    Data = 2,
    /// An acknowledgement (§5.4).
    Ack = 3,
    /// Both (§5.4).
    DataAck = 4,
    /// The server wants the client to close (§5.5).
    CloseReq = 5,
    /// The connection ends (§5.5).
    Close = 6,
    /// The connection has ended, and why (§5.6).
    Reset = 7,
    /// Regains synchronization (§5.7).
    Sync = 8,
    /// Answers a Sync (§5.7).
    SyncAck = 9,
}

impl PacketType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Request,
        Self::Response,
        Self::Data,
        Self::Ack,
        Self::DataAck,
        Self::CloseReq,
        Self::Close,
        Self::Reset,
        Self::Sync,
        Self::SyncAck,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The type with this number, if it is assigned.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether such packets carry an Acknowledgement Number: all but Request and Data (§5.1).
    pub const fn has_ack(self) -> bool {
        !matches!(self, Self::Request | Self::Data)
    }

    /// Whether such packets may carry 24-bit numbers: Data, Ack and DataAck (§5.1).
    pub const fn may_be_short(self) -> bool {
        matches!(self, Self::Data | Self::Ack | Self::DataAck)
    }

    /// Whether the application data area is the application's: elsewhere it is ignored, or a Reset's error text.
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::Request | Self::Response | Self::Data | Self::DataAck)
    }

    /// The bytes of the header before the options.
    pub const fn header_len(self, extended: bool) -> usize {
        let generic = if extended { 16 } else { 12 };
        let ack = match (self.has_ack(), extended) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => 4,
        };
        let own = if matches!(self, Self::Request | Self::Response | Self::Reset) { 4 } else { 0 };
        generic + ack + own
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DCCP-{self:?}")
    }
}

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

/// How a packet travels, which decides what its checksum is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// In UDP, whose checksum protects it: the DCCP checksum is sent as zero and ignored (RFC 6773 §3.3).
    Udp,
    /// In IP, as protocol 33: the addresses are part of the checksum (RFC 4340 §9.1).
    ///
    /// The two are of one family; should they not be, they are summed as IPv6 addresses.
    Native {
        /// The address in the IP header's source field.
        source: IpAddr,
        /// The address in the IP header's destination field.
        destination: IpAddr,
    },
}

/// A packet, as a view of the datagram that brought it.
///
/// ```
/// use timeous_dccp::{Body, Encapsulation, Header, Opt, Packet, Seq, ServiceCode, packet};
/// let header = Header::new(5001, 5002, Seq::new(7), Body::Request { service: ServiceCode::from_bytes(*b"fdpz") });
/// let mut datagram = Vec::new();
/// let start = packet::begin(&header, &[Opt::SlowReceiver], &mut datagram)?;
/// datagram.extend_from_slice(b"hello");
/// packet::finish(&mut datagram, start, Encapsulation::Udp)?;
///
/// let parsed = Packet::parse(&datagram, Encapsulation::Udp)?;
/// assert_eq!(parsed.header, header);
/// assert_eq!(parsed.options().next().unwrap()?.opt, Opt::SlowReceiver);
/// assert_eq!(parsed.payload, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The header without its options.
    pub header: Header,
    /// The option part, padding included; read it with [`Packet::options`].
    pub options: &'a [u8],
    /// The application data area.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet and checks all that step 1 of RFC 4340 §8.5 checks.
    ///
    /// # Errors
    /// A [`WireError`] says why the packet must be ignored: no error here is worth a DCCP-Reset.
    pub fn parse(datagram: &'a [u8], encapsulation: Encapsulation) -> Result<Self, WireError> {
        parse::parse(datagram, encapsulation)
    }

    /// The options that a receiver has to look at.
    pub const fn options(&self) -> crate::options::Options<'a> {
        crate::options::Options::new(self.options, self.header.packet_type())
    }
}

#[cfg(test)]
mod tests;
