//! Payload of AV1 (RTP Payload Format For AV1 §4.4, §4.5): aggregation header and the OBUs behind it.

use super::chain::{Header, Look};

/// Aggregation header: the first OBU goes on from the packet before; number of OBUs; start of a coded video sequence.
const CONTINUES: u8 = 0x80;
const COUNT_SHIFT: u8 = 4;
const NEW_SEQUENCE: u8 = 0x08;
/// OBU header (AV1 §5.3.2): extension, size field.
const EXTENSION: u8 = 0x04;
const SIZE: u8 = 0x02;
/// OBU types (AV1 §6.2.2).
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;
/// Types of frames (AV1 §6.8.2).
const KEY_FRAME: u8 = 0;

/// Looks at a packet of a temporal unit.
pub(super) fn look(payload: &[u8]) -> Look {
    read(payload).unwrap_or(Look::Unknown)
}

fn read(payload: &[u8]) -> Option<Look> {
    let (&first, mut rest) = payload.split_first()?;
    let count = first >> COUNT_SHIFT & 3;
    let mut at = 0;
    while !rest.is_empty() {
        at += 1;
        // Each OBU has a length before it, but the last one if they are counted.
        let len = if count == at { rest.len() } else { leb128(&mut rest)? };
        let (obu, after) = (rest.get(..len.min(rest.len()))?, rest.get(len..).unwrap_or_default());
        rest = after;
        if at == 1 && first & CONTINUES != 0 {
            continue;
        }
        if let Some(found) = frame(obu) {
            // A new sequence begins with a key frame; one without it may follow others that are not shown.
            let is_entry = first & NEW_SEQUENCE != 0;
            return Some(Look::Frame(Header { is_entry: is_entry && found.is_entry, ..found }));
        }
    }
    Some(Look::More)
}

/// Frame header of an OBU, if it is one that has one.
fn frame(obu: &[u8]) -> Option<Header> {
    let (&first, mut rest) = obu.split_first()?;
    let mut layer = 0;
    if first & EXTENSION != 0 {
        let (&byte, after) = rest.split_first()?;
        (layer, rest) = (byte >> 5, after);
    }
    if first & SIZE != 0 {
        leb128(&mut rest)?;
    }
    if !matches!(first >> 3 & 0x0f, FRAME_HEADER | FRAME) {
        return None;
    }
    // show_existing_frame 1, frame_type 2 (AV1 §5.9.2); sequences of one still picture are no video.
    let byte = *rest.first()?;
    let (shows_existing, kind) = (byte & 0x80 != 0, byte >> 5 & 3);
    Some(Header { is_entry: !shows_existing && kind == KEY_FRAME, layer, ..Header::default() })
}

/// Number of variable length (AV1 §4.10.5).
fn leb128(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in 0..8 {
        let (&byte, after) = bytes.split_first()?;
        *bytes = after;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_and_layers_are_told() {
        let frame = |is_entry, layer| Look::Frame(Header { is_entry, layer, ..Header::default() });
        // A sequence header of three bytes, and a key frame: two OBUs, the last without a length.
        assert_eq!(look(&[0x28, 3, 0x08, 0, 0, 0x30, 0x10]), frame(true, 0));
        assert_eq!(look(&[0x10, 0x30, 0x30]), frame(false, 0), "an inter frame");
        assert_eq!(look(&[0x10, 0x34, 0x28, 0x30]), frame(false, 1), "the second temporal layer");
        assert_eq!(look(&[0x90, 0x30, 0x30]), Look::More, "it goes on");
        assert_eq!(look(&[0x00, 3, 0x08, 0, 0]), Look::More, "a sequence header alone");
        assert_eq!(look(&[0x00, 0xff]), Look::Unknown);
    }
}
