//! Paths on which both stacks are compared.

use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, Reorder};

use super::network::Links;

/// Description of the link.
pub(super) const LINK: &str = "40 Mbit/s, 2 ms, a drop-tail queue of 100 packets, each way";

/// Path with one impairment.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    /// Short name.
    pub(super) name: &'static str,
    /// Full description.
    pub(super) what: &'static str,
    link: LinkConfig,
}

/// Number of runs for a path without random losses, whose rate hardly varies.
const FEW: usize = 3;

impl Condition {
    /// Returns the number of runs out of `seeds`: random losses make rates random.
    pub(super) fn runs(&self, seeds: u32) -> usize {
        let runs = seeds as usize;
        if self.link.loss == Loss::None { runs.min(FEW) } else { runs }
    }

    /// Returns the links of the path.
    pub(super) fn links(&self) -> Links {
        Links { forward: self.link.clone(), back: self.link.clone() }
    }
}

fn link() -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(40_000)),
        delay: Duration::from_millis(2),
        queue: Limit::Packets(100),
        ..LinkConfig::default()
    }
}

/// Returns all conditions.
pub(super) fn all() -> Vec<Condition> {
    let lossy = |p| LinkConfig { loss: Loss::Bernoulli { p }, ..link() };
    let reorder = Reorder { share: 0.01, by: Some(Duration::from_millis(2)) };
    vec![
        Condition { name: "no loss", what: "nothing but the queue drops packets", link: link() },
        Condition { name: "1 % loss", what: "of the packets, each for itself", link: lossy(0.01) },
        Condition { name: "5 % loss", what: "of the packets, each for itself", link: lossy(0.05) },
        Condition {
            name: "reordering",
            what: "1 % of the packets are held back by 2 ms: six or seven others overtake them at this rate",
            link: LinkConfig { reorder, ..link() },
        },
        Condition {
            name: "duplication",
            what: "1 % of the packets arrive twice",
            link: LinkConfig { duplicate: 0.01, ..link() },
        },
    ]
}
