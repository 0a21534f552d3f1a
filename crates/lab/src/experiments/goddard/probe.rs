//! Packet pairs: two packets leave back to back, and the time between them at the far end tells what the narrowest link
//! carries. They travel beside the stream, by UDP: a paced transport would tell of its own pace.

use std::sync::{Arc, Mutex, PoisonError};

use timeous::core::{AduMeta, Duration, Instant, Rate};
use timeous_host::{Application, Outlet};

use super::message::PACKET;

/// A pair that has not come after so long is asked for again.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is looked for something to be asked.
const LOOK: Duration = Duration::from_millis(10);

/// Between a player and what probes for it on the same machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How often was asked.
    asked: u32,
    /// What was found for the last time.
    found: Option<(u32, Rate)>,
}

impl Probe {
    fn with<R>(&self, what: impl FnOnce(&mut State) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for an estimate.
    pub(crate) fn ask(&self) {
        self.with(|state| state.asked += 1);
    }

    /// The answer to the last question, once it is there.
    pub(crate) fn answer(&self) -> Option<Rate> {
        self.with(|state| state.found.filter(|(asked, _)| *asked == state.asked).map(|(_, rate)| rate))
    }

    /// Answers the last question, in place of a pair.
    #[cfg(test)]
    pub(super) fn found(&self, rate: Rate) {
        self.with(|state| state.found = Some((state.asked, rate)));
    }

    /// The question that has no answer yet.
    fn open(&self) -> Option<u32> {
        self.with(|state| {
            let answered = state.found.is_some_and(|(asked, _)| asked == state.asked);
            (state.asked > 0 && !answered).then_some(state.asked)
        })
    }
}

/// At the player: asks for pairs, and looks at how far apart they come.
#[derive(Debug)]
pub(crate) struct Asking {
    probe: Probe,
    /// Each pair has a number of its own, since one that was thought lost may come yet.
    pair: u32,
    /// For which question, and when, the last pair was asked for.
    last: Option<(u32, Instant)>,
    first: Option<Instant>,
    next: Instant,
}

impl Asking {
    /// For a player.
    pub(crate) fn new(probe: Probe) -> Self {
        Self { probe, pair: 0, last: None, first: None, next: Instant::ZERO }
    }
}

impl Application for Asking {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        self.next = now + LOOK;
        let Some(question) = self.probe.open() else { return };
        let waits = self.last.is_some_and(|(of, at)| of == question && now.saturating_since(at) < TIMEOUT);
        if !waits {
            self.pair += 1;
            (self.last, self.first) = (Some((question, now)), None);
            // What does not get through is asked for again.
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

/// At the streamer: answers with pairs.
#[derive(Debug, Default)]
pub(crate) struct Answering {
    asked: Vec<[u8; 4]>,
}

impl Application for Answering {
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
