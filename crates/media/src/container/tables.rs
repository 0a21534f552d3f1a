//! Sample tables of MP4 (ISO/IEC 14496-12 §8.6, §8.7): whether the demuxer can index them, which adds up whatever stands there.

use shiguredo_mp4::Either;
use shiguredo_mp4::boxes::StblBox;

/// Most samples of a track. Chosen by us: the index takes eight bytes for each, whatever the file's length.
const MAX_SAMPLES: u32 = 1 << 25;
/// Place in a file beyond which no chunk is.
const MAX_OFFSET: u64 = 1 << 62;

/// Whether a track has at most [`MAX_SAMPLES`], and its chunks places in a file.
pub(super) fn can_be_indexed(tables: &StblBox) -> bool {
    let durations = tables.stts_box.entries.iter().map(|entry| entry.sample_count);
    let shifts = tables.ctts_box.iter().flat_map(|shifts| &shifts.entries).map(|entry| entry.sample_count);
    let are_places = match &tables.stco_or_co64_box {
        Either::A(_) => true,
        Either::B(chunks) => chunks.chunk_offsets.iter().all(|offset| *offset < MAX_OFFSET),
    };
    is_few(durations) && is_few(shifts) && are_places
}

fn is_few(counts: impl Iterator<Item = u32>) -> bool {
    counts.map(u64::from).sum::<u64>() <= u64::from(MAX_SAMPLES)
}
