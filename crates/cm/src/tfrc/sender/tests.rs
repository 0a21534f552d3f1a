//! Tests of the numbered steps of RFC 5348 §4, and of §8's examples of idle and data-limited senders, scripted.
//!
//! | RFC 5348 | what has a number | test, or where |
//! |---|---|---|
//! | §3.1, §8.1 | the equation, `b = 1`, `t_RTO = 4R` | `equation/tests.rs` |
//! | §4.1 | s: the mean of four loss intervals and more | `section_4_1_the_segment_size_…` |
//! | §4.2 | s a second, a timer of 2 s | `section_4_2_without_a_round_trip_…`, `section_4_4_before_a_round_trip_…` |
//! | §4.2 | `W_init = min(4 MSS, max(2 MSS, 4380))`, in place of step 4 | `section_4_2_the_initial_rate_…` |
//! | §4.2 | tld is the time of the first sample | `section_4_2_the_first_doubling_…` |
//! | §4.3 step 1 | `R_sample = (t_now − t_recvdata) − t_delay` | `section_4_3_step_1_…` |
//! | §4.3 step 2 | `q = 0.9` | `section_4_3_step_2_…` |
//! | §4.3 step 3 | `RTO = max(4R, 2s/X)` | `section_4_3_step_3_…` |
//! | §4.3 step 4 | slow start: `2X` once in R, `2 max(X_recv_set)`, `initial_rate` | `section_4_3_step_4_slow_start_…` |
//! | §4.3 step 4 | Infinity for two round trips | `section_4_3_step_4_the_receive_rate_…` |
//! | §4.3 step 4 | `p > 0`: the equation, `recv_limit` | `section_4_3_step_4_with_losses_…` |
//! | §4.3 step 4 | `s/t_mbi`, 64 s | `section_4_3_step_4_one_packet_in_64_seconds_…` |
//! | §4.3 step 4 | data-limited: the largest, twice | `section_8_2_a_data_limited_sender_…` |
//! | §4.3 step 4 | data-limited with a loss: halves, 0.85, once | `section_4_3_a_loss_while_data_limited_…` |
//! | §4.3 step 4 | `X_recv` of zero | `section_4_3_a_receive_rate_of_zero_…` |
//! | §4.3 step 4 | two round trips in `X_recv_set`; the largest as of now | `recent.rs`, `section_4_3_a_sender_that_is_limited_…` |
//! | §4.3 step 5, §4.5 | `q2 = 0.9`, `X_inst = X R_sqmean / √R_sample` | `section_4_5_the_rate_falls_…` |
//! | §4.3 step 6 | the timer begins anew | `section_4_3_step_6_…` |
//! | §4.4 step 1 | no round trip: `X/2` | `section_4_4_before_a_round_trip_…` |
//! | §4.4 step 1 | idle, below `recover_rate` or twice of it: nothing | `section_4_4_an_idle_sender_…` (two) |
//! | §4.4 step 1 | `p = 0`: `X/2` | `section_4_4_in_slow_start_…` |
//! | §4.4 step 1 | `X_Bps > 2 X_recv`; else `X_Bps/2` | `section_4_4_where_the_receive_rate_…`, `section_4_4_where_the_equation_…` |
//! | §4.4 | `s/t_mbi`, in `Update_Limits()`, too; step 2's `2s/X` | `section_4_4_silence_never_…` |
//! | §4.5 | `X_inst` at least `s/t_mbi` | `section_4_5_what_leaves_…` |
//! | §4.6 | `t_ipi = s/X_inst`, nominal times, bursts of a round trip | `pacing/tests.rs`, `section_4_6_…` |
//! | §8.2.1 | NotLimited1, NotLimited2 | `limited.rs`, `section_8_2_…` (three) |
//! | §8.2.2 | three members | `recent.rs` |
//! | §8.3 | `t_delta`, both examples | `pacing/tests.rs` |
//!
//! §5 and §6 are the receiver's: `receiver/tests.rs`, `intervals/tests.rs`.

mod slow;

