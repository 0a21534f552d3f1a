//! Temporal units: what is shown at one time, with the temporal units that it refers to.

use super::frame::{FrameHeader, Slots};
use super::obu::{FRAME, FRAME_HEADER, Obu, SEQUENCE_HEADER};
use super::sequence::Sequence;

/// Description of a temporal unit, or of a spatial layer of one, by its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemporalUnit {
    /// Whether a decoder can start here.
    pub(crate) is_entry: bool,
    /// Whether no other refers to it.
    pub(crate) is_disposable: bool,
    pub(crate) temporal: u8,
    pub(crate) spatial: u8,
    /// Units that it may refer to, the newest first; `None`: its headers cannot be read.
    pub(crate) references: Option<Vec<u32>>,
}

/// Content of a reference slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Temporal unit that it came with.
    unit: u32,
    is_key: bool,
}

/// Reference slots of a stream (§7.20).
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    sequence: Option<Sequence>,
    slots: [Option<Slot>; 8],
}

impl Units {
    /// Reads the temporal unit `number`, or a spatial layer of one, from its OBUs so far, of which the last may be cut off. `None`: more are needed, unless these
    /// are `all` that are waited for.
    pub(crate) fn read<'a>(
        &mut self,
        number: u32,
        obus: impl Iterator<Item = &'a [u8]>,
        all: bool,
    ) -> Option<TemporalUnit> {
        let mut next = self.clone();
        let mut found = Found::default();
        for obu in obus.filter_map(Obu::read) {
            match obu.kind {
                SEQUENCE_HEADER => {
                    next.sequence = Sequence::read(obu.payload).or(next.sequence);
                    found.has_sequence = true;
                }
                FRAME | FRAME_HEADER => next.take(number, &obu, &mut found),
                _ => {}
            }
        }
        if !all && !found.is_shown {
            return None;
        }
        let is_exact = found.is_shown && !found.is_unreadable;
        if !is_exact {
            // Frames that are not known may refer to any slot, and take any.
            found.references.extend(self.slots.iter().flatten().map(|slot| slot.unit));
            next.slots = [Some(Slot { unit: number, is_key: false }); 8];
        }
        let is_known = is_exact || next.sequence.is_some();
        *self = next;
        found.references.sort_unstable_by(|a, b| b.cmp(a));
        found.references.dedup();
        Some(TemporalUnit {
            is_entry: found.is_key && found.has_sequence,
            is_disposable: is_exact && found.refreshes == 0,
            temporal: found.layers.map_or(0, |(temporal, _)| temporal),
            spatial: found.layers.map_or(0, |(_, spatial)| spatial),
            references: is_known.then_some(found.references),
        })
    }

    fn take(&mut self, number: u32, obu: &Obu<'_>, found: &mut Found) {
        found.layers.get_or_insert((obu.temporal, obu.spatial));
        let Some(header) = self.sequence.as_ref().and_then(|sequence| FrameHeader::read(obu, sequence)) else {
            found.is_unreadable = true;
            return;
        };
        let shown = header.shows.and_then(|slot| self.slots[usize::from(slot & 7)]);
        let references = header.references | header.shows.map_or(0, |slot| 1 << (slot & 7));
        let referred = (0..8).filter(|slot| references >> slot & 1 == 1).filter_map(|slot: usize| self.slots[slot]);
        found.references.extend(referred.map(|slot| slot.unit).filter(|unit| *unit != number));
        // An earlier key frame that is shown takes all slots (§7.21).
        let shows_key = shown.is_some_and(|slot| slot.is_key);
        let refreshes = if shows_key { Slots::MAX } else { header.refreshes };
        for (slot, content) in self.slots.iter_mut().enumerate() {
            if refreshes >> slot & 1 == 1 {
                *content = Some(Slot { unit: number, is_key: header.is_key || shows_key });
            }
        }
        found.refreshes |= refreshes;
        found.is_shown |= header.is_shown;
        found.is_key |= header.is_key && header.is_shown;
    }
}

/// Contents of the OBUs of a temporal unit so far.
#[derive(Debug, Default)]
struct Found {
    has_sequence: bool,
    is_key: bool,
    is_shown: bool,
    is_unreadable: bool,
    refreshes: Slots,
    /// Temporal and spatial layer.
    layers: Option<(u8, u8)>,
    references: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_key_frame_that_is_shown_stays_one_in_all_slots() {
        let stream = include_bytes!("../../tests/streams/av1-hidden.obu");
        // Behind the temporal delimiter of two bytes.
        let sequence = &stream[2..4 + usize::from(stream[3])];
        let mut units = Units::default();
        units.slots[2] = Some(Slot { unit: 1, is_key: true });
        // Header without a size: shows the frame of slot 2.
        let shows = [FRAME_HEADER << 3, 0x80 | 2 << 4];
        let unit = units.read(2, [sequence, &shows].into_iter(), false).unwrap();
        assert_eq!((unit.is_entry, unit.references), (false, Some(vec![1])));
        assert_eq!(units.slots, [Some(Slot { unit: 2, is_key: true }); 8]);
    }
}
