//! Samples of fragmented MP4 (ISO/IEC 14496-12 §8.8), fragment by fragment.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};

use shiguredo_mp4::boxes::{MdatBox, MoofBox, MoovBox, TrafBox};
use shiguredo_mp4::{BoxHeader, Decode, SampleFlags};

use super::error::ContainerError;
use super::read::{Found, find, read_at};

/// Most samples of a fragment. Chosen by us: an hour of audio; a hostile one would take memory.
const MAX_SAMPLES: usize = 1 << 18;

/// Bytes of the shortest header of a box, and of those in front of its type (§4.2).
const HEADER: u64 = 8;
const TYPE_OFFSET: u64 = 4;

/// Reader of fragments.
#[derive(Debug)]
pub(super) struct Fragments {
    /// Place of the next box in the file.
    at: u64,
    tracks: Vec<FragmentTrack>,
    samples: VecDeque<Found>,
    /// Whether a sample was returned.
    has_begun: bool,
    /// Whether a part of the file was left out as damaged.
    pub(super) is_damaged: bool,
}

/// Defaults of a track (§8.8.3), and its time.
#[derive(Clone, Copy, Debug)]
struct FragmentTrack {
    id: u32,
    hz: u32,
    duration: u32,
    size: u32,
    flags: SampleFlags,
    /// Decoding time of its next sample, in its own units.
    next: u64,
}

impl Fragments {
    /// Creates a reader of a file with this header; `None` if the file is not fragmented.
    pub(super) fn new(moov: &MoovBox) -> Option<Self> {
        let defaults = moov.mvex_box.as_ref()?;
        let tracks = moov.trak_boxes.iter().map(|trak| {
            let (id, hz) = (trak.tkhd_box.track_id, trak.mdia_box.mdhd_box.timescale.get());
            let known = defaults.trex_boxes.iter().find(|trex| trex.track_id == id);
            FragmentTrack {
                id,
                hz,
                duration: known.map_or(0, |trex| trex.default_sample_duration),
                size: known.map_or(0, |trex| trex.default_sample_size),
                flags: known.map_or(SampleFlags::empty(), |trex| trex.default_sample_flags),
                next: 0,
            }
        });
        Some(Self { at: 0, tracks: tracks.collect(), samples: VecDeque::new(), has_begun: false, is_damaged: false })
    }

    /// Next sample; `None` at the end of the file. Behind damage it goes on with the next fragment.
    pub(super) fn next_sample(&mut self, from: &mut (impl Read + Seek)) -> Result<Option<Found>, ContainerError> {
        loop {
            if let Some(sample) = self.samples.pop_front() {
                self.has_begun = true;
                return Ok(Some(sample));
            }
            let len = from.seek(SeekFrom::End(0))?;
            if self.at >= len {
                return Ok(None);
            }
            match self.read_box(from, len) {
                Ok(end) => self.at = end,
                Err(error @ ContainerError::Io(_)) => return Err(error),
                Err(error) => {
                    self.samples.clear();
                    let next = find(from, self.at + HEADER, MoofBox::TYPE.as_bytes())?;
                    let is_last = self.has_begun && !matches!(error, ContainerError::CutOff);
                    self.at = match next {
                        Some(place) => place - TYPE_OFFSET,
                        None if is_last => len,
                        None => return Err(error),
                    };
                    self.is_damaged = true;
                }
            }
        }
    }

    /// Reads the next box of a file of `len` bytes; returns where it ends.
    fn read_box(&mut self, from: &mut (impl Read + Seek), len: u64) -> Result<u64, ContainerError> {
        let head = read_at(from, self.at, Some(BoxHeader::MAX_SIZE as u64))?;
        let (header, _) = BoxHeader::decode(&head).map_err(|error| ContainerError::damaged(&error))?;
        let size = header.box_size.get();
        // Only the last box, of media, may last until the end of the file (§4.2).
        let end = match size {
            0 if header.box_type == MdatBox::TYPE => len,
            0 => return Err(ContainerError::Damaged("a box without a length".to_owned())),
            size => self.at.saturating_add(size),
        };
        if end > len {
            return Err(ContainerError::CutOff);
        }
        if header.box_type == MoofBox::TYPE {
            let bytes = read_at(from, self.at, Some(size))?;
            let (moof, _) = MoofBox::decode(&bytes).map_err(|error| ContainerError::damaged(&error))?;
            self.take(&moof)?;
        }
        Ok(end)
    }

    fn take(&mut self, moof: &MoofBox) -> Result<(), ContainerError> {
        // Without a base of its own, a track's data follow those of the track before (§8.8.7.1).
        let mut end = self.at;
        for traf in &moof.traf_boxes {
            let Some(track) = self.tracks.iter_mut().find(|track| track.id == traf.tfhd_box.track_id) else { continue };
            track.take(self.at, &mut end, traf, &mut self.samples);
            if self.samples.len() > MAX_SAMPLES {
                return Err(ContainerError::Damaged(format!("a fragment of more than {MAX_SAMPLES} samples")));
            }
        }
        Ok(())
    }
}

impl FragmentTrack {
    fn take(&mut self, moof: u64, end: &mut u64, traf: &TrafBox, to: &mut VecDeque<Found>) {
        let head = &traf.tfhd_box;
        let base = head.base_data_offset.unwrap_or(if head.default_base_is_moof { moof } else { *end });
        let mut offset = base;
        self.next = traf.tfdt_box.as_ref().map_or(self.next, |tfdt| tfdt.base_media_decode_time);
        for run in &traf.trun_boxes {
            if let Some(from_base) = run.data_offset {
                offset = base.saturating_add_signed(i64::from(from_base));
            }
            for (index, sample) in run.samples.iter().enumerate().take(MAX_SAMPLES) {
                let first = run.first_sample_flags.filter(|_| index == 0);
                let flags = first.or(sample.flags).or(head.default_sample_flags).unwrap_or(self.flags);
                let size = sample.size.or(head.default_sample_size).unwrap_or(self.size);
                let duration = sample.duration.or(head.default_sample_duration).unwrap_or(self.duration);
                let shift = i64::from(sample.composition_time_offset.unwrap_or(0));
                to.push_back(Found::new(self.id, self.hz, self.next, shift, is_entry(flags), offset, size as usize));
                self.next = self.next.saturating_add(duration.into());
                offset = offset.saturating_add(size.into());
            }
        }
        *end = offset;
    }
}

/// Whether a sample is one at which decoding can start: `sample_is_non_sync_sample` is not set (§8.8.3.1).
fn is_entry(flags: SampleFlags) -> bool {
    flags.get() & 0x1_0000 == 0
}