use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(100);
const S: u64 = 1_000;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Rate of `bytes` per round trip.
fn per_rtt(bytes: u64) -> Rate {
    Rate::from_bytes_in(bytes, RTT)
}

/// Feedback for a packet sent a round trip ago, with a receive rate of `bytes` per round trip.
fn report(now: Instant, bytes: u64, p: f64) -> Report {
    Report {
        sent_at: now.saturating_sub(RTT),
        delay: Duration::ZERO,
        receive_rate: per_rtt(bytes),
        loss_event_rate: p,
        new_loss_event: false,
    }
}

/// A sender with a first RTT sample of 100 ms, which sends all that it may.
fn started() -> Sender {
    let mut sender = Sender::new(Settings::for_segment(S));
    send_all(&mut sender, at(0), at(1));
    sender.on_feedback(at(100), report(at(100), 0, 0.0)).unwrap();
    sender
}

/// Sends packets whenever allowed until `end`; returns their number.
fn send_all(sender: &mut Sender, from: Instant, end: Instant) -> u64 {
    let (mut now, mut sent) = (from, 0);
    loop {
        now = sender.next().map_or(now, |next| next.max(now));
        if now >= end {
            return sent;
        }
        sender.on_sent(now, S);
        sent += 1;
    }
}

/// Runs a round trip of sending all that is allowed, followed by feedback.
fn round(sender: &mut Sender, end: u64, bytes: u64, p: f64) {
    send_all(sender, at(end - 100), at(end));
    sender.on_feedback(at(end), report(at(end), bytes, p)).unwrap();
}

fn close(a: Rate, b: Rate) -> bool {
    a.as_bps().abs_diff(b.as_bps()) <= 1 + b.as_bps() / 1_000_000
}

#[test]
fn section_4_1_the_segment_size_is_the_mean() {
    let mut sender = started();
    for _ in 0..2_000 {
        sender.on_sent(at(100), 400);
        sender.on_sent(at(100), 600);
    }
    assert!((sender.segment() - 500.0).abs() < 5.0, "{}", sender.segment());
}

#[test]
fn section_4_2_without_a_round_trip_one_segment_a_second_and_two_seconds() {
    let mut sender = Sender::new(Settings::for_segment(S));
    assert_eq!((sender.rate(), sender.poll_timeout()), (Rate::from_bps(8_000), None));
    sender.on_sent(at(500), S);
    assert_eq!(sender.poll_timeout(), Some(at(2_500)));
    assert_eq!(sender.next(), Some(at(1_500)));
}

#[test]
fn section_4_2_the_initial_rate_is_the_initial_window_in_a_round_trip() {
    for (segment, window) in [(500, 2_000), (1_000, 4_000), (1_460, 4_380), (3_000, 6_000)] {
        let mut sender = Sender::new(Settings::for_segment(segment));
        sender.on_rtt(at(5), RTT);
        assert_eq!(sender.rate(), per_rtt(window));
        let mut sender = Sender::new(Settings::for_segment(segment));
        sender.on_sent(at(0), segment);
        sender.on_feedback(at(100), report(at(100), 0, 0.0)).unwrap();
        assert_eq!(sender.rate(), per_rtt(window), "in place of step 4");
    }
}

#[test]
fn section_4_2_a_first_feedback_measures_no_rate_and_a_loss_in_it_limits_by_the_equation_alone() {
    let mut sender = Sender::new(Settings::for_segment(S));
    sender.on_rtt(at(0), RTT);
    // All packets of three round trips are lost but the last.
    send_all(&mut sender, at(0), at(300));
    sender.on_feedback(at(400), report(at(300), 0, 0.2)).unwrap();
    assert!(sender.rate() > per_rtt(200), "{}", sender.rate());
    assert!(sender.rate() < per_rtt(4_000), "{}", sender.rate());
}

