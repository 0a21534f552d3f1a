//! Tests of the TFRC controller: scripted, and against the throughput equation.

use proptest::prelude::*;

use super::*;

const MTU: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn acked(bytes: u64, window_limited: bool) -> Acked {
    Acked { bytes, outstanding: 0, rtt: Some(RTT), srtt: Some(RTT), window_limited }
}

/// Acknowledges `packets`, spread evenly over the round trip that ends at `end`.
fn round(tfrc: &mut Tfrc, end: u64, packets: u64, limited: bool) {
    for n in 1..=packets {
        tfrc.on_acked(at(end - 100) + RTT * n / packets, acked(MTU, limited));
    }
}

fn rate(tfrc: &Tfrc) -> u64 {
    tfrc.pace(RTT).bytes_in(RTT)
}

/// A controller with a loss event per `packets`, at twenty packets per round trip.
fn lossy(packets: u64) -> Tfrc {
    let mut tfrc = Tfrc::new(MTU);
    let mut end = 100;
    for n in 1..=packets * 12 / 20 + 1 {
        round(&mut tfrc, end, 20, true);
        end += 100;
        if n % (packets / 20) == 0 {
            tfrc.on_congestion(at(end - 100), Congestion { outstanding: 20 * MTU, marked: false });
        }
    }
    tfrc
}

#[test]
fn starts_with_the_initial_window_and_doubles_once_a_round_trip() {
    let mut tfrc = Tfrc::new(MTU);
    assert_eq!(tfrc.window(), 4 * MTU);
    tfrc.on_acked(at(100), acked(MTU, true));
    assert_eq!(rate(&tfrc), 4 * MTU);
    let mut rates = Vec::new();
    for (end, packets) in [(200, 4), (300, 8), (400, 16)] {
        round(&mut tfrc, end, packets, true);
        rates.push(rate(&tfrc) / MTU);
    }
    assert_eq!(rates, [8, 16, 32]);
    assert_eq!(tfrc.window(), 40 * MTU, "a quarter more than a round trip's worth");
}

#[test]
fn all_acknowledgements_at_once_are_a_round_as_well() {
    let mut tfrc = Tfrc::new(MTU);
    for (now, packets) in [(100, 4), (200, 4), (300, 8), (400, 16)] {
        for _ in 0..packets {
            tfrc.on_acked(at(now), acked(MTU, true));
        }
    }
    assert_eq!(rate(&tfrc), 32 * MTU);
}

#[test]
fn the_first_loss_leaves_the_highest_rate_that_arrived() {
    let mut tfrc = Tfrc::new(MTU);
    tfrc.on_acked(at(100), acked(MTU, true));
    for (end, packets) in [(200, 4), (300, 8), (400, 16)] {
        round(&mut tfrc, end, packets, true);
    }
    tfrc.on_congestion(at(420), Congestion { outstanding: 30 * MTU, marked: false });
    assert!(rate(&tfrc).abs_diff(16 * MTU) < MTU / 20, "half of 32: {}", rate(&tfrc));
}

#[test]
fn the_rate_is_the_equation_s_at_the_average_loss_interval() {
    let tfrc = lossy(100);
    assert!((tfrc.loss_event_rate() - 1.0 / 101.0).abs() < 0.000_2, "{}", tfrc.loss_event_rate());
    let wanted = equation::rate(MTU, RTT, tfrc.loss_event_rate());
    assert!(tfrc.pace(RTT).as_bps().abs_diff(wanted.as_bps()) <= 1);
}

#[test]
fn one_loss_after_a_calm_time_costs_less_than_half() {
    let mut tfrc = lossy(100);
    let before = rate(&tfrc);
    tfrc.on_congestion(at(100_000), Congestion { outstanding: 10 * MTU, marked: false });
    assert!(rate(&tfrc) > before * 8 / 10, "{} of {before}", rate(&tfrc));
}

#[test]
fn more_losses_leave_less() {
    let rates: Vec<u64> = [400, 200, 100, 60, 20].map(lossy).iter().map(rate).collect();
    assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?}");
}

#[test]
fn what_the_application_limits_is_no_proof_and_no_reproach() {
    let mut tfrc = Tfrc::new(MTU);
    tfrc.on_acked(at(100), acked(MTU, true));
    for (end, packets) in [(200, 4), (300, 8), (400, 16)] {
        round(&mut tfrc, end, packets, true);
    }
    for end in (500..2_000).step_by(100) {
        round(&mut tfrc, end, 2, false);
    }
    assert_eq!(rate(&tfrc), 32 * MTU, "twice 16000, which arrived, and no more");
}

#[test]
fn a_timeout_halves_and_an_idle_time_goes_down_to_the_initial_rate() {
    let mut tfrc = lossy(400);
    let before = rate(&tfrc);
    tfrc.on_timeout(at(50_000), TimedOut { outstanding: 0, again: true });
    assert!(rate(&tfrc) <= before / 2 + 1, "{} of {before}", rate(&tfrc));
    let mut idle = Tfrc::new(MTU);
    for (end, packets) in [(100, 4), (200, 4), (300, 8), (400, 16)] {
        round(&mut idle, end, packets, true);
    }
    idle.on_idle(at(9_000), 1);
    let once = rate(&idle);
    idle.on_idle(at(90_000), 1_000);
    assert!(once > rate(&idle));
    assert!((4 * MTU..8 * MTU).contains(&rate(&idle)), "halved while it is twice that: {}", rate(&idle));
}

#[test]
fn a_window_that_another_had_is_gone_on_with() {
    let mut tfrc = Tfrc::new(MTU);
    tfrc.adopt(50 * MTU, Some(40 * MTU));
    assert_eq!(tfrc.window(), 50 * MTU);
    tfrc.on_acked(at(100), acked(MTU, true));
    assert!(rate(&tfrc).abs_diff(50 * MTU) < MTU, "{}", rate(&tfrc));
    assert!(tfrc.loss_event_rate() > 0.0, "it was beyond slow start");
}

proptest! {
    #[test]
    fn whatever_happens_a_packet_may_leave_and_the_rate_is_a_share(
        steps in prop::collection::vec((0..5u8, 0..100_000u64, 0..400u64, any::<bool>()), 1..200),
    ) {
        let mut tfrc = Tfrc::new(MTU);
        let mut now = at(0);
        for (what, bytes, millis, flag) in steps {
            now += Duration::from_millis(millis);
            let rtt = (millis % 7 > 0).then(|| Duration::from_millis(millis));
            match what {
                0 | 1 => tfrc.on_acked(now, Acked { rtt, srtt: rtt, ..acked(bytes, flag) }),
                2 => tfrc.on_congestion(now, Congestion { outstanding: bytes, marked: flag }),
                3 => tfrc.on_timeout(now, TimedOut { outstanding: bytes, again: flag }),
                _ => tfrc.on_idle(now, millis as u32),
            }
            prop_assert!((0.0..=1.0).contains(&tfrc.loss_event_rate()));
            prop_assert!(tfrc.window() >= MTU);
            prop_assert!(tfrc.pace(RTT) >= Rate::from_bps(125), "a packet in 64 seconds");
        }
    }
}
