//! Cells of the experiment: links, streams, and chosen parameters.

use timeous::core::{Duration, Rate};
use timeous_net::link::Loss;

use super::stream::ReferencePattern;
use crate::experiment::{Choice, setup};

/// Time from a frame's capture to its deadline at the receiver, for all of its packets.
pub(super) const DEADLINE: Duration = Duration::from_millis(500);
/// Length of a stream, and its uncounted warm-up: how fast a sender starts is not the question
/// here.
pub(super) const LASTING: Duration = Duration::from_secs(30);
pub(super) const WARM_UP: Duration = Duration::from_secs(5);
/// Largest payload of a packet, in bytes.
pub(crate) const PACKET: usize = 1_100;
/// Smallest header of a packet on the link, in bytes: IPv4, UDP, and the shortest header of a DCCP
/// data packet.
pub(crate) const HEADERS: u64 = 20 + 8 + 16;

/// Packet loss on the link.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LossModel {
    None,
    Random(u32),
    Bursts(u32),
}

impl LossModel {
    pub(super) const ALL: [Self; 5] = [Self::None, Self::Random(1), Self::Bursts(1), Self::Random(5), Self::Bursts(5)];

    /// Returns the mean loss rate.
    pub(super) fn share(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Random(percent) | Self::Bursts(percent) => f64::from(percent) / 100.0,
        }
    }

    /// Returns the link's loss model. Bursts have four packets in the mean.
    pub(super) fn of_link(self) -> Loss {
        let leaves = 0.25;
        match self {
            Self::None => Loss::None,
            Self::Random(percent) => Loss::Bernoulli { p: f64::from(percent) / 100.0 },
            Self::Bursts(percent) => {
                let share = f64::from(percent) / 100.0;
                let enters = leaves * share / (1.0 - share);
                Loss::GilbertElliott { p: enters, r: leaves, bad_loss: 1.0, good_loss: 0.0 }
            }
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::None => "0 %".to_owned(),
            Self::Random(percent) => format!("{percent} %"),
            Self::Bursts(percent) => format!("{percent} % in bursts"),
        }
    }
}

/// Link rate over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RateProfile {
    /// Constant.
    Steady,
    /// Varying as in a mobile network: see `rate_profile`.
    Mobile,
}

/// Link and stream of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(super) course: RateProfile,
    /// Mean rate of the link.
    pub(super) kbps: u64,
    /// Rate of the stream, in kbit/s.
    pub(super) offered: u64,
    /// Length of the link's queue, in time at its mean rate.
    pub(super) queue: Duration,
    pub(super) losses: LossModel,
    /// Round-trip time without queueing.
    pub(super) rtt: Duration,
    pub(super) shape: ReferencePattern,
    pub(super) deadline: Duration,
}

impl Cell {
    pub(super) fn rate(&self) -> Rate {
        Rate::from_kbps(self.kbps)
    }

    pub(crate) fn name(&self) -> String {
        let course = if self.course == RateProfile::Mobile { "mobile " } else { "" };
        let of_deadline = |time: Duration| time.as_secs_f64() / self.deadline.as_secs_f64();
        format!(
            "{course}{} Mbit/s, queue {} D, loss {}, RTT {:.1} D, offered {:.1}, {}",
            self.kbps as f64 / 1e3,
            of_deadline(self.queue),
            self.losses.name(),
            of_deadline(self.rtt),
            self.offered as f64 / self.kbps as f64,
            self.shape.name(),
        )
    }
}

/// Name of a dimension, and the function that returns a cell's value in it.
pub(super) type Dimension = (&'static str, fn(&Cell) -> String);

/// Dimensions of the cells.
pub(super) const DIMENSIONS: [Dimension; 7] = [
    ("link", |cell| {
        format!("{}{} Mbit/s", if cell.course == RateProfile::Mobile { "mobile " } else { "" }, cell.kbps as f64 / 1e3)
    }),
    ("queue", |cell| format!("{} D", cell.queue.as_secs_f64() / cell.deadline.as_secs_f64())),
    ("loss", |cell| cell.losses.name()),
    ("RTT", |cell| format!("{:.1} D", cell.rtt.as_secs_f64() / cell.deadline.as_secs_f64())),
    ("offered", |cell| format!("{:.1} times", cell.offered as f64 / cell.kbps as f64)),
    ("stream", |cell| cell.shape.name()),
    ("deadline", |cell| format!("{} ms", cell.deadline.as_millis())),
];

/// Selection of cells to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All cells.
    All,
    /// Pairwise combinations: each value of a dimension meets each value of every other.
    Pairs,
    /// Handful of the narrowest links.
    Handful,
}

/// Returns the cells whose stream exceeds the link.
pub(crate) fn cells(part: Part) -> Vec<Cell> {
    let cells = [of(RateProfile::Steady, &STEADY), of(RateProfile::Mobile, &MOBILE)].concat();
    let narrow = |cell: &Cell| cell.kbps == 300 && cell.queue == DEADLINE * 4 && cell.offered == 450;
    let kept = |&(place, cell): &(usize, Cell)| match part {
        Part::All => true,
        Part::Pairs => place % 12 == 0,
        Part::Handful => place % 12 == 0 && narrow(&cell),
    };
    cells.into_iter().filter(kept).map(|(_, cell)| cell).collect()
}

