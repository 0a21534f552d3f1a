//! Tests of the Congestion Manager flow on top of the kernel's congestion control.

use std::net::IpAddr;

use timeous_core::Rate;

use super::super::info::LEN;
use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Fakes a kernel report: SACKed segments, lost or repaired segments, retransmissions in total, consecutive timeouts.
fn info(sacked: u32, holes: u32, again: u32, timeouts: u8) -> Info {
    let mut bytes = [0; LEN];
    bytes[2] = timeouts;
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(28, sacked);
    put(32, holes);
    put(100, again);
    Info::new(bytes)
}

/// Times at which records with these ends were acknowledged.
fn stamped(times: &[(u64, Instant)]) -> Stamps {
    let mut stamps = Stamps::default();
    for &(end, at) in times {
        stamps.add(end, (end - 1) as u32, at);
    }
    stamps
}

fn restraint() -> (Manager, Restraint) {
    restraint_by(Kind::Live)
}

fn restraint_by(kind: Kind) -> (Manager, Restraint) {
    let mut manager = Manager::default();
    let restraint = Restraint::new(Instant::ZERO, &mut manager, IpAddr::from([192, 0, 2, 1]).into(), 1_000, kind, None);
    (manager, restraint)
}

/// Sends as many records of 1000 bytes as are granted, up to `most`; returns their number.
fn give(restraint: &mut Restraint, manager: &mut Manager, now: Instant, most: u64) -> u64 {
    let mut count = 0;
    while count < most && restraint.may_send(now, manager) {
        let end = restraint.given + 1_000;
        restraint.sent(now, manager, (end, 1_000), true);
        count += 1;
    }
    count
}

#[test]
fn what_the_manager_does_not_grant_is_not_given_to_the_kernel() {
    let (mut manager, mut restraint) = restraint();
    let first = give(&mut restraint, &mut manager, at(0), 1_000);
    assert!((1..=10).contains(&first), "an initial window: {first}");
    assert!(restraint.look(None).is_some(), "acknowledgements are looked for");
    let reached = restraint.given;
    restraint.heard(at(40), &mut manager, reached, &mut Stamps::default(), &info(0, 0, 0, 0));
    let path = manager.query(restraint.flow()).unwrap();
    assert_eq!((path.outstanding, path.srtt), (0, Some(Duration::from_millis(40))));
    assert!(restraint.may_send(at(40), &mut manager));
    restraint.give_back(at(40), &mut manager);
    assert_eq!(restraint.look(None), None);
}

#[test]
fn a_gap_is_a_loss_once_and_what_waited_for_it_has_no_round_trip() {
    let (mut manager, mut restraint) = restraint();
    let given = give(&mut restraint, &mut manager, at(0), 4);
    assert!(given > 2);
    restraint.heard(at(40), &mut manager, 1_000, &mut Stamps::default(), &info(0, 0, 0, 0));
    let sacked = u32::try_from(given).unwrap() - 2;
    restraint.heard(at(41), &mut manager, 1_000, &mut Stamps::default(), &info(sacked, 1, 1, 0));
    let path = manager.query(restraint.flow()).unwrap();
    assert_eq!(path.outstanding, 1_000, "what was repaired is under way");
    restraint.heard(at(81), &mut manager, restraint.given, &mut Stamps::default(), &info(0, 0, 1, 0));
    let path = manager.query(restraint.flow()).unwrap();
    assert_eq!((path.outstanding, path.srtt), (0, Some(Duration::from_millis(40))));
}

