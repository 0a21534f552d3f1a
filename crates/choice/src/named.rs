//! The policies by the names that URIs and the daemon's clients use, each with those that it needs beside it.

use timeous_core::{Duration, SubStream};

use crate::age::Age;
use crate::chain::Chain;
use crate::deadline::{Deadlines, Punctual};
use crate::dependencies::Dependencies;
use crate::frames::{Frames, QueueLimit};
use crate::plan::Plan;

/// `deadline`: drops what cannot arrive in time or be decoded.
#[must_use]
pub fn deadline() -> Chain {
    Chain::default().then(Deadlines).then(Dependencies::default())
}

/// `punctual`: as [`deadline`], by a pessimistic estimate.
#[must_use]
pub fn punctual() -> Chain {
    Chain::default().then(Punctual).then(Dependencies::default())
}

/// `age`: drops what waits for longer than `limit`. If that is part of a frame, the policies behind it drop the rest.
#[must_use]
pub fn age(limit: Duration) -> Chain {
    Chain::default().then(Age::new(limit)).then(deadline())
}

/// `frames`: drops whole frames while the queue exceeds `limit`.
#[must_use]
pub fn frames(limit: QueueLimit) -> Chain {
    deadline().then(Frames::new(limit))
}

/// Worth of audio in frames of video. Chosen by us (`cargo test -p timeous-cli --test tool through_half`): a picture is not worth even a small
/// risk of a gap in the sound; with 16 one run in eight had one.
const AUDIO_WEIGHT: u32 = 64;
/// Worth of tables and data in frames of video. Those of one packet leave if they can be in time, whatever their worth. Chosen by us: a higher
/// value multiplies the risk that one is late, which does no harm since they are repeated, and costs the picture ahead of them.
const TABLES_WEIGHT: u32 = 4;

/// `plan`: plans the whole queue; these sub-streams count as much as given here, and audio and tables more than video unless they are.
#[must_use]
pub fn plan(weights: impl IntoIterator<Item = (u8, u32)>) -> Plan {
    let weigh = |plan: Plan, (substream, weight)| plan.weighing(SubStream(substream), weight);
    let plan = Plan::default().weighing(SubStream::AUDIO, AUDIO_WEIGHT).weighing(SubStream::TABLES, TABLES_WEIGHT);
    weights.into_iter().fold(plan, weigh)
}

/// Layers that are told apart. Chosen by us: three spatial ones with two temporal ones each, and one more; those above count as much as the
/// last. With more the worth of sound would overflow.
const LAYERS: u8 = 7;
/// Worth of a frame in frames of the layer above. Chosen by us (docs/design/late-choice.md): with 4 a base of large frames had gaps; a higher
/// value gives up upper layers that would have fitted.
const LAYER_RATIO: u32 = 16;

/// `layers`: plans the whole queue, where a frame of a layer counts more than several of the layer above. A layer is a sub-stream, 0 the base.
#[must_use]
pub fn layers() -> Plan {
    let worth = |layer| LAYER_RATIO.pow(u32::from(LAYERS - 1 - layer));
    let rest = [(SubStream::AUDIO.0, worth(0) * AUDIO_WEIGHT), (SubStream::TABLES.0, worth(0) * TABLES_WEIGHT)];
    plan((0..LAYERS).map(|layer| (layer, worth(layer))).chain(rest)).beginning_with(worth(0))
}

#[cfg(test)]
mod tests {
    use timeous_core::{FrameId, LateChoice, PathState, Rate};

    use super::*;
    use crate::testing::{TestQueue, at};

    /// Found with MPEG-TS over half of its rate: tables behind a picture cost it, though all were in time with 170 ms to spare, and with it
    /// the rest of its group.
    #[test]
    fn tables_cost_no_picture_ahead_of_them_while_there_is_time() {
        let mut queue = TestQueue::default();
        let mut push = |frame, packets, substream| {
            for _ in 0..packets {
                queue.push(|meta| {
                    (meta.frame, meta.substream, meta.deadline) = (FrameId(frame), substream, Some(at(280)));
                });
            }
        };
        // 6 kB, which take 73 ms.
        push(1, 60, SubStream(0));
        (2..5).for_each(|frame| push(frame, 2, SubStream::TABLES));
        let rtt = Duration::from_millis(40);
        let path =
            PathState { rate: Rate::from_kbps(660), srtt: Some(rtt), min_rtt: Some(rtt), ..PathState::default() };
        plan([]).choose(at(0), &path, &mut queue);
        assert_eq!(queue.left().len(), 66);
    }

    /// Found at 5 % loss: upper frames left behind the first keyframe, and what was lost of it would have come after them, too late.
    #[test]
    fn upper_layers_wait_for_the_first_round_trip() {
        let left = |outstanding, srtt| {
            let mut queue = TestQueue::default();
            for (frame, substream) in
                [(1, SubStream(0)), (2, SubStream(1)), (3, SubStream::AUDIO), (4, SubStream::TABLES)]
            {
                queue.push(|meta| {
                    (meta.frame, meta.substream, meta.deadline) = (FrameId(frame), substream, Some(at(280)));
                });
            }
            let path =
                PathState { rate: Rate::from_kbps(660), outstanding, srtt, min_rtt: srtt, ..PathState::default() };
            layers().choose(at(0), &path, &mut queue);
            queue.left()
        };
        assert_eq!(left(1_000, None), [0, 2, 3]);
        assert_eq!(left(0, None), [0, 1, 2, 3], "nothing else would measure it");
        assert_eq!(left(1_000, Some(Duration::from_millis(40))), [0, 1, 2, 3]);
    }
}
