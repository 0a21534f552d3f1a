//! Layered stream: sends at grants, or by its own clock.

use std::collections::VecDeque;

use timeous::core::{Duration, Instant, PathState, Rate};

use super::super::cm::{Application, Flow, OVERHEAD, Packet};

/// Rate of the stream on the link with 1 to 4 layers, in bit/s.
pub(super) const LAYERS: [u64; 4] = [1_000_000, 1_500_000, 2_200_000, 3_200_000];
/// Packet size in bytes, the header included.
pub(super) const SIZE: usize = 1_000;
/// Thresholds of rate callbacks, as shares of the last reported rate.
pub(super) const DOWN: f64 = 0.8;
pub(super) const UP: f64 = 1.25;
/// Length of a group of pictures; a layer is added only at its beginning.
pub(super) const GROUP: Duration = Duration::from_secs(2);
/// Time after which an added layer counts as successful; after each failure the wait before the
/// next attempt doubles, up to `MOST_GROUPS` groups.
const STAYS: Duration = Duration::from_secs(8);
pub(super) const MOST_GROUPS: u64 = 16;
/// Packets that wait for a grant, at most, where a clock makes them.
pub(super) const BUFFER: usize = 32;

/// Returns the number of layers that fit into `rate` bit/s on the link; at least one.
pub(super) fn fitting(rate: f64) -> usize {
    LAYERS.iter().rposition(|&layer| layer as f64 <= rate).unwrap_or(0) + 1
}

/// Returns the reported rate, including the headers that packets have on the link.
fn on_link(path: &PathState) -> f64 {
    path.rate.as_bps() as f64 * (SIZE + OVERHEAD) as f64 / SIZE as f64
}

/// Numbers of layers sent, each with its start.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerHistory {
    list: Vec<(Instant, usize)>,
}

impl LayerHistory {
    pub(super) fn list(&self) -> &[(Instant, usize)] {
        &self.list
    }

    fn choose(&mut self, now: Instant, layers: usize) {
        if self.list.last().is_none_or(|&(_, last)| last != layers) {
            self.list.push((now, layers));
        }
    }

    fn now(&self) -> usize {
        self.list.last().map_or(1, |&(_, layers)| layers)
    }
}

/// Application of either kind.
pub(super) trait Video: Application {
    fn chosen(&self) -> &LayerHistory;
}

/// Stream by request and callback: chooses layers at each grant, and sends as fast as it is
/// granted.
#[derive(Debug)]
pub(super) struct GrantedVideo {
    chosen: LayerHistory,
    /// Layers that it sends whatever it is told.
    fixed: Option<usize>,
    is_silent: bool,
}

impl GrantedVideo {
    pub(super) fn new(fixed: Option<usize>, is_silent: bool) -> Self {
        Self { chosen: LayerHistory::default(), fixed, is_silent }
    }
}

impl Video for GrantedVideo {
    fn chosen(&self) -> &LayerHistory {
        &self.chosen
    }
}

impl Application for GrantedVideo {
    fn run(&mut self, _: Instant, flow: &mut Flow<'_>) {
        if !self.is_silent && !flow.is_waiting() {
            flow.request();
        }
    }

    fn granted(&mut self, now: Instant, path: &PathState) -> Option<Packet> {
        self.chosen.choose(now, self.fixed.unwrap_or_else(|| fitting(on_link(path))));
        Some(Packet { made: now, tag: self.chosen.now() as u64, len: SIZE })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Stream by rate callbacks: sends by its own clock at the rate of its layers, and chooses them at
/// each callback.
#[derive(Debug, Default)]
pub(super) struct RateCallbackVideo {
    chosen: LayerHistory,
    told: bool,
    /// Layers that fit, by the last reported rate.
    fit: usize,
    joins: JoinTimer,
    next: Option<Instant>,
    waiting: VecDeque<Packet>,
    dropped: u64,
    /// Layers that it sends whatever it is told.
    fixed: Option<usize>,
    is_silent: bool,
}

/// Join timer for adding a layer, as with receivers of layered multicast, who cannot know the
/// effect of more data either (McCanne, Jacobson & Vetterli 1996, §3.2).
#[derive(Clone, Copy, Debug)]
struct JoinTimer {
    last: Instant,
    wait: u64,
    next: Instant,
}

impl Default for JoinTimer {
    fn default() -> Self {
        Self { last: Instant::ZERO, wait: 1, next: Instant::ZERO }
    }
}

impl JoinTimer {
    fn added(&mut self, now: Instant) {
        self.last = now;
        self.next = now + GROUP;
    }

    fn dropped(&mut self, now: Instant) {
        let failed = now.saturating_since(self.last) < STAYS;
        self.wait = if failed { (self.wait * 2).min(MOST_GROUPS) } else { 1 };
        self.next = now + GROUP * self.wait;
    }
}

impl RateCallbackVideo {
    pub(super) fn new(fixed: Option<usize>, is_silent: bool) -> Self {
        Self { fixed, is_silent, ..Self::default() }
    }

    /// Drops layers at once, and adds one when the join timer allows.
    fn follow(&mut self, now: Instant) {
        let layers = self.chosen.now();
        if self.fit < layers {
            self.chosen.choose(now, self.fit);
            self.joins.dropped(now);
        } else if self.fit > layers && now >= self.joins.next {
            self.chosen.choose(now, layers + 1);
            self.joins.added(now);
        }
    }

    /// Returns the time between two packets.
    fn interval(&self) -> Duration {
        Rate::from_bps(LAYERS[self.chosen.now() - 1]).time_for((SIZE + OVERHEAD) as u64)
    }
}

impl Video for RateCallbackVideo {
    fn chosen(&self) -> &LayerHistory {
        &self.chosen
    }
}

impl Application for RateCallbackVideo {
    fn run(&mut self, now: Instant, flow: &mut Flow<'_>) {
        if !self.told {
            flow.thresh(DOWN, UP);
            self.told = true;
            self.fit = self.fixed.unwrap_or(1);
            self.chosen.choose(now, 1);
        }
        self.follow(now);
        if self.is_silent {
            return;
        }
        let mut next = self.next.unwrap_or(now);
        while next <= now {
            if self.waiting.len() < BUFFER {
                self.waiting.push_back(Packet { made: next, tag: self.chosen.now() as u64, len: SIZE });
                flow.request();
            } else {
                self.dropped += 1;
            }
            next += self.interval();
        }
        self.next = Some(next);
        if !self.waiting.is_empty() && !flow.is_waiting() {
            // Lapsed grants are requested again.
            flow.request();
        }
    }

    fn granted(&mut self, _: Instant, _: &PathState) -> Option<Packet> {
        self.waiting.pop_front()
    }

    /// Takes the lower threshold into account: the rate may fall to `DOWN` of this before the next
    /// callback.
    fn changed(&mut self, now: Instant, path: &PathState) {
        self.fit = self.fixed.unwrap_or_else(|| fitting(DOWN * on_link(path)));
        self.follow(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_layers_that_fit_and_always_the_lowest() {
        assert_eq!([0.0, 1e6, 1.4e6, 1.5e6, 3e6, 9e9].map(fitting), [1, 1, 1, 2, 3, 4]);
    }
}
