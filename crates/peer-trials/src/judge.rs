//! Common evaluation of all peers: frames complete in time, and frames decodable.

use std::collections::{BTreeMap, BTreeSet};

use timeous::core::{Duration, Instant};
use timeous_testbed::Sorted;

use crate::datagram::Header;
use crate::trace::Trace;

/// A datagram received by the application at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedDatagram {
    /// Its header.
    pub(crate) header: Header,
    /// Arrival time.
    pub(crate) at: Instant,
}

/// Evaluation of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Judgement {
    /// Number of frames sent.
    pub(crate) frames: usize,
    /// Frames complete within the deadline.
    pub(crate) in_time: usize,
    /// Frames in time whose direct and indirect references were in time, too.
    pub(crate) decodable: usize,
    /// Delays of complete frames, in time or not, from sending to the last piece, in milliseconds.
    pub(crate) delays: Sorted,
    /// Duplicate datagrams delivered to the application.
    pub(crate) duplicates: usize,
    /// For each frame of the trace, whether it was decodable in time.
    pub(crate) shown: Vec<bool>,
}

/// Evaluates received datagrams by a common deadline, counted from sending.
pub(crate) fn judge(trace: &Trace, deadline: Duration, came: &[ReceivedDatagram]) -> Judgement {
    let mut pieces: BTreeMap<u32, BTreeMap<u16, ReceivedDatagram>> = BTreeMap::new();
    let mut duplicates = 0;
    for one in came {
        let of_frame = pieces.entry(one.header.frame).or_default();
        match of_frame.get(&one.header.piece) {
            Some(known) => {
                duplicates += 1;
                if one.at < known.at {
                    of_frame.insert(one.header.piece, *one);
                }
            }
            None => drop(of_frame.insert(one.header.piece, *one)),
        }
    }
    let delay = |id: u32| {
        let of_frame = pieces.get(&id)?;
        let (_, any) = of_frame.first_key_value()?;
        let whole = of_frame.len() == usize::from(any.header.pieces);
        let last = of_frame.values().map(|one| one.at).max()?;
        whole.then(|| last.saturating_since(any.header.at))
    };
    let mut judgement = Judgement { frames: trace.frames.len(), duplicates, ..Judgement::default() };
    let (mut decodable, mut delays) = (BTreeSet::new(), Vec::new());
    for frame in &trace.frames {
        let delay = delay(frame.id);
        let in_time = delay.is_some_and(|delay| delay <= deadline);
        let shown = in_time && frame.references.iter().all(|id| decodable.contains(id));
        if shown {
            decodable.insert(frame.id);
        }
        delays.extend(delay.map(|delay| delay.as_secs_f64() * 1e3));
        judgement.in_time += usize::from(in_time);
        judgement.decodable += usize::from(shown);
        judgement.shown.push(shown);
    }
    Judgement { delays: delays.into_iter().collect(), ..judgement }
}

impl Judgement {
    /// Quantile of the delays, in milliseconds; `None` if no frame was complete.
    pub(crate) fn delay(&self, quantile: f64) -> Option<f64> {
        (!self.delays.is_empty()).then(|| self.delays.nearest(quantile * 100.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFrame;

    const MS: Duration = Duration::from_millis(1);

    fn frame(id: u32, size: usize, references: &[u32]) -> TraceFrame {
        let at = MS * 40 * u64::from(id - 1);
        TraceFrame { id, at, size, kind: b'P', priority: 0, references: references.to_vec() }
    }

    /// Received datagrams if each piece of each frame takes this many milliseconds; `None` is lost.
    fn came(trace: &Trace, delays: &[&[Option<u64>]]) -> Vec<ReceivedDatagram> {
        let of_frame = |(frame, delays): (&TraceFrame, &&[Option<u64>])| {
            let at = Instant::ZERO + frame.at;
            let one = |(datagram, delay): (Vec<u8>, &Option<u64>)| {
                delay.map(|delay| ReceivedDatagram { header: Header::read(&datagram).unwrap(), at: at + MS * delay })
            };
            frame.datagrams(at).into_iter().zip(*delays).filter_map(one).collect::<Vec<_>>()
        };
        trace.frames.iter().zip(delays).flat_map(of_frame).collect()
    }

    #[test]
    fn a_frame_counts_when_all_of_it_and_all_it_refers_to_came_in_time() {
        let frames = vec![
            frame(1, 2_000, &[]),
            frame(2, 900, &[1]),
            frame(3, 900, &[2]),
            frame(4, 2_000, &[1]),
            frame(5, 900, &[4]),
        ];
        let trace = Trace { frames };
        let (exact, late) = (Some(100), Some(101));
        let delays: [&[Option<u64>]; 5] = [&[Some(20), exact], &[late], &[Some(5)], &[Some(5), None], &[Some(5)]];
        let judged = judge(&trace, MS * 100, &came(&trace, &delays));
        assert_eq!((judged.frames, judged.in_time, judged.decodable), (5, 3, 1));
        assert_eq!(judged.shown, [true, false, false, false, false]);
        assert_eq!(judged.delays.values(), [5.0, 5.0, 100.0, 101.0], "of whole frames, late ones included");
        assert_eq!((judged.delay(0.0), judged.delay(1.0)), (Some(5.0), Some(101.0)));
    }

    #[test]
    fn the_first_copy_of_a_datagram_counts() {
        let trace = Trace { frames: vec![frame(1, 900, &[])] };
        let one = came(&trace, &[&[Some(50)]])[0];
        let again = ReceivedDatagram { at: one.at + MS * 500, ..one };
        let judged = judge(&trace, MS * 100, &[again, one, again]);
        assert_eq!((judged.decodable, judged.duplicates), (1, 2));
        assert_eq!(judge(&trace, MS * 100, &[again]).decodable, 0, "the judge can say no");
        assert_eq!(judge(&trace, MS * 100, &[]).delay(0.5), None);
    }
}
