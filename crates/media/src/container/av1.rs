//! AV1 of containers: open bitstream units (OBU) of a temporal unit, key frames, and RTP payloads (RTP Payload Format For AV1 §4).

use crate::av1::obu::{EXTENSION, SEQUENCE_HEADER, SIZE, leb128};

/// OBU types (AV1 §6.2.2) that are not sent.
const TEMPORAL_DELIMITER: u8 = 2;
const TILE_LIST: u8 = 8;
const PADDING: u8 = 15;
/// Aggregation header (§4.4): the first element goes on from the packet before, the last one in the next; number of elements; start of a
/// coded video sequence.
const CONTINUES: u8 = 0x80;
const GOES_ON: u8 = 0x40;
const COUNT_SHIFT: u8 = 4;
const NEW_SEQUENCE: u8 = 0x08;
/// Most elements whose number fits the header, and bytes of the length before all but the last.
const MAX_ELEMENTS: usize = 3;
const LENGTH: usize = 2;
/// Fewest bytes of an OBU that are put into a packet with others. Chosen by us: less is mostly headers.
const LEAST_ROOM: usize = 64;

/// OBUs of a temporal unit that are sent, without size fields.
fn obus(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((obu, after)) = next(bytes) {
        bytes = after;
        if !matches!(kind(&obu), TEMPORAL_DELIMITER | TILE_LIST | PADDING) {
            found.push(obu);
        }
    }
    found
}

fn kind(obu: &[u8]) -> u8 {
    obu.first().map_or(0, |first| first >> 3 & 0x0f)
}

/// First OBU, without its size field, and the rest; one without a size lasts until the end.
fn next(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let &first = bytes.first()?;
    let header = if first & EXTENSION == 0 { 1 } else { 2 };
    let (head, mut rest) = bytes.split_at_checked(header)?;
    if first & SIZE == 0 {
        return Some((bytes.to_vec(), &[]));
    }
    let size = leb128(&mut rest)?;
    let (data, after) = rest.split_at_checked(size)?;
    let mut obu = head.to_vec();
    obu[0] &= !SIZE;
    obu.extend_from_slice(data);
    Some((obu, after))
}

/// Whether a temporal unit begins a coded video sequence: it has a sequence header, which stands before key frames (AV1 §7.5).
pub(super) fn is_entry(unit: &[u8]) -> bool {
    obus(unit).iter().any(|obu| kind(obu) == SEQUENCE_HEADER)
}

/// RTP payloads of a temporal unit, each of at most `most` bytes behind its header; `header` has the sequence header of units without one.
pub(super) fn payloads(unit: &[u8], header: &[u8], is_entry: bool, most: usize) -> Vec<Vec<u8>> {
    let mut obus = obus(unit);
    let has_header = obus.iter().any(|obu| kind(obu) == SEQUENCE_HEADER);
    if is_entry && !has_header {
        obus.splice(0..0, self::obus(header));
    }
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    let mut elements: Vec<&[u8]> = Vec::new();
    let mut used = 0;
    let mut continues = false;
    for obu in &obus {
        let mut rest = obu.as_slice();
        while !rest.is_empty() {
            if elements.len() == MAX_ELEMENTS || !elements.is_empty() && used + LENGTH + LEAST_ROOM > most {
                payloads.push(packet(&elements, continues, false));
                (elements, used, continues) = (Vec::new(), 0, false);
            }
            let (piece, after) = rest.split_at(rest.len().min(most - used - LENGTH));
            elements.push(piece);
            used += piece.len() + LENGTH;
            rest = after;
            if !rest.is_empty() {
                payloads.push(packet(&elements, continues, true));
                (elements, used, continues) = (Vec::new(), 0, true);
            }
        }
    }
    if !elements.is_empty() {
        payloads.push(packet(&elements, continues, false));
    }
    if let Some(first) = payloads.first_mut().filter(|_| is_entry) {
        first[0] |= NEW_SEQUENCE;
    }
    payloads
}

/// Payload of elements: each but the last has its length before it.
fn packet(elements: &[&[u8]], continues: bool, goes_on: bool) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let count = (elements.len() as u8) << COUNT_SHIFT;
    let mut payload = vec![flag(continues, CONTINUES) | flag(goes_on, GOES_ON) | count];
    for (at, element) in elements.iter().enumerate() {
        if at + 1 < elements.len() {
            // Two bytes hold 14 bits.
            payload.extend([(element.len() & 0x7f) as u8 | 0x80, (element.len() >> 7) as u8]);
        }
        payload.extend_from_slice(element);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporal_unit_is_packed_and_fragmented() {
        // Temporal delimiter, sequence header of three bytes, frame of 2000 bytes.
        let mut unit = vec![0x12, 0, 0x0a, 3, 1, 2, 3, 0x32, 0xd0, 0x0f];
        unit.resize(unit.len() + 2_000, 7);
        assert!(is_entry(&unit));
        let packed = payloads(&unit, &[], true, 1_080);
        assert_eq!(packed.len(), 2);
        assert_eq!(packed[0][..8], [GOES_ON | NEW_SEQUENCE | 2 << COUNT_SHIFT, 0x84, 0, 0x08, 1, 2, 3, 0x30]);
        assert_eq!(packed[1][0], CONTINUES | 1 << COUNT_SHIFT);
        assert_eq!(packed[0].len() - 7 + packed[1].len() - 1, 2_001, "the frame with its header");
        assert!(packed.iter().all(|payload| payload.len() <= 1_081));
        // The header of the container, where the unit has none.
        assert_eq!(payloads(&[0x32, 1, 0x10], &[0x0a, 1, 9], true, 1_080), [[0x28, 0x82, 0, 0x08, 9, 0x30, 0x10]]);
        assert!(!is_entry(&[0x32, 1, 0x10]) && payloads(&[0x32, 9], &[], false, 1_080).is_empty());
    }
}
