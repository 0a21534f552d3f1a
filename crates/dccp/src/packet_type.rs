//! Packet types and their properties (RFC 4340 §5.1).

use std::fmt;

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
    /// Data with an acknowledgement (§5.4).
    DataAck = 4,
    /// The server asks the client to close (§5.5).
    CloseReq = 5,
    /// One end closes the connection (§5.5).
    Close = 6,
    /// The connection has ended, with the reason (§5.6).
    Reset = 7,
    /// Resynchronizes sequence numbers (§5.7).
    Sync = 8,
    /// Answer to a Sync (§5.7).
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
