//! Common evaluation of both tools: complete and decodable frames, and their delay.

use timeous::core::{Duration, Instant};
use timeous_testbed::Sorted;

use super::clip::{Clip, INTERVAL, is_slice, number_in};
use crate::arrivals::Arrivals;

/// Delay of a frame that came out complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompleteFrame {
    /// From its last byte in to its first byte out.
    pub(crate) first: Duration,
    /// From its last byte in to its last byte out.
    pub(crate) last: Duration,
}

/// Result of a run: for each frame its delay, if it came out complete and is decodable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Frames in order.
    pub(crate) frames: Vec<Option<CompleteFrame>>,
}

/// Evaluates the H.264 that came out. `entered` has the time at which the last byte of each frame went in.
pub(crate) fn judge(clip: &Clip, entered: &[Instant], came: &Arrivals) -> Judgement {
    let nals = came.nals();
    let numbered = nals.iter().enumerate().filter_map(|(at, nal)| Some((at, number_in(nal.bytes)?)));
    let mut whole = vec![None; clip.frames.len()];
    for (at, number) in numbered {
        let (Some(frame), Some(&entered)) = (clip.frames.get(number), entered.get(number)) else { continue };
        let slices = nals[at + 1..].iter().take_while(|nal| number_in(nal.bytes).is_none());
        let slices: Vec<_> = slices.filter(|nal| is_slice(nal.bytes)).take(frame.slices.len()).collect();
        let is_whole = slices.iter().map(|nal| nal.bytes).eq(frame.slices.iter().map(Vec::as_slice));
        if let (true, Some(last)) = (is_whole, slices.last()) {
            let [first, last] = [nals[at].first, last.last].map(|at| at.saturating_since(entered));
            whole[number].get_or_insert(CompleteFrame { first, last });
        }
    }
    let mut judgement = Judgement::default();
    for (frame, whole) in clip.frames.iter().zip(whole) {
        let is_decodable = frame.references.iter().all(|&at| judgement.frames.get(at).is_some_and(Option::is_some));
        judgement.frames.push(whole.filter(|_| is_decodable));
    }
    judgement
}

impl Judgement {
    /// Frames that can be decoded.
    pub(crate) fn decodable(&self) -> usize {
        self.frames.iter().flatten().count()
    }

    /// Delays in milliseconds.
    pub(crate) fn delays(&self, of: impl Fn(&CompleteFrame) -> Duration) -> Delays {
        Delays(self.frames.iter().flatten().map(|whole| of(whole).as_secs_f64() * 1e3).collect())
    }
}

/// Delays in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delays(Sorted);

impl Delays {
    /// Quantile; `None` without any.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.nearest(quantile * 100.0))
    }

    /// Largest distance from the median; zero without any.
    pub(crate) fn spread(&self) -> f64 {
        self.distances().fold(0.0, f64::max)
    }

    /// Frames further from the median than one frame interval.
    pub(crate) fn strays(&self) -> usize {
        self.distances().filter(|distance| *distance > INTERVAL.as_secs_f64() * 1e3).count()
    }

    fn distances(&self) -> impl Iterator<Item = f64> + '_ {
        let median = self.quantile(0.5).unwrap_or_default();
        self.0.values().iter().map(move |delay| (delay - median).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::super::clip::{ClipFrame, test_frame};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn clip() -> Clip {
        let frame = |(number, references): (u32, Vec<usize>)| -> ClipFrame { test_frame(number, 2, references) };
        Clip { frames: [(0, vec![]), (1, vec![0]), (2, vec![1]), (3, vec![])].into_iter().map(frame).collect() }
    }

    #[test]
    fn a_frame_counts_when_it_and_its_references_came_out_whole() {
        let (clip, began) = (clip(), Instant::ZERO + MS);
        let entered: Vec<_> = (0..4).map(|number| began + INTERVAL * number).collect();
        let mut came = Arrivals::default();
        for (number, frame) in clip.frames.iter().enumerate() {
            let cut = if number == 1 { frame.annexb.len() - 3 } else { frame.annexb.len() };
            let (head, tail) = frame.annexb[..cut].split_at(10);
            came.push(head, entered[number] + MS * 10);
            came.push(tail, entered[number] + MS * (20 + number as u64 * 50));
        }
        let judgement = judge(&clip, &entered, &came);
        let decodable: Vec<bool> = judgement.frames.iter().map(Option::is_some).collect();
        assert_eq!(decodable, [true, false, false, true], "the second is cut, the third refers to it");
        assert_eq!(judgement.frames[0], Some(CompleteFrame { first: MS * 10, last: MS * 20 }));
        let delays = judgement.delays(|whole| whole.last);
        assert_eq!((delays.quantile(0.0), delays.quantile(1.0)), (Some(20.0), Some(170.0)));
        assert_eq!((delays.spread(), delays.strays()), (150.0, 1));
        assert_eq!(Delays::default().quantile(0.5), None);
    }
}
