//! MP4 boxes: `ftyp` and `moov` at the start of the file, `moof` and `mdat` for each fragment.

use std::num::NonZeroU32;

use h264_reader::nal::sps::{ChromaFormat, SeqParameterSet};
use shiguredo_mp4::boxes::{
    AudioSampleEntryFields, Avc1Box, AvccBox, Brand, DinfBox, EsdsBox, FtypBox, HdlrBox, Hvc1Box, HvccBox,
    HvccNalUintArray, MdhdBox, MdiaBox, MfhdBox, MinfBox, MoofBox, MoovBox, Mp4aBox, MvexBox, MvhdBox, SampleEntry,
    SmhdBox, StblBox, StcoBox, StscBox, StsdBox, StszBox, SttsBox, TfdtBox, TfhdBox, TkhdBox, TrafBox, TrakBox,
    TrexBox, TrunBox, TrunSample, VisualSampleEntryFields, VmhdBox,
};
use shiguredo_mp4::descriptors::{DecoderConfigDescriptor, DecoderSpecificInfo, EsDescriptor, SlConfigDescriptor};
use shiguredo_mp4::{Either, Encode, FixedPointNumber, Mp4FileTime, SampleFlags, Uint, Utf8String};

use super::error::Mp4Error;
use crate::aac::AacFormat;
use crate::h265::format::StreamFormat;
use crate::rtp::RTP_CLOCK_HZ;

/// Size of the header of an `mdat` box, in bytes.
const MDAT_HEADER: usize = 8;

/// Frame in a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Decoding time on the file's clock.
    pub(super) decode: i64,
    /// Time from decoding to presentation, in ticks.
    pub(super) offset: i32,
    /// Size in bytes.
    pub(super) size: usize,
    /// Whether a decoder can start with it.
    pub(super) is_entry: bool,
    /// Whether it is a reference frame.
    pub(super) is_reference: bool,
}

/// Fragment being filled.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    tracks: Vec<TrackFragment>,
    /// Number of fragments written before.
    sequence: u32,
}

/// Samples of a track in a fragment.
#[derive(Debug, Default)]
struct TrackFragment {
    samples: Vec<Sample>,
    data: Vec<u8>,
}

impl Fragment {
    /// Adds a sample of a track. Decoding times of a track must increase.
    pub(super) fn push(&mut self, track: usize, sample: Sample, data: &[u8]) {
        if self.tracks.len() <= track {
            self.tracks.resize_with(track + 1, TrackFragment::default);
        }
        self.tracks[track].samples.push(sample);
        self.tracks[track].data.extend_from_slice(data);
    }

    /// Decoding times of the first and last sample of a track.
    pub(super) fn span(&self, track: usize) -> Option<(i64, i64)> {
        let samples = &self.tracks.get(track)?.samples;
        Some((samples.first()?.decode, samples.last()?.decode))
    }

    /// Number of samples of a track.
    pub(super) fn len(&self, track: usize) -> usize {
        self.tracks.get(track).map_or(0, |track| track.samples.len())
    }

    /// Bytes of media.
    pub(super) fn bytes(&self) -> usize {
        self.tracks.iter().map(|track| track.data.len()).sum()
    }

    /// Appends the fragment to `out`; the last sample of each track lasts until that track's end.
    pub(super) fn write(&mut self, ends: &[i64], out: &mut Vec<u8>) {
        let tracks: Vec<(usize, &TrackFragment)> =
            self.tracks.iter().enumerate().filter(|(_, track)| !track.samples.is_empty()).collect();
        if tracks.is_empty() {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let traf_boxes = tracks.iter().map(|(index, track)| {
            let end = ends.get(*index).copied().unwrap_or_default();
            let ends = track.samples.iter().skip(1).map(|sample| sample.decode).chain([end]);
            traf(
                *index,
                track.samples[0].decode,
                track.samples.iter().zip(ends).map(|(sample, end)| sample.entry(end)).collect(),
            )
        });
        let mut moof = MoofBox {
            mfhd_box: MfhdBox { sequence_number: self.sequence },
            traf_boxes: traf_boxes.collect(),
            unknown_boxes: Vec::new(),
        };
        // Offsets have a fixed length, so that the size of the box is known before their values.
        let mut offset = encode(&moof).len() + MDAT_HEADER;
        for (traf, (_, track)) in moof.traf_boxes.iter_mut().zip(&tracks) {
            traf.trun_boxes[0].data_offset = i32::try_from(offset).ok();
            offset += track.data.len();
        }
        out.extend(encode(&moof));
        out.extend(u32::try_from(self.bytes() + MDAT_HEADER).expect("a fragment is far below 4 GB").to_be_bytes());
        out.extend(b"mdat");
        for track in &mut self.tracks {
            out.append(&mut track.data);
            track.samples.clear();
        }
    }
}

impl Sample {
    /// Entry of the sample in a `trun` box, lasting until `end`; a gap above 13 hours appears only in `tfdt`.
    fn entry(&self, end: i64) -> TrunSample {
        TrunSample {
            duration: Some(u32::try_from(end - self.decode).unwrap_or(u32::MAX)),
            size: u32::try_from(self.size).ok(),
            flags: Some(self.flags()),
            composition_time_offset: Some(self.offset),
        }
    }

