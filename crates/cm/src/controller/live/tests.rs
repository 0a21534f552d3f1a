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

/// Such as the delays of a busy machine: the stream's own rate was taken for the path's, and the window for it was too small for the next
/// keyframe.
#[test]
fn what_delays_packets_that_never_waited_for_each_other_is_no_queue_of_theirs() {
    let mut script = Script { live: Live::new(MTU), now: Instant::ZERO };
    let model = ArrivalModel { is_exact: true, headers: 28, ..ArrivalModel::default() };
    script.live.on_model(script.now, &model);
    script.acks(20, 20);
    let window = script.live.window();
    script.acks(20, 100);
    script.lose();
    assert!(script.live.window() > window, "{}", script.live.window());
    // Nor does the window stay as it is after slow start.
    script.live.end_slow_start();
    let window = script.live.window();
    script.acks(200, 20);
    assert!(script.live.window() > window + 2 * MTU, "{}", script.live.window());
}

#[test]
fn a_loss_while_a_queue_stands_that_is_not_its_own_is_no_overflow() {
    for (outstanding, is_own) in [(25_000, true), (2_000, false)] {
        let mut script = Script::steady();
        script.live.window = 12_000.0;
        script.acks(20, 300);
        script.live.on_congestion(script.now, Congestion { outstanding, marked: false });
        assert_eq!(script.live.full.is_some(), is_own, "{outstanding}");
    }
}

/// Found beside losses on links as fast as the stream: after one, the target was 2 ms, a queue of 3 ms was others', and CUBIC's window
/// filled the path's queue.
#[test]
fn after_a_random_loss_over_a_short_queue_that_queue_is_not_of_others() {
    let mut script = Script::steady();
    script.live.window = 12_000.0;
    script.acks(6, 116);
    script.lose();
    assert!(script.live.full.is_some());
    script.acks(100, 113);
    assert!(!script.live.is_among_others());
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
    let link = Bottleneck { packets: 200.0, rtt: millis(100), queue: 200, loss: 0.0, slower: None, seed: 1 };
    let run = Run::of(Box::new(Live::new(MTU)), MTU, link, 30);
    assert!(run.used > 0.85 && run.mean_queue < 20.0, "{run:?}");
}

/// Link of a hundred packets per second with an RTT of 100 ms.
const LINK: Bottleneck =
    Bottleneck { packets: 100.0, rtt: Duration::from_millis(100), queue: 400, loss: 0.0, slower: None, seed: 1 };

fn over(link: Bottleneck, seconds: u64) -> Run {
    Run::of(Box::new(Live::new(MTU)), MTU, link, seconds)
}

#[test]
fn alone_on_a_link_it_fills_it_with_a_few_packets_in_the_queue() {
    for (packets, rtt) in [(30.0, 20), (100.0, 100), (500.0, 200), (500.0, 20)] {
        let run = over(Bottleneck { packets, rtt: millis(rtt), ..LINK }, 30);
        assert!(run.used >= 0.9 && run.mean_queue <= 10.0, "{packets} packets/s, {rtt} ms: {run:?}");
    }
}

#[test]
fn one_packet_lost_in_twenty_leaves_nine_tenths_of_the_link() {
    let run = over(Bottleneck { loss: 0.05, ..LINK }, 60);
    assert!(run.used >= 0.85 && run.mean_queue <= 5.0, "{run:?}");
}

#[test]
fn a_queue_of_two_packets_loses_little() {
    let run = over(Bottleneck { queue: 2, ..LINK }, 60);
    assert!(run.used >= 0.8 && run.dropped <= 0.05, "{run:?}");
}

/// Where each loss counts, in the mean of some seeds.
#[test]
fn capacity_that_comes_back_is_used_within_two_seconds() {
    const SEEDS: u32 = 16;
    for (packets, rtt) in [(36.0, 20_u32), (36.0, 200), (120.0, 80), (600.0, 20), (600.0, 200)] {
        for loss in [0.0, 0.01, 0.05] {
            let back = |seed: u32| {
                let slower = Some((10, 15));
                let link = Bottleneck { packets, rtt: millis(rtt.into()), loss, slower, seed: seed.into(), ..LINK };
                over(link, 20).back.unwrap_or(millis(5_000))
            };
            let mean = (0..SEEDS).map(back).fold(Duration::ZERO, |sum, back| sum + back) / u64::from(SEEDS);
            // A path that holds 120 packets, of which each round trip adds one, takes longer with losses.
            let most = if packets * f64::from(rtt) >= 120_000.0 && loss > 0.0 { 4_000 } else { 2_000 };
            assert!(mean <= millis(most), "{packets} packets/s, {rtt} ms, {loss}: after {mean:?}");
        }
    }
}

/// Behind a deep queue without cross traffic its own window is a queue, too.
#[test]
fn a_queue_of_its_own_taken_for_others_does_not_stay_full() {
    let mut live = Live::new(MTU);
    live.beside = Beside::mistaken(50 * MTU, MTU);
    let link = Bottleneck { packets: 200.0, rtt: millis(50), queue: 800, loss: 0.0, slower: None, seed: 1 };
    let run = Run::of(Box::new(live), MTU, link, 30);
    assert!(run.used > 0.9 && run.mean_queue < 30.0, "{run:?}");
}

#[test]
fn an_idle_path_halves_the_window_each_timeout() {
    let mut live = Live::new(MTU);
    live.adopt(80 * MTU, Some(40 * MTU));
    live.on_idle(Instant::ZERO, 0);
    assert_eq!(live.window(), 80 * MTU);
    live.on_idle(Instant::ZERO, 2);
    assert_eq!(live.window(), 20 * MTU);
    live.on_idle(Instant::ZERO, u32::MAX);
    assert_eq!(live.window(), 10 * MTU);
}

#[test]
fn what_the_application_limits_does_not_grow_the_window() {
    let mut script = Script::steady();
    let before = script.live.window();
    for _ in 0..6_000 {
        script.now += millis(10);
        let rtt = Some(millis(100));
        script.live.on_acked(script.now, Acked { bytes: MTU, outstanding: 0, rtt, srtt: rtt, window_limited: false });
    }
    assert_eq!(script.live.window(), before, "a minute later");
}

/// The first predictions of a narrow link err by more than the queue that slow start builds up.
#[test]
fn slow_start_ends_with_a_queue_however_much_predictions_err() {
    let mut script = Script { live: Live::new(MTU), now: Instant::ZERO };
    script.acks(5, 100);
    script.model(102.8 * 8.0, 1_000);
    script.acks(10, 200);
    assert!(script.live.start.is_none());
}