#[test]
fn the_time_until_somebody_looks_is_no_part_of_a_round_trip() {
    let (mut manager, mut restraint) = restraint();
    let mut kernel = [0; LEN];
    kernel[68..72].copy_from_slice(&200_u32.to_ne_bytes());
    give(&mut restraint, &mut manager, at(0), 1);
    restraint.heard(at(10), &mut manager, 1_000, &mut Stamps::default(), &Info::new(kernel));
    let rtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
    assert_eq!(rtt(&manager, &restraint), Some(Duration::from_micros(200)), "the kernel's, who looked at once");
    give(&mut restraint, &mut manager, at(10), 2);
    restraint.heard(at(40), &mut manager, 1_000, &mut Stamps::default(), &Info::new(kernel));
    restraint.heard(at(42), &mut manager, 3_000, &mut Stamps::default(), &Info::new(kernel));
    let seen = rtt(&manager, &restraint).unwrap();
    // One eighth of 30 ms: the acknowledgement had not arrived at the poll at 40 ms.
    assert_eq!(seen, (Duration::from_micros(200) * 7 + Duration::from_millis(30)) / 8);
}

/// A flow after a handshake of 40 ms.
fn shaken() -> (Manager, Restraint) {
    let mut manager = Manager::default();
    let mut kernel = [0; LEN];
    kernel[148..152].copy_from_slice(&40_000_u32.to_ne_bytes());
    let host = IpAddr::from([192, 0, 2, 1]).into();
    let restraint = Restraint::new(at(0), &mut manager, host, 1_000, Kind::Live, Some(&Info::new(kernel)));
    (manager, restraint)
}

#[test]
fn the_path_is_known_by_when_each_record_was_acknowledged() {
    let (mut manager, mut restraint) = shaken();
    let four_leave = |restraint: &mut Restraint, manager: &mut Manager, now| {
        (0..4).for_each(|_| restraint.sent(now, manager, (restraint.given + 1_000, 1_000), true));
    };
    four_leave(&mut restraint, &mut manager, at(0));
    // The link takes 10 ms for a record, and nobody looks before all have come.
    let stamps: Vec<(u64, Instant)> = (1..=4).map(|n| (n * 1_000, at(40 + 10 * n))).collect();
    restraint.heard(at(95), &mut manager, 4_000, &mut stamped(&stamps), &info(0, 0, 0, 0));
    let path = restraint.path(PathState { rate: Rate::from_kbps(1_000), window: 99_999, ..PathState::default() });
    let model = path.arrivals.unwrap();
    assert!(model.is_exact, "the last one came too soon after the one before it to be delayed");
    four_leave(&mut restraint, &mut manager, at(95));
    let stamps: Vec<(u64, Instant)> = (1..=4).map(|n| (4_000 + n * 1_000, at(135 + 10 * n))).collect();
    for (n, stamp) in stamps.iter().enumerate() {
        restraint.heard(stamp.1, &mut manager, 5_000 + 1_000 * n as u64, &mut stamped(&[*stamp]), &info(0, 0, 0, 0));
    }
    let path = manager.query(restraint.flow()).unwrap();
    // With the headers of IP and TCP.
    let capacity = path.arrivals.unwrap().capacity.unwrap();
    assert!(capacity.as_bps().abs_diff(1_052 * 8 * 100) < 10, "{capacity:?}");
}

#[test]
fn an_acknowledgement_is_late_by_a_timer_only_if_one_may_have_run() {
    let (_, mut restraint) = shaken();
    assert!(!restraint.is_prompt(at(100), 1_000, 1_000), "one alone");
    assert!(!restraint.is_prompt(at(140), 1_000, 1_000), "40 ms after the one before it");
    assert!(restraint.is_prompt(at(179), 1_000, 1_000));
    assert!(!restraint.is_prompt(at(300), 500, 1_000), "half a segment");
    assert!(restraint.is_prompt(at(300), 501, 1_000), "and another, by the same acknowledgement");
}

