//! A Reset for a packet that belongs to no known connection (RFC 4340 §8.3.1).

use crate::packet::{Body, Encapsulation, Header, Packet, begin, finish};
use crate::reset::ResetReason;
use crate::seq::Seq;

/// Returns the header of the Reset that answers `to`; `None` if `to` is a Reset itself.
pub(crate) fn refusal(to: &Header, reason: ResetReason) -> Option<Header> {
    if matches!(to.body, Body::Reset { .. }) {
        return None;
    }
    let seq = to.ack().map_or(Seq::new(0), Seq::next);
    // The upper bits of a short sequence number are unknown and stay zero.
    let seq = if to.extended { seq } else { Seq::new(u64::from(seq.short())) };
    let body = Body::Reset { ack: to.seq, code: reason.code, data: reason.data };
    Some(Header::new(to.dest_port, to.source_port, seq, body))
}

/// Appends a packet that consists of a header only.
pub(crate) fn write_bare(header: &Header, encapsulation: Encapsulation, out: &mut Vec<u8>) {
    let start = begin(header, &[], out).expect("a header without options is always in order");
    finish(out, start, encapsulation).expect("no data need be covered");
    debug_assert!(Packet::parse(&out[start..], encapsulation).is_ok());
}
