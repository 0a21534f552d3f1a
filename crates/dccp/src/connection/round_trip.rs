//! Round trips between the ends: smoothed time, delays of the peer's acknowledgements, and the waits derived from them.

use timeous_cm::RttEstimator;
use timeous_core::{Duration, Instant, RecentMaximum};

use super::way_back::WayBack;
use crate::options::Ticks;
use crate::seq::Seq;

/// Round-trip time assumed before the first measurement (RFC 4340 §3.4).
const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Upper bound of the acknowledgement delay that we believe a peer to have: TCP's (RFC 9293 §3.8.6.3). A higher value
/// lets a peer make our timeouts longer.
const MAX_PEER_DELAY: Duration = Duration::from_millis(500);
/// Time for which a reported delay counts at least, and half of the most. Chosen by us: a higher value keeps timeouts
/// longer after a peer was busy; a lower one has more timeouts that were for nothing.
const PEER_DELAY_PERIOD: Duration = Duration::from_secs(10);
/// Maximum acknowledgement delay of an end that accepts retransmissions (docs/design/repair.md): with a deadline of two
/// round trips, 20 ms are too long. A higher value makes retransmissions later, and acknowledgements fewer.
pub(super) const MAX_REPAIR_ACK_DELAY: Duration = Duration::from_millis(5);
/// Minimum margin for round-trip variation. Chosen by us: a higher value retransmits later on short paths; a lower one
/// sends needless copies.
const MIN_MARGIN: Duration = Duration::from_millis(2);

/// Round-trip time and timing of acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed time, once measured.
    rtt: Option<Duration>,
    /// Longest delay of an acknowledgement that the peer has reported recently: the delay of a busy host passes.
    peer_delay: RecentMaximum,
    way_back: WayBack,
    /// Time of the last measurement.
    measured_at: Option<Instant>,
    /// Lower bound of the next feedback timeout, while the estimate is stale; else zero.
    least_timeout: Duration,
    /// Time of the last valid packet received.
    heard_at: Option<Instant>,
    /// Time of the last acknowledgement, had it taken the least time.
    acked_at: Instant,
    /// The packet that triggered that acknowledgement, and its estimated arrival.
    trigger: Option<(Seq, Instant)>,
    /// Lower bound of the arrival of the other acknowledged packets: the previous acknowledgement did not include them.
    others_since: Instant,
}

impl RoundTrip {
    pub(super) fn rtt(&self) -> Duration {
        self.rtt.unwrap_or(DEFAULT_RTT)
    }

    /// Feedback timeout: the path's, no shorter than in a wait with a stale estimate, and the peer's delay.
    pub(super) fn feedback_timeout(&self, timeout: Duration) -> Duration {
        // Round-trip samples exclude the acknowledgement delay that the peer reports, so it is added here.
        timeout.max(self.least_timeout) + self.peer_delay.get()
    }

    pub(super) fn is_measured(&self) -> bool {
        self.measured_at.is_some()
    }

    /// Takes the Congestion Manager's smoothed round-trip time, and the time of a new sample.
    pub(super) fn on_update(&mut self, srtt: Option<Duration>, sampled: Option<Instant>) {
        self.rtt = srtt.or(self.rtt);
        if sampled.is_some() {
            (self.measured_at, self.least_timeout) = (sampled, Duration::ZERO);
        }
    }

    /// Forgets the measurements: the path has changed.
    pub(super) fn forget(&mut self) {
        (self.rtt, self.measured_at, self.way_back) = (None, None, WayBack::default());
    }

    pub(super) fn on_packet(&mut self, now: Instant) {
        self.heard_at = Some(now);
    }

