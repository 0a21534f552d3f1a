//! Tests of Copa with scripted paths and in a closed loop with a simulated link.

use super::super::closed_loop::{Bottleneck, Run};
use super::*;

const MTU: u64 = 1_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A controller, and the acknowledgements that it gets.
struct Script {
    copa: Copa,
    now: Instant,
}

impl Script {
    /// Creates a controller after slow start, with a window of this many packets and a base RTT of 100 ms.
    fn steady(packets: f64) -> Self {
        let mut script = Self { copa: Copa::new(MTU), now: Instant::ZERO };
        script.copa.end_slow_start();
        script.acks(1, 100);
        script.copa.window = packets;
        script
    }

    fn ack(&mut self, bytes: u64, rtt: u64, window_limited: bool) {
        let rtt = Some(millis(rtt));
        let outstanding = if window_limited { self.copa.window().saturating_sub(bytes) } else { 0 };
        self.copa.on_acked(self.now, Acked { bytes, outstanding, rtt, srtt: rtt, window_limited });
    }

    /// Acknowledges `count` packets, 10 ms apart.
    fn acks(&mut self, count: u32, rtt: u64) {
        for _ in 0..count {
            self.now += millis(10);
            self.ack(MTU, rtt, true);
        }
    }

    fn lose(&mut self, marked: bool) {
        let outstanding = self.copa.window();
        self.copa.on_congestion(self.now, Congestion { outstanding, marked });
    }
}

#[track_caller]
fn close(value: f64, expected: f64, by: f64) {
    assert!((value - expected).abs() <= by, "{value} is not {expected} within {by}");
}

#[test]
fn two_packets_a_round_trip_while_less_than_two_wait() {
    let mut script = Script::steady(10.0);
    script.acks(10, 100);
    close(script.copa.window, 12.0, 0.2);
}

#[test]
fn the_velocity_rises_after_three_round_trips_in_one_direction() {
    let mut script = Script::steady(50.0);
    let mut grown = Vec::new();
    for _ in 0..7 {
        let before = script.copa.window;
        for _ in 0..10 {
            script.now += millis(10);
            script.ack(5 * MTU, 100, true);
        }
        grown.push(script.copa.window - before);
    }
    for early in &grown[..3] {
        close(*early, 2.0, 0.3);
    }
    assert!(grown[3] > 3.0 && grown[4] > 6.0 && grown[5] > 12.0, "{grown:?}");
}

#[test]
fn more_than_two_that_wait_take_packets_back() {
    let mut script = Script::steady(20.0);
    // The standing RTT is known after half a round trip.
    script.acks(7, 125);
    let before = script.copa.window;
    script.acks(10, 125);
    // 4 of 20 packets are queued; half of a window of acknowledgements reduces the window by half of two packets.
    close(before - script.copa.window, 1.0, 0.1);
}

#[test]
fn slow_start_doubles_the_window_and_ends_with_the_target_queue() {
    let mut script = Script { copa: Copa::new(MTU), now: Instant::ZERO };
    let start = script.copa.window;
    script.acks(16, 100);
    close(script.copa.window, start + 16.0, 1e-9);
    script.acks(10, 150);
    assert!(!script.copa.is_starting && script.copa.window < start + 25.0, "{:?}", script.copa);
}

#[test]
fn a_loss_is_no_congestion_in_default_mode_and_a_mark_takes_a_fifth() {
    let mut script = Script::steady(20.0);
    script.lose(false);
    assert_eq!(script.copa.window, 20.0);
    script.lose(true);
    close(script.copa.window, 16.0, 1e-9);
}

#[test]
fn a_queue_that_never_empties_is_others_and_the_target_is_aimds_until_it_runs_empty() {
    let mut script = Script::steady(20.0);
    script.acks(40, 300);
    assert!(!script.copa.is_among_others());
    while !script.copa.is_among_others() {
        script.acks(1, 300);
    }
    let before = script.copa.room();
    script.acks(100, 300);
    assert!(script.copa.room() > before + 4.0, "{} then {}", before, script.copa.room());
    let before = script.copa.room();
    script.lose(false);
    close(script.copa.room(), before / 2.0, 1e-9);
    script.acks(1, 100);
    assert_eq!((script.copa.is_among_others(), script.copa.room()), (false, MIN_ROOM));
}

#[test]
fn silence_leaves_two_packets_and_slow_start() {
    let mut script = Script::steady(32.0);
    script.copa.on_timeout(script.now, TimedOut { outstanding: 32 * MTU, again: false });
    assert_eq!(script.copa.window(), 2 * MTU);
    script.acks(3, 100);
    close(script.copa.window, 5.0, 1e-9);
}

#[test]
fn what_the_application_limits_does_not_grow_the_window_and_an_idle_path_halves_it() {
    let mut script = Script::steady(80.0);
    for _ in 0..6_000 {
        script.now += millis(10);
        script.ack(MTU, 100, false);
    }
    assert_eq!(script.copa.window, 80.0, "a minute later");
    script.copa.on_idle(script.now, 0);
    assert_eq!(script.copa.window(), 80 * MTU);
    script.copa.on_idle(script.now, 2);
    assert_eq!(script.copa.window(), 20 * MTU);
    script.copa.on_idle(script.now, u32::MAX);
    assert_eq!(script.copa.window(), initial::rfc6928(MTU));
}

#[test]
fn alone_on_a_link_that_holds_a_hundred_packets_it_fills_it_with_a_few_in_the_queue() {
    for (packets, rtt) in [(500.0, 200), (2_000.0, 50)] {
        let link = Bottleneck { packets, rtt: millis(rtt), queue: 400, loss: 0.0, slower: None, seed: 1 };
        let run = Run::of(Box::new(Copa::new(MTU)), MTU, link, 30);
        assert!(run.used >= 0.9 && run.mean_queue <= 5.0, "{packets} packets/s, {rtt} ms: {run:?}");
    }
}
