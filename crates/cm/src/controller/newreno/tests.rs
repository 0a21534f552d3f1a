//! Tests of the numeric rules of RFC 5681 and RFC 3465.

use proptest::prelude::*;

use super::*;

const MTU: u64 = 1_000;

fn ack(reno: &mut NewReno, bytes: u64) {
    reno.on_acked(Instant::ZERO, Acked { bytes, outstanding: 0, rtt: None, srtt: None, window_limited: true });
}

fn lose(reno: &mut NewReno, outstanding: u64) {
    reno.on_congestion(Instant::ZERO, Congestion { outstanding, marked: false });
}

fn time_out(reno: &mut NewReno, outstanding: u64, again: bool) {
    reno.on_timeout(Instant::ZERO, TimedOut { outstanding, again });
}

/// A controller in congestion avoidance, at `packets`.
fn at(packets: u64) -> NewReno {
    let mut reno = NewReno::new(MTU).with_initial_window(2 * packets * MTU);
    lose(&mut reno, 2 * packets * MTU);
    assert_eq!(reno.window(), packets * MTU);
    reno
}

#[test]
fn slow_start_adds_what_is_acknowledged_and_at_most_two_packets_an_acknowledgement() {
    let mut reno = NewReno::new(MTU);
    for (bytes, window) in [(300, 10_300), (1_000, 11_300), (2_000, 13_300), (9_000, 15_300)] {
        ack(&mut reno, bytes);
        assert_eq!(reno.window(), window, "after {bytes} bytes");
    }
}

#[test]
fn slow_start_after_a_timeout_adds_one_packet_an_acknowledgement_up_to_the_threshold() {
    let mut reno = at(12);
    time_out(&mut reno, 12 * MTU, false);
    assert_eq!((reno.window(), reno.threshold()), (MTU, 6 * MTU), "the loss window, and equation (4)");
    let windows: Vec<_> = std::iter::repeat_with(|| {
        ack(&mut reno, 4 * MTU);
        reno.window() / MTU
    })
    .take(7)
    .collect();
    assert_eq!(windows, [2, 3, 4, 5, 6, 6, 7], "then one packet for each window");
}

#[test]
fn the_limit_is_two_packets_again_once_what_a_timeout_told_is_repaired() {
    let mut reno = at(8);
    time_out(&mut reno, 8 * MTU, false);
    for _ in 0..3 {
        ack(&mut reno, MTU);
    }
    assert_eq!(reno.window(), reno.threshold());
    reno.on_idle(Instant::ZERO, 1);
    let mut reno = NewReno { window: MTU, ..reno };
    ack(&mut reno, 2 * MTU);
    assert_eq!(reno.window(), 3 * MTU);
}

#[test]
fn congestion_avoidance_adds_one_packet_a_window_however_it_is_acknowledged() {
    for bytes in [100, 500, MTU, 2 * MTU] {
        let mut reno = at(10);
        for round in 11..20 {
            let window = reno.window();
            for _ in 0..window / bytes {
                assert_eq!(reno.window(), window);
                ack(&mut reno, bytes);
            }
            // The remainder of a round counts in the next.
            let over = window % bytes;
            if over > 0 {
                ack(&mut reno, over);
            }
            assert_eq!(reno.window(), round * MTU, "in steps of {bytes}");
        }
    }
}

#[test]
fn a_single_acknowledgement_of_many_windows_adds_one_packet() {
    let mut reno = at(10);
    ack(&mut reno, 95 * MTU);
    assert_eq!(reno.window(), 11 * MTU);
}

#[test]
fn a_loss_halves_what_is_under_way_and_leaves_two_packets_at_least() {
    for (outstanding, window) in [(20_000, 10_000), (7_000, 3_500), (4_000, 2_000), (3_000, 2_000), (1_000, 2_000)] {
        let mut reno = NewReno::new(MTU).with_initial_window(20 * MTU);
        lose(&mut reno, outstanding);
        assert_eq!((reno.window(), reno.threshold()), (window, window), "{outstanding} under way");
    }
}

#[test]
fn what_limited_transmit_sent_beyond_the_window_is_not_counted() {
    let mut reno = at(10);
    lose(&mut reno, 12 * MTU);
    assert_eq!(reno.window(), 5 * MTU);
}