/// Found by review: the clock that stamps was set between a departure and its acknowledgement, and the minimum RTT stayed zero.
#[test]
fn a_stamp_from_before_the_record_could_arrive_is_none_and_one_alone_is_no_round_trip() {
    let (mut manager, mut restraint) = shaken();
    let mut kernel = [0; LEN];
    kernel[148..152].copy_from_slice(&40_000_u32.to_ne_bytes());
    kernel[16..20].copy_from_slice(&1_400_u32.to_ne_bytes());
    let kernel = Info::new(kernel);
    for n in 1..=2 {
        restraint.sent(at(100), &mut manager, (1_000 * n, 1_000), true);
    }
    restraint.heard(at(150), &mut manager, 2_000, &mut stamped(&[(1_000, at(90)), (2_000, at(119))]), &kernel);
    let path = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap();
    assert_eq!(path(&manager, &restraint).min_rtt, Some(Duration::from_millis(40)));
    let srtt = path(&manager, &restraint).srtt;
    restraint.sent(at(200), &mut manager, (3_000, 1_000), true);
    restraint.heard(at(280), &mut manager, 3_000, &mut stamped(&[(3_000, at(280))]), &kernel);
    assert_eq!(path(&manager, &restraint).srtt, srtt, "it may have been delayed by 40 ms");
}

#[test]
fn a_path_within_a_host_is_left_to_the_kernel() {
    let (mut manager, mut restraint) = shaken();
    give(&mut restraint, &mut manager, at(0), 1_000);
    restraint.path = restraint.path.map(|path| PathState { min_rtt: Some(Duration::from_micros(999)), ..path });
    assert!(restraint.may_send(at(0), &mut manager));
}

/// Found by `timeous-peer-trials --links share`: held back by the smaller of both windows, a stream had a quarter of what the kernel's
/// BBR has alone.
#[test]
fn among_others_the_kernels_window_alone_decides() {
    let (mut manager, mut restraint) = shaken();
    give(&mut restraint, &mut manager, at(0), 1_000);
    assert!(!restraint.may_send(at(0), &mut manager));
    restraint.path = restraint.path.map(|path| PathState { contended: true, ..path });
    assert!(restraint.may_send(at(0), &mut manager));
    let kernel = PathState { rate: Rate::from_kbps(9_000), window: 99_999, ..PathState::default() };
    assert_eq!(restraint.path(kernel), kernel);
}

/// Regression: the ACK of a single segment is delayed by 40 ms, which looked like a standing queue on a fast path.
#[test]
fn a_second_segment_keeps_the_first_company_whatever_the_window_is() {
    // NewReno, since Live's window is at least two segments.
    let (mut manager, mut restraint) = restraint_by(Kind::NewReno);
    give(&mut restraint, &mut manager, at(0), 2);
    restraint.heard(at(1), &mut manager, 2_000, &mut Stamps::default(), &info(0, 0, 0, 0));
    give(&mut restraint, &mut manager, at(1), 1);
    restraint.heard(at(401), &mut manager, 2_000, &mut Stamps::default(), &info(0, 1, 1, 1));
    assert_eq!(manager.query(restraint.flow()).unwrap().window, 1_000, "a timeout");
    assert_eq!(give(&mut restraint, &mut manager, at(402), 10), 1, "two are under way");
    let srtt = |manager: &Manager, restraint: &Restraint| manager.query(restraint.flow()).unwrap().srtt;
    let before = srtt(&manager, &restraint);
    restraint.heard(at(403), &mut manager, 3_000, &mut Stamps::default(), &info(0, 0, 1, 0));
    restraint.heard(at(443), &mut manager, 4_000, &mut Stamps::default(), &info(0, 0, 1, 0));
    assert_eq!(srtt(&manager, &restraint), before, "one alone tells nothing of the path");
}

#[test]
fn a_timeout_leaves_the_window_of_two_segments() {
    let (mut manager, mut restraint) = restraint();
    give(&mut restraint, &mut manager, at(0), 10);
    restraint.heard(at(400), &mut manager, 0, &mut Stamps::default(), &info(0, 10, 1, 1));
    let path = manager.query(restraint.flow()).unwrap();
    assert!(path.window <= 2_000, "{}", path.window);
    assert!(!restraint.may_send(at(400), &mut manager), "enough is under way");
    restraint.heard(at(401), &mut manager, 0, &mut Stamps::default(), &info(0, 10, 1, 1));
    assert_eq!(manager.query(restraint.flow()).unwrap().window, path.window, "told once");
}
