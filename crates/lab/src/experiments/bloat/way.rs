//! Who sends: Timeous, what it is without one of its parts, and with other congestion control.

use timeous::core::LateChoice;
use timeous::{Options, PolicyName};
use timeous_cm::Kind;
use timeous_dccp::Ccid;

/// A sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// All of it.
    Timeous,
    /// All of it but the controller: it is told the link's rate at each instant, as nobody can know it. It sees the round
    /// trips and the losses that it meets, and knows nothing in advance.
    Told,
    /// With the controller that fills queues.
    NoController,
    /// With the policy that looks no further than the queue.
    NoPlan,
    /// What is lost stays lost.
    NoRepair,
    /// Congestion control as TCP's.
    TcpLike,
    /// TFRC.
    Tfrc,
}

impl Way {
    pub(super) const ALL: [Self; 6] =
        [Self::Timeous, Self::NoController, Self::NoPlan, Self::NoRepair, Self::TcpLike, Self::Tfrc];

    /// All that are compared over cells with too much: what it is told is the most that control could do.
    pub(super) const BESIDE: [Self; 7] =
        [Self::Timeous, Self::Told, Self::NoController, Self::NoPlan, Self::NoRepair, Self::TcpLike, Self::Tfrc];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Timeous => "Timeous",
            Self::Told => "told the rate",
            Self::NoController => "without the controller",
            Self::NoPlan => "without the plan",
            Self::NoRepair => "without the repair",
            Self::TcpLike => "TCP-like",
            Self::Tfrc => "TFRC",
        }
    }

    pub(super) fn controller(self) -> Kind {
        match self {
            Self::TcpLike => Kind::NewReno,
            Self::Tfrc => Kind::Tfrc,
            Self::NoController => Kind::Aimd,
            Self::Timeous | Self::Told | Self::NoPlan | Self::NoRepair => Kind::Copa,
        }
    }

    pub(super) fn ccid(self) -> Ccid {
        if self == Self::Tfrc { Ccid::Ccid3 } else { Ccid::Ccid2 }
    }

    pub(super) fn choice(self) -> Box<dyn LateChoice> {
        let policy = if self == Self::NoPlan { PolicyName::Frames } else { PolicyName::Plan };
        Options { policy: Some(policy), ..Options::default() }.choice()
    }

    pub(super) fn repairs(self) -> bool {
        self != Self::NoRepair
    }
}
