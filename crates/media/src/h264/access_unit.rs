//! Grouping NAL units into access units, one coded picture each (H.264 §7.4.1.2.3).

use std::collections::VecDeque;

use super::parameters::{ParameterSets, nal_type, type_of};
use super::slice::{SliceHeader, SliceKind};
use crate::error::MediaError;

/// The NAL units of one picture, with what goes before it.
#[derive(Debug)]
pub(crate) struct AccessUnit {
    pub(crate) nals: Vec<Vec<u8>>,
    /// Of its first slice.
    pub(crate) header: SliceHeader,
    /// The most demanding kind among its slices.
    pub(crate) kind: SliceKind,
}

/// Groups NAL units, as they come, into access units.
#[derive(Debug)]
pub(crate) struct AccessUnits {
    pub(crate) sets: ParameterSets,
    limit: usize,
    nals: Vec<Vec<u8>>,
    bytes: usize,
    picture: Option<(SliceHeader, SliceKind)>,
    ready: VecDeque<AccessUnit>,
    /// Slices that could not be understood, such as those before the first parameter sets.
    pub(crate) unreadable: u64,
}

impl AccessUnits {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            sets: ParameterSets::default(),
            limit,
            nals: Vec::new(),
            bytes: 0,
            picture: None,
            ready: VecDeque::new(),
            unreadable: 0,
        }
    }

    /// Takes the next NAL unit in decoding order. Gives whether it could be understood, as far as that is tried.
    pub(crate) fn push(&mut self, nal: Vec<u8>) -> Result<bool, MediaError> {
        let kind = type_of(nal[0]);
        match kind {
            nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR => {
                let Ok(header) = SliceHeader::read(&nal, &self.sets) else {
                    self.unreadable += 1;
                    return Ok(false);
                };
                if header.bottom_field.is_some() {
                    return Err(MediaError::Fields);
                }
                match &mut self.picture {
                    Some((first, kind)) if header.redundant || !first.differs_in_picture(&header) => {
                        *kind = header.kind.max(*kind);
                    }
                    _ => {
                        self.end_picture();
                        self.picture = Some((header, header.kind));
                    }
                }
            }
            nal_type::SEI..=nal_type::AUD | nal_type::PREFIX..=nal_type::RESERVED_18 => {
                self.end_picture();
                self.sets.take(&nal);
            }
            _ => {}
        }
        self.bytes = self.bytes.saturating_add(nal.len());
        if self.bytes > self.limit {
            return Err(MediaError::TooLarge { limit: self.limit });
        }
        self.nals.push(nal);
        Ok(true)
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) {
        self.end_picture();
    }

    pub(crate) fn next(&mut self) -> Option<AccessUnit> {
        self.ready.pop_front()
    }

    /// How many whole ones have not been taken.
    pub(crate) fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// A picture is whole as soon as something begins that can only stand before the next one.
    fn end_picture(&mut self) {
        if let Some((header, kind)) = self.picture.take() {
            self.bytes = 0;
            self.ready.push_back(AccessUnit { nals: std::mem::take(&mut self.nals), header, kind });
        }
    }
}
