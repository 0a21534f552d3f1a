//! MP4 and fragmented MP4 (ISO/IEC 14496-12), by shiguredo_mp4.

use std::io::{Read as IoRead, Seek};

use shiguredo_mp4::boxes::{MoovBox, SampleEntry};
use shiguredo_mp4::demux::{DemuxError, Mp4FileDemuxer};
use shiguredo_mp4::{BoxHeader, Decode};

use super::error::ContainerError;
use super::fragments::Fragments;
use super::merge::Read;
use super::quicktime::make_plain;
use super::read::{Found, HZ, read_at};
use super::sample::Sample;
use super::tables::can_be_indexed;
use super::track::{NalFormat, Track, TrackFormat};
use crate::aac::AacFormat;

/// Object types of MPEG audio in `esds`: MPEG-2 and MPEG-1 (ISO/IEC 14496-1 table 5).
const MPEG_AUDIO: [u8; 2] = [0x69, 0x6b];

/// Largest shift by an edit list that is believed, in ticks of 90 kHz: a year. Chosen by us: more cannot be calculated with.
const MAX_SHIFT: u64 = 365 * 86_400 * 90_000;

/// Whether bytes begin an MP4 file.
pub(super) fn is_mp4(bytes: &[u8]) -> bool {
    matches!(bytes.get(4..8), Some(b"ftyp" | b"styp"))
}

/// Tracks of a file.
#[derive(Debug)]
pub(super) struct Mp4Tracks<R> {
    from: R,
    demuxer: Demuxer,
    /// Of each track of the file by its identifier.
    tracks: Vec<FileTrack>,
    /// Whether the file ended within a sample.
    pub(super) is_cut_off: bool,
}

#[derive(Debug)]
enum Demuxer {
    Whole(Box<Mp4FileDemuxer>),
    Fragmented(Fragments),
}

/// Track of a file that is sent.
#[derive(Debug)]
struct FileTrack {
    id: u32,
    /// What its edit list adds to presentation times, in ticks of 90 kHz.
    shift: i64,
}