    /// "a connection is considered active if it has received valid packets from the other endpoint within the last
    /// three round-trip times" (RFC 4340 §7.5.3).
    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.heard_at.is_some_and(|at| now - at <= self.rtt() * 3)
    }

    /// Time that an acknowledgement took beyond the least on its way back, which left at `sent` by the peer's clock. It is no
    /// longer than what the round trip `rtt` took beyond the minimum, `least`: clocks of a peer are not to be believed.
    pub(super) fn excess(
        &mut self,
        now: Instant,
        sent: Option<Ticks>,
        rtt: Option<Duration>,
        least: Option<Duration>,
    ) -> Duration {
        let excess = sent.map_or(Duration::ZERO, |sent| self.way_back.excess(now, sent));
        let most = rtt.zip(least).map(|(rtt, least)| rtt.saturating_sub(least));
        most.map_or(excess, |most| excess.min(most))
    }

    /// Notes an acknowledgement of `ack` that the peer held for `elapsed`, and that had come at `now` in the least time. The
    /// way back takes half of the minimum RTT then.
    pub(super) fn on_ack(&mut self, now: Instant, least: Option<Duration>, ack: Seq, elapsed: Duration) {
        let back = least.unwrap_or(Duration::ZERO) / 2;
        self.trigger = least.map(|_| (ack, now.saturating_sub(elapsed + back)));
        self.others_since = self.acked_at.saturating_sub(back);
        self.acked_at = now;
        self.peer_delay.note(now, elapsed.min(MAX_PEER_DELAY), PEER_DELAY_PERIOD);
    }

    /// Returns the earliest possible arrival time of a packet that is acknowledged now.
    pub(super) fn earliest_arrival(&self, seq: Seq) -> Instant {
        let trigger = self.trigger.filter(|&(ack, _)| ack == seq);
        trigger.map_or(self.others_since, |(_, at)| at.max(self.others_since))
    }

    /// Begins to wait for feedback. If the last sample is older than the initial timeout (RFC 6298 §2.1), queues may
    /// have grown since, and the timeout is no shorter than that.
    pub(super) fn begin_wait(&mut self, now: Instant) {
        let is_old = self.measured_at.is_some_and(|at| now - at > RttEstimator::INITIAL_TIMEOUT);
        self.least_timeout = if is_old { RttEstimator::INITIAL_TIMEOUT } else { Duration::ZERO };
    }

    /// Ends the wait for feedback by a timeout.
    pub(super) fn end_wait(&mut self) {
        self.least_timeout = Duration::ZERO;
    }

    /// Time after which a packet's acknowledgement is overdue. If later packets have arrived (`passed`: by how much they overtake), it allows a
    /// quarter of a round trip for reordering (RFC 8985 §6.2), or what the path has shown; else the round-trip variation and the peer's
    /// acknowledgement delay.
    pub(super) fn patience(&self, rttvar: Duration, passed: Option<Duration>) -> Duration {
        let rtt = self.rtt();
        match passed {
            Some(reordering) => rtt + (rtt / 4).max(MIN_MARGIN).max(rttvar).max(reordering),
            None => self.patience_for(MAX_REPAIR_ACK_DELAY, rttvar),
        }
    }

    /// Time after which the acknowledgement of a packet is overdue at a peer that acknowledges at least once in `interval`.
    pub(super) fn patience_for(&self, interval: Duration, rttvar: Duration) -> Duration {
        let rtt = self.rtt();
        rtt + (rtt / 16).max(MIN_MARGIN).max(rttvar * 4) + self.peer_delay.get().max(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_clock_takes_no_more_off_a_round_trip_than_it_took_beyond_the_minimum() {
        const MS: Duration = Duration::from_millis(1);
        let mut times = RoundTrip::default();
        let mut excess = |at: u64, sent: u64, rtt: u64| {
            let (now, sent) = (Instant::ZERO + MS * at, Ticks::timestamp(Instant::ZERO + MS * sent));
            times.excess(now, Some(sent), Some(MS * rtt), Some(MS * 40))
        };
        assert_eq!(excess(1_020, 1_000, 40), Duration::ZERO);
        assert_eq!(excess(1_130, 1_100, 45), MS * 5);
        assert_eq!(excess(1_200, 10, 50), MS * 10, "a clock that is a second behind");
        assert_eq!(times.excess(Instant::ZERO + MS * 1_300, None, Some(MS * 90), Some(MS * 40)), Duration::ZERO);
    }
}
