//! Path conditions of TFRC and TCP at a shared bottleneck, and the rates that the equation gives
//! for them.

use timeous::core::{Duration, Rate};
use timeous_cm::tfrc::equation;

use super::topology::{SIZE, SenderStats};

/// Means of a flow over a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowMeans {
    /// Mean of the smoothed round-trip times, in milliseconds.
    pub(crate) rtt: f64,
    /// Loss event rate: as reported by TFRC's receiver, or TCP's answered loss events per packet
    /// sent.
    pub(crate) p: f64,
    /// Rates by the equation, in kbit/s: for a TCP with an acknowledgement for each packet (RFC
    /// 5348's `b = 1`), and for one with an acknowledgement for every second packet.
    pub(crate) by_equation: [f64; 2],
    /// Timeouts of TCP.
    pub(crate) timeouts: f64,
}

impl FlowMeans {
    /// Computes the means for flows of one kind over all samples.
    pub(crate) fn of(looks: &[Vec<SenderStats>], flows: std::ops::Range<usize>) -> Self {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let each = || looks.iter().flat_map(|look| &look[flows.clone()]);
        let rtt = mean(each().filter_map(|means| Some(means.rtt?.as_secs_f64())).collect());
        let told: Vec<f64> = each().filter_map(|means| means.p).collect();
        let (first, last) = (looks.first(), looks.last());
        let counted = |of: fn(&SenderStats) -> u64| {
            let sum = |look: Option<&Vec<SenderStats>>| {
                look.map_or(0, |look| look[flows.clone()].iter().map(of).sum::<u64>())
            };
            (sum(last) - sum(first)) as f64
        };
        let answered = counted(|means| means.recoveries + means.timeouts);
        let p = if told.is_empty() { answered / counted(|means| means.packets).max(1.0) } else { mean(told) };
        let path = Duration::from_secs_f64(rtt);
        let by_equation = [1, 2].map(|b| kbps(equation::rate_of(SIZE as u64, path, p, path * 4, b)));
        Self { rtt: rtt * 1e3, p, by_equation, timeouts: counted(|means| means.timeouts) }
    }
}

fn kbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e3
}
