//! Among others: what a stream may have that sends in bursts, and what one may that always has more to send.

use super::super::super::Sent;
use super::*;

const RTT: Duration = millis_const(300);

/// An acknowledgement comes each 10 ms while so much is under way.
fn acks(script: &mut Script, count: u32, outstanding: impl Fn(u64) -> u64) {
    for _ in 0..count {
        script.now += millis(10);
        let outstanding = outstanding(script.copa.window());
        let acked = Acked { bytes: MTU, outstanding, rtt: Some(RTT), srtt: Some(RTT), window_limited: false };
        script.copa.on_acked(script.now, acked);
    }
}

/// Its window among others, and CUBIC's, in packets.
fn windows(script: &Script) -> (f64, f64) {
    let rival = script.copa.rival.as_ref().unwrap();
    (rival.window() as f64 / MTU as f64, rival.cubic.window() as f64 / MTU as f64)
}

/// A packet leaves before which there was nothing to send.
fn leave_unused(script: &mut Script) {
    script.copa.on_sent(script.now, Sent { bytes: MTU, outstanding: MTU, app_limited: true });
}

/// Found by `timeous-lab short-beside`: an intra frame is a burst of as much as a window, and a stream that has its fair share in
/// the mean had no room for it.
#[test]
fn a_burst_has_besides_what_the_stream_did_not_use_before() {
    let mut script = among();
    leave_unused(&mut script);
    let half = script.copa.window() / 2;
    acks(&mut script, 60, |_| half);
    let (window, cubic) = windows(&script);
    assert!(window > 1.8 * cubic, "{window} packets before the burst, {cubic} by CUBIC");
    // More than that is under way for some round trips: what was saved up is used.
    for _ in 0..8 {
        leave_unused(&mut script);
        acks(&mut script, 30, |window| window * 3);
    }
    let (window, cubic) = windows(&script);
    close(window, cubic, 0.1);
}

/// Found by `timeous-lab peers`: in a queue that others kept full each burst of a stream lost packets, and CUBIC's window stayed at
/// a third of what the stream needed, which was its fair share.
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
    // A packet each 10 ms is 30 in a round trip, and a burst has half as much again.
    let (window, cubic) = windows(&script);
    assert!(window >= before.min(45.0), "{before} packets, {window} after four losses");
    assert!(cubic < 0.5 * window, "{cubic} of {window}");
}

/// Found by `timeous-lab peers`: CUBIC's window of the stream's own losses was too little for an even share beside one flow; and where
/// nothing bounded its mean, a stream of as much as the link left others a quarter of their share.
#[test]
fn a_burst_stream_may_have_three_quarters_of_the_link_in_the_mean_and_no_more() {
    for (under_way, has_burst) in [(20, true), (26, false)] {
        let mut script = among();
        for _ in 0..40 {
            script.copa.on_congestion(script.now, Congestion { outstanding: 2 * MTU, marked: false });
            leave_unused(&mut script);
            // The link carries 30 packets in a round trip.
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
    // Nor has who left the path unused long ago.
    leave_unused(&mut script);
    acks(&mut script, 2, |window| window / 2);
    let (window, cubic) = windows(&script);
    assert!(window > 1.5 * cubic, "{window} packets, {cubic} by CUBIC");
    acks(&mut script, 310, |window| window / 2);
    let (window, cubic) = windows(&script);
    close(window, cubic, 0.1);
}
