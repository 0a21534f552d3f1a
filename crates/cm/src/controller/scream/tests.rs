//! Tests of SCReAMv2: the draft's numbers, and a closed loop with a simulated link.

use proptest::prelude::*;

use super::super::closed_loop::{Bottleneck, Run};
use super::*;

const MTU: u64 = 1_000;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ack(scream: &mut Scream, millis: u64, rtt: u64) {
    let rtt = Some(Duration::from_millis(rtt));
    let acked = Acked { bytes: MTU, outstanding: scream.window(), rtt, srtt: rtt, window_limited: true };
    scream.on_acked(at(millis), acked);
}

#[test]
fn it_starts_with_three_kilobytes_and_grows_by_a_packet_a_round_trip_and_a_fiftieth() {
    let mut scream = Scream::new(MTU);
    assert_eq!(scream.window(), 3_000);
    scream.adopt(20_000, None);
    for n in 0..20 {
        ack(&mut scream, 5 * n, 100);
    }
    // 1 + 0.02 × 20 packets.
    let grown = scream.window() as f64 / 1e3 - 20.0;
    assert!((1.3..1.5).contains(&grown), "{grown}");
}

#[test]
fn losses_leave_seven_tenths_and_marks_eight() {
    let mut scream = Scream::new(MTU);
    scream.adopt(100_000, None);
    scream.on_congestion(at(0), Congestion { outstanding: 0, marked: false });
    assert_eq!(scream.window(), 70_000);
    scream.on_congestion(at(200), Congestion { outstanding: 0, marked: true });
    assert_eq!(scream.window(), 56_000);
}

#[test]
fn a_queue_beyond_half_of_its_target_shrinks_the_window_and_others_raise_the_target() {
    let mut scream = Scream::new(MTU);
    scream.adopt(50_000, None);
    ack(&mut scream, 0, 100);
    let before = scream.window();
    for n in 1..100 {
        ack(&mut scream, 10 * n, 160);
    }
    assert!(scream.window() < before * 3 / 4, "{}", scream.window());
    for n in 100..2_500 {
        ack(&mut scream, 10 * n, 400);
    }
    assert!(scream.qdelay_target > 0.25, "{}", scream.qdelay_target);
}

#[test]
fn near_the_window_of_the_last_congestion_it_grows_by_a_tenth() {
    let mut scream = Scream::new(MTU);
    scream.adopt(20_000, None);
    scream.ref_wnd_i = 20_000.0;
    scream.congested_at = Some(at(0));
    for n in 0..20 {
        ack(&mut scream, 5 * n, 100);
    }
    let grown = scream.window() - 20_000;
    assert!((90..130).contains(&grown), "{grown}");
}

#[test]
fn alone_on_a_link_without_loss_it_fills_most_of_it() {
    let link =
        Bottleneck { packets: 100.0, rtt: Duration::from_millis(50), queue: 400, loss: 0.0, slower: None, seed: 1 };
    let run = Run::of(Box::new(Scream::new(MTU)), MTU, link, 60);
    // Ten packets are 100 ms. Its own oscillation raises its delay target.
    assert!(run.used >= 0.75 && run.mean_queue < 12.0, "{run:?}");
}

proptest! {
    #[test]
    fn whatever_is_heard_the_window_is_a_number_of_three_kilobytes_at_least(
        news in prop::collection::vec((0_u8..6, 0_u64..3_000, 0_u64..20_000), 1..300),
    ) {
        let (mut scream, mut now) = (Scream::new(MTU), Instant::ZERO);
        for (kind, millis, bytes) in news {
            now += Duration::from_millis(millis);
            let rtt = Some(Duration::from_millis(millis % 700));
            match kind {
                0 => scream.on_congestion(now, Congestion { outstanding: bytes, marked: millis % 2 == 0 }),
                1 => scream.on_timeout(now, TimedOut { outstanding: bytes, again: false }),
                2 => scream.on_idle(now, (millis % 5) as u32),
                _ => {
                    let acked = Acked { bytes, outstanding: bytes, rtt, srtt: rtt, window_limited: true };
                    scream.on_acked(now, acked);
                }
            }
            prop_assert!(scream.ref_wnd.is_finite() && scream.ref_wnd >= MIN_REF_WND, "{}", scream.ref_wnd);
        }
    }
}
