//! Samples of fragmented MP4 (ISO/IEC 14496-12 §8.8), fragment by fragment.

use std::collections::VecDeque;
use std::io::{Read, Seek};

use shiguredo_mp4::boxes::{MoofBox, MoovBox, TrafBox};
use shiguredo_mp4::{BoxHeader, Decode, SampleFlags};

use super::error::ContainerError;
use super::read::{Found, read_at};

/// Most samples of a fragment. Chosen by us: an hour of audio; a hostile one would take memory.
const MAX_SAMPLES: usize = 1 << 18;

/// Reader of fragments.
#[derive(Debug)]
pub(super) struct Fragments {
    /// Place of the next box in the file.
    at: u64,
    tracks: Vec<FragmentTrack>,
    samples: VecDeque<Found>,
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
        Some(Self { at: 0, tracks: tracks.collect(), samples: VecDeque::new() })
    }

    /// Next sample; `None` at the end of the file.
    pub(super) fn next_sample(&mut self, from: &mut (impl Read + Seek)) -> Result<Option<Found>, ContainerError> {
        loop {
            if let Some(sample) = self.samples.pop_front() {
                return Ok(Some(sample));
            }
            let head = read_at(from, self.at, Some(BoxHeader::MAX_SIZE as u64))?;
            if head.is_empty() {
                return Ok(None);
            }
            let (header, _) = BoxHeader::decode(&head).map_err(|error| ContainerError::damaged(&error))?;
            let size = header.box_size.get();
            if header.box_type == MoofBox::TYPE {
                let bytes = read_at(from, self.at, Some(size))?;
                let (moof, _) = MoofBox::decode(&bytes).map_err(|error| ContainerError::damaged(&error))?;
                self.take(&moof)?;
            }
            // The last box may last until the end of the file.
            if size == 0 {
                return Ok(self.samples.pop_front());
            }
            self.at =
                self.at.checked_add(size).ok_or_else(|| ContainerError::Damaged("a box beyond all files".into()))?;
        }
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
