//! Samples of an HEVC track (ISO/IEC 14496-15 §8.3): as those of AVC, with the sample entry `hvc1`, which players of Apple ask for.

use std::collections::BTreeMap;

use super::boxes::{self, TrackHeader};
use super::error::Mp4Error;
use super::samples::CodedFrame;
use crate::h264::annexb::NalSplitter;
use crate::h264::bits::payload_of;
use crate::h265::format::StreamFormat;
use crate::h265::nal::{self, NalHeader};

/// Most parameter sets that are kept: 16 VPS, 16 SPS and 64 PPS have an identifier (H.265 §7.4.3).
const MAX_SETS: usize = 96;

/// Parameter sets by type and identifier.
type Sets = BTreeMap<(u8, u64), Vec<u8>>;

/// Parameter sets of the stream, and those that a player of the file has.
#[derive(Debug, Default)]
pub(super) struct H265Format {
    stream: Sets,
    /// Parameter sets as of the last sample; `None` before the file starts.
    known: Option<Sets>,
    /// Whether samples carry parameter sets.
    in_band: bool,
}

impl H265Format {
    /// Turns a picture into a sample. Its parameter sets are kept even if it is refused, as later pictures may need them.
    pub(super) fn sample(&mut self, annexb: &[u8], is_marked: bool) -> Result<CodedFrame, Mp4Error> {
        let mut splitter = NalSplitter::new(annexb.len());
        splitter.push(annexb)?;
        splitter.finish()?;
        let nals: Vec<Vec<u8>> = std::iter::from_fn(|| splitter.next_nal()).collect();
        nals.iter().for_each(|nal| self.take_set(nal));
        let slice = nals.iter().filter_map(|nal| NalHeader::read(nal)).find(|header| header.is_slice());
        let is_entry = is_marked || slice.ok_or(Mp4Error::NoPicture)?.is_irap();
        let track = match self.known {
            Some(_) => None,
            None if is_entry => Some(self.track()?),
            None => return Err(Mp4Error::NoEntry),
        };
        let known = self.known.take().unwrap_or_else(|| self.stream.clone());
        self.in_band |= known != self.stream;
        let all = is_entry && self.in_band;
        let sets = self.stream.iter().filter(|(key, set)| all || known.get(key) != Some(set)).map(|(_, set)| set);
        // Delimiters and parameter sets do not stand in samples.
        let outside =
            |nal: &&Vec<u8>| NalHeader::read(nal).is_some_and(|header| !matches!(header.kind, nal::VPS..=nal::AUD));
        let mut data = Vec::new();
        for nal in sets.chain(nals.iter().filter(outside)) {
            data.extend_from_slice(&(nal.len() as u32).to_be_bytes());
            data.extend_from_slice(nal);
        }
        self.known = Some(self.stream.clone());
        Ok(CodedFrame { data, track, is_entry })
    }

    fn take_set(&mut self, set: &[u8]) {
        let Some(header) = NalHeader::read(set).filter(|header| header.layer == 0) else { return };
        let id = match header.kind {
            nal::VPS => set.get(nal::HEADER).map(|first| u64::from(first >> 4)),
            nal::SPS => StreamFormat::read(set).map(|(id, _)| id),
            nal::PPS => first_number(&payload_of(set.get(1..).unwrap_or_default(), nal::HEADER + 8)),
            _ => None,
        };
        if let Some(id) = id
            && self.stream.len() < MAX_SETS
        {
            self.stream.insert((header.kind, id), set.to_vec());
        }
    }

    fn track(&self) -> Result<TrackHeader, Mp4Error> {
        let of = |kind: u8| -> Vec<Vec<u8>> {
            self.stream.iter().filter(|((of, _), _)| *of == kind).map(|(_, set)| set.clone()).collect()
        };
        let sets = [nal::VPS, nal::SPS, nal::PPS].map(|kind| (kind, of(kind)));
        if sets.iter().any(|(_, sets)| sets.is_empty()) {
            return Err(Mp4Error::NoParameterSets);
        }
        let (_, format) = StreamFormat::read(&sets[1].1[0]).ok_or(Mp4Error::NoParameterSets)?;
        boxes::hevc_track(&format, sets)
    }
}

/// Unsigned number of variable length (H.265 §9.2) at the beginning.
fn first_number(bytes: &[u8]) -> Option<u64> {
    let mut first = [0; 8];
    first.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = *byte);
    let bits = u64::from_be_bytes(first);
    let zeros = bits.leading_zeros();
    (zeros <= 16).then(|| (bits << zeros >> (63 - zeros)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_read() {
        assert_eq!([&[0x80][..], &[0x40], &[0x60], &[0x20, 0]].map(first_number), [0, 1, 2, 3].map(Some));
        assert_eq!(first_number(&[0x02, 0x08]), Some(64), "0000001 0000010");
        assert_eq!([&[0; 8][..], &[]].map(first_number), [None, None]);
    }
}
