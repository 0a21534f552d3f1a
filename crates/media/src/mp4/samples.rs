//! Samples of an AVC track (ISO/IEC 14496-15 §5.3): NAL units with lengths, and the parameter sets beside them.
//!
//! The sample entry is `avc1`, since not all players take `avc3` (Windows, older Safari). `avc1` wants parameter sets in
//! the sample entry only, but a fragmented file cannot get another entry once it has begun. So sets that change go into
//! the samples; from then on every entry point carries all of them, since players hand those of the sample entry to the
//! decoder at each entry point before the sample itself (Chromium), or where the sample has none (FFmpeg's filters).

use super::boxes;
use super::error::Mp4Error;
use crate::h264::annexb::NalSplitter;
use crate::h264::parameters::{ParameterSets, nal_type, type_of};
use crate::h264::slice::{SliceHeader, is_slice};

/// Most SPSs and PPSs in a sample entry; the field of the SPSs has five bits, and shiguredo_mp4 allows no more PPSs.
const MAX_SETS: usize = 31;

/// A frame in the form of the file.
#[derive(Debug)]
pub(super) struct Coded {
    /// The sample.
    pub(super) data: Vec<u8>,
    /// Bytes with which the file begins, if it begins here.
    pub(super) header: Vec<u8>,
}

/// A frame that can become a sample.
#[derive(Debug)]
pub(super) struct Readable {
    nals: Vec<Vec<u8>>,
    is_entry: bool,
    header: Vec<u8>,
}

/// Parameter sets: those of the stream, and those that a player of the file knows.
#[derive(Debug, Default)]
pub(super) struct SampleFormat {
    stream: ParameterSets,
    /// As of the last sample, in the order of [`ParameterSets::raw`]; `None` before the file has begun.
    known: Option<Vec<Vec<u8>>>,
    /// Whether any sets stand in samples.
    in_band: bool,
}

impl SampleFormat {
    /// Reads a frame. Its parameter sets are remembered, even if it has errors: later frames may rely on them.
    pub(super) fn read(&mut self, annexb: &[u8], is_entry: bool) -> Result<Readable, Mp4Error> {
        let mut splitter = NalSplitter::new(annexb.len());
        splitter.push(annexb)?;
        splitter.finish()?;
        let nals: Vec<Vec<u8>> = std::iter::from_fn(|| splitter.next_nal()).collect();
        for nal in &nals {
            self.stream.take(nal);
        }
        let slice = nals.iter().find(|nal| is_slice(nal)).ok_or(Mp4Error::NoPicture)?;
        let slice = SliceHeader::read_if_slice(slice, &self.stream).ok_or(Mp4Error::NoParameterSets)?;
        let header = match self.known {
            Some(_) => Vec::new(),
            None if is_entry => self.header(slice.pps_id)?,
            None => return Err(Mp4Error::NoEntry),
        };
        Ok(Readable { nals, is_entry, header })
    }

    /// Makes a sample of a frame, after which a player knows its parameter sets.
    pub(super) fn accept(&mut self, frame: Readable) -> Coded {
        let stream: Vec<Vec<u8>> = self.stream.raw().map(<[u8]>::to_vec).collect();
        let known = match self.known.take() {
            Some(known) => known,
            None if within_entry(&stream) => stream.clone(),
            None => Vec::new(),
        };
        self.in_band |= stream != known;
        let all = frame.is_entry && self.in_band;
        let sets = stream.iter().filter(|set| all || !known.contains(set));
        let outside = |nal: &&Vec<u8>| !matches!(type_of(nal[0]), nal_type::SPS..=nal_type::AUD);
        let mut data = Vec::new();
        for nal in sets.chain(frame.nals.iter().filter(outside)) {
            data.extend_from_slice(&(nal.len() as u32).to_be_bytes());
            data.extend_from_slice(nal);
        }
        self.known = Some(stream);
        Coded { data, header: frame.header }
    }

    /// The beginning of the file, whose first frame refers to this PPS.
    fn header(&self, pps_id: u32) -> Result<Vec<u8>, Mp4Error> {
        let (sps, _) = self.stream.of(pps_id).ok_or(Mp4Error::NoParameterSets)?;
        let main = self.stream.raw_of(pps_id).ok_or(Mp4Error::NoParameterSets)?;
        let all: Vec<Vec<u8>> = self.stream.raw().map(<[u8]>::to_vec).collect();
        let others = all.iter().map(Vec::as_slice).filter(|nal| within_entry(&all) && !main.contains(nal));
        // Players take the first SPS for the track's.
        let (sps_list, pps_list): (Vec<_>, Vec<_>) =
            main.into_iter().chain(others).map(<[u8]>::to_vec).partition(|nal| type_of(nal[0]) == nal_type::SPS);
        boxes::header(sps, sps_list, pps_list)
    }
}

/// Whether a sample entry has room for these sets.
fn within_entry(sets: &[Vec<u8>]) -> bool {
    let sps = sets.iter().filter(|nal| type_of(nal[0]) == nal_type::SPS).count();
    sps <= MAX_SETS && sets.len() - sps <= MAX_SETS
}