#[test]
fn section_4_2_the_first_doubling_waits_for_a_round_trip_from_the_first_sample() {
    let mut sender = started();
    send_all(&mut sender, at(100), at(150));
    sender.on_feedback(at(150), report(at(150), 4_000, 0.0)).unwrap();
    assert_eq!(sender.rate(), per_rtt(4_000), "tld is 100 ms");
    send_all(&mut sender, at(150), at(200));
    sender.on_feedback(at(200), report(at(200), 4_000, 0.0)).unwrap();
    assert_eq!(sender.rate(), per_rtt(8_000));
}

#[test]
fn section_4_3_step_1_the_sample_is_without_the_receiver_s_delay() {
    let mut sender = Sender::new(Settings::for_segment(S));
    sender.on_sent(at(0), S);
    let delayed = Report { sent_at: at(0), delay: Duration::from_millis(30), ..report(at(0), 0, 0.0) };
    sender.on_feedback(at(130), delayed).unwrap();
    assert_eq!(sender.rtt(), Some(RTT));
}

#[test]
fn section_4_3_step_2_the_estimate_keeps_nine_tenths() {
    let mut sender = started();
    assert_eq!(sender.rtt(), Some(RTT));
    sender.on_feedback(at(300), Report { sent_at: at(100), ..report(at(300), 4_000, 0.0) }).unwrap();
    assert_eq!(sender.rtt(), Some(Duration::from_millis(110)));
}

#[test]
fn section_4_3_step_3_the_timeout_is_four_round_trips_or_two_segments() {
    let mut sender = started();
    // The first RTO uses the previous X: 2s/X is two seconds.
    assert_eq!(sender.poll_timeout(), Some(at(2_100)));
    round(&mut sender, 200, 4_000, 0.0);
    assert_eq!(sender.poll_timeout(), Some(at(600)), "4R");
    round(&mut sender, 300, 4_000, 0.9);
    round(&mut sender, 400, 4_000, 0.9);
    let two = sender.rate().time_for(2 * S);
    assert!(two > RTT * 4);
    let due = sender.poll_timeout().unwrap();
    // A rate is rounded to whole bits per second, here 471.
    assert!((due - at(400)).abs_diff(two) < two / 500, "{due:?} {two:?}");
}

#[test]
fn section_4_3_step_4_slow_start_doubles_once_a_round_trip_up_to_twice_what_arrives() {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 0.0);
    assert_eq!(sender.rate(), per_rtt(8_000));
    sender.on_feedback(at(250), report(at(250), 8_000, 0.0)).unwrap();
    assert_eq!(sender.rate(), per_rtt(8_000), "half a round trip later");
    round(&mut sender, 350, 8_000, 0.0);
    assert_eq!(sender.rate(), per_rtt(16_000));
    // The receive rate has fallen: after two round trips only the lower one counts.
    round(&mut sender, 450, 5_000, 0.0);
    assert_eq!(sender.rate(), per_rtt(16_000), "twice 8000");
    for end in [550, 650] {
        round(&mut sender, end, 5_000, 0.0);
    }
    assert_eq!(sender.rate(), per_rtt(10_000));
}

#[test]
fn section_4_3_step_4_the_receive_rate_limits_nothing_for_two_round_trips() {
    let mut sender = started();
    for (end, rate) in [(200, 8_000), (300, 16_000)] {
        round(&mut sender, end, 1_000, 0.0);
        assert_eq!(sender.rate(), per_rtt(rate), "Infinity is a member");
    }
    round(&mut sender, 400, 1_000, 0.0);
    assert_eq!(sender.rate(), per_rtt(4_000), "never below the initial rate");
}

#[test]
fn section_4_3_step_4_with_losses_the_equation_decides_below_twice_what_arrives() {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 0.01);
    assert!(close(sender.rate(), equation::rate(S, RTT, 0.01)));
    for end in [300, 400, 500] {
        round(&mut sender, end, 1_000, 0.000_1);
    }
    assert_eq!(sender.rate(), per_rtt(2_000));
}

