//! Tests of slow receivers (RFC 4342 §5.2).

use super::*;

/// A sender after ten round trips of 40 packets each, with feedback about these at `at(1_100)`.
fn settled(p: f64) -> Sender {
    let mut sender = started();
    for round in 1..=10 {
        send_all(&mut sender, at(100 * round), at(100 * round + 100));
        sender.on_feedback(at(100 * round + 100), report(at(100 * round + 100), 40_000, p)).unwrap();
    }
    sender
}

/// Rate in packets per round trip, rounded.
fn packets(sender: &Sender) -> u64 {
    (sender.rate().bytes_in(RTT) + S / 2) / S
}

#[test]
fn a_slow_receiver_gets_what_it_received_and_no_more_for_a_round_trip() {
    for p in [0.0, 0.000_1] {
        let mut sender = settled(p);
        assert_eq!(packets(&sender), 80, "2 X_recv");
        sender.on_slow_receiver(at(1_100), 0);
        assert_eq!(packets(&sender), 40, "X_drop is X_inrecv");
        sender.on_slow_receiver(at(1_110), 0);
        assert_eq!(packets(&sender), 40, "the same again");
        send_all(&mut sender, at(1_100), at(1_200));
        sender.on_feedback(at(1_200), report(at(1_200), 40_000, p)).unwrap();
        assert_eq!(packets(&sender), 80, "its effect is over with the next feedback");
    }
}

#[test]
fn each_packet_that_found_no_room_takes_one_off_a_round_trip() {
    let mut sender = settled(0.000_1);
    sender.on_slow_receiver(at(1_100), 3);
    assert_eq!(packets(&sender), 37, "X_inrecv - 3 s/RTT");
    sender.on_slow_receiver(at(1_100), 1);
    assert_eq!(packets(&sender), 36, "the allowed rate, too, less one");
}

#[test]
fn packets_that_found_no_room_leave_one_a_round_trip() {
    let mut sender = settled(0.000_1);
    sender.on_slow_receiver(at(1_100), 1_000);
    assert_eq!(packets(&sender), 1);
    // A slower sender is not sped up.
    let mut slower = settled(1.0);
    let before = slower.rate();
    assert!(packets(&slower) < 1);
    slower.on_slow_receiver(at(1_100), 1_000);
    assert_eq!(slower.rate(), before);
}

#[test]
fn before_a_receive_rate_is_told_there_is_nothing_to_limit_by() {
    let mut sender = started();
    let before = sender.rate();
    sender.on_slow_receiver(at(100), 5);
    assert_eq!(sender.rate(), before);
}
