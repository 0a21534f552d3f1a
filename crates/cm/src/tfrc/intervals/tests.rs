//! Tests of the average of RFC 5348 §5.4 and the discounting of §5.5, with values computed by hand.

use proptest::prelude::*;

use super::*;

fn closed(mut intervals: LossIntervals, oldest_first: &[f64]) -> LossIntervals {
    for &length in oldest_first {
        intervals.close(length);
    }
    intervals
}

fn plain(oldest_first: &[f64]) -> LossIntervals {
    closed(LossIntervals::without_discounting(), oldest_first)
}

#[track_caller]
fn near(rate: f64, wanted: f64) {
    assert!((rate / wanted - 1.0).abs() < 1e-12, "{rate}, not {wanted}");
}

#[test]
fn section_5_4_the_weights_of_eight() {
    let eight = plain(&[80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]);
    // 10 + 20 + 30 + 40 + 0.8 * 50 + 0.6 * 60 + 0.4 * 70 + 0.2 * 80 = 220, divided by a weight of 6.
    near(eight.loss_event_rate(1.0), 6.0 / 220.0);
    // 100 + 10 + 20 + 30 + 0.8 * 40 + 0.6 * 50 + 0.4 * 60 + 0.2 * 70 = 260.
    near(eight.loss_event_rate(100.0), 6.0 / 260.0);
}

#[test]
fn section_5_4_the_current_interval_counts_only_if_it_helps() {
    let eight = plain(&[100.0; 8]);
    near(eight.loss_event_rate(1.0), 0.01);
    near(eight.loss_event_rate(100.0), 0.01);
    near(eight.loss_event_rate(160.0), 6.0 / 660.0);
}

#[test]
fn section_5_4_fewer_than_eight_intervals_are_averaged_over_as_many() {
    assert_eq!(plain(&[]).loss_event_rate(1_000.0), 0.0);
    near(plain(&[100.0]).loss_event_rate(1.0), 0.01);
    near(plain(&[100.0]).loss_event_rate(150.0), 1.0 / 150.0);
    near(plain(&[50.0, 100.0]).loss_event_rate(1.0), 2.0 / 150.0);
    near(plain(&[50.0, 100.0]).loss_event_rate(200.0), 2.0 / 300.0);
}

#[test]
fn section_5_4_a_ninth_interval_is_forgotten() {
    let mut intervals = plain(&[1_000_000.0]);
    for _ in 0..8 {
        intervals.close(100.0);
    }
    near(intervals.loss_event_rate(1.0), 0.01);
    assert_eq!(intervals.lengths().count(), INTERVALS);
}

#[test]
fn section_5_5_old_intervals_are_discounted_while_the_current_one_is_long() {
    let two = closed(LossIntervals::default(), &[100.0, 100.0]);
    near(two.loss_event_rate(200.0), 2.0 / 300.0);
    // I_mean is 100: DF = 2 * 100 / 400.
    near(two.loss_event_rate(400.0), 1.5 / 450.0);
    // DF would be 0.1, and is limited to the threshold.
    near(two.loss_event_rate(2_000.0), 1.25 / 2_025.0);
}

#[test]
fn section_5_5_a_discount_stays_with_the_intervals_that_had_it() {
    let mut intervals = closed(LossIntervals::default(), &[100.0, 100.0]);
    intervals.close(400.0);
    // 400 * 1 + 100 * 0.5 + 100 * 0.5, divided by a weight of 2.
    near(intervals.loss_event_rate(1.0), 2.0 / 500.0);
    // I_mean is 250 now: DF = 0.5, and 100 has a factor of 0.5 * 0.5.
    intervals.close(1_000.0);
    near(intervals.loss_event_rate(1.0), 2.0 / (1_000.0 + 400.0 * 0.5 + 200.0 * 0.25));
}

#[test]
fn section_5_5_without_a_long_interval_discounting_changes_nothing() {
    let lengths = [120.0, 90.0, 100.0, 70.0, 110.0, 80.0, 100.0, 95.0, 130.0];
    let (with, without) = (closed(LossIntervals::default(), &lengths), plain(&lengths));
    near(with.loss_event_rate(150.0), without.loss_event_rate(150.0));
}

#[test]
fn what_is_no_length_counts_as_one_packet() {
    for length in [0.0, -5.0, f64::NAN] {
        assert_eq!(plain(&[length]).loss_event_rate(length), 1.0);
    }
}

proptest! {
    #[test]
    fn the_rate_is_a_share_and_falls_while_nothing_is_lost(
        lengths in prop::collection::vec(1.0..1e6f64, 1..20), discounting: bool,
    ) {
        let start = if discounting { LossIntervals::default() } else { LossIntervals::without_discounting() };
        let intervals = closed(start, &lengths);
        let mut before = 1.0;
        for current in (0..24).map(|power| f64::from(1 << power)) {
            let rate = intervals.loss_event_rate(current);
            prop_assert!(rate > 0.0 && rate <= 1.0);
            prop_assert!(rate <= before * (1.0 + 1e-9), "{rate} after {before} at {current}");
            before = rate;
        }
    }

    #[test]
    fn an_interval_cut_short_never_lowers_the_rate(
        lengths in prop::collection::vec(1.0..1e6f64, 1..12), which: prop::sample::Index, share in 0.0..1.0f64,
        current in 1.0..1e6f64,
    ) {
        let mut shorter = lengths.clone();
        *which.get_mut(&mut shorter) *= share;
        let (before, after) = (plain(&lengths).loss_event_rate(current), plain(&shorter).loss_event_rate(current));
        prop_assert!(after >= before * (1.0 - 1e-9));
    }
}
