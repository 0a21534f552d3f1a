//! The paths: those of tl-timelines and tl-dependencies, for real.

use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};

use super::super::tcp_kernel::bed::Links;
use super::super::tl::RTT;
use super::super::tl::trial::link;

/// A link that stands still, as at a handover.
const STILL: Duration = Duration::from_millis(400);
const PERIOD: Duration = Duration::from_secs(5);
const WIDE: Rate = Rate::from_kbps(2_000);
/// About what the pictures take with their headers.
const NARROW: Rate = Rate::from_kbps(550);
/// Losses in bursts.
const BURSTS: Loss = Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 };
/// Packets that wait at the narrow link.
const QUEUE: usize = 20;

/// What a path is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Path {
    Random,
    Bursts,
    Spikes,
    Narrow,
}

impl Path {
    pub(super) const ALL: [Self; 4] = [Self::Random, Self::Bursts, Self::Spikes, Self::Narrow];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Random => "4 % loss",
            Self::Bursts => "bursts of loss",
            Self::Spikes => "delay spikes",
            Self::Narrow => "narrow link, bursts",
        }
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Random => "2 Mbit/s, 40 ms there and back, 50 packets; each packet is lost with 4 %",
            Self::Bursts => "the same; bursts begin with 2 %, last two packets, and lose nine of ten in them",
            Self::Spikes => "the same without loss; it stands still for the first 400 ms of each 5 s",
            Self::Narrow => "550 kbit/s, 20 packets, losses in bursts",
        }
    }

    pub(super) fn links(self) -> Links {
        let forward = match self {
            Self::Random => link(Loss::Bernoulli { p: 0.04 }),
            Self::Bursts => link(BURSTS),
            Self::Spikes => {
                let trace = RateTrace::new(vec![(Duration::ZERO, Rate::ZERO), (STILL, WIDE)]);
                let trace = trace.and_then(|trace| trace.repeating(PERIOD));
                let trace = trace.expect("it lets something pass in each period");
                LinkConfig { capacity: Capacity::Trace(trace), ..link(Loss::None) }
            }
            Self::Narrow => {
                LinkConfig { capacity: Capacity::Fixed(NARROW), queue: Limit::Packets(QUEUE), ..link(BURSTS) }
            }
        };
        Links { forward, back: LinkConfig { delay: RTT / 2, ..LinkConfig::default() } }
    }
}