#[test]
fn a_mark_leaves_one_packet_and_a_threshold_of_two() {
    let mut reno = at(2);
    reno.on_congestion(Instant::ZERO, Congestion { outstanding: 2 * MTU, marked: true });
    assert_eq!((reno.window(), reno.threshold()), (MTU, 2 * MTU));
}

#[test]
fn the_threshold_is_held_when_a_timeout_tells_the_same_loss_again() {
    let mut reno = at(16);
    time_out(&mut reno, 16 * MTU, false);
    for _ in 0..5 {
        time_out(&mut reno, MTU, true);
        assert_eq!((reno.window(), reno.threshold()), (MTU, 8 * MTU));
    }
}

#[test]
fn a_lost_handshake_leaves_one_packet_to_start_with_and_no_threshold() {
    let mut reno = NewReno::new(MTU);
    time_out(&mut reno, 0, false);
    assert_eq!((reno.window(), reno.threshold()), (MTU, u64::MAX));
    ack(&mut reno, 2 * MTU);
    assert_eq!(reno.window(), 3 * MTU, "this slow start repairs nothing");
}

#[test]
fn after_an_idle_timeout_it_starts_again_from_the_initial_window_and_never_grows_by_it() {
    let mut reno = at(40);
    reno.on_idle(Instant::ZERO, 0);
    assert_eq!(reno.window(), 40 * MTU, "shorter than a timeout");
    reno.on_idle(Instant::ZERO, 1);
    assert_eq!((reno.window(), reno.threshold()), (40 * MTU, 40 * MTU), "the initial window was 80");
    let mut reno = NewReno::new(MTU);
    ack(&mut reno, 2 * MTU);
    reno.on_idle(Instant::ZERO, 3);
    assert_eq!(reno.window(), 10 * MTU);
    time_out(&mut reno, 10 * MTU, false);
    reno.on_idle(Instant::ZERO, 3);
    assert_eq!(reno.window(), MTU);
}

#[test]
fn nothing_is_held_back_unless_pacing_is_asked_for() {
    let rtt = Duration::from_millis(100);
    assert_eq!(NewReno::new(MTU).pace(rtt), Rate::MAX);
    assert_eq!(NewReno::new(MTU).with_pacing().pace(rtt), Rate::from_bytes_in(20 * MTU, rtt), "twice in slow start");
    let mut reno = NewReno::new(MTU).with_pacing();
    lose(&mut reno, 10 * MTU);
    assert_eq!(reno.pace(rtt), Rate::from_bytes_in(6 * MTU, rtt));
}

proptest! {
    /// Invariants: at least one packet, no growth by losses, and at most doubling by acknowledgements.
    #[test]
    fn the_window_stays_within_its_bounds(news in prop::collection::vec((0u8..5, 0u64..200_000), 1..200)) {
        let mut reno = NewReno::new(MTU);
        for (kind, bytes) in news {
            let before = reno.window();
            match kind {
                0 | 1 => ack(&mut reno, bytes),
                2 => reno.on_congestion(Instant::ZERO, Congestion { outstanding: bytes, marked: bytes % 2 == 0 }),
                3 => time_out(&mut reno, bytes, bytes % 2 == 0),
                _ => reno.on_idle(Instant::ZERO, (bytes % 3) as u32),
            }
            let after = reno.window();
            prop_assert!(after >= MTU);
            if kind < 2 {
                prop_assert!(after >= before && after - before <= bytes.clamp(MTU, 2 * MTU));
            } else {
                prop_assert!(after <= before.max(2 * MTU));
                prop_assert!(reno.threshold() >= 2 * MTU);
            }
        }
    }
}

/// Found by `timeous-lab tcp-expired`: two datagrams of three quarters of a packet fit into a window of two packets.
#[test]
fn what_does_not_fill_the_window_for_its_size_is_a_round_trip_all_the_same() {
    let round = |mut reno: NewReno| {
        lose(&mut reno, 4 * MTU);
        for outstanding in [750, 0] {
            let acked = Acked { bytes: 750, outstanding, rtt: None, srtt: None, window_limited: true };
            reno.on_acked(Instant::ZERO, acked);
        }
        reno.window()
    };
    assert_eq!(round(NewReno::new(MTU)), 2 * MTU, "by the standard's count of bytes it is three quarters of one");
    assert_eq!(round(NewReno::new(MTU).for_streams_that_pause()), 3 * MTU);
}
