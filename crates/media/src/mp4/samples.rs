//! Samples of an AVC track (ISO/IEC 14496-15 §5.3): length-prefixed NAL units, and where the parameter sets go.
//!
//! The sample entry is `avc1`, since some players (Windows, older Safari) refuse `avc3`. It should hold all parameter
//! sets, but cannot change once a fragmented file has begun, so changed sets go into the samples. From then on every
//! entry point carries all sets: Chromium feeds those of the sample entry first, FFmpeg where a sample has none.

use super::boxes::{self, TrackHeader};
use super::error::Mp4Error;
use crate::h264::annexb::NalSplitter;
use crate::h264::parameters::{ParameterSets, nal_type, read_sps, type_of};
use crate::h264::slice::{SliceHeader, is_slice};

/// Most SPSs or PPSs in a sample entry: SPSs have a five-bit count, and shiguredo_mp4 limits PPSs likewise.
const MAX_SETS: usize = 31;

/// Frame as stored in the file.
pub(super) struct CodedFrame {
    /// Sample data.
    pub(super) data: Vec<u8>,
    /// Track in the file's header, if the file starts here.
    pub(super) track: Option<TrackHeader>,
    /// Whether a decoder can start with it.
    pub(super) is_entry: bool,
}

/// Frame that can become a sample.
pub(super) struct ParsedFrame {
    nals: Vec<Vec<u8>>,
    is_entry: bool,
    track: Option<TrackHeader>,
}

/// Parameter sets of the stream, and those that a player of the file has.
#[derive(Debug, Default)]
pub(super) struct SampleFormat {
    stream: ParameterSets,
    /// Parameter sets as of the last sample, in the order of [`ParameterSets::raw`]; `None` before the file starts.
    known: Option<Vec<Vec<u8>>>,
    /// Whether samples carry parameter sets.
    in_band: bool,
}

impl SampleFormat {
    /// Reads a frame. Its parameter sets are kept even if the frame has errors, as later frames may need them.
    pub(super) fn read(&mut self, annexb: &[u8], is_entry: bool) -> Result<ParsedFrame, Mp4Error> {
        let mut splitter = NalSplitter::new(annexb.len());
        splitter.push(annexb)?;
        splitter.finish()?;
        let nals: Vec<Vec<u8>> = std::iter::from_fn(|| splitter.next_nal()).collect();
        for nal in &nals {
            self.stream.take(nal);
        }
        let slice = nals.iter().find(|nal| is_slice(nal)).ok_or(Mp4Error::NoPicture)?;
        let slice = SliceHeader::read_if_slice(slice, &self.stream).ok_or(Mp4Error::NoParameterSets)?;
        let track = match self.known {
            Some(_) => None,
            None if is_entry => Some(self.track(slice.pps_id)?),
            None => return Err(Mp4Error::NoEntry),
        };
        Ok(ParsedFrame { nals, is_entry, track })
    }

    /// Turns a frame into a sample, and records its parameter sets as known to the player.
    pub(super) fn accept(&mut self, frame: ParsedFrame) -> CodedFrame {
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
        CodedFrame { data, track: frame.track, is_entry: frame.is_entry }
    }

    /// Track of a file whose first frame refers to this PPS.
    fn track(&self, pps_id: u32) -> Result<TrackHeader, Mp4Error> {
        let (sps, _) = self.stream.of(pps_id).ok_or(Mp4Error::NoParameterSets)?;
        let main = self.stream.raw_of(pps_id).ok_or(Mp4Error::NoParameterSets)?;
        let all: Vec<Vec<u8>> = self.stream.raw().map(<[u8]>::to_vec).collect();
        let others = all.iter().map(Vec::as_slice).filter(|nal| within_entry(&all) && !main.contains(nal));
        // Players use the first SPS for the track.
        let (sps_list, pps_list): (Vec<_>, Vec<_>) =
            main.into_iter().chain(others).map(<[u8]>::to_vec).partition(|nal| type_of(nal[0]) == nal_type::SPS);
        boxes::avc_track(sps, sps_list, pps_list)
    }
}

/// Record with the configuration of a decoder for these sets; `None`: there are none, too many, or none that can be read.
pub(crate) fn avc_configuration(sps: &[&[u8]], pps: &[&[u8]]) -> Option<Vec<u8>> {
    if pps.is_empty() || sps.len().max(pps.len()) > MAX_SETS {
        return None;
    }
    let owned = |sets: &[&[u8]]| sets.iter().map(|set| set.to_vec()).collect();
    boxes::avc_record(&read_sps(sps.first()?)?, owned(sps), owned(pps))
}

/// Whether a sample entry has room for these sets.
fn within_entry(sets: &[Vec<u8>]) -> bool {
    let sps = sets.iter().filter(|nal| type_of(nal[0]) == nal_type::SPS).count();
    sps <= MAX_SETS && sets.len() - sps <= MAX_SETS
}
