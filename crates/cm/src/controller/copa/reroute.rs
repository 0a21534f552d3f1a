//! Route change detection: an RTT that rises in one step and stays there is a new route, not a queue.
//!
//! A queue grows by what is sent into it: it adds 50 ms between two packets only at several times the link's rate, and
//! then does not stay constant. A new route adds the same delay to each packet from one instant on.

use timeous_core::{Duration, Instant};

/// Minimum RTT step of a new route. Chosen by us, equal to the minimum of a link outage. A higher value takes the delay
/// of a new route for a queue until the minimum RTT expires; a lower one takes queues for routes.
const MIN_RTT_STEP: Duration = Duration::from_millis(50);
/// Minimum slope of the step: RTT growth over the time between both packets. Chosen by us: slow start, at twice the
/// link's rate, makes a queue grow with a slope of one. A lower value takes such queues for routes.
const MIN_RTT_SLOPE: u64 = 2;
/// RTT samples that must agree. Chosen by us: nearly an initial window of packets (RFC 6928). A higher value
/// finds a route later; a lower one takes a short burst of cross traffic for a route.
const MIN_SAMPLES: u32 = 8;
/// Minimum time between the first and the last of these packets. Chosen by us: a frame at 25 frames per second. A
/// higher value finds a route later; a lower one takes a burst's queue for a route.
const MIN_SPAN: Duration = Duration::from_millis(40);
/// Maximum difference between samples that agree. Chosen by us: timers, as for `MIN_TARGET_DELAY`. A higher value takes
/// draining queues for routes; a lower one misses routes with jitter.
const MAX_SPREAD: Duration = Duration::from_millis(4);
/// Divisor of the step: maximum difference between samples that agree, if it is more than `MAX_SPREAD`. Chosen by us: a
/// longer route has more jitter. A higher value misses routes with jitter.
const MAX_SPREAD_DIVISOR: u64 = 16;
/// Minimum time between these packets, in multiples of that difference. Chosen by us: a draining queue shrinks by the
/// time that passes. A higher value finds a route later; a lower one takes a draining queue for a route.
const MIN_SPAN_SPREADS: u64 = 4;

/// Detector of route changes from RTT samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reroute {
    /// Send time and RTT of the latest acknowledged packet.
    latest: Option<(Instant, Duration)>,
    candidate: Option<Candidate>,
}

/// RTT samples since a steep step.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Window before the step, in packets.
    window: f64,
    sent: Instant,
    /// Maximum difference between its samples.
    agree: Duration,
    samples: u32,
    least: Duration,
    most: Duration,
}

impl Reroute {
    /// Processes an RTT sample; on a new route, once enough samples agree, returns the window from before the
    /// step, in packets. `window` is the current one.
    pub(super) fn measured(&mut self, now: Instant, rtt: Duration, window: f64) -> Option<f64> {
        let sent = now.saturating_sub(rtt);
        let before = self.latest.replace((sent, rtt));
        if let Some(candidate) = &mut self.candidate {
            let (least, most) = (candidate.least.min(rtt), candidate.most.max(rtt));
            if most.saturating_sub(least) <= candidate.agree {
                (candidate.least, candidate.most) = (least, most);
                candidate.samples += 1;
                let span = MIN_SPAN.max(candidate.agree * MIN_SPAN_SPREADS);
                let is_sure = candidate.samples >= MIN_SAMPLES && sent.saturating_since(candidate.sent) >= span;
                let found = self.candidate.take_if(|_| is_sure);
                return found.map(|found| found.window);
            }
            self.candidate = None;
        }
        let (sent_before, rtt_before) = before?;
        // A packet sent before the latest one was overtaken: this shows no step.
        let apart = sent.checked_since(sent_before).filter(|apart| !apart.is_zero())?;
        let step = rtt.saturating_sub(rtt_before);
        if step > MIN_RTT_STEP.max(apart * MIN_RTT_SLOPE) {
            let agree = MAX_SPREAD.max(step / MAX_SPREAD_DIVISOR);
            self.candidate = Some(Candidate { window, sent, agree, samples: 1, least: rtt, most: rtt });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The routes found for packets with these send times and RTTs; the window is 20 packets before the step.
    fn found(packets: impl IntoIterator<Item = (u64, u64)>) -> Vec<f64> {
        let mut reroute = Reroute::default();
        let tell = |(left, rtt): (u64, u64)| {
            reroute.measured(Instant::ZERO + ms(1_000 + left + rtt), ms(rtt), if rtt < 100 { 20.0 } else { 5.0 })
        };
        packets.into_iter().filter_map(tell).collect()
    }

    #[test]
    fn a_step_after_which_round_trips_agree_is_a_new_route() {
        let packets = (0..40).map(|n| (10 * n, if n < 20 { 40 } else { 390 + n % 3 }));
        assert_eq!(found(packets), [5.0]);
    }

    #[test]
    fn queues_and_standstills_are_no_new_route() {
        // A flow in slow start fills the queue within a round trip, which then stays full.
        assert_eq!(found((0..80u64).map(|n| (10 * n, (40 + 10 * n.saturating_sub(20)).min(390)))), []);
        // A burst of cross traffic, which the link drains.
        assert_eq!(found((0..80).map(|n| (10 * n, if n < 20 { 40 } else { 240 - 2 * n }))), []);
        // A link outage, after which all waiting packets arrive at once.
        assert_eq!(found((0..60).map(|n| (10 * n, if n < 20 { 40 } else { (540 - 10 * (n - 20)).max(40) }))), []);
    }

    #[test]
    fn a_pause_before_the_step_leaves_it_open() {
        let packets = [(0, 40), (10, 40)].into_iter().chain((0..30).map(|n| (2_000 + 10 * n, 390)));
        assert_eq!(found(packets), [], "others may have filled a queue meanwhile");
    }
}
