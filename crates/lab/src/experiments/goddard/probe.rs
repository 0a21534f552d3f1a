//! Packet pairs: two packets leave back to back, and their spacing at the far end gives the
//! bottleneck's rate. They travel beside the stream over UDP: a paced transport would show its own
//! pacing rate.

use std::sync::{Arc, Mutex, PoisonError};

use timeous::core::{AduMeta, Duration, Instant, Rate};
use timeous_host::{Application, Outlet};

use super::message::PACKET;

/// Time after which a missing pair is requested again.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between checks for a new request of the player.
const LOOK: Duration = Duration::from_millis(10);

/// State shared by a player and its probe on the same host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Number of requests for an estimate.
    asked: u32,
    /// Last estimate, with the number of its request.
    found: Option<(u32, Rate)>,
}

impl Probe {
    fn with<R>(&self, what: impl FnOnce(&mut State) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Requests an estimate.
    pub(crate) fn ask(&self) {
        self.with(|state| state.asked += 1);
    }

    /// Returns the estimate of the last request, once available.
    pub(crate) fn answer(&self) -> Option<Rate> {
        self.with(|state| state.found.filter(|(asked, _)| *asked == state.asked).map(|(_, rate)| rate))
    }

    /// Sets the estimate of the last request, in place of a pair.
    #[cfg(test)]
    pub(super) fn found(&self, rate: Rate) {
        self.with(|state| state.found = Some((state.asked, rate)));
    }

    /// Returns the number of the unanswered request.
    fn open(&self) -> Option<u32> {
        self.with(|state| {
            let answered = state.found.is_some_and(|(asked, _)| asked == state.asked);
            (state.asked > 0 && !answered).then_some(state.asked)
        })
    }
}

/// Player's end: requests pairs, and measures their spacing.
#[derive(Debug)]
pub(crate) struct ProbeRequester {
    probe: Probe,
    /// Number of the last pair; each has its own, since a pair thought lost may still arrive.
    pair: u32,
    /// Request and time of the last pair.
    last: Option<(u32, Instant)>,
    first: Option<Instant>,
    next: Instant,
}

impl ProbeRequester {
    /// Creates the player's end.
    pub(crate) fn new(probe: Probe) -> Self {
        Self { probe, pair: 0, last: None, first: None, next: Instant::ZERO }
    }
}

impl Application for ProbeRequester {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        self.next = now + LOOK;
        let Some(question) = self.probe.open() else { return };
        let waits = self.last.is_some_and(|(of, at)| of == question && now.saturating_since(at) < TIMEOUT);
        if !waits {
            self.pair += 1;
            (self.last, self.first) = (Some((question, now)), None);
            // A request that is not sent now is repeated.
            let _again = outlet.send(AduMeta { enqueued: now, ..AduMeta::default() }, &self.pair.to_be_bytes());
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        let Some((&pair, [index, ..])) = bytes.split_first_chunk() else { return };
        let Some((question, _)) = self.last.filter(|_| u32::from_be_bytes(pair) == self.pair) else { return };
        match (index, self.first) {
            (0, _) => self.first = Some(now),
            (_, Some(first)) if now > first => {
                let rate = Rate::from_bytes_in(bytes.len() as u64, now.saturating_since(first));
                self.probe.with(|state| state.found = Some((question, rate)));
            }
            _ => {}
        }
    }
}

/// Streamer's end: answers each request with a pair.
#[derive(Debug, Default)]
pub(crate) struct ProbeResponder {
    asked: Vec<[u8; 4]>,
}

impl Application for ProbeResponder {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        for pair in self.asked.drain(..) {
            for index in 0..2 {
                let mut packet = pair.to_vec();
                packet.push(index);
                packet.resize(PACKET, 0);
                let _as_it_may = outlet.send(AduMeta { enqueued: now, ..AduMeta::default() }, &packet);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_received(&mut self, _: Instant, bytes: &[u8]) {
        self.asked.extend(bytes.first_chunk());
    }
}
