//! The sender's half: what is under way, what arrived, what is lost, and how long a round trip takes.

use std::collections::VecDeque;

use timeous_cm::{Loss, RttEstimator, Update};
use timeous_core::{Duration, Instant};

use super::ack::Ack;
use super::error::FeedbackError;

/// A packet is lost when so much newer ones have arrived (RFC 9002 §6.1.1): less is reordering.
const REORDERING: u64 = 3;
/// The timeout doubles so many times at most (RFC 6298 §5.5 bounds it at 60 s or more).
const MAX_BACKOFF: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    bytes: u64,
}

/// Turns acknowledgements and silence into updates for the Congestion Manager.
///
/// Call [`sent`](Self::sent) when a packet leaves, [`acked`](Self::acked) when an acknowledgement comes, and
/// [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) is due. What each gives goes to
/// [`CongestionManager::update`](crate::cm::CongestionManager::update).
#[derive(Clone, Debug)]
pub struct Feedback {
    /// What was sent from packet `first` on; `None` where it is known what became of it.
    under_way: VecDeque<Option<Sent>>,
    first: u64,
    outstanding: u64,
    /// Just above the newest packet that arrived.
    arrived: u64,
    rtt: RttEstimator,
    /// For how long the receiver may wait with an acknowledgement on purpose.
    ack_delay: Duration,
    marked: u32,
    /// When it was last known that packets arrive.
    heard_at: Instant,
    backoff: u32,
}

impl Default for Feedback {
    /// For a receiver with [`Acks::default`](super::Acks::default).
    fn default() -> Self {
        Self::with_ack_delay(Duration::ZERO)
    }
}

impl Feedback {
    /// For a receiver that may wait for `ack_delay` before it acknowledges: no timeout before that. Some 200 ms more
    /// than a round trip are waited for in any case.
    #[must_use]
    pub fn with_ack_delay(ack_delay: Duration) -> Self {
        Self {
            under_way: VecDeque::new(),
            first: 0,
            outstanding: 0,
            arrived: 0,
            rtt: RttEstimator::default(),
            ack_delay,
            marked: 0,
            heard_at: Instant::ZERO,
            backoff: 0,
        }
    }

    /// The number that the next packet gets: they count from 0.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.first + self.under_way.len() as u64
    }

    /// A packet of `bytes`, as the manager was told of it, leaves now. Its number, which it has to bear.
    pub fn sent(&mut self, now: Instant, bytes: u64) -> u64 {
        let number = self.next_number();
        self.under_way.push_back(Some(Sent { at: now, bytes }));
        self.outstanding += bytes;
        number
    }

    /// An acknowledgement came. What the manager is to be told, if it says anything new.
    ///
    /// # Errors
    /// [`FeedbackError::NotSent`]: it acknowledges a packet that was not sent. Nothing has changed.
    pub fn acked(&mut self, now: Instant, ack: &Ack) -> Result<Option<Update>, FeedbackError> {
        let sent = self.next_number();
        if ack.newest >= sent {
            return Err(FeedbackError::NotSent { number: ack.newest, sent });
        }
        let newest_sent = self.sent_at(ack.newest);
        let acked = self.take_arrived(ack);
        if acked > 0 {
            (self.heard_at, self.backoff) = (now, 0);
        }
        let is_newest = ack.newest >= self.arrived;
        self.arrived = self.arrived.max(ack.newest + 1);
        let rtt = newest_sent.map(|at| self.sample(now.saturating_since(at), ack.delay));
        let marked = is_newest && std::mem::replace(&mut self.marked, ack.marked) != ack.marked;
        let (lost, last) = self.take_lost();
        let loss = match (last, newest_sent) {
            (Some(last), _) => Some((Loss::Transient, last)),
            (None, newest) if marked => Some((Loss::Ecn, newest.unwrap_or(now))),
            _ => None,
        };
        self.settle();
        let update = Update { acked, lost, loss, rtt, ..Update::default() };
        Ok((acked > 0 || lost > 0 || loss.is_some()).then_some(update))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if nothing is heard until then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.under_way.iter().flatten().next()?;
        Some(oldest.at.max(self.heard_at) + self.timeout())
    }

    /// Time has passed. If nothing was heard for too long, everything under way is lost, and the manager is to be told
    /// so (RFC 6298 §5). What is acknowledged after that is not counted any more.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Update> {
        if self.poll_timeout()? > now {
            return None;
        }
        let last = self.under_way.iter().rev().flatten().next()?.at;
        let lost = self.outstanding;
        self.forget();
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        Some(Update { lost, loss: Some((Loss::Persistent, last)), ..Update::default() })
    }

    /// Forgets what is under way, as the manager does when a daemon is gone: call it when a flow is opened again. The
    /// numbers go on.
    pub fn forget(&mut self) {
        self.first = self.next_number();
        self.under_way.clear();
        self.outstanding = 0;
    }

    /// Bytes under way.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The round-trip times that were measured.
    #[must_use]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// How long silence is borne.
    fn timeout(&self) -> Duration {
        (self.rtt.timeout() + self.ack_delay) * (1 << self.backoff)
    }

    fn sent_at(&self, number: u64) -> Option<Instant> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.under_way.get(place)?.map(|sent| sent.at)
    }

    /// Takes what the acknowledgement tells of from what is under way: so many bytes.
    fn take_arrived(&mut self, ack: &Ack) -> u64 {
        let mut bytes = 0;
        for (oldest, newest) in ack.ranges().take_while(|&(_, newest)| newest >= self.first) {
            let places = (oldest.max(self.first) - self.first) as usize..=(newest - self.first) as usize;
            bytes += self.under_way.range_mut(places).filter_map(Option::take).map(|sent| sent.bytes).sum::<u64>();
        }
        self.outstanding -= bytes;
        bytes
    }

    /// Takes what is lost from what is under way: so many bytes, and when the newest of them was sent.
    fn take_lost(&mut self) -> (u64, Option<Instant>) {
        let below = self.arrived.saturating_sub(REORDERING).saturating_sub(self.first) as usize;
        let places = ..below.min(self.under_way.len());
        let (mut bytes, mut last) = (0, None);
        for sent in self.under_way.range_mut(places).filter_map(Option::take) {
            bytes += sent.bytes;
            last = Some(sent.at);
        }
        self.outstanding -= bytes;
        (bytes, last)
    }

    /// Forgets the oldest packets, as far as it is known what became of them.
    fn settle(&mut self) {
        while let Some(None) = self.under_way.front() {
            self.under_way.pop_front();
            self.first += 1;
        }
    }

    /// A round trip of the newest packet. What the receiver says that it waited is believed as far as it leaves a
    /// round trip that was seen (RFC 9002 §5.3).
    fn sample(&mut self, rtt: Duration, delay: Duration) -> Duration {
        let least = self.rtt.min().unwrap_or(rtt);
        let rtt = rtt.saturating_sub(delay).max(least.min(rtt));
        self.rtt.sample(rtt);
        rtt
    }
}
