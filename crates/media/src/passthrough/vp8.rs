//! Payload header of VP8 (RFC 7741 §4.2, §4.3).

use super::chain::{Header, Look};

/// First byte: extension follows; non-reference frame; start of a partition; index of the partition.
const EXTENDED: u8 = 0x80;
const NON_REFERENCE: u8 = 0x20;
const START: u8 = 0x10;
const PARTITION: u8 = 0x07;
/// Extension: picture number; index of the base layer; temporal layer; key index.
const PICTURE: u8 = 0x80;
const BASE: u8 = 0x40;
const TEMPORAL: u8 = 0x20;
const KEY: u8 = 0x10;

/// Looks at a packet of a frame.
pub(super) fn look(payload: &[u8]) -> Look {
    read(payload).map_or(Look::Unknown, |header| header.map_or(Look::More, Look::Frame))
}

/// `Some(None)`: a packet within a frame, whose beginning is missing.
fn read(payload: &[u8]) -> Option<Option<Header>> {
    let (&first, mut rest) = payload.split_first()?;
    let mut layer = 0;
    if first & EXTENDED != 0 {
        let (&fields, after) = rest.split_first()?;
        rest = after;
        if fields & PICTURE != 0 {
            let long = rest.first()? & 0x80 != 0;
            rest = rest.get(if long { 2 } else { 1 }..)?;
        }
        if fields & BASE != 0 {
            rest = rest.get(1..)?;
        }
        if fields & (TEMPORAL | KEY) != 0 {
            layer = if fields & TEMPORAL != 0 { rest.first()? >> 6 } else { 0 };
            rest = rest.get(1..)?;
        }
    }
    if first & START == 0 || first & PARTITION != 0 {
        return Some(None);
    }
    // The inverse key frame flag is the lowest bit of the frame (RFC 6386 §9.1).
    let is_entry = rest.first()? & 1 == 0;
    let is_disposable = first & NON_REFERENCE != 0 && !is_entry;
    Some(Some(Header { is_entry, is_disposable, layer, ..Header::default() }))
}

/// Whether the packet begins a key frame, by its start code (RFC 6386 §9.1): for streams of an unknown codec.
pub(super) fn is_key_frame(payload: &[u8]) -> bool {
    const START_CODE: [u8; 3] = [0x9d, 0x01, 0x2a];
    let is_entry = matches!(look(payload), Look::Frame(header) if header.is_entry);
    is_entry && payload.windows(3).take(12).any(|bytes| bytes == START_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_layers_and_frames_without_references_are_told() {
        let frame = |is_entry, is_disposable, layer| {
            Look::Frame(Header { is_entry, is_disposable, layer, ..Header::default() })
        };
        assert_eq!(look(&[0x10, 0x00]), frame(true, false, 0));
        assert_eq!(look(&[0x10, 0x01]), frame(false, false, 0));
        assert_eq!(look(&[0x30, 0x01]), frame(false, true, 0));
        assert_eq!(look(&[0x90, 0xe0, 0x80, 0x01, 0x07, 0x80, 0x01]), frame(false, false, 2));
        assert_eq!(look(&[0x00, 0x55]), Look::More, "it goes on");
        assert_eq!(look(&[0x90, 0xe0, 0x80]), Look::Unknown, "it breaks off");
        assert!(is_key_frame(&[0x10, 0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0, 0]));
        assert!(!is_key_frame(&[0x10, 0x11, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0, 0]));
    }
}