    /// `sample_depends_on`, `sample_is_depended_on` and `sample_is_non_sync_sample` (ISO/IEC 14496-12 §8.8.3.1).
    fn flags(&self) -> SampleFlags {
        let depends_on = if self.is_entry { 2 } else { 1 };
        let is_depended_on = if self.is_reference { 1 } else { 2 };
        SampleFlags::new(depends_on << 24 | is_depended_on << 22 | u32::from(!self.is_entry) << 16)
    }
}

fn traf(track: usize, first: i64, samples: Vec<TrunSample>) -> TrafBox {
    let tfhd_box = TfhdBox {
        track_id: id_of(track),
        base_data_offset: None,
        sample_description_index: None,
        default_sample_duration: None,
        default_sample_size: None,
        default_sample_flags: None,
        duration_is_empty: false,
        default_base_is_moof: true,
    };
    let tfdt_box = TfdtBox { version: 1, base_media_decode_time: first.unsigned_abs() };
    let trun_box = TrunBox { data_offset: Some(0), first_sample_flags: None, samples };
    TrafBox { tfhd_box, tfdt_box: Some(tfdt_box), trun_boxes: vec![trun_box], unknown_boxes: Vec::new() }
}

/// Bytes of the header of a short box (ISO/IEC 14496-12 §4.2).
const BOX_HEADER: usize = 8;

/// Identifier of a track, from one.
fn id_of(track: usize) -> u32 {
    track as u32 + 1
}

fn encode(part: &MoofBox) -> Vec<u8> {
    part.encode_to_vec().expect("every field of a fragment is within its range")
}

/// Track in the header of a file.
pub(super) struct TrackHeader {
    entry: SampleEntry,
    /// Width and height of a picture; `None`: audio.
    size: Option<[u16; 2]>,
}

/// Track of H.264 with these parameter sets; `sps` is the first SPS.
pub(super) fn avc_track(
    sps: &SeqParameterSet,
    sps_list: Vec<Vec<u8>>,
    pps_list: Vec<Vec<u8>>,
) -> Result<TrackHeader, Mp4Error> {
    let (width, height) = sps.pixel_dimensions().map_err(|error| format(format_args!("{error:?}")))?;
    let size = size_of([width.into(), height.into()])?;
    let entry = sample_entry(sps, size, sps_list, pps_list)?;
    Ok(TrackHeader { entry, size: Some(size) })
}

/// Size of a picture, if a track can have it.
fn size_of(size: [u64; 2]) -> Result<[u16; 2], Mp4Error> {
    let [width, height] = size.map(|side| u16::try_from(side).ok().filter(|&side| side <= i16::MAX as u16));
    let (width, height) = width.zip(height).ok_or_else(|| format("the picture is larger than 32767 pixels"))?;
    Ok([width, height])
}

/// Track of H.265 with these parameter sets by type.
pub(super) fn hevc_track(stream: &StreamFormat, sets: [(u8, Vec<Vec<u8>>); 3]) -> Result<TrackHeader, Mp4Error> {
    let size = size_of(stream.size)?;
    let arrays = sets.into_iter().map(|(kind, nalus)| HvccNalUintArray {
        // All are here (§8.3.3.1.3), unless they change later.
        array_completeness: Uint::new(1),
        nal_unit_type: Uint::new(kind),
        nalus,
    });
    let [luma, chroma] = stream.depths;
    let entry = SampleEntry::Hvc1(Hvc1Box {
        visual: visual(size),
        hvcc_box: HvccBox {
            general_profile_space: Uint::new(stream.profile >> 6),
            general_tier_flag: Uint::new(stream.profile >> 5 & 1),
            general_profile_idc: Uint::new(stream.profile & 0x1f),
            general_profile_compatibility_flags: stream.compatibility,
            general_constraint_indicator_flags: Uint::new(stream.constraints),
            general_level_idc: stream.level,
            // Not told.
            min_spatial_segmentation_idc: Uint::new(0),
            parallelism_type: Uint::new(0),
            chroma_format_idc: Uint::new(stream.chroma & 3),
            bit_depth_luma_minus8: Uint::new(luma & 7),
            bit_depth_chroma_minus8: Uint::new(chroma & 7),
            avg_frame_rate: 0,
            constant_frame_rate: Uint::new(0),
            num_temporal_layers: Uint::new(stream.temporal_layers & 7),
            temporal_id_nested: Uint::new(stream.is_nested.into()),
            length_size_minus_one: Uint::new(3),
            nalu_arrays: arrays.collect(),
        },
        unknown_boxes: Vec::new(),
    });
    Ok(TrackHeader { entry, size: Some(size) })
}

/// Fields of a sample entry of video.
fn visual([width, height]: [u16; 2]) -> VisualSampleEntryFields {
    VisualSampleEntryFields {
        data_reference_index: VisualSampleEntryFields::DEFAULT_DATA_REFERENCE_INDEX,
        width,
        height,
        horizresolution: VisualSampleEntryFields::DEFAULT_HORIZRESOLUTION,
        vertresolution: VisualSampleEntryFields::DEFAULT_VERTRESOLUTION,
        frame_count: VisualSampleEntryFields::DEFAULT_FRAME_COUNT,
        compressorname: VisualSampleEntryFields::NULL_COMPRESSORNAME,
        depth: VisualSampleEntryFields::DEFAULT_DEPTH,
    }
}

/// Track of AAC.
pub(super) fn aac_track(format: AacFormat) -> TrackHeader {
    let entry = SampleEntry::Mp4a(Mp4aBox {
        audio: AudioSampleEntryFields {
            data_reference_index: AudioSampleEntryFields::DEFAULT_DATA_REFERENCE_INDEX,
            channelcount: format.channels().into(),
            samplesize: AudioSampleEntryFields::DEFAULT_SAMPLESIZE,
            // Above 65535 the field is unused (ISO/IEC 14496-12 §12.2.3): the configuration tells.
            samplerate: FixedPointNumber::new(u16::try_from(format.hz()).unwrap_or(0), 0),
        },
        esds_box: EsdsBox {
            es: EsDescriptor {
                es_id: EsDescriptor::MIN_ES_ID,
                stream_priority: EsDescriptor::LOWEST_STREAM_PRIORITY,
                depends_on_es_id: None,
                url_string: None,
                ocr_es_id: None,
                dec_config_descr: DecoderConfigDescriptor {
                    object_type_indication: DecoderConfigDescriptor::OBJECT_TYPE_INDICATION_AUDIO_ISO_IEC_14496_3,
                    stream_type: DecoderConfigDescriptor::STREAM_TYPE_AUDIO,
                    up_stream: DecoderConfigDescriptor::UP_STREAM_FALSE,
                    buffer_size_db: Uint::new(0),
                    max_bitrate: 0,
                    avg_bitrate: 0,
                    dec_specific_info: Some(DecoderSpecificInfo { payload: format.config().to_vec() }),
                },
                sl_config_descr: SlConfigDescriptor,
            },
        },
        unknown_boxes: Vec::new(),
    });
    TrackHeader { entry, size: None }
}

/// Start of a file with these tracks.
pub(super) fn header(tracks: Vec<TrackHeader>) -> Result<Vec<u8>, Mp4Error> {
    let ftyp = FtypBox {
        // Signed composition offsets and `tfdt` need version 6 of the format.
        major_brand: Brand::ISO6,
        minor_version: 0,
        compatible_brands: vec![Brand::ISO5, Brand::ISO6, Brand::MP41, Brand::AVC1],
    };
    let trex = |track| TrexBox {
        track_id: id_of(track),
        default_sample_description_index: 1,
        default_sample_duration: 0,
        default_sample_size: 0,
        default_sample_flags: SampleFlags::empty(),
    };
    let count = tracks.len();
    let moov = MoovBox {
        mvhd_box: MvhdBox {
            creation_time: NEVER,
            modification_time: NEVER,
            timescale: TIMESCALE,
            duration: 0,
            rate: MvhdBox::DEFAULT_RATE,
            volume: MvhdBox::DEFAULT_VOLUME,
            matrix: MvhdBox::DEFAULT_MATRIX,
            next_track_id: id_of(count),
        },
        trak_boxes: tracks.into_iter().enumerate().map(|(index, track)| trak(index, track)).collect(),
        mvex_box: Some(MvexBox {
            mehd_box: None,
            trex_boxes: (0..count).map(trex).collect(),
            unknown_boxes: Vec::new(),
        }),
        unknown_boxes: Vec::new(),
    };
    let mut out = ftyp.encode_to_vec().map_err(format)?;
    out.extend(moov.encode_to_vec().map_err(format)?);
    Ok(out)
}

/// No creation time, so that the file's bytes depend on the frames only.
const NEVER: Mp4FileTime = Mp4FileTime::from_secs(0);

/// Clock rate of all times in the file.
const TIMESCALE: NonZeroU32 = NonZeroU32::new(RTP_CLOCK_HZ).expect("it is not zero");

fn trak(track: usize, TrackHeader { entry, size }: TrackHeader) -> TrakBox {
    let is_audio = size.is_none();
    let [width, height] = size.unwrap_or_default();
    let stbl_box = StblBox {
        stsd_box: StsdBox { entries: vec![entry] },
        stts_box: SttsBox::from_sample_deltas(std::iter::empty()),
        ctts_box: None,
        cslg_box: None,
        stsc_box: StscBox { entries: Vec::new() },
        stsz_box: StszBox::Variable { entry_sizes: Vec::new() },
        stco_or_co64_box: Either::A(StcoBox { chunk_offsets: Vec::new() }),
        stss_box: None,
        sdtp_box: None,
        unknown_boxes: Vec::new(),
    };
    TrakBox {
        tkhd_box: TkhdBox {
            flag_track_enabled: true,
            flag_track_in_movie: true,
            flag_track_in_preview: false,
            flag_track_size_is_aspect_ratio: false,
            creation_time: NEVER,
            modification_time: NEVER,
            track_id: id_of(track),
            duration: 0,
            layer: TkhdBox::DEFAULT_LAYER,
            alternate_group: TkhdBox::DEFAULT_ALTERNATE_GROUP,
            volume: if is_audio { TkhdBox::DEFAULT_AUDIO_VOLUME } else { TkhdBox::DEFAULT_VIDEO_VOLUME },
            matrix: TkhdBox::DEFAULT_MATRIX,
            width: FixedPointNumber::new(width.cast_signed(), 0),
            height: FixedPointNumber::new(height.cast_signed(), 0),
        },
        edts_box: None,
        mdia_box: MdiaBox {
            mdhd_box: MdhdBox {
                creation_time: NEVER,
                modification_time: NEVER,
                timescale: TIMESCALE,
                duration: 0,
                language: MdhdBox::LANGUAGE_UNDEFINED,
            },
            hdlr_box: HdlrBox {
                handler_type: if is_audio { HdlrBox::HANDLER_TYPE_SOUN } else { HdlrBox::HANDLER_TYPE_VIDE },
                name: Utf8String::EMPTY.into_null_terminated_bytes(),
            },
            minf_box: MinfBox {
                smhd_or_vmhd_box: Some(if is_audio {
                    Either::A(SmhdBox::default())
                } else {
                    Either::B(VmhdBox::default())
                }),
                dinf_box: DinfBox::LOCAL_FILE,
                stbl_box,
                unknown_boxes: Vec::new(),
            },
            unknown_boxes: Vec::new(),
        },
        unknown_boxes: Vec::new(),
    }
}

fn sample_entry(
    sps: &SeqParameterSet,
    size: [u16; 2],
    sps_list: Vec<Vec<u8>>,
    pps_list: Vec<Vec<u8>>,
) -> Result<SampleEntry, Mp4Error> {
    let avcc_box = avcc_box(sps, sps_list, pps_list).ok_or(Mp4Error::NoParameterSets)?;
    Ok(SampleEntry::Avc1(Avc1Box { visual: visual(size), avcc_box, unknown_boxes: Vec::new() }))
}

/// Configuration of an H.264 decoder with these parameter sets; `sps` is the first SPS. `None`: there is none.
fn avcc_box(sps: &SeqParameterSet, sps_list: Vec<Vec<u8>>, pps_list: Vec<Vec<u8>>) -> Option<AvccBox> {
    let &[_, profile, compatibility, level, ..] = sps_list.first()?.as_slice() else { return None };
    // Only the High profiles have these fields (ISO/IEC 14496-15 §5.3.3.1.2).
    let high = !matches!(profile, 66 | 77 | 88);
    let chroma = match sps.chroma_info.chroma_format {
        ChromaFormat::Monochrome => 0,
        ChromaFormat::YUV420 => 1,
        ChromaFormat::YUV422 => 2,
        _ => 3,
    };
    Some(AvccBox {
        avc_profile_indication: profile,
        profile_compatibility: compatibility,
        avc_level_indication: level,
        length_size_minus_one: Uint::new(3),
        sps_list,
        pps_list,
        chroma_format: high.then_some(Uint::new(chroma)),
        bit_depth_luma_minus8: high.then_some(Uint::new(sps.chroma_info.bit_depth_luma_minus8 & 7)),
        bit_depth_chroma_minus8: high.then_some(Uint::new(sps.chroma_info.bit_depth_chroma_minus8 & 7)),
        sps_ext_list: Vec::new(),
    })
}

/// The same as a record of its own (§5.3.3.1.2), as other containers have it.
pub(super) fn avc_record(sps: &SeqParameterSet, sps_list: Vec<Vec<u8>>, pps_list: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let encoded = avcc_box(sps, sps_list, pps_list)?.encode_to_vec().ok()?;
    Some(encoded.get(BOX_HEADER..)?.to_vec())
}

fn format(error: impl std::fmt::Display) -> Mp4Error {
    Mp4Error::Format(error.to_string())
}
