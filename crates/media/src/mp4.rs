//! An MP4 file of what was received, for a browser to play.

use std::num::NonZeroU32;

use h264_reader::nal::sps::{ChromaFormat, SeqParameterSet};
use shiguredo_mp4::boxes::{Avc1Box, AvccBox, SampleEntry, VisualSampleEntryFields};
use shiguredo_mp4::mux::{Mp4FileMuxer, Mp4FileMuxerOptions, Sample, estimate_maximum_moov_box_size};
use shiguredo_mp4::{TrackKind, Uint};

use crate::error::MediaError;
use crate::frame::FrameKind;
use crate::h264::annexb::NalSplitter;
use crate::h264::parameters::{ParameterSets, nal_type, type_of};
use crate::h264::slice::SliceHeader;
use crate::playout::PlayoutFrame;
use crate::rtp::RTP_CLOCK_HZ;

/// Why no file could be made.
#[derive(Debug, thiserror::Error)]
pub enum Mp4Error {
    /// There is nothing to show.
    #[error("there is no frame to show, so that no video can be written")]
    Empty,
    /// A frame is not the byte stream that it should be.
    #[error("a frame cannot be read: {0}")]
    Frame(#[from] MediaError),
    /// The frames do not say how large the picture is.
    #[error("the frames hold no parameter sets: write from an IDR frame on")]
    NoParameterSets,
    /// The file format has no way to say it.
    #[error("the video cannot be expressed as MP4: {0}")]
    Format(String),
}

/// Collects frames in decoding order, and makes a file of them in the end. Each is shown at its RTP timestamp; where
/// one is missing, the one before it lasts longer.
///
/// All frames are kept in memory until then.
#[derive(Debug, Default)]
pub struct Mp4Writer {
    sets: ParameterSets,
    entries: Vec<SampleEntry>,
    samples: Vec<Coded>,
    origin: Option<i64>,
}

/// A frame in the form of the file.
#[derive(Debug)]
struct Coded {
    entry: usize,
    ticks: i64,
    key: bool,
    data: Vec<u8>,
}

impl Mp4Writer {
    /// A writer whose file begins with the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// A writer whose file begins at this time ([`PlayoutFrame::ticks`]), which the first frame is made to last from:
    /// files of several receivers then show the same at the same time, but for the decoder's delay of a frame or two.
    pub fn from_origin(ticks: i64) -> Self {
        Self { origin: Some(ticks), ..Self::default() }
    }

    /// Adds a frame that came.
    ///
    /// # Errors
    /// [`Mp4Error`] if it is not one that [`Playout`](super::Playout) gave out.
    pub fn push(&mut self, frame: &PlayoutFrame) -> Result<(), Mp4Error> {
        self.push_annexb(&frame.annexb, frame.ticks, frame.kind)
    }

    /// Adds a frame given as a byte stream, to be shown at `ticks` of the RTP clock.
    ///
    /// # Errors
    /// [`Mp4Error`] if it is not H.264, or if no parameter sets came before it.
    pub fn push_annexb(&mut self, annexb: &[u8], ticks: i64, kind: FrameKind) -> Result<(), Mp4Error> {
        let mut splitter = NalSplitter::new(annexb.len());
        splitter.push(annexb)?;
        splitter.finish()?;
        let nals: Vec<Vec<u8>> = std::iter::from_fn(|| splitter.next_nal()).collect();
        for nal in &nals {
            self.sets.take(nal);
        }
        let (sps, raw) = sets_of(&nals, &self.sets).ok_or(Mp4Error::NoParameterSets)?;
        let entry = sample_entry(sps, raw)?;
        if self.entries.last() != Some(&entry) {
            self.entries.push(entry);
        }
        // The file has them beside the samples (ISO/IEC 14496-15 §5.3.2).
        let outside = |nal: &&Vec<u8>| matches!(type_of(nal[0]), nal_type::SPS..=nal_type::AUD);
        let mut data = Vec::with_capacity(annexb.len());
        for nal in nals.iter().filter(|nal| !outside(nal)) {
            data.extend_from_slice(&(nal.len() as u32).to_be_bytes());
            data.extend_from_slice(nal);
        }
        let entry = self.entries.len() - 1;
        self.samples.push(Coded { entry, ticks, key: kind == FrameKind::Idr, data });
        Ok(())
    }

    /// How many frames it has.
    pub fn frames(&self) -> usize {
        self.samples.len()
    }

