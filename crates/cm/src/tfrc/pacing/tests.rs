//! Tests of pacing: nominal send times, credit for unused ones, and early packets.

use super::*;

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// A thousand packets of 1000 bytes per second.
fn schedule(rtt_millis: u64, granularity_millis: u64) -> Schedule {
    Schedule {
        rate: 1e6,
        segment: 1_000.0,
        rtt: Some(Duration::from_millis(rtt_millis)),
        granularity: Duration::from_millis(granularity_millis),
    }
}

/// Sends all packets that may leave at `now`, and returns their number.
fn burst(pacing: &mut Pacing, now: Instant, schedule: &Schedule) -> u64 {
    let mut sent = 0;
    while pacing.next(schedule).is_none_or(|next| next <= now) {
        pacing.sent(now, 1_000, schedule);
        sent += 1;
    }
    sent
}

#[test]
fn section_4_6_nominal_times_are_an_interval_apart_whatever_the_driver_makes_of_them() {
    let (schedule, mut pacing) = (schedule(100, 0), Pacing::default());
    assert_eq!(pacing.next(&schedule), None, "t_0 is now");
    pacing.sent(at(5_000), 1_000, &schedule);
    assert_eq!(pacing.next(&schedule), Some(at(6_000)));
    pacing.sent(at(6_300), 1_000, &schedule);
    assert_eq!(pacing.next(&schedule), Some(at(7_000)), "late by 0.3 ms, and the next is not");
    pacing.sent(at(7_000), 500, &schedule);
    assert_eq!(pacing.next(&schedule), Some(at(7_500)), "half a segment, half the time");
}

#[test]
fn section_4_6_a_burst_is_never_more_than_a_round_trip_s_worth() {
    for rtt in [2, 10, 100] {
        let (schedule, mut pacing) = (schedule(rtt, 0), Pacing::default());
        assert_eq!(burst(&mut pacing, at(0), &schedule), 1);
        assert_eq!(burst(&mut pacing, at(10_000_000), &schedule), rtt, "after ten seconds of silence");
        assert_eq!(burst(&mut pacing, at(10_000_000), &schedule), 0);
        assert_eq!(burst(&mut pacing, at(10_001_000), &schedule), 1);
    }
}

#[test]
fn section_4_6_without_a_round_trip_there_is_no_credit() {
    let (schedule, mut pacing) = (Schedule { rtt: None, ..schedule(1, 0) }, Pacing::default());
    burst(&mut pacing, at(0), &schedule);
    assert_eq!(burst(&mut pacing, at(60_000_000), &schedule), 1);
}

#[test]
fn section_8_3_the_example_of_ten_packets_a_round_trip() {
    // The text's 10 packets in 100 ms contradict its t_ipi of 1 ms; by the t_ipi, which it uses further on.
    let (schedule, mut pacing) = (schedule(100, 10), Pacing::default());
    assert_eq!(schedule.early(), Duration::from_micros(500), "t_delta");
    pacing.sent(at(0), 1_000, &schedule);
    assert_eq!(pacing.next(&schedule), Some(at(500)));
    assert_eq!(schedule.credit(), Duration::from_millis(99), "a round trip with the packet that is due");
}

#[test]
fn section_8_3_at_a_round_trip_below_the_granularity_that_is_the_bound() {
    let schedule = Schedule { rtt: Some(Duration::from_micros(100)), ..schedule(1, 1) };
    assert_eq!(schedule.early(), Duration::from_micros(50));
    let fast = Schedule { rate: 1e9, ..schedule };
    let mut pacing = Pacing::default();
    burst(&mut pacing, at(0), &fast);
    assert_eq!(burst(&mut pacing, at(1_000), &fast), 100, "a round trip's data at 1 µs a packet, once a millisecond");
}

#[test]
fn a_rate_that_has_risen_is_not_waited_for() {
    let slow = Schedule { rate: 1_000.0 / 64.0, ..schedule(100, 0) };
    let mut pacing = Pacing::default();
    pacing.sent(at(0), 1_000, &slow);
    assert_eq!(pacing.next(&slow), Some(at(64_000_000)));
    assert_eq!(pacing.next(&schedule(100, 0)), Some(at(1_000)));
}
