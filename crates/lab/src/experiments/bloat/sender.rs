//! Senders: Timeous, Timeous without one of its parts, and other congestion control.

use timeous::core::LateChoice;
use timeous::{Options, PolicyName};
use timeous_cm::Kind;
use timeous_dccp::Ccid;

/// Sender of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SenderKind {
    /// Timeous with all of its parts.
    Timeous,
    /// Timeous with the link's true rate at each instant in place of its controller, which no real
    /// sender can know. It sees round trips and losses as they happen, and knows nothing in
    /// advance.
    Told,
    /// Timeous with a controller that fills queues.
    NoController,
    /// Timeous with a policy that looks no further than its queue.
    NoPlan,
    /// Timeous without repair of lost packets.
    NoRepair,
    /// TCP-like congestion control.
    TcpLike,
    /// TFRC congestion control.
    Tfrc,
}

impl SenderKind {
    pub(super) const ALL: [Self; 6] =
        [Self::Timeous, Self::NoController, Self::NoPlan, Self::NoRepair, Self::TcpLike, Self::Tfrc];

    /// Senders compared in cells with too much data; `Told` is the most that congestion control
    /// could reach.
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
        let mut options = Options::default();
        options.policy = Some(if self == Self::NoPlan { PolicyName::Frames } else { PolicyName::Plan });
        options.choice()
    }

    pub(super) fn repairs(self) -> bool {
        self != Self::NoRepair
    }
}