#[test]
fn section_4_3_step_4_one_packet_in_64_seconds_is_the_least() {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 1.0);
    let least = equation::rate(S, RTT, 1.0);
    assert!(close(sender.rate(), least) && least > Rate::from_bps(125));
    let slow = Duration::from_secs(10);
    let mut sender = Sender::new(Settings::for_segment(S));
    sender.on_rtt(at(0), slow);
    sender.on_sent(at(0), S);
    sender.on_feedback(at(10_000), Report { sent_at: at(0), ..report(at(10_000), 100, 1.0) }).unwrap();
    assert_eq!(sender.rate(), Rate::from_bps(125), "1000 bytes in 64 s");
}

#[test]
fn section_4_3_a_receive_rate_of_zero_is_of_no_data_limited_interval() {
    // No packets were sent after 1 ms: the interval would be data-limited, but for its reported receive rate.
    let (mut some, mut none) = (started(), started());
    some.on_feedback(at(200), report(at(200), 1_000, 0.0)).unwrap();
    assert_eq!(some.rate(), per_rtt(4_000), "Infinity is gone, and twice 1000 is less than the initial rate");
    none.on_feedback(at(200), report(at(200), 0, 0.0)).unwrap();
    assert_eq!(none.rate(), per_rtt(8_000), "Infinity stays for its two round trips");
}

#[test]
fn section_4_3_step_6_each_feedback_starts_the_timer_anew() {
    let mut sender = started();
    for end in [200, 300, 350] {
        round(&mut sender, end, 4_000, 0.0);
        assert_eq!(sender.poll_timeout(), Some(at(end + 400)));
    }
    sender.on_timeout(at(749));
    assert_eq!(sender.rate(), per_rtt(16_000), "the timers of before are gone");
}

/// A sender at an X of 16000 bytes per round trip, which sends one packet per round trip from 400 ms on.
fn data_limited(end: u64) -> Sender {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 0.0);
    round(&mut sender, 300, 8_000, 0.0);
    round(&mut sender, 400, 16_000, 0.0);
    sender.on_feedback(at(500), report(at(500), 32_000, 0.0)).unwrap();
    for now in (500..end).step_by(100) {
        sender.on_sent(at(now + 10), S);
        sender.on_feedback(at(now + 100), report(at(now + 100), 1_000, 0.0)).unwrap();
    }
    sender
}

#[test]
fn section_8_2_a_data_limited_sender_keeps_what_it_had() {
    let sender = data_limited(2_000);
    // After many round trips of one packet each, X_recv_set is its largest member, and X at most twice that.
    assert!(sender.rate() >= per_rtt(32_000), "{}", sender.rate());
    assert!(sender.rate() <= per_rtt(64_000), "and no more than twice what ever arrived: {}", sender.rate());
}

#[test]
fn section_4_3_a_sender_that_is_limited_by_the_path_follows_it_down() {
    let mut sender = data_limited(600);
    for end in (700..1_300).step_by(100) {
        round(&mut sender, end, 5_000, 0.0);
    }
    assert_eq!(sender.rate(), per_rtt(10_000), "the same reports, but it sent all that it might");
}

#[test]
fn section_4_3_a_loss_while_data_limited_lowers_what_was_kept() {
    let mut sender = data_limited(2_000);
    sender.on_sent(at(2_010), S);
    sender.on_feedback(at(2_100), report(at(2_100), 20_000, 0.000_01)).unwrap();
    // Half of 32000, and 0.85 * 20000; without the factor of two.
    assert_eq!(sender.rate(), per_rtt(17_000));
    sender.on_sent(at(2_110), S);
    let again = Report { new_loss_event: true, ..report(at(2_200), 1_000, 0.000_01) };
    sender.on_feedback(at(2_200), again).unwrap();
    assert_eq!(sender.rate(), per_rtt(8_500), "half of 17000, and 850");
}

#[test]
fn section_8_2_pairs_of_packets_are_no_data_limited_interval() {
    let mut sender = started();
    for end in (200..=600).step_by(100) {
        round(&mut sender, end, 4_000, 0.001);
    }
    // Two at a time at 80 bytes per millisecond: every 25 ms, when both are due.
    for now in (600..1_200).step_by(25) {
        sender.on_sent(at(now), S);
        sender.on_sent(at(now), S);
        if now % 100 == 0 {
            sender.on_feedback(at(now), report(at(now), 3_000, 0.001)).unwrap();
        }
    }
    assert_eq!(sender.rate(), per_rtt(6_000), "twice what arrives: nothing is kept");
}

