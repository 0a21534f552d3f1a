//! Closed-loop simulation of a controller over a bottleneck link, packet by packet in virtual time.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, Rng};

use super::{Acked, Congestion, Controller, Sent};
use crate::path_model::{Departure, Observed, PathModel};
use crate::rtt::RttEstimator;

/// Bottleneck link with a drop-tail queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottleneck {
    /// Link rate in packets per second.
    pub(super) packets: f64,
    /// Round-trip time without queueing and transmission delay.
    pub(super) rtt: Duration,
    /// Queue limit in packets.
    pub(super) queue: usize,
    /// Random loss rate before the queue.
    pub(super) loss: f64,
    /// Start and end, in seconds, of an interval in which the link carries a quarter of its rate.
    pub(super) slower: Option<(u64, u64)>,
    /// Seed of the random losses.
    pub(super) seed: u64,
}

impl Bottleneck {
    fn service(&self, now: Instant) -> Duration {
        let is_slow = self.slower.is_some_and(|(from, to)| {
            (Instant::ZERO + Duration::from_secs(from)..Instant::ZERO + Duration::from_secs(to)).contains(&now)
        });
        Duration::from_secs_f64(if is_slow { 4.0 } else { 1.0 } / self.packets)
    }
}

/// Result of a run, measured in its second half.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Link utilization.
    pub(super) used: f64,
    /// Mean queue length in packets, as seen by arriving packets.
    pub(super) mean_queue: f64,
    /// Share of packets dropped by the full queue.
    pub(super) dropped: f64,
    /// Time from the end of the slow interval until the link carried 90 % of its loss-free rate for half a second.
    pub(super) back: Option<Duration>,
}

/// Packet in flight: send time, time of its acknowledgement or loss report, whether it was lost, and its place in the path model.
struct UnderWay {
    left: Instant,
    news: Instant,
    lost: bool,
    departure: Departure,
}

impl Run {
    /// Runs a sender that always has data.
    pub(super) fn of(mut controller: Box<dyn Controller>, mtu: u64, link: Bottleneck, seconds: u64) -> Self {
        let end = Instant::ZERO + Duration::from_secs(seconds);
        let half = Instant::ZERO + Duration::from_secs(seconds) / 2;
        let (mut rng, mut rtt, mut model) = (Rng::from_seed(link.seed), RttEstimator::default(), PathModel::default());
        let (mut now, mut free_at, mut next_release) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        let mut reduced_at = None;
        let mut served: VecDeque<Instant> = VecDeque::new();
        let enough = (0.45 * (1.0 - link.loss) * link.packets) as usize;
        let (back_at, mut back) = (link.slower.map(|(_, to)| Instant::ZERO + Duration::from_secs(to)), None);
        let (mut carried, mut waited, mut dropped, mut sent) = (0_u64, 0.0, 0_u64, 0_u64);
        while now < end {
            let outstanding = under_way.len() as u64 * mtu;
            let has_room = outstanding == 0 || outstanding + mtu <= controller.window();
            if has_room && next_release <= now {
                let service = link.service(free_at.max(now));
                let waiting = free_at.saturating_since(now).as_secs_f64() / service.as_secs_f64();
                let is_full = waiting > link.queue as f64 + 1.0;
                let lost = is_full || rng.chance(link.loss);
                if !lost {
                    free_at = free_at.max(now) + service;
                    served.push_back(free_at);
                    while served.front().is_some_and(|first| free_at - *first > Duration::from_millis(500)) {
                        served.pop_front();
                    }
                    if back.is_none() && back_at.is_some_and(|at| served[0] >= at) && served.len() >= enough {
                        back = back_at.map(|at| served[0] - at);
                    }
                }
                if now >= half {
                    sent += 1;
                    dropped += u64::from(is_full);
                    carried += u64::from(!lost);
                    waited += waiting;
                }
                // A loss is detected about when the next packet is acknowledged.
                let arrives = free_at.max(now) + link.rtt;
                let news = under_way.back().map_or(arrives, |before| before.news.max(arrives));
                model.sent(now, (mtu, 0), rtt.min());
                let departure = model.departure(0, rtt.min());
                under_way.push_back(UnderWay { left: now, news, lost, departure });
                controller.on_sent(now, Sent { bytes: mtu, outstanding: outstanding + mtu, app_limited: false });
                let pace = rtt.smoothed().map_or(Duration::ZERO, |srtt| controller.pace(srtt).time_for(mtu));
                next_release = now + pace;
                continue;
            }
            let heard = under_way.front().map(|packet| packet.news);
            let released = has_room.then_some(next_release);
            let Some(next) = heard.into_iter().chain(released).min() else { break };
            now = now.max(next);
            while let Some(packet) = under_way.pop_front_if(|packet| packet.news <= now) {
                let outstanding = under_way.len() as u64 * mtu;
                if packet.lost {
                    controller.on_lost(now, mtu);
                    if reduced_at.is_none_or(|at| packet.left >= at) {
                        controller.on_congestion(now, Congestion { outstanding: outstanding + mtu, marked: false });
                        reduced_at = Some(now);
                    }
                    continue;
                }
                let sample = now.saturating_since(packet.left);
                rtt.sample(sample);
                model.acked(mtu);
                model.arrived(
                    Observed { departure: packet.departure, answered: now, uncertain: Duration::ZERO },
                    rtt.min(),
                );
                if let Some(model) = model.predictions(rtt.min()).filter(|_| controller.heeds_model()) {
                    controller.on_model(now, &model);
                }
                let window_limited = controller.is_used(outstanding + 2 * mtu);
                let acked = Acked { bytes: mtu, outstanding, rtt: Some(sample), srtt: rtt.smoothed(), window_limited };
                controller.on_acked(now, acked);
            }
        }
        let could = link.packets * seconds as f64 / 2.0;
        let all = sent.max(1) as f64;
        Self { used: carried as f64 / could, mean_queue: waited / all, dropped: dropped as f64 / all, back }
    }
}
