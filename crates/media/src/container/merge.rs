//! Samples of several tracks in one order, that of their decoding times, which Matroska does not tell.

use std::collections::{BTreeMap, VecDeque};

use super::sample::Sample;
use super::track::Track;
use crate::rtp::RTP_CLOCK_HZ;

/// Difference of decoding times over which samples of a file are brought into order, in ticks of 90 kHz: two seconds, more than
/// containers interleave. Chosen by us: a higher value takes more memory.
pub(super) const FILE_SPAN: i64 = 2 * RTP_CLOCK_HZ as i64;
/// The same of streams that are played out as they come: a second, twice what a packet of ffmpeg's sound holds, behind which it comes.
/// Chosen by us: a higher value delays what is written.
pub(super) const LIVE_SPAN: i64 = RTP_CLOCK_HZ as i64;
/// Most samples that wait. Chosen by us: two seconds of dozens of tracks.
const MAX_WAITING: usize = 4_096;
/// Pictures by which presentation can lag behind decoding, at most (H.264 and H.265: 16 frames in the decoder's buffer).
const MAX_REORDERED: usize = 16;

/// Merger of tracks.
#[derive(Debug)]
pub(super) struct Merge {
    span: i64,
    waiting: BTreeMap<(i64, u64), Sample>,
    count: u64,
    orders: Vec<DecodeOrder>,
    is_at_end: bool,
}

impl Merge {
    /// Creates a merger of tracks whose samples come in order of their times within `span`.
    pub(super) fn new(tracks: &[Track], span: i64) -> Self {
        let orders = tracks.iter().map(|track| DecodeOrder::new(track.format.is_reordered())).collect();
        Self { span, waiting: BTreeMap::new(), count: 0, orders, is_at_end: false }
    }

    /// Takes a sample; its decoding time is made the presentation time's if that is all that is known.
    pub(super) fn push(&mut self, read: Read) {
        match read {
            Read::Timed(sample) => self.wait(sample),
            Read::Presented(sample) => {
                let track = sample.track;
                let ready: Vec<Sample> = self.orders[track].push(sample).collect();
                ready.into_iter().for_each(|sample| self.wait(sample));
            }
        }
    }

    /// Ends all tracks.
    pub(super) fn finish(&mut self) {
        let rest: Vec<Sample> = self.orders.iter_mut().flat_map(DecodeOrder::finish).collect();
        rest.into_iter().for_each(|sample| self.wait(sample));
        self.is_at_end = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.orders.iter().all(|order| order.waiting.is_empty())
    }

    pub(super) fn next_sample(&mut self) -> Option<Sample> {
        let (first, last) = (self.waiting.first_key_value()?.0.0, self.waiting.last_key_value()?.0.0);
        // A track whose decoding times are not known yet may have earlier ones.
        let held = self.orders.iter().filter_map(DecodeOrder::earliest).min();
        let is_next = last - first > self.span && held.is_none_or(|held| first <= held);
        (self.is_at_end || is_next || self.waiting.len() > MAX_WAITING)
            .then(|| self.waiting.pop_first().map(|(_, sample)| sample))?
    }

    fn wait(&mut self, sample: Sample) {
        self.count += 1;
        self.waiting.insert((sample.decode, self.count), sample);
    }
}

/// Sample as a container tells it.
#[derive(Debug)]
pub(super) enum Read {
    /// With both times.
    Timed(Sample),
    /// With its presentation time only; `decode` is not known.
    Presented(Sample),
}

/// Decoding times of a track by its presentation times: sorted, and early enough for each picture.
#[derive(Debug)]
struct DecodeOrder {
    depth: usize,
    waiting: VecDeque<Sample>,
    /// Presentation times of the samples that wait, and of those before whose time was not used as a decoding time.
    times: BTreeMap<i64, usize>,
    /// By how much the decoding times are ahead of the sorted presentation times.
    lead: Option<i64>,
}

