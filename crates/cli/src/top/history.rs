//! Sending rates of macroflows and flows between snapshots.

use std::collections::{BTreeMap, VecDeque};

use timeous::core::{Instant, Rate};
use timeous_daemon::view::View;

/// Snapshots kept for a macroflow.
const LOOKS: usize = 60;

/// Sending rates, by the byte counters of each snapshot.
#[derive(Debug, Default)]
pub(crate) struct History {
    macroflows: BTreeMap<u64, RateHistory>,
    flows: BTreeMap<u64, RateHistory>,
}

#[derive(Debug, Default)]
struct RateHistory {
    last: Option<(Instant, u64)>,
    rates: VecDeque<Rate>,
}

impl RateHistory {
    fn add(&mut self, at: Instant, sent: u64, looks: usize) {
        if let Some((before, had)) = self.last
            && at > before
        {
            self.rates.push_back(Rate::from_bytes_in(sent.saturating_sub(had), at - before));
            if self.rates.len() > looks {
                self.rates.pop_front();
            }
        }
        self.last = Some((at, sent));
    }

    fn rate(&self) -> Option<Rate> {
        self.rates.back().copied()
    }
}

impl History {
    /// Adds a snapshot; drops macroflows and flows that are gone.
    pub(crate) fn add(&mut self, view: &View) {
        let at = Instant::from_nanos(view.at_ns);
        let mut macroflows = std::mem::take(&mut self.macroflows);
        let mut flows = std::mem::take(&mut self.flows);
        for macroflow in &view.macroflows {
            let mut track = macroflows.remove(&macroflow.id).unwrap_or_default();
            track.add(at, macroflow.totals.sent_bytes_total, LOOKS);
            self.macroflows.insert(macroflow.id, track);
            for flow in &macroflow.flows {
                let mut track = flows.remove(&flow.id).unwrap_or_default();
                track.add(at, flow.totals.sent_bytes_total, 1);
                self.flows.insert(flow.id, track);
            }
        }
    }

    /// Rate of a macroflow between the last two snapshots.
    pub(crate) fn macroflow(&self, id: u64) -> Option<Rate> {
        self.macroflows.get(&id)?.rate()
    }

    /// Rate of a flow between the last two snapshots.
    pub(crate) fn flow(&self, id: u64) -> Option<Rate> {
        self.flows.get(&id)?.rate()
    }

    /// Last `width` rates of a macroflow as a bar chart, scaled to the highest.
    pub(crate) fn sparkline(&self, id: u64, width: usize) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(track) = self.macroflows.get(&id) else { return String::new() };
        let shown = track.rates.iter().skip(track.rates.len().saturating_sub(width)).map(|rate| rate.as_bps());
        let highest = shown.clone().max().unwrap_or(0).max(1);
        // A rate above zero shows at least the lowest bar.
        let bar =
            |bps: u64| if bps == 0 { ' ' } else { BARS[(u128::from(bps) * 8).div_ceil(highest.into()) as usize - 1] };
        shown.map(bar).collect()
    }
}