#[test]
fn section_8_2_the_first_feedback_after_idleness_does_not_limit() {
    let mut sender = started();
    for (end, bytes) in [(200, 4_000), (300, 8_000), (400, 16_000), (500, 16_000)] {
        round(&mut sender, end, bytes, 0.000_1);
    }
    let before = sender.rate();
    // A packet after three round trips of silence: the receiver sees one packet per round trip.
    send_all(&mut sender, at(500), at(501));
    sender.on_feedback(at(600), report(at(600), 16_000, 0.000_1)).unwrap();
    sender.on_sent(at(800), S);
    sender.on_feedback(at(900), report(at(900), 1_000, 0.000_1)).unwrap();
    assert_eq!(sender.rate(), before);
}

#[test]
fn section_4_4_before_a_round_trip_the_rate_halves_unless_idle() {
    let mut sender = Sender::new(Settings::for_segment(S));
    sender.on_sent(at(0), S);
    sender.on_timeout(at(2_000));
    assert_eq!(sender.rate(), Rate::from_bps(4_000));
    assert_eq!(sender.poll_timeout(), Some(at(6_000)), "2s/X is four seconds now");
    sender.on_timeout(at(6_000));
    assert_eq!(sender.rate(), Rate::from_bps(4_000), "idle since");
    assert_eq!(sender.poll_timeout(), None, "nothing more to expect from silence");
    sender.on_sent(at(10_000), S);
    assert_eq!(sender.poll_timeout(), Some(at(14_000)));
    let mut now = at(14_000);
    for _ in 0..10 {
        sender.on_timeout(now);
        sender.on_sent(now, S);
        now = sender.poll_timeout().unwrap();
    }
    assert_eq!(sender.rate(), Rate::from_bps(125), "s/t_mbi is the least");
}

#[test]
fn section_4_4_in_slow_start_silence_halves_the_rate() {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 0.0);
    round(&mut sender, 300, 8_000, 0.0);
    assert_eq!(sender.rate(), per_rtt(16_000));
    send_all(&mut sender, at(300), at(301));
    sender.on_timeout(at(699));
    assert_eq!(sender.rate(), per_rtt(16_000), "not yet");
    sender.on_timeout(at(700));
    assert_eq!(sender.rate(), per_rtt(8_000));
    assert_eq!(sender.poll_timeout(), Some(at(1_100)));
}

#[test]
fn section_4_4_an_idle_sender_in_slow_start_keeps_less_than_twice_the_recover_rate() {
    let mut sender = started();
    round(&mut sender, 200, 4_000, 0.0);
    round(&mut sender, 300, 8_000, 0.0);
    sender.on_timeout(at(700));
    assert_eq!(sender.rate(), per_rtt(8_000), "16000 is not less than 8000");
    sender.on_timeout(at(1_100));
    assert_eq!(sender.rate(), per_rtt(4_000), "and neither is 8000");
    sender.on_timeout(at(1_500));
    assert_eq!((sender.rate(), sender.poll_timeout()), (per_rtt(4_000), None), "but 4000 is");
}

#[test]
fn section_4_4_where_the_receive_rate_is_the_limit_it_halves() {
    let mut sender = started();
    for end in (200..=600).step_by(100) {
        round(&mut sender, end, 10_000, 0.000_01);
    }
    assert_eq!(sender.rate(), per_rtt(20_000));
    send_all(&mut sender, at(600), at(601));
    sender.on_timeout(at(1_000));
    // X_Bps is more than twice X_recv: Update_Limits(X_recv).
    assert_eq!(sender.rate(), per_rtt(10_000));
    sender.on_feedback(at(1_050), report(at(1_050), 8_000, 0.000_01)).unwrap();
    assert_eq!(sender.rate(), per_rtt(16_000), "slow start to what the equation gives");
}

