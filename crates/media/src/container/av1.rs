//! AV1 of containers: key frames, and RTP payloads of a temporal unit (RTP Payload Format For AV1 §4).

use crate::av1::obu::{self, Obu, PADDING, SEQUENCE_HEADER, TEMPORAL_DELIMITER, TILE_LIST};

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

/// OBUs of a temporal unit that are sent, without size fields: no delimiters, no padding.
fn obus(unit: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let is_sent = |kind| !matches!(kind, TEMPORAL_DELIMITER | TILE_LIST | PADDING);
    obu::units(unit).filter(move |obu| is_sent(obu.kind)).map(|obu| obu.without_size())
}

/// Whether a temporal unit begins a coded video sequence: it has a sequence header, which stands before key frames (AV1 §7.5).
pub(super) fn is_entry(unit: &[u8]) -> bool {
    obu::units(unit).any(|obu| obu.kind == SEQUENCE_HEADER)
}

/// RTP payloads of a temporal unit, each of at most `most` bytes behind its header; `header` has the sequence header of units without one.
pub(super) fn payloads(unit: &[u8], header: &[u8], is_entry: bool, most: usize) -> Vec<Vec<u8>> {
    let header = if is_entry && !self::is_entry(unit) { header } else { &[] };
    let obus: Vec<_> = obus(header).chain(obus(unit)).collect();
    let mut payloads: Vec<Vec<u8>> = Vec::new();
    let mut elements: Vec<&[u8]> = Vec::new();
    let mut used = 0;
    let mut continues = false;
    let mut layer = None;
    for obu in &obus {
        let mut rest = obu.as_slice();
        // OBUs of one packet are of one layer (§5).
        let own = Obu::read(obu).filter(|obu| obu.has_extension).map(|obu| (obu.temporal, obu.spatial));
        if !elements.is_empty() && own.is_some() && layer.is_some_and(|_| layer != own) {
            payloads.push(packet(&elements, continues, false));
            (elements, used, continues) = (Vec::new(), 0, false);
        }
        layer = own.or(layer);
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
        // Frames of two spatial layers of the second temporal one: a packet each.
        let layers = [0x36, 0x20, 1, 7, 0x36, 0x28, 1, 8];
        assert_eq!(payloads(&layers, &[], false, 1_080), [[0x10, 0x34, 0x20, 7], [0x10, 0x34, 0x28, 8]]);
        assert!(!is_entry(&[0x32, 1, 0x10]) && payloads(&[0x32, 9], &[], false, 1_080).is_empty());
    }
}
