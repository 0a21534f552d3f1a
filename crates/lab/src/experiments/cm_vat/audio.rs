//! Audio source: frames at a fixed interval, with or without policer and buffer.

use std::collections::VecDeque;

use timeous::core::{Duration, Instant, PathState};

use super::super::cm::packet::{HEADER, Packet};
use super::super::cm::sender::{Application, Flow};

/// Interval between frames.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of audio per frame: 64 kbit/s.
pub(super) const FRAME: usize = 160;
/// Packet size in bytes.
pub(super) const SIZE: usize = FRAME + HEADER;
/// Length of the buffer, in time.
pub(super) const BUFFER: Duration = Duration::from_millis(200);
/// Burst of the policer, in packets.
pub(super) const BURST: f64 = 3.0;
/// Length of a plain socket's buffer, in packets.
pub(super) const SOCKET: usize = 50;

/// Way to send the audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SendMethod {
    /// Policer, buffer that drops from its head, request and callback (figure 2).
    Vat,
    /// `Vat` without the policer.
    Head,
    /// Congestion-controlled socket whose queue drops at its tail.
    Tail,
    /// Plain UDP without congestion control.
    Plain,
}

impl SendMethod {
    pub(super) const ALL: [Self; 4] = [Self::Vat, Self::Head, Self::Tail, Self::Plain];

    /// Returns the name for output.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vat => "policer, drop from head",
            Self::Head => "drop from head alone",
            Self::Tail => "drop at tail",
            Self::Plain => "plain UDP",
        }
    }
}

/// Frame counts of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct FrameCounts {
    pub(super) made: u64,
    /// Dropped by the policer.
    pub(super) policed: u64,
    /// Dropped from the buffer: too old, or no room.
    pub(super) dropped: u64,
}

/// Token bucket whose rate is the manager's.
#[derive(Debug, Default)]
struct Policer {
    tokens: f64,
    last: Option<Instant>,
}

impl Policer {
    /// Returns whether a packet of `SIZE` bytes may pass.
    fn passes(&mut self, now: Instant, path: &PathState) -> bool {
        let full = BURST * SIZE as f64;
        // Without a round-trip sample there is no rate to enforce.
        let known = path.srtt.is_some();
        let earned = match self.last {
            Some(last) if known => path.rate.as_bps() as f64 / 8.0 * now.saturating_since(last).as_secs_f64(),
            _ => full,
        };
        self.last = Some(now);
        self.tokens = (self.tokens + earned).min(full);
        let passes = self.tokens >= SIZE as f64;
        if passes {
            self.tokens -= SIZE as f64;
        }
        passes
    }
}

/// Application, as a client of the manager.
pub(super) struct Vat {
    way: SendMethod,
    next: Option<Instant>,
    policer: Policer,
    waiting: VecDeque<Packet>,
    counted: FrameCounts,
    /// Waiting time of each sent packet, in milliseconds.
    waited: Vec<f64>,
}

impl Vat {
    pub(super) fn new(way: SendMethod) -> Self {
        let (policer, waiting) = (Policer::default(), VecDeque::new());
        Self { way, next: None, policer, waiting, counted: FrameCounts::default(), waited: Vec::new() }
    }

    pub(super) fn counted(&self) -> FrameCounts {
        self.counted
    }

    /// Returns the waiting time of each sent packet, in milliseconds.
    pub(super) fn waited(&self) -> &[f64] {
        &self.waited
    }

    fn enqueue_frame(&mut self, now: Instant, made: Instant, path: &PathState) {
        self.counted.made += 1;
        if self.way == SendMethod::Vat && !self.policer.passes(now, path) {
            self.counted.policed += 1;
            return;
        }
        if self.way == SendMethod::Tail && self.waiting.len() >= SOCKET {
            self.counted.dropped += 1;
            return;
        }
        self.waiting.push_back(Packet { made, tag: 0, len: SIZE });
        self.drop_stale(now);
    }

    /// Drops packets from the head that have waited longer than the buffer's length.
    fn drop_stale(&mut self, now: Instant) {
        while self.way != SendMethod::Tail
            && self.waiting.front().is_some_and(|head| now.saturating_since(head.made) > BUFFER)
        {
            self.waiting.pop_front();
            self.counted.dropped += 1;
        }
    }
}

impl Application for Vat {
    fn run(&mut self, now: Instant, flow: &mut Flow<'_>) {
        let mut next = self.next.unwrap_or(now);
        while next <= now {
            self.enqueue_frame(now, next, &flow.query());
            next += INTERVAL;
        }
        self.next = Some(next);
        if !self.waiting.is_empty() && !flow.is_waiting() {
            flow.request();
        }
    }

    fn granted(&mut self, now: Instant, _: &PathState) -> Option<Packet> {
        self.drop_stale(now);
        let packet = self.waiting.pop_front()?;
        self.waited.push(1e3 * now.saturating_since(packet.made).as_secs_f64());
        Some(packet)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use timeous::core::Rate;

    use super::*;

    #[test]
    fn the_policer_passes_what_the_rate_allows() {
        let mut policer = Policer::default();
        let half = Rate::from_bytes_in(SIZE as u64, INTERVAL * 2);
        let path = PathState { rate: half, srtt: Some(INTERVAL), ..PathState::default() };
        let passed = (0..203).filter(|&n| policer.passes(Instant::ZERO + INTERVAL * n, &path)).count();
        assert!((100..=104).contains(&passed), "{passed}");
    }
}
