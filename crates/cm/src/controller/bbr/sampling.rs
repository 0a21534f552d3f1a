//! Delivery rate samples, each with the bytes in flight and lost meanwhile (draft-ietf-ccwg-bbr §4.1).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::super::Sent;

/// Maximum number of packets in flight that are tracked; beyond it the oldest are dropped. Chosen by us: above any
/// window in practice. A higher value takes more memory.
const MAX_TRACKED_PACKETS: usize = 1 << 16;

/// Per-packet state at transmission: the draft's `P`.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    outstanding: u64,
    app_limited: bool,
}

/// Delivery rate sample of an acknowledgement: the draft's `RS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Delivery rate in bytes per second; none if its interval was below the minimum RTT.
    pub(super) rate: Option<f64>,
    /// Bytes delivered since the packet was sent, and before that.
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
    /// Bytes reported lost since the packet was sent, and bytes in flight when it was sent, itself included.
    pub(super) lost: u64,
    pub(super) outstanding: u64,
    /// Whether the sample is application-limited.
    pub(super) app_limited: bool,
}

/// Delivery rate sampler.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    under_way: VecDeque<Departure>,
    /// Latest sent of the acknowledged packets.
    newest: Option<Departure>,
    /// Total bytes delivered.
    delivered: u64,
    delivered_at: Instant,
    /// Send time of the packet acknowledged last.
    first_sent_at: Instant,
    lost: u64,
    /// Total of delivered bytes beyond which samples are no longer application-limited.
    app_limited_until: Option<u64>,
}

impl Sampler {
    /// Total bytes delivered.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Records a sent packet (§4.1.2.2).
    pub(super) fn sent(&mut self, now: Instant, sent: &Sent) {
        let before = sent.outstanding.saturating_sub(sent.bytes);
        if before == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        if sent.app_limited {
            self.limit_by_application(before);
        }
        if self.under_way.len() >= MAX_TRACKED_PACKETS {
            self.under_way.pop_front();
        }
        self.under_way.push_back(Departure {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            outstanding: sent.outstanding,
            app_limited: self.app_limited_until.is_some(),
        });
    }

    /// Marks samples as application-limited until the bytes now in flight are delivered (§4.1.2.4).
    pub(super) fn limit_by_application(&mut self, outstanding: u64) {
        self.app_limited_until = Some(self.delivered + outstanding);
    }

    pub(super) fn lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// Takes an acknowledgement and returns its sample (§4.1.2.3). An interval below `min_rtt` gives no rate.
    pub(super) fn acked(
        &mut self,
        now: Instant,
        bytes: u64,
        rtt: Option<Duration>,
        min_rtt: Option<Duration>,
    ) -> Option<Sample> {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        let left = self.newest_of(now.saturating_sub(rtt?))?;
        self.first_sent_at = left.at;
        let delivered = self.delivered - left.delivered;
        let sending = left.at.saturating_since(left.first_sent_at);
        let interval = sending.max(now.saturating_since(left.delivered_at));
        let tells = !interval.is_zero() && min_rtt.is_none_or(|least| interval >= least);
        Some(Sample {
            rate: tells.then(|| delivered as f64 / interval.as_secs_f64()),
            delivered,
            prior_delivered: left.delivered,
            lost: self.lost - left.lost,
            outstanding: left.outstanding,
            app_limited: left.app_limited,
        })
    }

    /// The latest packet sent at or before `at`; earlier ones are dropped. Packets sent at the same instant may be
    /// acknowledged one by one.
    fn newest_of(&mut self, at: Instant) -> Option<Departure> {
        while self.under_way.front().is_some_and(|departure| departure.at <= at) {
            self.newest = self.under_way.pop_front();
        }
        self.newest.filter(|newest| newest.at <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    const RTT: Duration = Duration::from_millis(100);

    fn send(sampler: &mut Sampler, millis: u64, outstanding: u64, app_limited: bool) {
        sampler.sent(at(millis), &Sent { bytes: 1_000, outstanding, app_limited });
    }

    #[test]
    fn a_rate_is_what_was_delivered_while_a_packet_was_under_way() {
        let mut sampler = Sampler::default();
        (0..10).for_each(|n| send(&mut sampler, 10 * n, 1_000 * (n + 1), false));
        let mut last = None;
        for n in 0..10 {
            last = sampler.acked(at(100 + 10 * n), 1_000, Some(RTT), Some(RTT));
        }
        // The tenth packet left at 90 ms, when nothing was delivered; ten were delivered within 190 ms of the first's departure.
        let expected = Sample {
            rate: Some(10_000.0 / 0.19),
            delivered: 10_000,
            prior_delivered: 0,
            lost: 0,
            outstanding: 10_000,
            app_limited: false,
        };
        assert_eq!(last, Some(expected));
        (10..20).for_each(|n| send(&mut sampler, 100 + 10 * n, 10_000, false));
        assert!(sampler.acked(at(300), 1_000, Some(RTT), Some(RTT)).is_some());
    }

    #[test]
    fn acknowledgements_in_a_lump_are_no_faster_than_the_packets_left() {
        let mut sampler = Sampler::default();
        (0..5).for_each(|n| send(&mut sampler, 50 * n, 1_000 * (n + 1), false));
        let sample = sampler.acked(at(201), 5_000, Some(Duration::from_millis(1)), None).unwrap();
        assert_eq!(sample.rate, Some(5_000.0 / 0.201));
    }

    #[test]
    fn what_left_after_the_application_was_the_limit_says_so_until_that_is_delivered() {
        let mut sampler = Sampler::default();
        send(&mut sampler, 0, 1_000, false);
        send(&mut sampler, 50, 2_000, true);
        send(&mut sampler, 60, 3_000, false);
        let told: Vec<bool> =
            [100, 150, 160].map(|now| sampler.acked(at(now), 1_000, Some(RTT), None).unwrap().app_limited).to_vec();
        assert_eq!(told, [false, true, true]);
        send(&mut sampler, 161, 1_000, false);
        assert!(!sampler.acked(at(261), 1_000, Some(RTT), None).unwrap().app_limited);
    }

    #[test]
    fn losses_count_since_the_packet_left_and_short_intervals_tell_no_rate() {
        let mut sampler = Sampler::default();
        sampler.lost(7_000);
        send(&mut sampler, 5, 1_000, false);
        sampler.lost(2_000);
        let sample = sampler.acked(at(104), 1_000, Some(Duration::from_millis(99)), Some(RTT)).unwrap();
        assert_eq!((sample.lost, sample.rate), (2_000, None));
        assert_eq!(sampler.acked(at(104), 1_000, Some(RTT), None), None, "that left before");
        assert_eq!(sampler.acked(at(120), 1_000, None, None), None);
    }

    #[test]
    fn what_left_at_one_instant_is_heard_of_one_by_one() {
        let mut sampler = Sampler::default();
        (1..=4).for_each(|n| send(&mut sampler, 0, 1_000 * n, false));
        let last = (0..4).map(|n| sampler.acked(at(100 + n), 1_000, Some(Duration::from_millis(100 + n)), None)).last();
        assert_eq!(last.flatten().and_then(|sample| sample.rate), Some(4_000.0 / 0.103));
    }
}
