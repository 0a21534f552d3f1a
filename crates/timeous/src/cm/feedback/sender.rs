//! The sender's half: packets in flight, acknowledgements, loss detection, round-trip time.

use std::collections::VecDeque;

use timeous_cm::{Loss, RttEstimator, Update};
use timeous_core::{Duration, Instant};

use super::ack::Ack;
use super::error::FeedbackError;

/// Packet reordering threshold (RFC 9002 §6.1.1): newer arrivals after which a packet is lost.
const REORDERING: u64 = 3;
/// Maximum number of times that the timeout doubles (RFC 6298 §5.5 allows a maximum of 60 s or more). Chosen by us: a
/// higher value waits longer for a dead path.
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
    /// Packets from number `first`; `None` where the fate is known.
    under_way: VecDeque<Option<Sent>>,
    first: u64,
    outstanding: u64,
    /// Number after the newest packet acknowledged.
    arrived: u64,
    rtt: RttEstimator,
    /// Maximum intentional delay of the receiver's acknowledgements.
    ack_delay: Duration,
    marked: u32,
    /// Time of the last new acknowledgement.
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
    /// Creates the sender's half for a receiver that may delay acknowledgements by `ack_delay`, which is added to the
    /// timeout. The timeout has a margin of some 200 ms in any case.
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

    /// Number of the next packet, counted from 0.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.first + self.under_way.len() as u64
    }

    /// Notes a packet of `bytes`, as reported to the manager, that leaves now. Returns the number to put into it.
    pub fn sent(&mut self, now: Instant, bytes: u64) -> u64 {
        let number = self.next_number();
        self.under_way.push_back(Some(Sent { at: now, bytes }));
        self.outstanding += bytes;
        number
    }

    /// Processes an acknowledgement. Returns the update for the manager, if it contains news.
    ///
    /// # Errors
    /// [`FeedbackError::NotSent`]: it acknowledges a packet that was never sent. Nothing has changed.
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

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due, unless an acknowledgement arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.under_way.iter().flatten().next()?;
        Some(oldest.at.max(self.heard_at) + self.timeout())
    }

    /// Handles a timeout: everything in flight is lost, as the returned update tells the manager (RFC 6298 §5). Later
    /// acknowledgements for it are ignored.
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

    /// Forgets the packets in flight, as the manager does when a daemon is gone: to be called when a flow is reopened.
    /// Numbers continue.
    pub fn forget(&mut self) {
        self.first = self.next_number();
        self.under_way.clear();
        self.outstanding = 0;
    }

    /// Bytes in flight.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Round-trip time estimator.
    #[must_use]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Current retransmission timeout, with backoff.
    fn timeout(&self) -> Duration {
        (self.rtt.timeout() + self.ack_delay) * (1 << self.backoff)
    }

    fn sent_at(&self, number: u64) -> Option<Instant> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.under_way.get(place)?.map(|sent| sent.at)
    }

    /// Removes the acknowledged packets; returns their bytes.
    fn take_arrived(&mut self, ack: &Ack) -> u64 {
        let mut bytes = 0;
        for (oldest, newest) in ack.ranges().take_while(|&(_, newest)| newest >= self.first) {
            let places = (oldest.max(self.first) - self.first) as usize..=(newest - self.first) as usize;
            bytes += self.under_way.range_mut(places).filter_map(Option::take).map(|sent| sent.bytes).sum::<u64>();
        }
        self.outstanding -= bytes;
        bytes
    }

    /// Removes lost packets; returns their bytes and the send time of the newest.
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

    /// Removes the oldest packets whose fate is known.
    fn settle(&mut self) {
        while let Some(None) = self.under_way.front() {
            self.under_way.pop_front();
            self.first += 1;
        }
    }

    /// Takes a round-trip sample. The receiver's delay is subtracted as far as the minimum RTT remains (RFC 9002 §5.3).
    fn sample(&mut self, rtt: Duration, delay: Duration) -> Duration {
        let least = self.rtt.min().unwrap_or(rtt);
        let rtt = rtt.saturating_sub(delay).max(least.min(rtt));
        self.rtt.sample(rtt);
        rtt
    }
}
