//! Tests of Copa with scripted paths and in a closed loop with a simulated link.

use proptest::prelude::*;

use super::super::closed_loop::{Bottleneck, Run};
use super::*;

mod alone;
mod bursts;
mod pauses;

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
        script.copa.window = packets;
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
fn the_velocity_rises_after_two_round_trips_in_one_direction() {
    let mut script = Script::steady(50.0);
    let mut grown = Vec::new();
    for _ in 0..6 {
        let before = script.copa.window;
        for _ in 0..10 {
            script.now += millis(10);
            script.ack(5 * MTU, 100, true);
        }
        grown.push(script.copa.window - before);
    }
    for early in &grown[..2] {
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

/// Found by `timeous-demo camera`: on a link with 10 to 30 ms each way a third of a stream was left out.
#[test]
fn delay_by_which_packets_overtake_each_other_is_no_queue() {
    let mut script = Script::steady(20.0);
    for _ in 0..5 {
        script.copa.on_overtaken(script.now, millis(25));
        script.acks(10, 125);
    }
    assert!(script.copa.window >= 20.0, "{} packets", script.copa.window);
    // Ten seconds without: what makes round trips longer now is a queue.
    script.acks(990, 100);
    let before = script.copa.window;
    script.acks(30, 160);
    assert!(script.copa.window < 0.8 * before, "{} packets of {before}", script.copa.window);
}

#[test]
fn delay_variation_is_believed_up_to_half_of_the_round_trip() {
    let mut script = Script::steady(20.0);
    script.copa.on_overtaken(script.now, millis(10_000));
    script.acks(20, 240);
    assert!(script.copa.window < 12.0, "{} packets", script.copa.window);
}

#[test]
fn far_above_its_aim_it_goes_at_once_to_what_fits_without_a_queue() {
    let mut script = Script::steady(20.0);
    // The link's rate has halved: half of the window is queued. The standing RTT is known after half a round trip.
    script.acks(12, 200);
    close(script.copa.window, 10.0, 1.0);
}

#[test]
fn the_start_doubles_the_window_and_ends_with_three_that_met_a_queue() {
    let mut script = Script { copa: Copa::new(MTU), now: Instant::ZERO };
    let start = script.copa.window;
    script.acks(16, 100);
    close(script.copa.window, start + 16.0, 1e-9);
    script.acks(2, 150);
    assert!(script.copa.start.is_some());
    script.acks(1, 150);
    assert!(script.copa.start.is_none());
    close(script.copa.window, (start + 18.0) / 1.5, 1e-6);
}

#[test]
fn a_loss_without_a_queue_changes_nothing_and_one_with_a_full_queue_leaves_what_is_delivered() {
    let mut script = Script::steady(20.0);
    script.acks(40, 100);
    let before = script.copa.window;
    script.lose(false);
    assert_eq!(script.copa.window, before);
    script.acks(20, 130);
    let before = script.copa.window;
    script.lose(false);
    assert!(script.copa.window < before, "most of what the path holds waited");
    assert!(script.copa.window >= LOSS_FACTOR * before);
}

#[test]
fn after_a_full_queue_no_more_is_to_wait_than_fits_into_it_for_ten_seconds() {
    let mut script = Script::steady(10.0);
    script.acks(30, 100);
    script.acks(10, 140);
    script.lose(false);
    // Ten packets were delivered in 100 ms, so that 40 ms of queue hold four.
    close(script.copa.room(script.now), 4.0 / PEAK_QUEUE_FACTOR, 0.05);
    assert_eq!(script.copa.room(script.now + losses::OVERFLOW_MEMORY), TARGET_QUEUE_PACKETS);
}

#[test]
fn one_packet_behind_another_is_no_full_queue() {
    // Regression: with an acknowledgement per two packets the second has always waited for the first, and each random
    // loss reduced the window.
    let mut script = Script::steady(3.0);
    script.acks(30, 100);
    script.acks(30, 110);
    let before = script.copa.window;
    script.lose(false);
    assert_eq!((script.copa.window, script.copa.room(script.now)), (before, TARGET_QUEUE_PACKETS));
}

#[test]
fn a_mark_takes_a_fifth() {
    let mut script = Script::steady(20.0);
    let before = script.copa.window;
    script.lose(true);
    close(script.copa.window, before * MARK_FACTOR, 1e-9);
}

#[test]
fn persistent_heavy_loss_makes_it_slower_and_slower() {
    let mut script = Script::steady(40.0);
    for (block, expected) in [(1, 0.7), (2, 0.49), (3, 0.343)] {
        script.copa.window = script.copa.window.min(40.0 * expected / LOSS_FACTOR);
        for _ in 0..240 {
            script.now += millis(10);
            script.copa.on_lost(script.now, MTU / 4);
            // Application-limited, so that nothing else changes the window.
            script.ack(MTU, 100, false);
        }
        assert!(script.copa.window <= 40.0 * expected + 0.01, "{block}: {}", script.copa.window);
    }
    for _ in 0..1_000 {
        script.now += millis(10);
        script.copa.on_lost(script.now, MTU);
        script.ack(MTU, 100, false);
    }
    assert_eq!(script.copa.window, MIN_WINDOW);
}

#[test]
fn a_queue_that_never_empties_is_others_and_the_window_is_cubics_until_it_runs_empty() {
    let mut script = Script::steady(20.0);
    script.acks(5, 300);
    assert!(!script.copa.is_among_others());
    // It has drained its own packets meanwhile, five round trips of 300 ms later.
    while !script.copa.is_among_others() {
        script.acks(1, 300);
    }
    let before = script.copa.window;
    script.acks(9, 300);
    close(script.copa.window - before, 9.0, 1.0);
    script.lose(false);
    let before = script.copa.window;
    script.acks(90, 300);
    assert!(script.copa.window > before, "it grows whatever waits");
    let before = script.copa.window;
    script.lose(false);
    close(script.copa.window, 0.7 * before, 0.1);
    // The queue empties and fills again: the competitive window stays. After ten seconds it is forgotten.
    let before = script.copa.window;
    script.acks(40, 100);
    assert!(script.copa.mode == Mode::Short && script.copa.is_among_others());
    script.acks(400, 300);
    assert!(script.copa.mode == Mode::Among && script.copa.window >= before);
    script.acks(1_100, 100);
    assert!(!script.copa.is_among_others());
}

/// A script in competitive mode with a window of ten packets.
fn among() -> Script {
    let mut script = Script::steady(20.0);
    script.acks(200, 300);
    while script.copa.window > 14.0 {
        script.lose(false);
    }
    assert!(script.copa.mode == Mode::Among && script.copa.window > 9.0, "{:?}", script.copa);
    script
}

/// Found by `timeous-lab short-beside`: beside CoDel the queue is often nearly empty. Losses of the default window
/// reduced the competitive one, too, and its growth was not counted.
#[test]
fn what_it_has_among_others_follows_its_losses_by_its_own_measure() {
    let mut script = among();
    script.acks(6, 100);
    assert!(script.copa.mode == Mode::Short);
    let had = script.copa.rival.as_ref().unwrap().window() as f64 / MTU as f64;
    script.copa.window = 3.0;
    script.lose(false);
    close(script.copa.rival.as_ref().unwrap().window() as f64 / MTU as f64, 0.7 * had, 0.1);
    script.copa.window = 0.7 * had;
    for _ in 0..100 {
        script.now += millis(10);
        let rtt = Some(millis(100));
        let outstanding = script.copa.window() / 2;
        script.copa.on_acked(script.now, Acked { bytes: MTU, outstanding, rtt, srtt: rtt, window_limited: true });
    }
    assert!(script.copa.rival.as_ref().unwrap().window() as f64 > 0.75 * had * MTU as f64);
}

/// Found by `timeous-peer-trials`: when a link fell to a quarter, a packet's transmission time exceeded the queueing
/// delay. Copa then filled the queue by slow start, without any cross traffic.
#[test]
fn what_may_be_one_packet_on_a_slower_link_is_no_reason_for_slow_start() {
    let mut script = Script::steady(10.0);
    script.acks(100, 100);
    script.copa.window = 4.0;
    for _ in 0..200 {
        script.now += millis(40);
        script.ack(MTU, 130, true);
        if script.copa.is_among_others() {
            break;
        }
    }
    let before = script.copa.window;
    for _ in 0..9 {
        script.now += millis(40);
        script.ack(MTU, 130, true);
    }
    assert!(
        script.copa.mode == Mode::Among && script.copa.window < before + 2.0,
        "{} to {}",
        before,
        script.copa.window
    );
}

/// Found by `timeous-lab short-beside`: a stream was silent between two useful frames, and had to detect cross traffic anew.
#[test]
fn others_who_were_there_before_a_silence_are_thought_to_be_there_after_it() {
    let mut script = among();
    let outstanding = script.copa.window();
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: false });
    assert_eq!((script.copa.window(), script.copa.is_among_others()), (MTU, true));
    script.acks(3, 300);
    close(script.copa.window, 4.0, 1e-9);
    script.acks(20, 100);
    assert!(script.copa.mode == Mode::Short, "until the queue is seen to be empty");
    let mut script = among();
    script.now += millis(1_500);
    script.copa.on_idle(script.now, 1);
    assert!(script.copa.is_among_others());
}

