//! Links of the experiment: every combination of four properties, or with one seed six of them and
//! four controllers.

use timeous::core::{Duration, Rate};
use timeous_cm::Kind;

use super::trial::{DEADLINE, Trial};
use crate::experiment::{Choice, Run};

pub(super) const KINDS: [Kind; 6] = [Kind::Copa, Kind::Scream, Kind::Aimd, Kind::Bbr, Kind::Cubic, Kind::Tfrc];
const RATES: [Rate; 3] = [Rate::from_kbps(300), Rate::from_kbps(1_000), Rate::from_kbps(5_000)];
const RTTS: [u64; 3] = [20, 80, 200];
/// Queue lengths, in deadlines.
const QUEUES: [f64; 3] = [0.25, 1.0, 4.0];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.05];

/// With one seed: indices of a link's rate, round trip, queue and loss, so that each value but the
/// fastest rate meets most of the others (from Taguchi's L9).
const FEW: [[usize; 4]; 6] = [[0, 0, 0, 0], [0, 1, 1, 1], [0, 2, 2, 2], [1, 0, 1, 2], [1, 1, 2, 0], [1, 2, 0, 1]];

fn links(all: bool) -> Vec<[usize; 4]> {
    if !all {
        return FEW.to_vec();
    }
    let each = |n: usize| [n / 27, n / 9 % 3, n / 3 % 3, n % 3];
    (0..81).map(each).collect()
}

pub(super) fn trials(run: &Run<'_>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for [rate, rtt, queue, loss] in links(run.seeds > 1) {
        for &kind in if run.seeds > 1 { &KINDS[..] } else { &KINDS[..4] } {
            trials.extend(run.seeds().map(|seed| Trial {
                kind,
                rate: RATES[rate],
                rtt: Duration::from_millis(RTTS[rtt]),
                queue: Duration::from_secs_f64(DEADLINE.as_secs_f64() * QUEUES[queue]),
                loss: LOSSES[loss],
                seed,
            }));
        }
    }
    trials
}

pub(super) fn choices() -> Vec<Choice> {
    let ours = Choice::ours;
    vec![
        ours("links", "0.3, 1 and 5 Mbit/s; 20, 80 and 200 ms; drop-tail", "from a poor mobile link to a good one"),
        ours(
            "queue",
            "0.25, 1 and 4 deadlines of 400 ms",
            "where it holds more than the deadline, who fills it is late with everything",
        ),
        ours("loss", "0, 1 and 5 % of the packets, at random", "what radio links lose whatever is sent"),
        ours(
            "combinations",
            "all 81; with one seed, six of the slower links and four controllers",
            "a test has to be short",
        ),
        ours(
            "stream",
            "packets of 1000 bytes, 1.5 times the link, each with its deadline; what cannot arrive is given up; nothing is sent again",
            "there is always something to send",
        ),
        ours(
            "time",
            "30 s: from 5 s on queue and use are measured; at 20 s the link falls to a quarter; at 25 s it is back",
            "as a mobile link does",
        ),
        ours(
            "delay in the queue",
            "from leaving the host to arrival, less the link's own time",
            "of each packet that arrived",
        ),
    ]
}
