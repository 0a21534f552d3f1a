//! Writing of packets in two steps, header and completion, so that the data can be chosen in between.

use super::checksum::checksum;
use super::encapsulation::Encapsulation;
use super::header::{Body, Header};
use super::parse::covered;
use crate::options::{ListFull, Opt, OptionList, kind};
use crate::packet_type::PacketType;
use crate::seq::Seq;

/// Error of the caller: a packet that DCCP cannot carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// 24-bit numbers (X=0) on a type that must have 48-bit ones.
    #[error("{0} must carry 48-bit sequence numbers: set `extended`")]
    ShortNumbers(PacketType),
    /// CCVal or CsCov has more than four bits.
    #[error("CCVal {ccval} and CsCov {cscov} must be 15 or less")]
    FourBits {
        /// The CCVal field.
        ccval: u8,
        /// The CsCov field.
        cscov: u8,
    },
    /// An option is too long, or all together are.
    #[error("the options do not fit into a header: {0}")]
    Options(#[from] ListFull),
    /// The option is not allowed on this packet type.
    #[error("an option of type {kind} may not stand on {packet}")]
    Forbidden {
        /// The option's type.
        kind: u8,
        /// The packet's type.
        packet: PacketType,
    },
    /// The checksum coverage exceeds the data.
    #[error("checksum coverage {cscov} covers more than the {data} bytes of data: lower it")]
    CoveragePastEnd {
        /// The CsCov field.
        cscov: u8,
        /// Bytes of data.
        data: usize,
    },
    /// `start` is not the start of a packet.
    #[error("no packet begins at byte {start} of the buffer: pass what begin() returned")]
    NotBegun {
        /// The offset given.
        start: usize,
    },
}

/// Appends header and options to `out`, padded to 32 bits, and returns the packet's start: append the payload to `out`,
/// then call [`finish`].
///
/// # Errors
/// An [`EmitError`] if DCCP cannot carry the packet; `out` is then unchanged.
pub fn begin(header: &Header, options: &[Opt<'_>], out: &mut Vec<u8>) -> Result<usize, EmitError> {
    let mut list = OptionList::new();
    for opt in options {
        if !opt.is_permitted_on(header.packet_type()) {
            return Err(EmitError::Forbidden { kind: opt.kind(), packet: header.packet_type() });
        }
        list.push(opt)?;
    }
    begin_encoded(header, list.as_bytes(), out)
}

/// Same as [`begin`], with encoded options, as by [`OptionList`]; they are copied unchecked.
///
/// # Errors
/// Those of [`begin`], except for the options' contents.
pub fn begin_encoded(header: &Header, options: &[u8], out: &mut Vec<u8>) -> Result<usize, EmitError> {
    let packet_type = header.packet_type();
    if !header.extended && !packet_type.may_be_short() {
        return Err(EmitError::ShortNumbers(packet_type));
    }
    if header.ccval > 0xf || header.cscov > 0xf {
        return Err(EmitError::FourBits { ccval: header.ccval, cscov: header.cscov });
    }
    let offset = header.len() + options.len().next_multiple_of(4);
    let Ok(words) = u8::try_from(offset / 4) else {
        return Err(ListFull { needed: options.len(), room: 255 * 4 - header.len() }.into());
    };
    let start = out.len();
    out.extend_from_slice(&header.source_port.to_be_bytes());
    out.extend_from_slice(&header.dest_port.to_be_bytes());
    out.extend_from_slice(&[words, header.ccval << 4 | header.cscov, 0, 0]);
    out.push(packet_type.number() << 1 | u8::from(header.extended));
    if header.extended {
        out.push(0);
    }
    put_seq(header.seq, header.extended, out);
    put_body(&header.body, header.extended, out);
    out.extend_from_slice(options);
    out.resize(start + offset, kind::PADDING);
    Ok(start)
}

/// Completes the packet from `start` to the end of `out`: checks the checksum coverage and fills in the checksum, or
/// leaves it zero in UDP (RFC 6773 §3.3).
///
/// # Errors
/// [`EmitError::CoveragePastEnd`] if the payload is shorter than CsCov promises, [`EmitError::NotBegun`] if `start`
/// is not what [`begin`] returned.
pub fn finish(out: &mut [u8], start: usize, encapsulation: Encapsulation) -> Result<(), EmitError> {
    let packet = out.get_mut(start..).ok_or(EmitError::NotBegun { start })?;
    let offset = usize::from(*packet.get(4).ok_or(EmitError::NotBegun { start })?) * 4;
    if offset < 12 || offset > packet.len() {
        return Err(EmitError::NotBegun { start });
    }
    let cscov = packet[5] & 0xf;
    let covered = covered(cscov, offset, packet.len())
        .ok_or(EmitError::CoveragePastEnd { cscov, data: packet.len() - offset })?;
    packet[6..8].fill(0);
    if let Some(sum) = checksum(packet, covered, encapsulation) {
        packet[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

fn put_seq(seq: Seq, extended: bool, out: &mut Vec<u8>) {
    let bytes = seq.value().to_be_bytes();
    out.extend_from_slice(if extended { &bytes[2..] } else { &bytes[5..] });
}

fn put_body(body: &Body, extended: bool, out: &mut Vec<u8>) {
    if let Some(ack) = body.ack() {
        out.extend_from_slice(if extended { &[0, 0] } else { &[0] });
        put_seq(ack, extended, out);
    }
    match *body {
        Body::Request { service } | Body::Response { service, .. } => {
            out.extend_from_slice(&service.number().to_be_bytes());
        }
        Body::Reset { code, data, .. } => {
            out.push(code.number());
            out.extend_from_slice(&data);
        }
        _ => {}
    }
}