/// Values of the dimensions.
struct Values {
    kbps: &'static [u64],
    /// Queue lengths, in quarters of the deadline.
    queues: &'static [u64],
    losses: &'static [LossModel],
    /// Round-trip times, in tenths of the deadline.
    rtts: &'static [u64],
    shapes: &'static [ReferencePattern],
}

const STEADY: Values = Values {
    kbps: &[300, 1_000, 5_000],
    queues: &[1, 4, 16],
    losses: &LossModel::ALL,
    rtts: &[1, 5, 9],
    shapes: &ReferencePattern::ALL,
};
const MOBILE: Values = Values {
    kbps: &[1_000, 5_000],
    queues: &[4, 16],
    losses: &[LossModel::None, LossModel::Random(1)],
    rtts: &[1, 5],
    shapes: &[ReferencePattern::Gop(30), ReferencePattern::Layers],
};

/// Returns all combinations, each with a number by which [`Part`] selects.
fn of(course: RateProfile, values: &Values) -> Vec<(usize, Cell)> {
    let mut cells = Vec::new();
    for (a, &kbps) in values.kbps.iter().enumerate() {
        for (b, &queue) in values.queues.iter().enumerate() {
            for (c, &losses) in values.losses.iter().enumerate() {
                for (d, &rtt) in values.rtts.iter().enumerate() {
                    for (e, times) in [15, 20].into_iter().enumerate() {
                        for (f, &shape) in values.shapes.iter().enumerate() {
                            let (offered, deadline) = (kbps * times / 10, DEADLINE);
                            let (queue, rtt) = (deadline / 4 * queue, deadline / 10 * rtt);
                            let cell = Cell { course, kbps, offered, queue, losses, rtt, shape, deadline };
                            cells.push((5 * a + 2 * b + 5 * c + 2 * d + 2 * e + 3 * f, cell));
                        }
                    }
                }
            }
        }
    }
    cells
}

/// Returns the cells with room to spare: a stream of 1 Mbit/s and a round trip of 100 ms.
pub(super) fn with_room() -> Vec<Cell> {
    let (offered, rtt) = (1_000, Duration::from_millis(100));
    let mut cells = Vec::new();
    for rtts in [2, 4] {
        for kbps in [1_300, 2_000] {
            for losses in [LossModel::None, LossModel::Random(2), LossModel::Random(5)] {
                let (deadline, shape, course) = (rtt * rtts, ReferencePattern::Gop(30), RateProfile::Steady);
                cells.push(Cell { course, kbps, offered, queue: deadline, losses, rtt, shape, deadline });
            }
        }
    }
    cells
}

/// Returns all choices of this setup.
pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "stream": "25 frames a second for 30 s; groups of 10, 30 and 60 frames that each refer to the one \
            before, and groups of 32 in three temporal layers; an intra frame has three times the bytes of another, \
            sizes vary by a quarter to either side" => "as a low-latency encoder makes them";
        ours "deadline D": "500 ms after capture" => "all else of the links is in its terms";
        ours "what counts": "frames captured after the first 5 s" => "how fast a sender starts is another question";
        ours "decodable in time": "all packets of a frame come by its deadline, and all frames that it refers to are \
            decodable in time" => "a reference that comes late may help a decoder that goes on in the background; it \
            does not count here";
        ours "links": "0.3, 1 and 5 Mbit/s; a queue of 0.25, 1 and 4 D; round trip 0.1, 0.5 and 0.9 D; loss 0, 1 and \
            5 %, by itself and in bursts of four packets in the mean; 1.5 and 2 times the link's rate offered"
            => "unless all cells are asked for, one of twelve, so that each value of a dimension meets each of every \
            other";
        ours "mobile links": "1 and 5 Mbit/s in the mean, another rate each 100 ms, which wanders between a fifth and \
            two and a half times the mean; now and then nothing for 100 to 300 ms"
            => "traces of real networks are others' property; this one is made from the seed";
        ours "bound": "the same frames in packets of 1100 bytes with the shortest headers, over the very rates; lost \
            packets cost it nothing, since this link loses them before its queue"
            => "a schedule that knows the losses sends something worthless in their place";
        ours "senders": "DCCP in UDP, a packet ring with late choice; the Congestion Manager's controllers"
            => "each differs from Timeous in one part";
        ours "told the rate": "Timeous with the link's rate of each instant for a pace, and no window; its round \
            trips and losses it sees as they come"
            => "a sender that knows nothing in advance, but all that congestion control could find out";
        ours "room to spare": "a stream of 1 Mbit/s in groups of 30, a link of 1.3 and 2 times that, round trip 100 \
            ms, loss 0, 2 and 5 %" => "the deadline is two and four round trips";
        ours "changes": "a link of 1 Mbit/s falls to 0.3 for 10 s and comes back, twice its rate offered: used is \
            nine tenths of it in half a second; and a stream of 0.2 Mbit/s for a minute that becomes one of 4"
            => "round trip 100 ms";
    }
}