/// Found by `timeous-lab short-beside`: with a twentieth of the link, all queueing delay was taken for transmission
/// time, and the queue for nearly empty.
#[test]
fn with_little_of_the_link_others_are_still_told_from_its_own_packets() {
    let mut script = Script::steady(10.0);
    // It had a packet per 10 ms once, and has one per 50 ms now, which waits for 40 ms of cross traffic.
    script.acks(100, 100);
    for step in 0..200 {
        script.now += millis(50);
        script.ack(MTU, 140 + step % 5, true);
    }
    assert!(script.copa.is_among_others());
}

/// Found by `timeous-lab short-beside`: a stream that met a full queue and sent a few packets of each keyframe included
/// its pauses in the packet transmission time, and took all queueing delay for that.
#[test]
fn with_pauses_between_its_bursts_others_are_still_told_from_its_own_packets() {
    let mut script = Script { copa: Copa::new(MTU), now: Instant::ZERO };
    script.copa.end_slow_start();
    for burst in 0..12 {
        script.now += millis(850);
        script.copa.on_idle(script.now, 0);
        script.now += millis(250);
        script.acks(8, if burst % 4 == 0 { 250 } else { 310 });
    }
    assert!(script.copa.is_among_others());
}

#[test]
fn what_the_application_limits_does_not_grow_the_window() {
    let mut script = Script::steady(10.0);
    for _ in 0..6_000 {
        script.now += millis(10);
        script.ack(MTU, 100, false);
    }
    assert_eq!(script.copa.window, 10.0, "a minute later");
}

