//! Payload of AV1 (RTP Payload Format For AV1 §4.4, §4.5): aggregation header and the OBUs behind it.

use timeous_core::{FrameId, References};

use super::chain::{Chain, Header};
use super::dependency::FrameLayers;
use crate::av1::obu::{Obu, leb128};
use crate::av1::units::{TemporalUnit, Units};
use crate::pictures::Description;

/// Aggregation header: the first OBU goes on from the packet before, the last one in the next; number of OBUs.
const CONTINUES: u8 = 0x80;
const GOES_ON: u8 = 0x40;
const COUNT_SHIFT: u8 = 4;

/// Temporal units of a stream so far.
#[derive(Debug, Default)]
pub(super) struct Av1 {
    units: Units,
    /// References of units whose headers cannot be read.
    chain: Chain,
}

impl Av1 {
    /// Describes the temporal unit `number`, or a spatial layer of one, by the payloads of its packets so far; `below` is the frame of
    /// the next lower layer, and `told` what the header extension tells. `None`: more are needed, unless these are `all`.
    pub(super) fn describe<'a>(
        &mut self,
        number: u32,
        (below, told): (Option<u32>, Option<FrameLayers>),
        payloads: impl Iterator<Item = &'a [u8]>,
        all: bool,
    ) -> Option<Description> {
        let obus = obus(payloads);
        let unit = self.units.read(number, obus.iter().map(Vec::as_slice), all)?;
        let told = told.unwrap_or_default();
        // OBUs have no layer unless they have an extension, and then that of the descriptor.
        let (layer, spatial) = (unit.temporal.max(told.temporal), unit.spatial.max(told.spatial));
        let TemporalUnit { is_entry, .. } = unit;
        let is_disposable = unit.is_disposable || told.is_disposable;
        let header = Header { is_entry, is_disposable, layer, spatial, has_below: spatial > 0, ..Header::default() };
        let description = self.chain.describe(number, Some(header), below);
        let Some(known) = unit.references else { return Some(description) };
        let mut references = References::NONE;
        // Of more than fit, the newest: they refer to the others, or came after them.
        for reference in known.into_iter().take(References::MAX) {
            let _ = references.push(FrameId(reference));
        }
        Some(Description { references, ..description })
    }
}

/// Spatial layer of a packet: all of its OBUs that tell one are of the same (§5). `None`: it does not tell.
pub(super) fn spatial_layer(payload: &[u8]) -> Option<u8> {
    let is_tail = payload.first()? & CONTINUES != 0;
    let obus = obus([payload].into_iter());
    let obus = obus.iter().filter_map(|obu| Obu::read(obu)).filter(|obu| obu.has_extension);
    let told: Option<u8> = obus.map(|obu| obu.spatial).next();
    // A packet that begins within an OBU goes on with its layer.
    told.filter(|_| !is_tail)
}

/// OBUs of packets in a row; the last one may be cut off.
fn obus<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut obus: Vec<Vec<u8>> = Vec::new();
    let mut goes_on = false;
    for payload in payloads {
        let Some((&first, mut rest)) = payload.split_first() else { continue };
        let count = first >> COUNT_SHIFT & 3;
        let mut at = 0;
        while !rest.is_empty() {
            at += 1;
            // Each OBU has a length before it, but the last one if they are counted.
            let len = if count == at { Some(rest.len()) } else { leb128(&mut rest) };
            let Some(len) = len else { break };
            let (obu, after) = rest.split_at(len.min(rest.len()));
            rest = after;
            match obus.last_mut() {
                Some(last) if at == 1 && first & CONTINUES != 0 && goes_on => last.extend_from_slice(obu),
                // The beginning is missing.
                _ if at == 1 && first & CONTINUES != 0 => {}
                _ => obus.push(obu.to_vec()),
            }
        }
        goes_on = first & GOES_ON != 0;
    }
    obus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obus_of(payloads: &[&[u8]]) -> Vec<Vec<u8>> {
        obus(payloads.iter().copied())
    }

    #[test]
    fn obus_are_put_together() {
        assert_eq!(obus_of(&[&[0x20, 2, 8, 9, 0x30, 7]]), [vec![8, 9], vec![0x30, 7]], "the last one has no length");
        assert_eq!(obus_of(&[&[0x00, 2, 8, 9, 1, 7]]), [vec![8, 9], vec![7]], "all have one");
        assert_eq!(obus_of(&[&[0x50, 1, 2], &[0xd0, 3], &[0x90, 4]]), [[1, 2, 3, 4]], "one in three packets");
        assert_eq!(obus_of(&[&[0xa0, 1, 2, 5, 6]]), [[5, 6]], "the first one's beginning is missing");
        assert_eq!(obus_of(&[&[0x00, 0xff], &[]]), [[]; 0]);
    }
}
