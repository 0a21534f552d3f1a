//! Outcome of a stream: frames decodable in time, late packets and bytes on the link.

use std::collections::BTreeMap;

use timeous::core::{Duration, FrameId, Instant};
use timeous_host::{Arrivals, Journal};

/// Outcome of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Outcome {
    /// Captured frames after the warm-up.
    pub(crate) frames: u64,
    /// Frames among them that arrived before their deadline, with all their references.
    pub(crate) decodable: u64,
    /// Packets that left after their deadline.
    pub(crate) late: u64,
    /// Bytes on the link, headers included.
    pub(crate) bytes: u64,
    /// Whether each frame after the warm-up was decodable in time.
    #[serde(skip)]
    pub(crate) timeline: Vec<bool>,
}

struct FrameArrival {
    captured: Instant,
    references: Vec<FrameId>,
    whole: bool,
}

/// Judges a stream by the sender's journal and the receiver's arrivals.
pub(crate) fn outcome(journal: &Journal, arrivals: &Arrivals, warm_up: Duration, bytes: u64) -> Outcome {
    let first = arrivals.first_by_seq(journal.adus().len());
    let mut frames: BTreeMap<FrameId, FrameArrival> = BTreeMap::new();
    for (adu, at) in journal.adus().iter().zip(first) {
        let meta = &adu.meta;
        let in_time = at.is_some_and(|at| !meta.is_expired(at));
        let (captured, references) = (meta.enqueued, meta.references.iter().collect());
        let seen = frames.entry(meta.frame).or_insert(FrameArrival { captured, references, whole: true });
        seen.whole &= in_time;
    }
    // References point backwards.
    let mut decodable: BTreeMap<FrameId, bool> = BTreeMap::new();
    for (&frame, seen) in &frames {
        let refers_well = seen.references.iter().all(|reference| decodable.get(reference) == Some(&true));
        decodable.insert(frame, seen.whole && refers_well);
    }
    let begin = frames.values().next().map_or(Instant::ZERO, |seen| seen.captured) + warm_up;
    let counts = frames.iter().filter(|(_, seen)| seen.captured >= begin);
    let timeline: Vec<bool> = counts.map(|(frame, _)| decodable[frame]).collect();
    Outcome {
        frames: timeline.len() as u64,
        decodable: timeline.iter().filter(|&&decodable| decodable).count() as u64,
        late: journal.late().count() as u64,
        bytes,
        timeline,
    }
}
