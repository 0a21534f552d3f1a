//! Tests of Copa without cross traffic, over a link with a varying rate and with outages.

use super::*;

/// Found by `timeous-lab bloat`: packets in flight during a mobile link's outage of 300 ms looked delayed by a long
/// queue, and a sixth of the window was left afterwards.
#[test]
fn after_a_standstill_the_window_is_what_it_was() {
    let mut script = Script::steady(10.0);
    script.acks(40, 100);
    let before = script.copa.window;
    script.now += millis(290);
    for n in 0..20 {
        // Ten packets were in flight, and later ones have not waited.
        script.acks(1, if n < 10 { 400 - 10 * n } else { 100 });
    }
    assert!(script.copa.window >= before, "{} of {before}", script.copa.window);
    assert!(!script.copa.is_among_others());
}

/// Found by `timeous-lab bloat`: after a pause, which counts as a drain, a stream took the small queue of its own
/// packets for cross traffic.
#[test]
fn what_is_found_empty_after_a_pause_is_not_others_a_moment_later() {
    let mut script = Script::steady(10.0);
    script.acks(100, 100);
    script.now += millis(800);
    script.copa.on_idle(script.now, 0);
    script.now += millis(110);
    script.acks(1, 120);
    // The link has become slower, and the queue is its own.
    script.acks(30, 140);
    assert!(!script.copa.is_among_others());
}

/// Found by `timeous-lab bloat`: a mobile link's recovery went unnoticed, since all packets were paced at the slow rate.
#[test]
fn where_the_link_is_unsteady_what_it_carries_again_is_seen_by_trains_and_hoped_for_after_pauses() {
    let mut script = Script::steady(20.0);
    let rtt = millis(100);
    let own = |script: &Script| script.copa.window() as f64 * 8.0 / 0.1;
    for (apart, faster) in [(10, 1.2), (6, 1.2), (2, 2.0)] {
        // A burst of packets, and then silence.
        script.now += millis(500);
        script.copa.on_sent(script.now, Sent { bytes: MTU, outstanding: MTU, app_limited: true });
        for n in 0..25 {
            script.now += millis(apart);
            script.ack(MTU, 100 + apart * n, true);
        }
        script.acks(3, 100);
        close(script.copa.pace(rtt).as_bps() as f64 / own(&script), faster, 0.01);
    }
    script.copa.window = 20.0;
    script.copa.on_idle(script.now, 0);
    close(script.copa.window, 51.0, 0.5);
    script.now += BURSTY_PERIOD;
    script.copa.on_sent(script.now, Sent { bytes: MTU, outstanding: MTU, app_limited: false });
    close(script.copa.pace(rtt).as_bps() as f64 / own(&script), 1.2, 0.01);
}

#[test]
fn who_has_four_times_the_window_among_others_finds_out_whether_there_are_any() {
    for are_there in [false, true] {
        let mut script = among();
        script.acks(200, 300);
        assert_eq!(script.copa.drain.map(|drain| drain.then), None, "they were there, and it has what it had");
        let window = script.copa.window;
        script.copa.found_with = window / 4.5;
        script.acks(1, 300);
        assert!(script.copa.drain.is_some());
        // Packets in flight leave the queue first, and they were more than the window at first.
        script.acks(45, 300);
        script.acks(30, if are_there { 300 } else { 100 });
        assert_eq!(script.copa.is_among_others(), are_there);
        assert!(!are_there || script.copa.window >= window, "it has cost a round trip");
    }
}

/// Found by `timeous-lab bloat`: behind a queue of two seconds without cross traffic the window grew to megabytes.
#[test]
fn who_takes_a_deep_queue_for_others_does_not_fill_it_for_good() {
    let mut copa = Copa::new(MTU);
    copa.join(Instant::ZERO, true);
    let link = Bottleneck { packets: 200.0, rtt: millis(50), queue: 800, loss: 0.0, slower: None };
    let run = Run::of(Box::new(copa), MTU, link, 12);
    assert!(run.used > 0.9 && run.mean_queue < 10.0, "{run:?}");
}

#[test]
fn a_queue_that_runs_empty_before_anything_was_lost_in_it_was_its_own() {
    for is_lost in [false, true] {
        let mut script = Script::steady(10.0);
        script.acks(12, 150);
        script.copa.join(script.now, true);
        script.acks(5, 150);
        if is_lost {
            script.lose(false);
        }
        script.acks(20, 100);
        assert_eq!((script.copa.mode, script.copa.is_among_others()), (Mode::Short, is_lost));
    }
}

/// Found with a relay whose path became 350 ms longer: the window was two packets for four seconds, since the old
/// route's minimum RTT counted for ten.
#[test]
fn a_new_route_that_is_longer_is_no_queue() {
    let mut script = Script::steady(20.0);
    script.acks(20, 100);
    let before = script.copa.window;
    script.now += millis(350);
    script.acks(40, 450);
    assert_eq!(script.copa.path.look().unwrap().base, millis(450));
    assert!(script.copa.window >= before, "{} of {before}", script.copa.window);
}
