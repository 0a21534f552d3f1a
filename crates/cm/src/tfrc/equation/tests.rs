//! Tests against values of the equation computed elsewhere to 40 digits.

use super::*;

/// Segment in bytes, RTT in microseconds, loss event rate, bits per second.
const TABLE: [(u64, u64, f64, u64); 10] = [
    (1_460, 100_000, 0.01, 1_312_040),
    (1_460, 100_000, 0.000_1, 14_292_157),
    (1_460, 100_000, 0.1, 206_748),
    (1_460, 100_000, 1.0, 480),
    (500, 20_000, 0.001, 7_676_873),
    (1_000, 500_000, 0.05, 58_974),
    (160, 200_000, 0.3, 1_247),
    (1_200, 1_000, 0.000_01, 3_717_729_417),
    (8_960, 50_000, 0.02, 10_500_971),
    (1_000, 1_000_000, 0.5, 334),
];

#[test]
fn the_equation_gives_what_was_reckoned_elsewhere() {
    for (segment, micros, p, bps) in TABLE {
        let rtt = Duration::from_micros(micros);
        assert!(rate(segment, rtt, p).as_bps().abs_diff(bps) <= 1, "{segment} {rtt:?} {p}");
        assert!(rate_of(segment, rtt, p, rtt * 4, 1).as_bps().abs_diff(bps) <= 1, "the form in full");
    }
}

#[test]
fn timeout_and_delayed_acknowledgements_count_in_the_full_form() {
    let rtt = Duration::from_millis(100);
    assert_eq!(rate_of(1_460, rtt, 0.01, Duration::from_secs(1), 2).as_bps(), 825_244);
    assert_eq!(rate_of(1_000, rtt / 2, 0.1, Duration::from_millis(400), 2).as_bps(), 129_792);
}

#[test]
fn no_loss_is_no_limit() {
    assert_eq!(rate(1_000, Duration::from_millis(10), 0.0), Rate::MAX);
    assert_eq!(rate(1_000, Duration::ZERO, 0.1), Rate::MAX);
}

#[test]
fn the_inverse_finds_the_loss_event_rate_far_within_five_percent() {
    for (segment, micros, p, bps) in TABLE {
        let found = loss_event_rate(segment, Duration::from_micros(micros), Rate::from_bps(bps));
        // One bit per second is a large part of the slowest rate.
        assert!((found / p - 1.0).abs() < 0.001, "{found} for {p}");
    }
    for (packets, length) in [(0.5, 4.844_282_998_8), (4.0, 21.999_955_943_5), (10.0, 82.150_938_037_2)] {
        assert!((1.0 / for_packets_a_round_trip(packets) - length).abs() < 1e-6, "{packets}");
    }
}

#[test]
fn what_cannot_be_reached_is_the_nearest_that_can() {
    let rtt = Duration::from_millis(100);
    assert_eq!(loss_event_rate(1_000, rtt, Rate::ZERO), 1.0);
    assert!(loss_event_rate(1_000, rtt, Rate::MAX) <= 1.01e-9);
    assert_eq!(loss_event_rate(0, rtt, Rate::ZERO), 1.0, "nothing at nothing");
}