#[test]
fn section_4_4_where_the_equation_is_the_limit_half_of_that_is_left() {
    let mut sender = started();
    for end in (200..=600).step_by(100) {
        round(&mut sender, end, 100_000, 0.01);
    }
    let x = equation::rate(S, RTT, 0.01);
    assert!(close(sender.rate(), x));
    send_all(&mut sender, at(600), at(601));
    sender.on_timeout(at(1_000));
    assert!(close(sender.rate(), Rate::from_bps(x.as_bps() / 2)));
}

#[test]
fn section_4_4_an_idle_sender_beyond_slow_start_is_left_alone_below_the_recover_rate() {
    let mut sender = started();
    for end in (200..=600).step_by(100) {
        round(&mut sender, end, 3_000, 0.000_1);
    }
    let before = sender.rate();
    assert_eq!(before, per_rtt(6_000));
    sender.on_timeout(at(1_000));
    assert_eq!((sender.rate(), sender.poll_timeout()), (before, None), "3000 is less than 4000");
    let mut busy = started();
    for end in (200..=600).step_by(100) {
        round(&mut busy, end, 3_000, 0.000_1);
    }
    busy.on_sent(at(601), S);
    busy.on_timeout(at(1_000));
    assert_eq!(busy.rate(), per_rtt(3_000), "but it was not idle");
}

/// Runs a sender without any feedback; returns its final rate and nofeedback timer.
fn silent(mut sender: Sender, from: u64) -> (Rate, Duration) {
    let mut now = at(from);
    for _ in 0..40 {
        sender.on_sent(now, S);
        now = sender.poll_timeout().unwrap();
        sender.on_timeout(now);
    }
    (sender.rate(), sender.poll_timeout().unwrap() - now)
}

#[test]
fn section_4_4_silence_never_takes_the_rate_below_a_packet_in_64_seconds() {
    let least = (Rate::from_bps(125), Duration::from_secs(128));
    let mut slow_start = started();
    round(&mut slow_start, 200, 4_000, 0.0);
    assert_eq!(silent(slow_start, 200), least, "X/2, and a timer of 2s/X");
    for (bytes, p) in [(10_000, 0.000_01), (100_000, 0.01)] {
        let mut sender = started();
        for end in (200..=600).step_by(100) {
            round(&mut sender, end, bytes, p);
        }
        assert_eq!(silent(sender, 600), least, "Update_Limits, from {p}");
    }
}

#[test]
fn section_4_5_what_leaves_is_a_packet_in_64_seconds_at_least() {
    let mut sender = Sender::new(Settings::for_segment(S));
    for (now, sent) in [(10_000, 0), (20_000, 10_000), (60_000, 20_000)] {
        sender.on_sent(at(sent), S);
        sender.on_feedback(at(now), Report { sent_at: at(sent), ..report(at(now), 100, 1.0) }).unwrap();
    }
    assert_eq!(sender.rate(), Rate::from_bps(125));
    // The RTT is four times as long as before: X_inst would be little more than half of X.
    assert_eq!(sender.instantaneous_rate(), Rate::from_bps(125));
}

#[test]
fn section_4_5_the_rate_falls_with_the_square_root_of_the_round_trip() {
    let mut sender = started();
    assert_eq!(sender.instantaneous_rate(), sender.rate());
    for end in (200..=5_000).step_by(100) {
        round(&mut sender, end, 4_000, 0.000_1);
    }
    let doubled = Report { sent_at: at(4_900), ..report(at(5_100), 4_000, 0.000_1) };
    let mut plain = sender.clone();
    plain.settings.reduce_oscillations = false;
    sender.on_feedback(at(5_100), doubled).unwrap();
    let share = sender.instantaneous_rate().as_bps() as f64 / sender.rate().as_bps() as f64;
    // The sample itself has a weight of a tenth: (0.9 + 0.1 * sqrt 2) / sqrt 2.
    assert!((share - 0.736_4).abs() < 0.000_1, "{share}");
    plain.on_feedback(at(5_100), doubled).unwrap();
    assert_eq!(plain.instantaneous_rate(), plain.rate());
    assert_eq!(plain.rtt(), Some(Duration::from_millis(190)), "a low weight of the old instead");
}