#[test]
fn long_silence_leaves_two_packets_and_the_way_back_doubles_to_what_was() {
    let mut script = Script::steady(32.0);
    let outstanding = script.copa.window();
    let before = script.copa.window;
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: false });
    for _ in 1..PERSISTENT_TIMEOUTS {
        assert_eq!(script.copa.window(), 2 * MTU);
        script.copa.on_timeout(script.now, TimedOut { outstanding: MTU, again: true });
    }
    script.copa.on_timeout(script.now, TimedOut { outstanding: MTU, again: true });
    assert_eq!(script.copa.window(), 2 * MTU);
    script.acks(14, 100);
    close(script.copa.window, 16.0, 1e-9);
    script.acks(17, 100);
    close(script.copa.window, before, 1.0);
    assert!(script.copa.start.is_none(), "from there on it goes as before");
}

/// Found by `timeous-lab bloat`: the last packets of a frame were lost in one burst, and the next group's keyframe had
/// a window of one packet.
#[test]
fn after_a_short_silence_the_window_is_that_after_a_loss() {
    let mut script = Script::steady(32.0);
    script.acks(40, 100);
    let (outstanding, before) = (script.copa.window(), script.copa.window);
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: false });
    assert_eq!(script.copa.window(), 2 * MTU);
    script.acks(1, 100);
    close(script.copa.window, before, 0.5);
    assert!(script.copa.start.is_none());
}

