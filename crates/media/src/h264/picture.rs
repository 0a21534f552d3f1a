//! Complete coded frame: slice headers of its picture or two fields, and its recovery point.

use super::parameters::{ParameterSets, nal_type, type_of};
use super::sei::{RecoveryPoint, recovery_point};
use super::slice::{SliceHeader, SliceKind, is_slice};

/// Most slices with distinct reference lists kept of a picture.
const MAX_LISTS: usize = 64;

/// Frame, or complementary pair of fields.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// Slice headers of one picture or two fields; of slices with equal reference lists, only the first.
    pub(crate) fields: Vec<Vec<SliceHeader>>,
    /// Most demanding type of its slices.
    pub(crate) kind: SliceKind,
    pub(crate) recovery: Option<RecoveryPoint>,
}

impl Picture {
    /// Reads the NAL units of one frame. `None` unless all slices are readable and belong to it.
    pub(crate) fn read(nals: &[Vec<u8>], sets: &ParameterSets) -> Option<Self> {
        let mut picture = Self { fields: Vec::new(), kind: SliceKind::I, recovery: None };
        for nal in nals {
            if nal.first().is_some_and(|&header| type_of(header) == nal_type::SEI) {
                picture.recovery = picture.recovery.or_else(|| recovery_point(nal));
            } else if is_slice(nal) {
                picture.add(SliceHeader::read(nal, sets).ok()?)?;
            }
        }
        (!picture.fields.is_empty()).then_some(picture)
    }

    /// Header of its first slice.
    pub(crate) fn first(&self) -> &SliceHeader {
        &self.fields[0][0]
    }

    fn add(&mut self, header: SliceHeader) -> Option<()> {
        self.kind = self.kind.max(header.kind);
        let single = self.fields.len() == 1;
        match self.fields.last_mut() {
            None => self.fields.push(vec![header]),
            Some(slices) if header.redundant || !slices[0].differs_in_picture(&header) => {
                let same = |slice: &SliceHeader| slice.kind == header.kind && slice.lists == header.lists;
                if !slices.iter().any(same) {
                    slices.push(header);
                }
                return (slices.len() <= MAX_LISTS).then_some(());
            }
            Some(slices) if single && slices[0].pairs_with(&header) => self.fields.push(vec![header]),
            Some(_) => return None,
        }
        Some(())
    }
}
