//! Tests of BBR on scripted paths, and in a closed loop with a simulated link.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::closed_loop::{Bottleneck, Run};
use super::*;

const MTU: u64 = 1_000;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A controller, and a path that carries a packet per `gap` and acknowledges it after its RTT. The sender is never
/// faster: there is no queue.
struct Script {
    bbr: Bbr,
    now: Instant,
    under_way: VecDeque<Instant>,
    /// Interval between packets, if the window allows them.
    gap: Duration,
    rtt: Duration,
    app_limited: bool,
}

impl Script {
    fn new(gap: u64, rtt: u64) -> Self {
        let bbr = Bbr::new(MTU);
        Self {
            bbr,
            now: Instant::ZERO,
            under_way: VecDeque::new(),
            gap: millis(gap),
            rtt: millis(rtt),
            app_limited: false,
        }
    }

    /// Sends `count` packets, spaced by `gap`, and processes the acknowledgements that arrive meanwhile.
    fn packets(&mut self, count: u64) {
        for _ in 0..count {
            self.under_way.push_back(self.now);
            let outstanding = self.under_way.len() as u64 * MTU;
            let app_limited = std::mem::take(&mut self.app_limited);
            self.bbr.on_sent(self.now, Sent { bytes: MTU, outstanding, app_limited });
            self.wait(self.gap);
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(left) = self.under_way.pop_front_if(|left| *left + self.rtt <= end) {
            self.now = left + self.rtt;
            let outstanding = self.under_way.len() as u64 * MTU;
            let rtt = Some(self.rtt);
            self.bbr.on_acked(self.now, Acked { bytes: MTU, outstanding, rtt, srtt: rtt, window_limited: true });
        }
        self.now = end;
    }

    /// Loses the oldest packet in flight.
    fn lose(&mut self) {
        self.under_way.pop_front();
        let outstanding = self.under_way.len() as u64 * MTU;
        self.bbr.on_lost(self.now, MTU);
        self.bbr.on_congestion(self.now, Congestion { outstanding, marked: false });
    }

    /// Sends packets until the controller is in `state`, at most `most`.
    fn until(&mut self, state: State, most: u64) {
        for _ in 0..most {
            if self.bbr.state == state {
                return;
            }
            self.packets(1);
        }
        panic!("{state:?} is not reached, but {:?}", self.bbr.state);
    }
}

#[test]
fn a_rate_that_stops_to_grow_ends_the_startup_and_the_window_is_twice_what_the_path_holds() {
    let mut script = Script::new(10, 100);
    assert_eq!(script.bbr.window(), 4_000);
    script.until(State::Cruise, 60);
    // 100 kB/s for 100 ms, twice; and pacing is one percent below the path's rate.
    assert_eq!(script.bbr.window(), 21_000, "and a packet that an acknowledgement may bring beyond the rate");
    assert_eq!(script.bbr.pace(script.rtt).as_bps(), (0.99 * 8e5) as u64);
    assert_eq!(script.bbr.rate(script.rtt), Rate::from_kbps(800));
}

#[test]
fn it_probes_for_more_after_as_many_round_trips_as_reno_takes_and_finds_it() {
    let mut script = Script::new(10, 100);
    script.until(State::Cruise, 100);
    script.until(State::Up, 150);
    assert!(script.bbr.pace(script.rtt) > Rate::from_kbps(900), "a quarter more");
    script.gap = millis(5);
    script.packets(100);
    assert!(script.bbr.rate(script.rtt) > Rate::from_kbps(1_590), "{:?}", script.bbr.rate(script.rtt));
    script.until(State::Down, 200);
}

#[test]
fn what_the_application_limits_is_no_end_of_the_startup() {
    let mut script = Script::new(10, 100);
    for _ in 0..50 {
        script.app_limited = true;
        script.packets(2);
        script.wait(millis(30));
    }
    assert_eq!(script.bbr.state, State::Startup);
    assert!(script.bbr.pace(script.rtt) > Rate::from_kbps(640), "faster than the 400 kbit/s that it sends");
}

#[test]
fn a_round_trip_with_a_loss_lowers_the_rate_until_it_probes_again() {
    let mut script = Script::new(10, 100);
    script.until(State::Cruise, 100);
    script.gap = millis(20);
    script.packets(15);
    assert_eq!(script.bbr.rate(script.rtt), Rate::from_kbps(800), "that it is slow for once says nothing");
    script.lose();
    script.packets(8);
    let lowered = script.bbr.rate(script.rtt);
    assert!((Rate::from_kbps(550)..Rate::from_kbps(800)).contains(&lowered), "{lowered:?}");
    assert!(script.bbr.model.max_rate() > 99_000.0, "what the path can is known still");
    script.until(State::Refill, 200);
    assert_eq!(script.bbr.model.rate(), script.bbr.model.max_rate());
}

#[test]
fn losses_while_it_probes_bound_what_is_under_way() {
    let mut script = Script::new(10, 100);
    script.until(State::Cruise, 100);
    script.until(State::Up, 150);
    script.gap = millis(5);
    script.packets(25);
    assert!(script.bbr.model.inflight_hi.is_infinite());
    (0..3).for_each(|_| script.lose());
    script.packets(30);
    assert_eq!(script.bbr.state, State::Down);
    let most = script.bbr.model.inflight_hi;
    assert!((7_000.0..=21_000.0).contains(&most), "{most}: what was under way, or seven tenths of what the path holds");
    script.gap = millis(20);
    script.until(State::Cruise, 20);
    assert!(script.bbr.window() as f64 <= most * 0.86, "room is left to others: {}", script.bbr.window());
}

#[test]
fn each_five_seconds_it_makes_room_for_a_shorter_round_trip() {
    let mut script = Script::new(10, 100);
    script.packets(400);
    script.rtt = millis(130);
    script.packets(90);
    assert_ne!(script.bbr.state, State::ProbeRtt);
    script.until(State::ProbeRtt, 50);
    assert_eq!(script.bbr.window(), 5_000, "half of what the path holds");
    // The same window until the queue is empty, and for 200 ms more.
    script.gap = millis(40);
    script.packets(20);
    assert_ne!(script.bbr.state, State::ProbeRtt);
    assert!(script.bbr.window() >= 17_000, "the window is back: {}", script.bbr.window());
    assert_eq!(script.bbr.model.min_rtt(), Some(millis(100)), "for ten seconds");
    script.gap = millis(10);
    script.packets(600);
    assert_eq!(script.bbr.model.min_rtt(), Some(millis(130)));
}

#[test]
fn after_a_pause_it_goes_on_at_the_rate_that_it_knows_and_probes_no_round_trip_at_once() {
    let mut script = Script::new(10, 100);
    script.until(State::Cruise, 100);
    let window = script.bbr.window();
    script.wait(millis(6_000));
    script.bbr.on_idle(script.now, 0);
    assert_eq!(script.bbr.window(), window);
    assert_eq!(script.bbr.pace(script.rtt).as_bps(), (0.99 * 8e5) as u64);
    script.app_limited = true;
    script.packets(15);
    assert_ne!(script.bbr.state, State::ProbeRtt, "the pause was one");
    script.bbr.on_idle(script.now, 2);
    assert!(script.bbr.window() <= window / 4 + MTU, "after two timeouts of silence a quarter");
}

#[test]
fn a_timeout_leaves_a_packet_and_one_for_nothing_gives_back_what_was() {
    let mut script = Script::new(10, 100);
    script.until(State::Cruise, 100);
    let window = script.bbr.window();
    script.bbr.on_timeout(script.now, TimedOut { outstanding: window, again: false });
    assert_eq!(script.bbr.window(), MTU);
    script.bbr.on_spurious_timeout(u64::MAX);
    assert_eq!(script.bbr.window(), window);
    script.bbr.on_timeout(script.now, TimedOut { outstanding: window, again: false });
    script.packets(40);
    assert!(script.bbr.window() >= 19_000, "{}", script.bbr.window());
}

const LINK: Bottleneck = Bottleneck { packets: 500.0, rtt: millis(60), queue: 400, loss: 0.0, slower: None, seed: 1 };

fn run(link: Bottleneck) -> Run {
    Run::of(Box::new(Bbr::new(MTU)), MTU, link, 60)
}

#[test]
fn alone_it_fills_a_link_and_keeps_its_queue_short() {
    for (packets, queue) in [(100.0, 400), (500.0, 400), (2_000.0, 2_000)] {
        let alone = run(Bottleneck { packets, queue, ..LINK });
        assert!(alone.used >= 0.9 && alone.dropped == 0.0, "{packets}: {alone:?}");
        assert!(alone.mean_queue < 0.5 * 0.06 * packets + 4.0, "{packets}: {alone:?}");
    }
}

#[test]
fn a_short_queue_and_losses_at_random_leave_it_most_of_the_link() {
    for (queue, loss, least) in [(10, 0.0, 0.85), (400, 0.01, 0.85), (400, 0.05, 0.3)] {
        let lossy = run(Bottleneck { queue, loss, ..LINK });
        assert!(lossy.used >= least, "{queue}, {loss}: {lossy:?}");
        assert!(lossy.dropped < 0.05, "{queue}, {loss}: {lossy:?}");
    }
}

#[test]
fn capacity_that_comes_back_is_used_within_seconds() {
    let slower = run(Bottleneck { slower: Some((20, 30)), ..LINK });
    assert!(slower.back.is_some_and(|back| back <= Duration::from_secs(5)), "{slower:?}");
}

proptest! {
    #[test]
    fn whatever_is_heard_the_window_is_a_packet_at_least_and_the_pace_is_one(
        news in prop::collection::vec((0_u8..8, 0_u64..3_000, 0_u64..20_000), 1..300),
    ) {
        let (mut bbr, mut now) = (Bbr::new(MTU), Instant::ZERO);
        for (kind, gap, bytes) in news {
            now += millis(gap);
            let rtt = Some(millis(gap % 700));
            match kind {
                0 => bbr.on_congestion(now, Congestion { outstanding: bytes, marked: gap % 2 == 0 }),
                1 => bbr.on_timeout(now, TimedOut { outstanding: bytes, again: false }),
                2 => bbr.on_idle(now, (gap % 5) as u32),
                3 => bbr.on_lost(now, bytes),
                4 | 5 => bbr.on_sent(now, Sent { bytes, outstanding: 2 * bytes, app_limited: gap % 3 == 0 }),
                _ => bbr.on_acked(now, Acked { bytes, outstanding: bytes, rtt, srtt: rtt, window_limited: true }),
            }
            prop_assert!(bbr.window.is_finite() && bbr.window >= MTU as f64, "{}", bbr.window);
            prop_assert!(bbr.pace(millis(100)) > Rate::ZERO);
            prop_assert!(!bbr.model.inflight_hi.is_nan() && bbr.model.inflight_hi > 0.0);
        }
    }
}
