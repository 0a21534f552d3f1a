//! Links of the comparison, from a clean one to one that is too narrow.

use timeous::core::{Duration, Rate};
use timeous_testbed::values;

use crate::tool::time;

/// Delay each way, except over the far link.
const DELAY: Duration = Duration::from_millis(20);
/// Duration of an outage.
const OUTAGE: Duration = Duration::from_secs(1);
/// Rate of all links but the narrow one.
const ROOM: Rate = Rate::from_kbps(10_000);
/// Rates of the narrow links, as shares of the source's.
const NARROW: f64 = 0.7;
const HALF: f64 = 0.5;

values! {
    /// Link between sender and receiver.
    #[derive(clap::ValueEnum)]
    pub(crate) enum LinkName {
        /// 10 Mbit/s, 20 ms each way
        Clean = "clean",
        /// 75 ms each way
        Far = "far",
        /// 2 % of the packets are lost, each way
        Loss = "loss",
        /// 5 % of the packets are lost, in bursts of five in the mean, each way
        Bursts = "bursts",
        /// 10 to 30 ms each way, so that packets overtake each other
        Jitter = "jitter",
        /// No packet passes for a second in the middle, and up to thirty packets are queued
        Outage = "outage",
        /// 0.7 times the source's rate, and a queue of 300 ms
        Narrow = "narrow",
        /// 0.5 times the source's rate, and a queue of 300 ms
        Half = "half",
    }
}

impl LinkName {
    /// Description of the link.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Clean => "clean, 20 ms each way",
            Self::Far => "round trip of 150 ms",
            Self::Loss => "2 % loss",
            Self::Bursts => "5 % loss in bursts",
            Self::Jitter => "jitter of ±10 ms, reordering",
            Self::Outage => "outage of one second",
            Self::Narrow => "0.7 times the source's rate",
            Self::Half => "0.5 times the source's rate",
        }
    }

    /// Options of `timeous emulate` for both directions. `trace` is the file of [`LinkName::trace`].
    pub(crate) fn options(self, source: Rate, trace: &str) -> String {
        let both = |option: &str| format!("--{option} --back-{option} ");
        let delay = time(if self == Self::Far { Duration::from_millis(75) } else { DELAY });
        let narrow = |share: f64| format!("--rate {} --queue 300ms", (source.as_bps() as f64 * share) as u64);
        let forward = match self {
            Self::Outage => format!("--trace {trace} --back-trace {trace} --queue 30p --back-queue 30p"),
            Self::Narrow => narrow(NARROW),
            Self::Half => narrow(HALF),
            _ => format!("--rate {}", ROOM.as_bps()),
        };
        let more = match self {
            Self::Loss => both("loss=2%"),
            // Into the bad state 0.0105, out of it 0.2: 5 % of the packets, five in a row in the mean.
            Self::Bursts => both("loss-burst=1.05%,20%"),
            Self::Jitter => both("jitter=10ms,uniform,reorder"),
            Self::Clean | Self::Far | Self::Outage | Self::Narrow | Self::Half => String::new(),
        };
        format!("{forward} {}{more}", both(&format!("delay={delay}")))
    }

    /// Rate trace of the link, in the format of `timeous emulate --trace`; the outage begins at `at`.
    pub(crate) fn trace(self, at: Duration) -> String {
        let (rate, from, to) = (ROOM.as_bps() / 1_000, at.as_secs_f64(), (at + OUTAGE).as_secs_f64());
        format!("0 {rate}\n{from} 0\n{to} {rate}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_the_delay_and_the_loss() {
        let options = |link: LinkName| link.options(Rate::from_kbps(1_000), "file");
        assert_eq!(options(LinkName::Clean), "--rate 10000000 --delay=20ms --back-delay=20ms ");
        assert!(options(LinkName::Far).contains("--delay=75ms --back-delay=75ms"));
        assert!(options(LinkName::Loss).ends_with("--loss=2% --back-loss=2% "));
        assert!(options(LinkName::Narrow).contains("--rate 700000 --queue 300ms"));
        assert_eq!(LinkName::Outage.trace(Duration::from_millis(2_500)), "0 10000\n2.5 0\n3.5 10000\n");
    }
}