#[test]
fn section_4_6_the_average_rate_is_the_allowed_one() {
    let mut sender = started();
    assert_eq!(send_all(&mut sender, at(100), at(1_100)), 40 + 3, "4000 a round trip, and the credit of the first");
}

#[test]
fn more_than_the_ceiling_is_never_sent_whatever_is_reported() {
    let ceiling = Rate::from_kbps(800);
    let mut sender = Sender::new(Settings { ceiling, ..Settings::for_segment(S) });
    sender.on_rtt(at(0), RTT);
    for end in (100..=10_000).step_by(100) {
        let sent = send_all(&mut sender, at(end - 100), at(end));
        assert!(sent <= 20, "{sent} at {end}: ten a round trip, and as many on credit");
        let lie = Report { receive_rate: Rate::MAX, ..report(at(end), 0, 0.0) };
        sender.on_feedback(at(end), lie).unwrap();
        assert!(sender.rate() <= ceiling && sender.instantaneous_rate() <= ceiling);
        // A stream's wider range, or none, does not lift it.
        sender.set_range(Some(RateRange { floor: Rate::ZERO, ceiling: Rate::MAX }));
        sender.set_range(None);
    }
}

/// Hasan et al. §3.2: "the transport protocol keeps its sending rate within a certain range".
#[test]
fn a_range_holds_against_small_receive_rates_and_idle_times_and_yields_to_the_equation() {
    let rate = |floor, ceiling| {
        let mut sender = Sender::new(Settings::for_segment(S));
        sender.on_rtt(at(0), RTT);
        sender.set_range(Some(RateRange { floor, ceiling }));
        // One loss event in a hundred packets; a packet a round trip arrives.
        for end in (100..=3_000).step_by(100) {
            sender.on_sent(at(end - 100), S);
            sender.on_feedback(at(end), report(at(end), S, 0.01)).unwrap();
        }
        let busy = sender.rate();
        for _ in 0..5 {
            let due = sender.poll_timeout().unwrap_or(at(60_000));
            sender.on_timeout(due);
        }
        (busy, sender.rate())
    };
    let fair = equation::to_rate(equation::bytes_per_second(S as f64, RTT, 0.01));
    let none = rate(Rate::ZERO, Rate::MAX);
    let wanted = Rate::from_kbps(400);
    assert!(none.0 < wanted && wanted < fair, "{none:?} {fair}");
    assert_eq!(rate(wanted, Rate::MAX), (wanted, wanted));
    assert_eq!(rate(Rate::MAX, Rate::MAX).0, fair, "no more than the equation allows");
    assert_eq!(rate(wanted, Rate::from_kbps(300)).0, Rate::from_kbps(300));
}

