//! Samples of an HEVC track (ISO/IEC 14496-15 §8.3): as those of AVC, with the sample entry `hvc1`, which players of Apple ask for.

use std::collections::BTreeMap;

use super::boxes::{self, TrackHeader};
use super::error::Mp4Error;
use super::samples::CodedFrame;
use crate::h264::annexb::NalSplitter;
use crate::h264::bits::payload_of;
use crate::h265::format::StreamFormat;
use crate::h265::nal::{self, NalHeader};

/// Numbers of identifiers of VPS, SPS, and PPS (H.265 §7.4.3): sets with others are skipped.
const VPS_IDS: u64 = 16;
const SPS_IDS: u64 = 16;
const PPS_IDS: u64 = 64;
/// Most bytes of a parameter set that is kept. Chosen by us: real ones are far smaller; more takes memory.
const MAX_SET: usize = 4096;

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
        let known = self.known.as_ref().unwrap_or(&self.stream);
        let is_changed = *known != self.stream;
        self.in_band |= is_changed;
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
        if is_changed || self.known.is_none() {
            self.known = Some(self.stream.clone());
        }
        Ok(CodedFrame { data, track, is_entry })
    }

    fn take_set(&mut self, set: &[u8]) {
        let Some(header) = NalHeader::read(set).filter(|header| header.layer == 0) else { return };
        let (id, ids) = match header.kind {
            nal::VPS => (set.get(nal::HEADER).map(|first| u64::from(first >> 4)), VPS_IDS),
            nal::SPS => (StreamFormat::read(set).map(|(id, _)| id), SPS_IDS),
            nal::PPS => (first_number(&payload_of(set.get(1..).unwrap_or_default(), nal::HEADER + 8)), PPS_IDS),
            _ => return,
        };
        if let Some(id) = id.filter(|id| *id < ids && set.len() <= MAX_SET) {
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
    fn parameter_sets_are_bounded_and_replaced() {
        let mut format = H265Format::default();
        let pps = |id: u64, more: u8| {
            // Exp-Golomb: as many zeros as the number has bits behind its first one.
            let bits = (id + 1).ilog2();
            let first = (id + 1) << (63 - 2 * bits);
            [&[nal::PPS << 1, 1][..], &first.to_be_bytes(), &[0x80, more]].concat()
        };
        (0..200).for_each(|id| format.take_set(&pps(id, 1)));
        assert_eq!(format.stream.len(), 64);
        format.take_set(&pps(5, 2));
        assert_eq!(format.stream[&(nal::PPS, 5)].last(), Some(&2), "a full table takes changes");
        format.take_set(&[&pps(5, 3)[..], &[7; MAX_SET]].concat());
        assert_eq!(format.stream[&(nal::PPS, 5)].last(), Some(&2), "too long");
    }

    #[test]
    fn numbers_of_variable_length_are_read() {
        assert_eq!([&[0x80][..], &[0x40], &[0x60], &[0x20, 0]].map(first_number), [0, 1, 2, 3].map(Some));
        assert_eq!(first_number(&[0x02, 0x08]), Some(64), "0000001 0000010");
        assert_eq!([&[0; 8][..], &[]].map(first_number), [None, None]);
    }
}
