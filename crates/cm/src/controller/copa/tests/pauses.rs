//! Tests of Copa after a pause in which cross traffic has filled the path.

use super::super::others::DRAIN_FACTOR;
use super::*;

/// Creates a script after an idle period.
fn silent_for(seconds: u64) -> Script {
    let mut script = Script::steady(10.0);
    script.now += Duration::from_secs(seconds);
    script.copa.on_idle(script.now, 1);
    script
}

/// Found by `timeous-peer-trials`: a stream that began ten seconds after its connection took a queue for a part of the base RTT.
#[test]
fn a_pause_does_not_make_a_queue_a_part_of_the_path() {
    for (seconds, base) in [(11, 100), (50, 100), (70, 300)] {
        let mut script = silent_for(seconds);
        script.acks(1, 300);
        assert_eq!(script.copa.path.look().unwrap().base, millis(base), "after {seconds} s");
    }
    // With continuous measurements the old base RTT expires after ten seconds.
    let mut script = Script::steady(10.0);
    script.acks(1_100, 300);
    assert_eq!(script.copa.path.look().unwrap().base, millis(300));
}

/// Found by `timeous-peer-trials`: a stream's first packets met a full queue, which ended slow start, and it had a tenth
/// of the link after 18 s.
#[test]
fn a_flight_that_waits_before_any_of_its_own_does_has_met_others() {
    let mut script = silent_for(11);
    script.acks(2, 300);
    assert!(script.copa.is_among_others());
    let before = script.copa.window;
    script.acks(8, 300);
    close(script.copa.window - before, 8.0, 0.1);
    script.acks(8, 100);
    assert!(script.copa.mode == Mode::Short, "until the queue is seen to be empty");
}

#[test]
fn a_flight_that_waits_for_itself_has_not() {
    // A packet's transmission time is 80 ms, and each waits for the previous ones.
    let mut script = silent_for(11);
    for n in 1..=3 {
        script.now += millis(80);
        script.ack(MTU, 100 + 80 * n, true);
    }
    assert!(!script.copa.is_among_others());
    // Packets 80 ms apart, each with a transmission time of 80 ms.
    let mut script = silent_for(11);
    for _ in 1..=3 {
        script.now += millis(80);
        script.ack(MTU, 180, true);
    }
    assert!(!script.copa.is_among_others());
}

#[test]
fn a_timeout_for_nothing_changes_neither_the_window_nor_slow_start() {
    let mut script = silent_for(11);
    let (before, outstanding) = (script.copa.window, script.copa.window());
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: false });
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: true });
    assert_eq!(script.copa.window, MIN_WINDOW);
    script.copa.on_spurious_timeout(0);
    assert_eq!(script.copa.window, before);
    assert!(script.copa.start.is_some_and(|start| start.threshold.is_none()));
    let mut script = among();
    let (before, outstanding) = (script.copa.window, script.copa.window());
    script.copa.on_timeout(script.now, TimedOut { outstanding, again: false });
    script.copa.on_spurious_timeout(0);
    close(script.copa.window, before, 1.0);
}

/// Found by `timeous-lab bloat`: on a link with a varying rate a stream filled a queue of a second for half a minute. Each
/// drain that would have shown the queue to be its own was cut short by the end of a group of pictures.
#[test]
fn a_pause_while_its_packets_are_taken_away_tells_whose_the_queue_is() {
    for (rtt, is_own) in [(100, true), (300, false)] {
        let mut script = among();
        while script.copa.drain.is_none() {
            script.acks(1, 300);
        }
        let (before, drained) = (script.copa.drain.unwrap().then, script.copa.window);
        script.now += millis(300);
        script.copa.on_idle(script.now, 0);
        close(script.copa.window, before, 0.1);
        script.now += millis(100);
        script.ack(MTU, rtt, true);
        assert_eq!(script.copa.is_among_others(), !is_own);
        if is_own {
            close(script.copa.window, drained / DRAIN_FACTOR, 0.5);
        }
    }
}