    /// The file.
    ///
    /// # Errors
    /// [`Mp4Error::Empty`] without frames, [`Mp4Error::Format`] beyond the format's ranges.
    pub fn finish(mut self) -> Result<Vec<u8>, Mp4Error> {
        let first = self.samples.iter_mut().min_by_key(|sample| sample.ticks).ok_or(Mp4Error::Empty)?;
        let origin = self.origin.map_or(first.ticks, |origin| origin.min(first.ticks));
        first.ticks = origin;

        let times = decode_times(&self.samples);
        let options = Mp4FileMuxerOptions {
            // Twice, for the composition times, which the estimate leaves out.
            reserved_moov_box_size: 2 * estimate_maximum_moov_box_size(&[self.samples.len()]),
            ..Mp4FileMuxerOptions::default()
        };
        let mut muxer = Mp4FileMuxer::with_options(options).map_err(format)?;
        let mut file = muxer.initial_boxes_bytes().to_vec();
        for (coded, time) in self.samples.iter().zip(times) {
            let sample = Sample {
                track_kind: TrackKind::Video,
                sample_entry: Some(self.entries[coded.entry].clone()),
                keyframe: coded.key,
                timescale: NonZeroU32::new(RTP_CLOCK_HZ).expect("it is not zero"),
                duration: u32::try_from(time.duration).map_err(format)?,
                composition_time_offset: Some(time.composition),
                data_offset: file.len() as u64,
                data_size: coded.data.len(),
            };
            muxer.append_sample(&sample).map_err(format)?;
            file.extend_from_slice(&coded.data);
        }
        let boxes = muxer.finalize().map_err(format)?;
        for (offset, bytes) in boxes.offset_and_bytes_pairs() {
            let offset = usize::try_from(offset).map_err(format)?;
            file.resize(file.len().max(offset + bytes.len()), 0);
            file[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(file)
    }
}

/// The parameter sets that the picture is read by, parsed and raw.
fn sets_of<'a>(nals: &[Vec<u8>], sets: &'a ParameterSets) -> Option<(&'a SeqParameterSet, [&'a [u8]; 2])> {
    let header = nals.iter().find_map(|nal| SliceHeader::read_if_slice(nal, sets))?;
    Some((sets.of(header.pps_id)?.0, sets.raw_of(header.pps_id)?))
}

fn format(error: impl std::fmt::Debug) -> Mp4Error {
    Mp4Error::Format(format!("{error:?}"))
}

struct DecodeTime {
    duration: i64,
    composition: i64,
}

/// Decoding takes place in the given order at the times on the screen in theirs, moved back so far that none is
/// decoded after it is shown.
fn decode_times(samples: &[Coded]) -> Vec<DecodeTime> {
    let mut shown: Vec<i64> = samples.iter().map(|sample| sample.ticks).collect();
    shown.sort_unstable();
    let early = shown.iter().zip(samples).map(|(at, sample)| at - sample.ticks).max().unwrap_or(0);
    let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]);
    let usual = gaps.clone().filter(|&gap| gap > 0).min().unwrap_or(i64::from(RTP_CLOCK_HZ) / 25);
    let durations = gaps.chain([usual]);
    let decode = shown.iter().zip(durations).zip(samples);
    decode.map(|((at, duration), sample)| DecodeTime { duration, composition: sample.ticks - at + early }).collect()
}

fn sample_entry(sps: &SeqParameterSet, [raw_sps, raw_pps]: [&[u8]; 2]) -> Result<SampleEntry, Mp4Error> {
    let (width, height) = sps.pixel_dimensions().map_err(format)?;
    let &[_, profile, compatibility, level, ..] = raw_sps else { return Err(Mp4Error::NoParameterSets) };
    // ISO/IEC 14496-15 §5.3.3.1.2: only the profiles from High on say this.
    let high = !matches!(profile, 66 | 77 | 88);
    let chroma = match sps.chroma_info.chroma_format {
        ChromaFormat::Monochrome => 0,
        ChromaFormat::YUV420 => 1,
        ChromaFormat::YUV422 => 2,
        _ => 3,
    };
    Ok(SampleEntry::Avc1(Avc1Box {
        visual: VisualSampleEntryFields {
            data_reference_index: VisualSampleEntryFields::DEFAULT_DATA_REFERENCE_INDEX,
            width: u16::try_from(width).map_err(format)?,
            height: u16::try_from(height).map_err(format)?,
            horizresolution: VisualSampleEntryFields::DEFAULT_HORIZRESOLUTION,
            vertresolution: VisualSampleEntryFields::DEFAULT_VERTRESOLUTION,
            frame_count: VisualSampleEntryFields::DEFAULT_FRAME_COUNT,
            compressorname: VisualSampleEntryFields::NULL_COMPRESSORNAME,
            depth: VisualSampleEntryFields::DEFAULT_DEPTH,
        },
        avcc_box: AvccBox {
            avc_profile_indication: profile,
            profile_compatibility: compatibility,
            avc_level_indication: level,
            length_size_minus_one: Uint::new(3),
            sps_list: vec![raw_sps.to_vec()],
            pps_list: vec![raw_pps.to_vec()],
            chroma_format: high.then_some(Uint::new(chroma)),
            bit_depth_luma_minus8: high.then_some(Uint::new(sps.chroma_info.bit_depth_luma_minus8)),
            bit_depth_chroma_minus8: high.then_some(Uint::new(sps.chroma_info.bit_depth_chroma_minus8)),
            sps_ext_list: Vec::new(),
        },
        unknown_boxes: Vec::new(),
    }))
}
