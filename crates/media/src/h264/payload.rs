//! RTP payloads from NAL units (RFC 6184, packetization mode 1: single NAL units, STAP-A, FU-A).

use super::parameters::type_of;

/// NAL unit types of the payload structures (RFC 6184 §5.2, table 1).
pub(crate) const STAP_A: u8 = 24;
pub(crate) const FU_A: u8 = 28;
/// Bits of an FU header (RFC 6184 §5.8).
pub(crate) const FU_START: u8 = 0x80;
pub(crate) const FU_END: u8 = 0x40;
/// F and NRI of a NAL unit header (RFC 6184 §5.3).
const F: u8 = 0x80;
const NRI: u8 = 0x60;

/// Packs NAL units into payloads: neighbours that fit share one, so that parameter sets cost no packet of their own;
/// too large ones are fragmented.
pub(crate) fn payloads(nals: &[Vec<u8>], room: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut rest = nals;
    while let Some(first) = rest.first() {
        let together = how_many_together(rest, room);
        if together > 1 {
            payloads.push(aggregate(&rest[..together]));
        } else if first.len() <= room {
            payloads.push(first.clone());
        } else {
            fragment(first, room, &mut payloads);
        }
        rest = &rest[together..];
    }
    payloads
}

/// Number of `nals` that fit into one STAP-A; at least one.
fn how_many_together(nals: &[Vec<u8>], room: usize) -> usize {
    let mut size = 1;
    let fit = nals.iter().take_while(|nal| {
        size += 2 + nal.len();
        size <= room
    });
    fit.count().max(1)
}

/// Builds a STAP-A (RFC 6184 §5.7.1): F is set if any NAL unit has it, NRI is the highest.
fn aggregate(nals: &[Vec<u8>]) -> Vec<u8> {
    let f = nals.iter().fold(0, |f, nal| f | (nal[0] & F));
    let nri = nals.iter().map(|nal| nal[0] & NRI).max().unwrap_or(0);
    let mut payload = vec![f | nri | STAP_A];
    for nal in nals {
        payload.extend_from_slice(&(nal.len() as u16).to_be_bytes());
        payload.extend_from_slice(nal);
    }
    payload
}

/// Splits a NAL unit into FU-As of even size (RFC 6184 §5.8).
fn fragment(nal: &[u8], room: usize, payloads: &mut Vec<Vec<u8>>) {
    let (header, body) = (nal[0], &nal[1..]);
    let most = room - 2;
    let count = body.len().div_ceil(most);
    let chunks = body.chunks(body.len().div_ceil(count));
    let last = chunks.len() - 1;
    for (i, chunk) in chunks.enumerate() {
        let start = if i == 0 { FU_START } else { 0 };
        let end = if i == last { FU_END } else { 0 };
        let mut payload = Vec::with_capacity(2 + chunk.len());
        payload.extend_from_slice(&[(header & (F | NRI)) | FU_A, start | end | type_of(header)]);
        payload.extend_from_slice(chunk);
        payloads.push(payload);
    }
}