/// Found by `timeous-lab bloat`: on the fastest links the delays of own bursts were taken for cross traffic, and the
/// queue was filled.
#[test]
fn a_few_milliseconds_that_always_wait_are_nobodys_queue() {
    let mut script = Script::steady(20.0);
    for n in 0..2_000 {
        script.now += millis(2);
        script.ack(MTU, 105 + n % 2 * 10, true);
    }
    assert!(!script.copa.is_among_others());
}

/// Found by `timeous-lab bloat`: a stream that fills its link only part of the time needed ten round trips to reach the link's rate.
#[test]
fn trains_of_packets_tell_what_fits() {
    let mut script = Script::steady(4.0);
    // The link carries a packet per 10 ms, and seven packets came at once.
    (0..=6).for_each(|n| script.acks(1, 100 + 10 * n));
    script.acks(8, 100);
    assert!((10.0..12.5).contains(&script.copa.window), "{}", script.copa.window);
}

/// Found by `timeous-lab bloat`: with deadlines of two round trips the first two groups of a stream were over before
/// its window had doubled to the bandwidth-delay product.
#[test]
fn the_first_flight_tells_what_fits() {
    let mut script = Script { copa: Copa::new(MTU), now: Instant::ZERO };
    // Ten packets over a link that carries one per 2 ms.
    for n in 0..7 {
        script.now += millis(2);
        script.ack(MTU, 100 + 2 * n, true);
    }
    close(script.copa.window, 51.0, 0.5);
    assert!(script.copa.start.is_none());
}

/// Found by `timeous-lab bloat`: the last packets of a group were lost, the timeout fell into the next keyframe, which
/// for a round trip had a window of two packets.
#[test]
fn the_end_of_a_frame_that_is_lost_leaves_the_window_once() {
    let little = |again| TimedOut { outstanding: 5 * MTU, again };
    let mut script = Script::steady(32.0);
    script.copa.on_timeout(script.now, little(false));
    close(script.copa.window, 32.0, 0.1);
    script.copa.on_timeout(script.now, little(false));
    assert_eq!(script.copa.window(), 2 * MTU, "nothing was heard meanwhile");
    script.acks(1, 100);
    close(script.copa.window, 32.0, 0.1);
    script.copa.on_timeout(script.now, TimedOut { outstanding: 17 * MTU, again: false });
    assert_eq!(script.copa.window(), 2 * MTU, "that was more than an end");
    let mut script = Script::steady(32.0);
    script.acks(10, 200);
    script.copa.on_timeout(script.now, little(false));
    assert_eq!(script.copa.window(), 2 * MTU, "the queue was as full as ever");
}

#[test]
fn an_idle_path_halves_the_window_each_timeout() {
    let mut copa = Copa::new(MTU);
    copa.adopt(80 * MTU, Some(40 * MTU));
    copa.on_idle(Instant::ZERO, 0);
    assert_eq!(copa.window(), 80 * MTU);
    copa.on_idle(Instant::ZERO, 2);
    assert_eq!(copa.window(), 20 * MTU);
    copa.on_idle(Instant::ZERO, u32::MAX);
    assert_eq!(copa.window(), initial::rfc6928(MTU));
}

/// Link of a hundred packets per second with an RTT of 100 ms.
const LINK: Bottleneck = Bottleneck { packets: 100.0, rtt: millis_const(100), queue: 400, loss: 0.0, slower: None };