#[test]
fn reports_that_cannot_be_are_refused_and_change_nothing() {
    let mut sender = started();
    let (before, due) = (sender.rate(), sender.poll_timeout());
    for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let refused = sender.on_feedback(at(150), report(at(150), 1_000, p));
        assert!(matches!(refused, Err(ReportError::LossEventRate(_))), "{p}");
    }
    let late = Report { delay: RTT, ..report(at(150), 1_000, 0.5) };
    assert!(matches!(sender.on_feedback(at(150), late), Err(ReportError::Delay { .. })));
    let future = Report { sent_at: at(151), ..report(at(150), 1_000, 0.5) };
    assert!(sender.on_feedback(at(150), future).is_err());
    assert_eq!((sender.rate(), sender.poll_timeout(), sender.rtt()), (before, due, Some(RTT)));
}

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Hear { bytes: u64, p: f64, new: bool, back: u64 },
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..2_000u64).prop_map(Step::Send),
        (any::<u64>(), 0.0..=1.0f64, any::<bool>(), 1..1_000u64).prop_map(|(bytes, p, new, back)| Step::Hear {
            bytes,
            p: if p < 0.3 { 0.0 } else { p },
            new,
            back
        }),
        (0..3_000u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_a_segment_leaves_within_64_seconds_and_the_equation_is_obeyed(
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut sender = Sender::new(Settings { reduce_oscillations: false, ..Settings::for_segment(S) });
        let (mut now, mut last) = (at(1_000), 0);
        for step in steps {
            match step {
                Step::Send(bytes) if !sender.may_send(now) => {
                    now += Duration::from_millis(bytes);
                    sender.on_timeout(now);
                }
                Step::Send(bytes) => {
                    sender.on_sent(now, bytes);
                    last = bytes;
                }
                Step::Hear { bytes, p, new, back } => {
                    let sent_at = now.saturating_sub(Duration::from_millis(back));
                    let told = Report { sent_at, receive_rate: Rate::from_bps(bytes), new_loss_event: new, ..report(now, 0, p) };
                    prop_assert_eq!(sender.on_feedback(now, told), Ok(()));
                    if p > 0.0 {
                        let x = equation::rate(sender.segment().ceil() as u64, sender.rtt().unwrap(), p);
                        let least = equation::to_rate(least(sender.segment()));
                        prop_assert!(sender.rate() <= Rate::from_bps(x.max(least).as_bps() + 1));
                    }
                }
                Step::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    sender.on_timeout(now);
                }
            }
            prop_assert!(sender.poll_timeout().is_none_or(|due| due > now));
            // The last packet takes its share of a segment's 64 seconds.
            let waits = sender.next().map_or(Duration::ZERO, |next| next.saturating_since(now));
            let most = 64.0 * last as f64 / sender.segment();
            prop_assert!(waits <= Duration::from_secs_f64(most + 1e-6), "{waits:?} of {most} s");
        }
    }
}

#[test]
fn small_segments_get_the_bytes_of_large_ones_less_their_headers() {
    let settings = Settings::for_small_segments(100, 1_460, 36);
    let mut sender = Sender::new(settings);
    sender.on_sent(at(0), 100);
    sender.on_feedback(at(100), Report { receive_rate: Rate::ZERO, ..report(at(100), 0, 0.0) }).unwrap();
    // An initial window of large segments, of which 100 of 136 bytes each are payload.
    let of_window = per_rtt(4_380).as_bps() * 100 / 136;
    assert!(sender.rate().as_bps().abs_diff(of_window) <= 1, "{} of {of_window}", sender.rate());
    // The receive rate is far above the equation's, which alone decides.
    let told = Report { receive_rate: per_rtt(1_000_000), ..report(at(400), 0, 0.01) };
    sender.on_feedback(at(400), told).unwrap();
    let large = equation::rate(1_460, sender.rtt().unwrap(), 0.01).as_bps();
    assert!(sender.rate().as_bps().abs_diff(large * 100 / 136) < 10, "{} of {large}", sender.rate());
    // The receive rate counts with headers, too: half of the rate, and twice that is the limit.
    let half = Rate::from_bps(sender.rate().as_bps() / 4);
    for millis in [700, 1_000] {
        sender.on_held_back(at(millis - 150));
        sender.on_feedback(at(millis), Report { receive_rate: half, ..report(at(millis), 0, 0.01) }).unwrap();
    }
    assert!(close(sender.rate(), Rate::from_bps(half.as_bps() * 2)), "{} of {half}", sender.rate());
}

#[test]
fn who_is_held_back_is_not_data_limited() {
    let told = |sender: &mut Sender, now: Instant, held: bool| {
        if held {
            sender.on_held_back(now.saturating_sub(Duration::from_millis(150)));
        }
        sender.on_feedback(now, report(now, 1_000, 0.0)).unwrap();
    };
    let rates = [false, true].map(|held| {
        let mut sender = started();
        for n in 4..9 {
            round(&mut sender, n * 100, 4_000 << (n - 4), 0.0);
        }
        let before = sender.rate();
        // The receive rate is low: a limit for a sender with more data, and none for one without.
        (0..4).for_each(|n| told(&mut sender, at(1_400 + n * 300), held));
        (before, sender.rate())
    });
    assert!(rates[0].1 >= rates[0].0 && rates[1].1 < rates[1].0, "{rates:?}");
}