impl<R: IoRead + Seek> Mp4Tracks<R> {
    /// Opens a file; returns its tracks that are sent, and what is left out.
    pub(super) fn open(mut from: R) -> Result<(Self, Vec<Track>, Vec<String>), ContainerError> {
        let moov = read_moov(&mut from)?;
        let demuxer = match Fragments::new(&moov) {
            Some(fragments) => Demuxer::Fragmented(fragments),
            None => {
                let mut tables = moov.trak_boxes.iter().map(|trak| &trak.mdia_box.minf_box.stbl_box);
                if !tables.all(can_be_indexed) {
                    return Err(ContainerError::Damaged("a track of too many samples, or beyond all files".to_owned()));
                }
                Demuxer::Whole(Box::new(open_whole(&mut from)?))
            }
        };
        let (mut tracks, mut formats, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for trak in &moov.trak_boxes {
            let id = trak.tkhd_box.track_id;
            let entry = trak.mdia_box.minf_box.stbl_box.stsd_box.entries.first();
            match entry.ok_or_else(|| "it has no format".to_owned()).and_then(format_of) {
                Ok(format) => {
                    let shift = shift_of(&moov, trak);
                    formats.push(Track { format, language: language_of(trak) });
                    tracks.push(FileTrack { id, shift });
                }
                Err(reason) => left_out.push(format!("track {id}: {reason}")),
            }
        }
        Ok((Self { from, demuxer, tracks, is_cut_off: false }, formats, left_out))
    }

    /// Whether a part of the file was left out as damaged.
    pub(super) fn is_damaged(&self) -> bool {
        matches!(&self.demuxer, Demuxer::Fragmented(fragments) if fragments.is_damaged)
    }

    /// Next sample of a track that is sent.
    pub(super) fn next_sample(&mut self) -> Result<Option<Read>, ContainerError> {
        loop {
            let found = match &mut self.demuxer {
                Demuxer::Whole(demuxer) => next_of_whole(demuxer)?,
                Demuxer::Fragmented(fragments) => fragments.next_sample(&mut self.from)?,
            };
            let Some(found) = found else { return Ok(None) };
            let Some(index) = self.tracks.iter().position(|track| track.id == found.id) else { continue };
            let data = read_at(&mut self.from, found.offset, Some(found.size as u64))?;
            if data.len() < found.size {
                self.is_cut_off = true;
                // Behind a damaged fragment there may be others.
                if matches!(self.demuxer, Demuxer::Fragmented(_)) {
                    continue;
                }
                return Ok(None);
            }
            let track = &self.tracks[index];
            let [decode, presented] = [found.decode, found.presented].map(|time| time.saturating_add(track.shift));
            return Ok(Some(Read::Timed(Sample { track: index, decode, presented, is_entry: found.is_entry, data })));
        }
    }
}

fn open_whole(from: &mut (impl IoRead + Seek)) -> Result<Mp4FileDemuxer, ContainerError> {
    let mut demuxer = Mp4FileDemuxer::new();
    while let Some(required) = demuxer.required_input() {
        let mut bytes = read_at(from, required.position, required.size.map(|size| size as u64))?;
        make_plain(&mut bytes);
        demuxer.handle_input(required.to_input(&bytes));
    }
    demuxer.tracks().map_err(unreadable)?;
    Ok(demuxer)
}

fn next_of_whole(demuxer: &mut Mp4FileDemuxer) -> Result<Option<Found>, ContainerError> {
    let sample = demuxer.next_sample().map_err(unreadable)?;
    Ok(sample.map(|sample| {
        let (hz, shift) = (sample.track.timescale.get(), sample.composition_time_offset.unwrap_or(0));
        let (id, is_entry) = (sample.track.track_id, sample.keyframe);
        Found::new(id, hz, sample.timestamp, shift, is_entry, sample.data_offset, sample.data_size)
    }))
}

fn unreadable(error: DemuxError) -> ContainerError {
    match error {
        DemuxError::InputRequired(_) => ContainerError::CutOff,
        DemuxError::DecodeError(error) => ContainerError::damaged(&error),
        error => ContainerError::Damaged(error.to_string()),
    }
}

fn format_of(entry: &SampleEntry) -> Result<TrackFormat, String> {
    let nals = |length: u8, sets: Vec<Vec<u8>>| NalFormat { length_size: usize::from(length) + 1, sets };
    match entry {
        SampleEntry::Avc1(entry) => {
            let avcc = &entry.avcc_box;
            let sets = avcc.sps_list.iter().chain(&avcc.pps_list).cloned().collect();
            Ok(TrackFormat::H264(nals(avcc.length_size_minus_one.get(), sets)))
        }
        SampleEntry::Hev1(shiguredo_mp4::boxes::Hev1Box { hvcc_box, .. })
        | SampleEntry::Hvc1(shiguredo_mp4::boxes::Hvc1Box { hvcc_box, .. }) => {
            let sets = hvcc_box.nalu_arrays.iter().flat_map(|array| array.nalus.iter().cloned()).collect();
            Ok(TrackFormat::H265(nals(hvcc_box.length_size_minus_one.get(), sets)))
        }
        SampleEntry::Mp4a(entry) => {
            let config = &entry.esds_box.es.dec_config_descr;
            if MPEG_AUDIO.contains(&config.object_type_indication) {
                return Ok(TrackFormat::MpegAudio);
            }
            let specific = config.dec_specific_info.as_ref().map(|info| info.payload.as_slice());
            let format = specific.and_then(AacFormat::read_config);
            format.map(TrackFormat::Aac).ok_or_else(|| "this kind of AAC has no ADTS".to_owned())
        }
        SampleEntry::Opus(entry) => Ok(TrackFormat::Opus { channels: entry.dops_box.output_channel_count }),
        SampleEntry::Unknown(entry) => {
            let kind = entry.box_type.as_bytes();
            match kind {
                b"ac-3" => Ok(TrackFormat::Ac3),
                b"ec-3" => Ok(TrackFormat::Eac3),
                b".mp3" => Ok(TrackFormat::MpegAudio),
                _ => Err(format!("a transport stream cannot hold {}", String::from_utf8_lossy(kind))),
            }
        }
        SampleEntry::Vp08(_) => Ok(TrackFormat::Vp8),
        SampleEntry::Vp09(_) => Ok(TrackFormat::Vp9),
        SampleEntry::Av01(entry) => Ok(TrackFormat::Av1 { header: entry.av1c_box.config_obus.clone() }),
        SampleEntry::Flac(_) => Err("a transport stream cannot hold FLAC".to_owned()),
    }
}

/// Language of a track, three letters of five bits.
fn language_of(trak: &shiguredo_mp4::boxes::TrakBox) -> Option<[u8; 3]> {
    let language = trak.mdia_box.mdhd_box.language;
    (language != *b"und").then_some(language)
}

/// What a track's edit list adds to its times: an empty edit delays it, and the beginning of media is taken off.
fn shift_of(moov: &MoovBox, trak: &shiguredo_mp4::boxes::TrakBox) -> i64 {
    let edits = trak.edts_box.as_ref().and_then(|edts| edts.elst_box.as_ref());
    let (mut delay, mut begin) = (0i128, 0i128);
    for edit in edits.iter().flat_map(|list| &list.entries) {
        if edit.media_time < 0 {
            delay += i128::from(edit.edit_duration) * HZ / i128::from(moov.mvhd_box.timescale.get());
        } else {
            begin = i128::from(edit.media_time) * HZ / i128::from(trak.mdia_box.mdhd_box.timescale.get());
            break;
        }
    }
    i64::try_from(delay - begin).ok().filter(|shift| shift.unsigned_abs() < MAX_SHIFT).unwrap_or(0)
}

/// Reads the movie's header.
fn read_moov(from: &mut (impl IoRead + Seek)) -> Result<MoovBox, ContainerError> {
    let mut at: u64 = 0;
    loop {
        let head = read_at(from, at, Some(BoxHeader::MAX_SIZE as u64))?;
        let (header, len) = box_header(&head, at)?;
        let size = header.box_size.get();
        if header.box_type == MoovBox::TYPE {
            let mut bytes = read_at(from, at, (size > 0).then_some(size))?;
            check_boxes(&bytes, at, len)?;
            if (bytes.len() as u64) < size {
                return Err(ContainerError::CutOff);
            }
            make_plain(&mut bytes);
            let damaged = |error: shiguredo_mp4::Error| match ContainerError::damaged(&error) {
                ContainerError::CutOff => {
                    ContainerError::Damaged(format!("a box of the index at byte {at} is too short"))
                }
                error => error,
            };
            return Ok(MoovBox::decode(&bytes).map_err(damaged)?.0);
        }
        at = match at.checked_add(size) {
            Some(next) if size > 0 => next,
            _ => return Err(ContainerError::Damaged("it has no index (moov)".to_owned())),
        };
    }
}

/// Header of the box at byte `at`, and its length. Boxes have names of letters: others are bytes of something else.
fn box_header(bytes: &[u8], at: u64) -> Result<(BoxHeader, usize), ContainerError> {
    let name = bytes.get(4..8).ok_or(ContainerError::CutOff)?;
    if !name.iter().all(|byte| matches!(byte, b' '..=b'~' | 0xa9)) {
        return Err(ContainerError::Damaged(format!("at byte {at} should be a box of MP4, and there is none")));
    }
    BoxHeader::decode(bytes).map_err(|error| ContainerError::damaged(&error))
}

/// Checks that each box in the one at byte `begin` of the file is followed by another.
fn check_boxes(bytes: &[u8], begin: u64, header: usize) -> Result<(), ContainerError> {
    let mut at = header;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= BoxHeader::MIN_SIZE) {
        let (header, _) = box_header(rest, begin + at as u64)?;
        // Without a size it goes to the end.
        let size = usize::try_from(header.box_size.get()).ok().filter(|size| *size > 0);
        at = at.saturating_add(size.unwrap_or(usize::MAX));
    }
    Ok(())
}