impl DecodeOrder {
    fn new(is_reordered: bool) -> Self {
        let depth = if is_reordered { MAX_REORDERED } else { 0 };
        Self { depth, waiting: VecDeque::new(), times: BTreeMap::new(), lead: None }
    }

    fn push(&mut self, sample: Sample) -> impl Iterator<Item = Sample> + '_ {
        *self.times.entry(sample.presented).or_default() += 1;
        self.waiting.push_back(sample);
        let depth = self.depth;
        std::iter::from_fn(move || if self.waiting.len() > depth { self.pop() } else { None })
    }

    fn finish(&mut self) -> Vec<Sample> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// Earliest time that a sample which waits can have.
    fn earliest(&self) -> Option<i64> {
        let first = self.times.first_key_value().filter(|_| !self.waiting.is_empty())?.0;
        Some(first - self.lead.unwrap_or(0))
    }

    /// The next sample, in coding order, with the next time.
    fn pop(&mut self) -> Option<Sample> {
        let lead = match self.lead {
            Some(lead) => lead,
            None => *self.lead.insert(self.needed_lead()),
        };
        let mut sample = self.waiting.pop_front()?;
        if let Some(mut first) = self.times.first_entry() {
            sample.decode = (first.key() - lead).min(sample.presented);
            *first.get_mut() -= 1;
            if *first.get() == 0 {
                first.remove();
            }
        }
        Some(sample)
    }

    /// Largest delay of the sorted presentation times behind those of the first samples.
    fn needed_lead(&self) -> i64 {
        let sorted = self.times.iter().flat_map(|(time, count)| std::iter::repeat_n(*time, *count));
        // Pictures that are still to come belong between the last ones.
        let certain = if self.waiting.len() > self.depth { self.depth / 2 + 1 } else { self.waiting.len() };
        let leads = sorted.zip(&self.waiting).take(certain).map(|(sorted, sample)| sorted - sample.presented);
        leads.max().unwrap_or(0).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(track: usize, presented: i64) -> Sample {
        Sample { track, decode: 0, presented, is_entry: false, data: Vec::new() }
    }

    /// I B B P in coding order, a frame each 10 ticks.
    #[test]
    fn decoding_times_grow_and_are_before_presentation_times() {
        let mut order = DecodeOrder::new(true);
        let presented: Vec<i64> = (0..30).flat_map(|group| [3, 1, 2].map(|frame| 10 * (3 * group + frame))).collect();
        let mut out: Vec<Sample> = Vec::new();
        for &presented in &presented {
            out.extend(order.push(sample(0, presented)));
        }
        out.extend(order.finish());
        assert!(out.iter().map(|sample| sample.presented).eq(presented));
        assert!(out.windows(2).all(|pair| pair[0].decode < pair[1].decode));
        assert!(out.iter().all(|sample| sample.decode <= sample.presented));
        assert_eq!(out.iter().map(|sample| sample.presented - sample.decode).max(), Some(30));
    }

    #[test]
    fn audio_is_merged_by_its_times() {
        let video = Track { format: super::super::TrackFormat::Mpeg2 { header: Vec::new() }, language: None };
        let audio = Track { format: super::super::TrackFormat::Ac3, language: None };
        let mut merge = Merge::new(&[video, audio], FILE_SPAN);
        // Each second of video stands before its sound.
        for second in 0..5i64 {
            (0..25).for_each(|frame| merge.push(Read::Presented(sample(0, 90_000 * second + 3_600 * frame))));
            (0..30).for_each(|frame| merge.push(Read::Presented(sample(1, 90_000 * second + 3_000 * frame))));
        }
        let mut out: Vec<Sample> = std::iter::from_fn(|| merge.next_sample()).collect();
        merge.finish();
        out.extend(std::iter::from_fn(|| merge.next_sample()));
        assert_eq!(out.len(), 275);
        assert!(out.windows(2).all(|pair| pair[0].decode <= pair[1].decode));
        assert!(merge.is_empty());
    }
}
