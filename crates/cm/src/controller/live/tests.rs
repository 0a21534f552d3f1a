//! Tests of the controller with a scripted path and in a closed loop with a simulated link.

use super::super::closed_loop::{Bottleneck, Run};
use super::*;

const MTU: u64 = 1_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A controller, and the acknowledgements that it gets.
struct Script {
    live: Live,
    now: Instant,
}

impl Script {
    /// Creates a controller after slow start on a path of 100 ms and 100 kB/s, which holds ten packets.
    fn steady() -> Self {
        let mut script = Self { live: Live::new(MTU), now: Instant::ZERO };
        script.model(102.8 * 8.0, 0);
        script.live.end_slow_start();
        script.acks(20, 100);
        script
    }

    fn model(&mut self, kbps: f64, error: u64) {
        let capacity = Some(Rate::from_bps((kbps * 1e3) as u64));
        let model = ArrivalModel { capacity, error: millis(error), headers: 28, ..ArrivalModel::default() };
        self.live.on_model(self.now, &model);
    }

    /// Acknowledges `count` packets, 10 ms apart.
    fn acks(&mut self, count: u32, rtt: u64) {
        for _ in 0..count {
            self.now += millis(10);
            let rtt = Some(millis(rtt));
            let outstanding = self.live.window().saturating_sub(MTU);
            self.live.on_acked(self.now, Acked { bytes: MTU, outstanding, rtt, srtt: rtt, window_limited: true });
        }
    }

    fn lose(&mut self) {
        self.live.on_congestion(self.now, Congestion { outstanding: self.live.window(), marked: false });
    }
}

#[track_caller]
fn close(value: u64, expected: u64, by: u64) {
    assert!(value.abs_diff(expected) <= by, "{value} is not {expected} within {by}");
}

#[test]
fn the_window_goes_to_what_the_path_holds_at_once_when_a_queue_stands() {
    let mut script = Script::steady();
    script.live.window = 30_000.0;
    script.acks(20, 300);
    // Ten packets in the base RTT, one that waits, and one for rounding.
    close(script.live.window(), 12_000, 50);
}

#[test]
fn the_target_queue_covers_the_error_of_predictions() {
    let mut script = Script::steady();
    script.model(102.8 * 8.0, 50);
    script.live.window = 30_000.0;
    script.acks(20, 300);
    close(script.live.window(), 17_000, 50);
}

#[test]
fn without_a_queue_it_grows_by_a_packet_per_round_trip_beyond_what_fits() {
    let mut script = Script::steady();
    script.live.window = 12_000.0;
    script.acks(12, 100);
    close(script.live.window(), 13_000, 100);
}

#[test]
fn a_loss_without_a_queue_is_no_congestion_and_an_overflow_bounds_the_target() {
    let mut script = Script::steady();
    script.live.window = 12_000.0;
    let before = script.live.window();
    script.lose();
    assert_eq!(script.live.window(), before);
    // The queue holds three packets.
    script.acks(6, 130);
    script.lose();
    close(script.live.window(), 11_500, 50);
    let before = script.live.window();
    script.acks(50, 100);
    assert_eq!(script.live.window(), before, "no growth beyond what fits");
    script.acks(1_000, 100);
    assert!(script.live.window() > before, "it is forgotten after ten seconds");
}

#[test]
fn a_loss_rate_above_a_tenth_reduces_the_window_again_and_again() {
    let mut script = Script::steady();
    for n in 0..3 {
        let before = script.live.window();
        script.live.on_lost(script.now, 60 * MTU);
        script.acks(300, 100);
        if n == 0 {
            continue;
        }
        assert!(script.live.window() <= before * 7 / 10 + 1, "{} of {before}", script.live.window());
    }
}

#[test]
fn a_timeout_leaves_two_packets_until_something_arrives_and_the_fourth_begins_anew() {
    let timed_out = |outstanding, again| TimedOut { outstanding, again };
    let mut script = Script::steady();
    let before = script.live.window();
    script.live.on_timeout(script.now, timed_out(before / 2, false));
    assert_eq!(script.live.window(), before, "the end of a frame was lost");
    script.acks(1, 100);
    script.live.on_timeout(script.now, timed_out(before, false));
    assert_eq!(script.live.window(), 2 * MTU);
    script.acks(1, 100);
    close(script.live.window(), before, 200);
    (0..4).for_each(|n| script.live.on_timeout(script.now, timed_out(2 * MTU, n > 0)));
    script.acks(1, 100);
    close(script.live.window(), 3 * MTU, 0);
}

#[test]
fn a_queue_that_does_not_empty_is_filled_by_others() {
    let mut script = Script::steady();
    script.acks(60, 300);
    assert!(!script.live.is_among_others());
    script.acks(120, 300);
    assert!(script.live.is_among_others());
    let before = script.live.window();
    script.acks(100, 300);
    assert!(script.live.window() > before, "slow start, as those flows began");
}

/// A path whose transport reports no arrivals, as a client of the daemon's.
#[test]
fn without_a_model_the_delivery_rate_keeps_the_queue_short() {
    let link = Bottleneck { packets: 200.0, rtt: millis(100), queue: 200, loss: 0.0, slower: None };
    let run = Run::of(Box::new(Live::new(MTU)), MTU, link, 30);
    assert!(run.used > 0.85 && run.mean_queue < 20.0, "{run:?}");
}
