//! Video whose groups end at cuts, as encoders begin them, over links that are a little too narrow, in virtual time.

use timeous_choice::named;
use timeous_core::{AduMeta, Duration, FrameId, Priority, References, Rng};
use timeous_host::sources::{Frame, Frames};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;

use crate::support::{frames_shown, link, lossy, ms};

const PACKET: usize = 1_000;
const FRAMES: u32 = 900;
/// Frames per second, and from one keyframe to the next at most.
const RATE: u32 = 30;
const MAX_GROUP: u32 = 60;

/// Groups of I P B B P B B …, of which a third ends at a cut.
fn trace(seed: u64) -> Vec<Frame> {
    let mut rng = Rng::from_seed(seed);
    let (mut place, mut length, mut anchor) = (0, MAX_GROUP, 0);
    let frames = (0..FRAMES).map(|n| {
        if n > 0 {
            place += 1;
        }
        if place == length {
            let is_cut = rng.chance(1.0 / 3.0);
            (place, length) = (0, if is_cut { 10 + rng.below(50) as u32 } else { MAX_GROUP });
        }
        let (mean, references, priority) = match place {
            0 => (36_000.0, References::NONE, 240),
            place if place % 3 == 1 => (15_000.0, References::from([FrameId(anchor)]), 128),
            _ => (6_000.0, References::from([FrameId(anchor)]), 16),
        };
        if place == 0 || place % 3 == 1 {
            anchor = n + 1;
        }
        let bytes = (mean * (0.75 + 0.5 * rng.unit())) as usize / 100 * 100;
        let meta = AduMeta { references, priority: Priority(priority), ..AduMeta::default() };
        Frame { at: Duration::from_secs(1) * u64::from(n) / u64::from(RATE), bytes, meta }
    });
    frames.collect()
}

/// Frames that come whole and in time with all that they refer to.
fn shown(share: f64, loss: f64, seed: u64) -> usize {
    let trace = trace(seed);
    let total: usize = trace.iter().map(|frame| frame.bytes).sum();
    let kbps = (total as f64 * 8.0 * f64::from(RATE) / f64::from(FRAMES) / 1e3 * share) as u64;
    let narrow = LinkConfig { queue: Limit::Bytes(kbps * 300 / 8), ..lossy(link(kbps, 30, 0), loss) };
    let source = Frames::new(trace, PACKET).with_latency(ms(300));
    let millis = u64::from(FRAMES / RATE) * 1_000 + 2_000;
    let frames = frames_shown(seed, narrow, source, Box::new(named::plan([])), millis);
    frames.iter().filter(|(_, is_shown)| *is_shown).count()
}

/// With the length of the last group expected: 3779, 6927 and 6020.
#[test]
fn the_tail_of_a_group_is_not_given_up_for_a_keyframe_that_may_come_later() {
    for (share, loss, least) in [(0.7, 0.0, 3_900), (0.9, 0.0, 7_150), (0.9, 0.02, 6_300)] {
        let sum: usize = (1..=10).map(|seed| shown(share, loss, seed)).sum();
        println!("{share}, {loss}: {sum} of {}", 10 * FRAMES);
        assert!(sum >= least, "{sum}");
    }
}
