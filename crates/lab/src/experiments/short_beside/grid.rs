//! Trials: every flow, queue and number of CUBIC flows; with a single seed for one controller only.

use timeous_cm::Kind;

use super::trial::{BottleneckQueue, MeasuredFlow, Trial};
use crate::experiment::{Choice, Run};

pub(super) const KINDS: [Kind; 6] = [Kind::Copa, Kind::Bbr, Kind::Aimd, Kind::NewReno, Kind::Cubic, Kind::Tfrc];
pub(super) const FLOWS: [u8; 2] = [1, 4];

pub(super) fn trials(run: &Run<'_>) -> Vec<Trial> {
    let kinds = if run.seeds > 1 { &KINDS[..] } else { &KINDS[..1] };
    let who = kinds
        .iter()
        .flat_map(|&kind| [MeasuredFlow::Live(kind), MeasuredFlow::Greedy(kind)])
        .chain([MeasuredFlow::Tcp]);
    let mut trials = Vec::new();
    for who in who {
        for queue in BottleneckQueue::ALL {
            for flows in FLOWS {
                trials.extend(run.seeds().map(|seed| Trial { who, flows, queue, seed }));
            }
        }
    }
    trials
}

pub(super) fn choices() -> Vec<Choice> {
    let ours = Choice::ours;
    vec![
        ours(
            "link",
            "as many times 1.5 Mbit/s as there are flows, the stream included; 60 ms",
            "an even share is what the stream needs",
        ),
        ours(
            "queue",
            "drop-tail of 0.25, 1 and 4 deadlines of 300 ms; CoDel (RFC 8289) with room for 4",
            "CUBIC fills each of them",
        ),
        ours(
            "beside",
            "1 and 4 CUBIC flows that last, begun within the first second",
            "the stream begins at 3 s, so that it finds the queue full",
        ),
        ours(
            "live stream",
            "25 frames/s in groups of 30, 1.5 Mbit/s; the default policy, repair and parity",
            "what a sender has by default",
        ),
        ours(
            "greedy stream",
            "packets of 1100 bytes without deadlines, 1.5 times the link",
            "the controller's share, whatever a policy gives up",
        ),
        ours("time", "60 s, measured from 10 s on", "CUBIC has found its window"),
        ours("with one seed", "Copa alone", "a test has to be short"),
    ]
}
