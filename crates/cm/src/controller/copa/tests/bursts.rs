//! Tests of the competitive mode: windows of streams that send in bursts, and of those that always have data.

use super::super::super::Sent;
use super::*;

const RTT: Duration = millis_const(300);

/// Acknowledges a packet every 10 ms with the given bytes in flight.
fn acks(script: &mut Script, count: u32, outstanding: impl Fn(u64) -> u64) {
    for _ in 0..count {
        script.now += millis(10);
        let outstanding = outstanding(script.copa.window());
        let acked = Acked { bytes: MTU, outstanding, rtt: Some(RTT), srtt: Some(RTT), window_limited: false };
        script.copa.on_acked(script.now, acked);
    }
}

/// The competitive window and CUBIC's own, in packets.
fn windows(script: &Script) -> (f64, f64) {
    let rival = script.copa.rival.as_ref().unwrap();
    (rival.window() as f64 / MTU as f64, rival.cubic.window() as f64 / MTU as f64)
}

/// Sends a packet after an application-limited moment.
fn leave_unused(script: &mut Script) {
    script.copa.on_sent(script.now, Sent { bytes: MTU, outstanding: MTU, app_limited: true });
}

/// Found by `timeous-lab short-beside`: a keyframe is a burst as large as a window, and a stream with its fair mean
/// share had no room for it.
#[test]
fn a_burst_has_besides_what_the_stream_did_not_use_before() {
    let mut script = among();
    leave_unused(&mut script);
    let half = script.copa.window() / 2;
    acks(&mut script, 60, |_| half);
    let (window, cubic) = windows(&script);
    assert!(window > 1.8 * cubic, "{window} packets before the burst, {cubic} by CUBIC");
    // More bytes than that in flight for some round trips use up the credit.
    for _ in 0..8 {
        leave_unused(&mut script);
        acks(&mut script, 30, |window| window * 3);
    }
    let (window, cubic) = windows(&script);
    close(window, cubic, 0.1);
}

/// Found by `timeous-peer-trials`: in a queue kept full by cross traffic each burst lost packets, and CUBIC's window
/// stayed at a third of what the stream needed, which was its fair share.
#[test]
fn losses_do_not_take_away_what_the_stream_needs_for_a_burst() {
    let mut script = among();
    leave_unused(&mut script);
    acks(&mut script, 100, |window| window / 4);
    let before = windows(&script).0;
    for _ in 0..4 {
        script.copa.on_congestion(script.now, Congestion { outstanding: 2 * MTU, marked: false });
        leave_unused(&mut script);
        acks(&mut script, 40, |window| window / 4);
    }
    // A packet per 10 ms is 30 per round trip, and a burst may have half as much again.
    let (window, cubic) = windows(&script);
    assert!(window >= before.min(45.0), "{before} packets, {window} after four losses");
    assert!(cubic < 0.5 * window, "{cubic} of {window}");
}

/// Found by `timeous-peer-trials`: CUBIC's window after the stream's own losses was too small for an even share beside
/// one flow; and without a bound of its mean, a stream as fast as the link left others a quarter of their share.
#[test]
fn a_burst_stream_may_have_three_quarters_of_the_link_in_the_mean_and_no_more() {
    for (under_way, has_burst) in [(20, true), (26, false)] {
        let mut script = among();
        for _ in 0..40 {
            script.copa.on_congestion(script.now, Congestion { outstanding: 2 * MTU, marked: false });
            leave_unused(&mut script);
            // The link carries 30 packets per round trip.
            acks(&mut script, 30, |_| under_way * MTU);
        }
        let (window, cubic) = windows(&script);
        assert!(cubic < 10.0, "{cubic} packets by CUBIC after a loss each round trip");
        assert_eq!(window > 40.0, has_burst, "{window} packets, with {under_way} under way");
    }
}

/// The few bytes in flight between two bursts are no basis for the response to a loss (RFC 7661 §4.4.1).
#[test]
fn a_loss_between_two_bursts_takes_its_part_of_what_was_used() {
    let mut script = among();
    let before = windows(&script).1;
    acks(&mut script, 30, |window| window);
    script.copa.on_congestion(script.now, Congestion { outstanding: 2 * MTU, marked: false });
    let after = windows(&script).1;
    assert!((0.5 * before..0.95 * before).contains(&after), "{before} packets, {after} after a loss");
}

#[test]
fn who_always_has_more_to_send_has_cubics_window_and_nothing_besides() {
    let mut script = among();
    acks(&mut script, 200, |window| window / 2);
    let (window, cubic) = windows(&script);
    close(window, cubic, 0.1);
    // Neither has a stream that was application-limited long ago.
    leave_unused(&mut script);
    acks(&mut script, 2, |window| window / 2);
    let (window, cubic) = windows(&script);
    assert!(window > 1.5 * cubic, "{window} packets, {cubic} by CUBIC");
    acks(&mut script, 310, |window| window / 2);
    let (window, cubic) = windows(&script);
    close(window, cubic, 0.1);
}
