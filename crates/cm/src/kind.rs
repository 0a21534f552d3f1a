//! Congestion controllers by name, for command-line tools.

use std::fmt;
use std::str::FromStr;

use crate::controller::{
    Controller, aimd::Aimd, bbr::Bbr, copa::Copa, cubic::Cubic, live::Live, newreno::NewReno, scream::Scream,
    tfrc::Tfrc,
};

/// Available congestion controllers, each with its defaults.
///
/// ```
/// use timeous_cm::{Kind, Manager};
/// let kind: Kind = "cubic".parse()?;
/// let _manager = Manager::new(kind.constructor());
/// assert_eq!(kind.to_string(), "cubic");
/// # Ok::<(), timeous_cm::UnknownController>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Live`], for live streams: by the model of the path.
    Live,
    /// [`Copa`], as published: keeps queues short.
    Copa,
    /// [`Scream`], for live streams: keeps queues short on paths with little loss.
    Scream,
    /// [`Bbr`], model-based: holds its share against flows that fill a short queue.
    Bbr,
    /// [`Aimd`], the controller of the papers.
    Aimd,
    /// [`NewReno`], the TCP of RFC 5681.
    NewReno,
    /// [`Cubic`], the TCP of RFC 9438.
    Cubic,
    /// [`Tfrc`], for live streams that need a smooth rate.
    Tfrc,
}

impl Kind {
    /// All controllers.
    pub const ALL: [Self; 8] =
        [Self::Live, Self::Copa, Self::Scream, Self::Bbr, Self::Aimd, Self::NewReno, Self::Cubic, Self::Tfrc];

    /// Name of the controller.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copa => "copa",
            Self::Live => "live",
            Self::Scream => "scream",
            Self::Bbr => "bbr",
            Self::Aimd => "aimd",
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Tfrc => "tfrc",
        }
    }

    /// What the controller is, and how it fares beside other flows, for the reference.
    pub const fn description(self) -> [&'static str; 2] {
        match self {
            Self::Live => [
                "by the model of the path: a short queue that covers the variation of the link; the default of live streams",
                "around a fair share",
            ],
            Self::Copa => ["Copa (Arun & Balakrishnan), as published, to compare with", ""],
            Self::Scream => ["SCReAM (RFC 8298): keeps queues short on paths with little loss", ""],
            Self::Bbr => {
                ["a model of the path (rate and round trip)", "holds its share beside flows that fill a short queue"]
            }
            Self::Aimd => ["additive increase, multiplicative decrease; the default with `policy=fifo`", "like TCP"],
            Self::NewReno => ["the TCP of RFC 5681", "like TCP"],
            Self::Cubic => ["the TCP of RFC 9438", "like TCP"],
            Self::Tfrc => ["TFRC (RFC 5348): a smooth rate", "like TCP, in the mean"],
        }
    }

    /// Constructor to be passed to a [`Manager`](crate::Manager).
    pub fn constructor(self) -> fn(u64) -> Box<dyn Controller> {
        match self {
            Self::Copa => |mtu| Box::new(Copa::new(mtu)),
            Self::Live => |mtu| Box::new(Live::new(mtu)),
            Self::Scream => |mtu| Box::new(Scream::new(mtu)),
            Self::Bbr => |mtu| Box::new(Bbr::new(mtu)),
            Self::Aimd => |mtu| Box::new(Aimd::new(mtu)),
            Self::NewReno => |mtu| Box::new(NewReno::new(mtu)),
            Self::Cubic => |mtu| Box::new(Cubic::new(mtu)),
            Self::Tfrc => |mtu| Box::new(Tfrc::new(mtu)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownController(name.to_owned()))
    }
}

/// Error: unknown controller name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {0:?}: take live, copa, scream, bbr, aimd, newreno, cubic or tfrc")]
pub struct UnknownController(String);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use timeous_core::{Duration, Instant, Rate};

    use super::*;
    use crate::controller::{Acked, Congestion, Sent, TimedOut};

    const MTU: u64 = 1_000;

    proptest! {
        #[test]
        fn whatever_is_heard_there_is_a_window_and_a_pace_and_growth_by_acknowledgements(
            news in prop::collection::vec((0_u8..8, 0_u64..3_000, 0_u64..20_000), 1..300),
        ) {
            for kind in Kind::ALL {
                let (mut controller, mut now, mut acked) = (kind.constructor()(MTU), Instant::ZERO, 0);
                let start = controller.window();
                for &(kind_of_news, millis, bytes) in &news {
                    now += Duration::from_millis(millis);
                    let rtt = Some(Duration::from_millis(millis % 700));
                    let outstanding = bytes.min(controller.window());
                    match kind_of_news {
                        0 => controller.on_congestion(now, Congestion { outstanding, marked: millis % 2 == 0 }),
                        1 => controller.on_timeout(now, TimedOut { outstanding, again: millis % 2 == 0 }),
                        2 => controller.on_idle(now, (millis % 5) as u32),
                        3 => controller.on_lost(now, bytes),
                        4 => controller.on_sent(now, Sent { bytes, outstanding: 2 * bytes, app_limited: millis % 3 == 0 }),
                        _ => {
                            acked += bytes;
                            let window_limited = millis % 3 != 0;
                            controller.on_acked(now, Acked { bytes, outstanding: bytes, rtt, srtt: rtt, window_limited });
                        }
                    }
                    // A rate has no window that grows so, nor has a model of the path.
                    let bound = if matches!(kind, Kind::Bbr | Kind::Tfrc) { u64::MAX / 2 } else { start + 3 * acked + MTU };
                    prop_assert!((1..=bound).contains(&controller.window()), "{kind}: {} of {acked}", controller.window());
                    prop_assert!(controller.pace(Duration::from_millis(100)) > Rate::ZERO, "{kind}");
                }
            }
        }
    }

    #[test]
    fn every_controller_is_found_by_the_name_that_it_says() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind.constructor()(1_000).name(), kind.name());
        }
        assert!("reno".parse::<Kind>().unwrap_err().to_string().contains("newreno"));
    }
}
