//! Order of a source's RTP packets: those that came in another order wait for those before them, for a short time.

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant};

use super::sequence::{Place, Sequence};

/// Longest wait for a packet before one that came. Chosen by us: more than a local network reorders; a higher value delays what
/// follows a loss.
const PATIENCE: Duration = Duration::from_millis(60);
/// Most packets that wait. Chosen by us: 60 ms at 100 Mbit/s.
const MOST_WAITING: usize = 1_024;

/// Packet in order.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) packet: Vec<u8>,
    pub(crate) arrived: Instant,
    /// RTP timestamp without wrap-around.
    pub(crate) ticks: i64,
    /// Whether packets before it did not come.
    pub(crate) has_gap: bool,
}

/// Packets of one stream.
#[derive(Debug)]
pub(crate) struct Reorder {
    sequence: Sequence,
    waiting: BTreeMap<u64, (Vec<u8>, Instant, i64)>,
    expected: Option<u64>,
    /// Last packet that may be the first one of a restart: number, timestamp, bytes and arrival.
    stray: Option<(u16, u32, Vec<u8>, Instant)>,
}

impl Default for Reorder {
    fn default() -> Self {
        Self { sequence: Sequence::of_source(), waiting: BTreeMap::new(), expected: None, stray: None }
    }
}

impl Reorder {
    /// Returns the state after a restart of the source, with the packet that showed it.
    #[must_use]
    pub(crate) fn restarted(&mut self) -> Self {
        let mut new = Self::default();
        if let Some((number, timestamp, packet, at)) = self.stray.take() {
            new.push(at, number, timestamp, &packet);
        }
        new
    }

    /// Takes a packet; returns `false` if its source begins anew, so that this state is to be replaced by
    /// [`restarted`](Self::restarted).
    pub(crate) fn push(&mut self, now: Instant, number: u16, timestamp: u32, packet: &[u8]) -> bool {
        match self.sequence.place(now, number, timestamp) {
            Place::New { seq, ticks } => {
                // What comes too late is of no use: a number once left out stays so.
                if self.expected.is_none_or(|expected| seq >= expected) {
                    self.waiting.insert(seq, (packet.to_vec(), now, ticks));
                }
                true
            }
            Place::Duplicate => true,
            Place::Stray => {
                self.stray = Some((number, timestamp, packet.to_vec(), now));
                true
            }
            Place::Restart => false,
        }
    }

    /// Returns the next packet, if it is in order or was waited for.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Ordered> {
        let (&seq, &(_, arrived, _)) = self.waiting.first_key_value()?;
        let has_gap = self.expected.is_some_and(|expected| seq != expected);
        if has_gap && now < arrived + PATIENCE && self.waiting.len() <= MOST_WAITING {
            return None;
        }
        let (packet, arrived, ticks) = self.waiting.remove(&seq)?;
        self.expected = Some(seq + 1);
        Some(Ordered { packet, arrived, ticks, has_gap })
    }

    /// Returns when [`next`](Self::next) has one at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, (_, arrived, _))| *arrived + PATIENCE)
    }
}