const fn millis_const(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn over(link: Bottleneck, seconds: u64) -> Run {
    Run::of(Box::new(Copa::new(MTU)), MTU, link, seconds)
}

#[test]
fn with_windows_of_a_few_packets_it_does_not_take_its_own_queue_for_others() {
    // Regression: its oscillation never emptied the queue, and in competitive mode it filled the queue for good.
    let run = over(Bottleneck { packets: 30.0, rtt: millis(20), ..LINK }, 60);
    assert!(run.used >= 0.9 && run.mean_queue <= 4.0, "{run:?}");
}

#[test]
fn alone_on_a_link_it_fills_it_with_a_few_packets_in_the_queue() {
    for (packets, rtt) in [(30.0, 20), (100.0, 100), (500.0, 200), (500.0, 20)] {
        let run = over(Bottleneck { packets, rtt: millis(rtt), ..LINK }, 30);
        assert!(run.used >= 0.9, "{packets} packets/s, {rtt} ms: {} used", run.used);
        assert!(run.mean_queue <= 5.0, "{packets} packets/s, {rtt} ms: {} wait", run.mean_queue);
    }
}

#[test]
fn one_packet_lost_in_twenty_leaves_nine_tenths_of_the_link() {
    let run = over(Bottleneck { loss: 0.05, ..LINK }, 60);
    assert!(run.used >= 0.85 && run.mean_queue <= 5.0, "{run:?}");
}

#[test]
fn capacity_that_comes_back_is_used_within_two_seconds() {
    for (packets, rtt) in [(36.0, 20_u32), (36.0, 200), (120.0, 80), (600.0, 20), (600.0, 200)] {
        for loss in [0.0, 0.01, 0.05] {
            let run = over(Bottleneck { packets, rtt: millis(rtt.into()), loss, slower: Some((10, 15)), ..LINK }, 20);
            let back = run.back.expect("it is used again");
            // 120 packets fit on the longest path: with losses that takes a round trip or two more than two seconds.
            let most = if packets * f64::from(rtt) >= 120_000.0 && loss == 0.05 { 2_500 } else { 2_000 };
            assert!(back <= millis(most), "{packets} packets/s, {rtt} ms, {loss}: after {back:?}");
        }
    }
}

#[test]
fn a_queue_of_two_packets_loses_little() {
    let run = over(Bottleneck { queue: 2, ..LINK }, 60);
    assert!(run.used >= 0.8, "{run:?}");
    assert!(run.dropped <= 0.05, "{run:?}");
}

proptest! {
    #[test]
    fn whatever_is_heard_the_window_is_a_number_within_bounds(
        news in prop::collection::vec((0_u8..6, 0_u64..3_000, 0_u64..20_000), 1..300),
    ) {
        let (mut copa, mut now, mut acked) = (Copa::new(MTU), Instant::ZERO, 0);
        let start = copa.window();
        for (kind, millis, bytes) in news {
            now += Duration::from_millis(millis);
            let rtt = Some(Duration::from_millis(millis % 700));
            match kind {
                0 => copa.on_congestion(now, Congestion { outstanding: bytes, marked: millis % 2 == 0 }),
                1 => copa.on_timeout(now, TimedOut { outstanding: bytes, again: millis % 2 == 0 }),
                2 => copa.on_idle(now, (millis % 5) as u32),
                3 => copa.on_lost(now, bytes),
                _ => {
                    acked += bytes;
                    let window_limited = millis % 3 != 0;
                    copa.on_acked(now, Acked { bytes, outstanding: bytes, rtt, srtt: rtt, window_limited });
                }
            }
            prop_assert!(copa.window.is_finite() && copa.window >= 1.0, "{}", copa.window);
            // At most it doubles with the acknowledged bytes.
            prop_assert!(copa.window() <= start + 2 * acked + MTU);
        }
    }
}
