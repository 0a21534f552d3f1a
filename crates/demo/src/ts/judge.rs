//! Common evaluation of both tools: what a decoder makes of the output, the delay of PES packets, and the stream's form.

use std::collections::{BTreeMap, BTreeSet};

use timeous::core::Instant;
use timeous_testbed::Sorted;

use super::decoded::Decoded;
use super::film::Film;
use super::packets::{Packets, Pes};
use crate::arrivals::Arrivals;
use crate::chain::DATAGRAM;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Judgement {
    /// Pictures of the source, and those that were decoded as they are there.
    pub(super) pictures: usize,
    pub(super) intact: usize,
    /// Pictures that a decoder showed and that are none of the source.
    pub(super) damaged: usize,
    pub(super) decoder_errors: usize,
    pub(super) audio_frames: usize,
    pub(super) audio_missing: usize,
    /// Durations of the audio's gaps, in milliseconds.
    pub(super) audio_gaps_ms: Vec<f64>,
    /// Delays of whole PES packets, in milliseconds.
    pub(super) delays_ms: Vec<f64>,
    pub(super) continuity_errors: usize,
    /// Longest time between two clock values, by arrival.
    pub(super) clock_gap_ms: f64,
}

/// Evaluates what came out. `entered` has the time at which each datagram went in.
pub(super) fn judge(film: &Film, entered: &[Instant], came: &Arrivals, decoded: &Decoded) -> Judgement {
    let out = Packets::read(&came.bytes);
    let came_pictures: BTreeSet<&String> = decoded.pictures.iter().collect();
    let source_pictures: BTreeSet<&String> = film.decoded.pictures.iter().collect();
    let came_audio: BTreeSet<&String> = decoded.audio.iter().collect();
    let is_missing: Vec<bool> = film.decoded.audio.iter().map(|frame| !came_audio.contains(frame)).collect();
    let frame_ms = film.audio_frame.as_secs_f64() * 1e3;
    let gaps = is_missing.chunk_by(|one, next| one == next).filter(|run| run[0]);
    let clocks: Vec<Instant> = out.clocks.iter().map(|&(_, at)| came.at(at)).collect();
    let clock_gaps = clocks.windows(2).map(|pair| pair[1].saturating_since(pair[0]).as_secs_f64() * 1e3);
    Judgement {
        pictures: film.decoded.pictures.len(),
        intact: film.decoded.pictures.iter().filter(|picture| came_pictures.contains(picture)).count(),
        damaged: decoded.pictures.iter().filter(|picture| !source_pictures.contains(picture)).count(),
        decoder_errors: decoded.errors,
        audio_frames: is_missing.len(),
        audio_missing: is_missing.iter().filter(|is_missing| **is_missing).count(),
        audio_gaps_ms: gaps.map(|run| run.len() as f64 * frame_ms).collect(),
        delays_ms: delays(&film.packets.pes, entered, &out.pes, came),
        continuity_errors: out.continuity_errors,
        clock_gap_ms: clock_gaps.fold(0.0, f64::max),
    }
}

/// Delays of PES packets that came out with all of their bytes: from the last one in to the last one out.
fn delays(source: &[Pes], entered: &[Instant], out: &[Pes], came: &Arrivals) -> Vec<f64> {
    let came_at: BTreeMap<_, _> = out.iter().map(|pes| ((pes.pid, pes.pts, pes.bytes), came.at(pes.end))).collect();
    let delay = |pes: &Pes| {
        let (out, into) = (came_at.get(&(pes.pid, pes.pts, pes.bytes))?, entered.get(pes.end / DATAGRAM)?);
        Some(out.saturating_since(*into).as_secs_f64() * 1e3)
    };
    source.iter().filter_map(delay).collect()
}

impl Judgement {
    /// Quantile of the delay in milliseconds; `None` without any.
    pub(super) fn delay_ms(&self, quantile: f64) -> Option<f64> {
        let sorted: Sorted = self.delays_ms.iter().copied().collect();
        (!sorted.is_empty()).then(|| sorted.nearest(quantile * 100.0))
    }
}

#[cfg(test)]
mod tests {
    use timeous::core::Duration;

    use super::super::decoded::tests::decoded;
    use super::super::packets::PACKET;
    use super::super::packets::tests::packet;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn frames_are_compared_by_what_they_hold() {
        let packets = [packet(256, 0, 0, Some(1)), packet(256, 1, 9_000, Some(2)), packet(256, 2, 18_000, Some(3))];
        let bytes = packets.concat();
        let film = Film {
            times: vec![Duration::ZERO],
            packets: Packets::read(&bytes),
            bytes,
            decoded: decoded(&["a", "b", "c"], &["1", "2", "3", "4", "5"]),
            audio_frame: MS * 20,
        };
        let mut came = Arrivals::default();
        came.push(&packets[0], Instant::ZERO + MS * 300);
        came.push(&packets[2], Instant::ZERO + MS * 450);
        let judgement = judge(&film, &[Instant::ZERO], &came, &decoded(&["a", "x"], &["1", "4"]));
        assert_eq!((judgement.pictures, judgement.intact, judgement.damaged), (3, 1, 1));
        assert_eq!((judgement.audio_missing, judgement.audio_gaps_ms.as_slice()), (3, [40.0, 20.0].as_slice()));
        assert_eq!(judgement.delays_ms, [300.0, 450.0]);
        assert_eq!((judgement.continuity_errors, judgement.clock_gap_ms), (1, 150.0));
        assert_eq!(came.bytes.len(), 2 * PACKET);
    }
}
