//! Parser of packets: step 1 of RFC 4340 §8.5.

use super::checksum::checksum;
use super::encapsulation::Encapsulation;
use super::header::{Body, Header};
use super::view::Packet;
use crate::packet_type::PacketType;
use crate::reset::ResetCode;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// Reason to ignore a packet (RFC 4340 §8.5, step 1): the peer's mistake, the network's, or an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Shorter than any header.
    #[error("a packet of {length} bytes is shorter than any DCCP header; ignore it")]
    TooShort {
        /// The packet's bytes.
        length: usize,
    },
    /// Unassigned packet type.
    #[error("packet type {0} is reserved; ignore the packet, and do not acknowledge it")]
    UnknownType(u8),
    /// 24-bit numbers (X=0) on a type that must have 48-bit ones.
    #[error("{0} must carry 48-bit sequence numbers; ignore the packet")]
    ShortNumbers(PacketType),
    /// The data offset lies inside the header.
    #[error("a data offset of {offset} bytes cuts into the {header} bytes of the header; ignore the packet")]
    OffsetTooSmall {
        /// Data offset in bytes.
        offset: usize,
        /// Size of a header of this type.
        header: usize,
    },
    /// The data offset lies past the end of the packet.
    #[error("a data offset of {offset} bytes is past the packet's {length}; ignore the packet")]
    OffsetPastEnd {
        /// Data offset in bytes.
        offset: usize,
        /// Size of the packet.
        length: usize,
    },
    /// The checksum coverage exceeds the data.
    #[error("checksum coverage {cscov} covers more than the {data} bytes of data; ignore the packet")]
    CoveragePastEnd {
        /// The CsCov field.
        cscov: u8,
        /// Bytes of data.
        data: usize,
    },
    /// The checksum is wrong.
    #[error("the checksum is wrong; ignore the packet")]
    Checksum,
}

impl<'a> Packet<'a> {
    /// Parses a packet, with all checks of step 1 of RFC 4340 §8.5.
    ///
    /// # Errors
    /// The [`WireError`] for which the packet must be ignored: none of them calls for a DCCP-Reset.
    pub fn parse(datagram: &'a [u8], encapsulation: Encapsulation) -> Result<Self, WireError> {
        parse(datagram, encapsulation)
    }
}

/// Returns the number of bytes that the checksum covers (RFC 4340 §9.2); `None` if it exceeds the packet.
pub(super) fn covered(cscov: u8, header: usize, length: usize) -> Option<usize> {
    match cscov {
        0 => Some(length),
        _ => Some(header + (usize::from(cscov) - 1) * 4).filter(|&covered| covered <= length),
    }
}

pub(super) fn parse(datagram: &[u8], encapsulation: Encapsulation) -> Result<Packet<'_>, WireError> {
    let length = datagram.len();
    let fixed: &[u8; 12] = datagram.first_chunk().ok_or(WireError::TooShort { length })?;
    let number = fixed[8] >> 1 & 0xf;
    let packet_type = PacketType::from_number(number).ok_or(WireError::UnknownType(number))?;
    let extended = fixed[8] & 1 == 1;
    if !extended && !packet_type.may_be_short() {
        return Err(WireError::ShortNumbers(packet_type));
    }
    let header_len = packet_type.header_len(extended);
    let offset = usize::from(fixed[4]) * 4;
    if offset < header_len {
        return Err(WireError::OffsetTooSmall { offset, header: header_len });
    }
    if offset > length {
        return Err(WireError::OffsetPastEnd { offset, length });
    }
    let cscov = fixed[5] & 0xf;
    let covered = covered(cscov, offset, length).ok_or(WireError::CoveragePastEnd { cscov, data: length - offset })?;
    if checksum(datagram, covered, encapsulation).is_some_and(|left| left != 0) {
        return Err(WireError::Checksum);
    }
    let (head, payload) = datagram.split_at(offset);
    let (head, options) = head.split_at(header_len);
    let mut fields = Fields(&head[if extended { 10 } else { 9 }..]);
    let seq = fields.seq(extended);
    let header = Header {
        source_port: u16::from_be_bytes([fixed[0], fixed[1]]),
        dest_port: u16::from_be_bytes([fixed[2], fixed[3]]),
        ccval: fixed[5] >> 4,
        cscov,
        seq,
        extended,
        body: fields.body(packet_type, extended),
    };
    Ok(Packet { header, options, payload })
}

/// Returns ports and number of the Request that an ICMP message quotes, possibly cut off after the generic header (RFC
/// 4340 §5.1).
pub(crate) fn quoted_request(quoted: &[u8]) -> Option<(u16, u16, Seq)> {
    const EXTENDED_REQUEST: u8 = PacketType::Request.number() << 1 | 1;
    let &[s0, s1, d0, d1, _, _, _, _, kind, _, ref number @ ..] = quoted.first_chunk::<16>()?;
    let number = number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
    (kind & 0x1f == EXTENDED_REQUEST).then_some((ports.0, ports.1, Seq::new(number)))
}

/// Reader of the header's type-specific fields, whose length the caller has checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (number, rest) = self.0.split_at(bytes);
        self.0 = rest;
        number.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
    }

    fn seq(&mut self, extended: bool) -> Seq {
        Seq::new(self.number(if extended { 6 } else { 3 }))
    }

    fn ack(&mut self, extended: bool) -> Seq {
        self.number(if extended { 2 } else { 1 });
        self.seq(extended)
    }

    fn service(&mut self) -> ServiceCode {
        ServiceCode::new(self.number(4) as u32)
    }

    fn body(&mut self, packet_type: PacketType, extended: bool) -> Body {
        match packet_type {
            PacketType::Request => Body::Request { service: self.service() },
            PacketType::Response => Body::Response { ack: self.ack(extended), service: self.service() },
            PacketType::Data => Body::Data,
            PacketType::Ack => Body::Ack { ack: self.ack(extended) },
            PacketType::DataAck => Body::DataAck { ack: self.ack(extended) },
            PacketType::CloseReq => Body::CloseReq { ack: self.ack(extended) },
            PacketType::Close => Body::Close { ack: self.ack(extended) },
            PacketType::Reset => {
                let ack = self.ack(extended);
                let [code, data @ ..] = (self.number(4) as u32).to_be_bytes();
                Body::Reset { ack, code: ResetCode::from(code), data }
            }
            PacketType::Sync => Body::Sync { ack: self.ack(extended) },
            PacketType::SyncAck => Body::SyncAck { ack: self.ack(extended) },
        }
    }
}
