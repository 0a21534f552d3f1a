//! Tests of the path state after a pause and after the last flow.

use timeous_cm::{Kind, Learnt, Loss, Manager, Update};
use timeous_core::{Duration, Rate};

use super::script::*;

const FETCH_RTT: Duration = Duration::from_millis(75);

fn learnt(window: u64) -> Learnt {
    Learnt {
        window,
        ssthresh: Some(window),
        srtt: RTT,
        rttvar: RTT / 10,
        min_rtt: RTT,
        rate: Rate::from_bytes_in(window, RTT),
        loss_ppm: 1_000,
    }
}

/// All controllers but SCReAM, which has no slow start and learns a window of only a few packets in a few round trips.
fn with_slow_start() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| *kind != Kind::Scream)
}

#[test]
fn a_fetch_half_a_second_after_another_starts_from_the_known_window() {
    for kind in Kind::ALL {
        let mut cm = Manager::new(kind.constructor());
        let mut now = at(0);
        let mut windows = Vec::new();
        for fetch in 0..4 {
            let flow = cm.open(host(), MTU);
            windows.push(cm.query(flow).unwrap().window);
            let start = at(500 * fetch);
            now = now.max(start);
            for _ in 0..3 {
                let sent = fill_until(&mut cm, now, now + FETCH_RTT, flow);
                now += FETCH_RTT;
                cm.update(now, flow, Update { rtt: Some(FETCH_RTT), ..acked(sent * MTU) }).unwrap();
            }
            cm.close(now, flow).unwrap();
        }
        assert!(windows[1] > windows[0], "{kind}: {windows:?}");
        assert!(windows.windows(2).all(|pair| pair[1] >= pair[0]), "{kind}: {windows:?}");
    }
}

#[test]
fn after_a_short_pause_the_window_is_there_but_does_not_burst() {
    let mut cm = Manager::new(Kind::NewReno.constructor());
    let flow = cm.open(host(), MTU);
    let now = grow(&mut cm, at(0), flow, 4);
    let window = cm.query(flow).unwrap().window;
    assert!(window >= 100 * MTU);
    let now = now + Duration::from_millis(600);
    let at_once = fill(&mut cm, now, flow);
    assert!((10..=14).contains(&at_once), "an initial window, and what the pace lets go: {at_once}");
    let sent = at_once + fill_until(&mut cm, now, now + RTT, flow);
    assert!(sent * MTU > window * 9 / 10 && sent * MTU <= window, "{sent} of {window} in a round trip");
}

#[test]
fn after_a_longer_absence_half_is_tried_at_a_pace() {
    for kind in with_slow_start() {
        for gap in [2_000, 60_000, 500_000] {
            let mut cm = Manager::new(kind.constructor());
            let flow = cm.open(host(), MTU);
            let now = grow(&mut cm, at(0), flow, 5);
            let window = cm.query(flow).unwrap().window;
            cm.close(now, flow).unwrap();
            let now = now + Duration::from_millis(gap);
            let flow = cm.open_for(now, timeous_cm::ClientId::HOST, spec()).unwrap();
            let at_once = fill(&mut cm, now, flow);
            assert!(at_once <= 16, "{kind}: {at_once} at once");
            assert_eq!(cm.query(flow).unwrap().window, window / 2, "{kind} after {gap} ms");
            let sent = at_once + fill_until(&mut cm, now, now + RTT, flow);
            assert!(sent * MTU > window / 2 * 8 / 10, "{kind}: {sent} packets, {window} bytes");
            assert!(sent * MTU <= window / 2);
        }
    }
}

#[test]
fn a_loss_in_the_first_round_takes_back_what_was_tried() {
    for kind in Kind::ALL {
        let mut cm = Manager::new(kind.constructor());
        let fresh = {
            let mut other = Manager::new(kind.constructor());
            let flow = other.open(host(), MTU);
            other.query(flow).unwrap().window
        };
        cm.recall(host(), learnt(200 * MTU), Duration::ZERO);
        let flow = cm.open(host(), MTU);
        assert_eq!(cm.query(flow).unwrap().window, 100 * MTU);
        fill_until(&mut cm, at(0), at(100), flow);
        cm.update(at(100), flow, acked(MTU)).unwrap();
        let lost = Update { lost: MTU, loss: Some((Loss::Transient, at(1))), ..Update::default() };
        cm.update(at(101), flow, lost).unwrap();
        assert_eq!(cm.query(flow).unwrap().window, fresh, "{kind}");
        cm.update(at(102), flow, Update { loss: Some((Loss::Transient, at(2))), ..lost }).unwrap();
        assert_eq!(cm.query(flow).unwrap().window, fresh, "{kind}: that was the same event");
        cm.update(at(103), flow, acked(2 * MTU)).unwrap();
        assert!(cm.query(flow).unwrap().window > fresh, "{kind}: slow start goes on");
    }
}

#[test]
fn what_was_tried_and_all_acknowledged_is_the_window() {
    for kind in with_slow_start() {
        let mut cm = Manager::new(kind.constructor());
        cm.recall(host(), learnt(200 * MTU), Duration::ZERO);
        let flow = cm.open(host(), MTU);
        let now = grow(&mut cm, at(0), flow, 2);
        let window = cm.query(flow).unwrap().window;
        assert!(window >= 100 * MTU, "{kind}: {window} at {now:?}");
    }
}

#[test]
fn a_recalled_window_leaves_within_a_round_trip() {
    for kind in Kind::ALL {
        let mut cm = Manager::new(kind.constructor());
        cm.recall(host(), learnt(200 * MTU), Duration::ZERO);
        let flow = cm.open(host(), MTU);
        let sent = fill_until(&mut cm, at(0), at(100), flow);
        assert!((90..=100).contains(&sent), "{kind}: {sent} packets");
    }
}

#[test]
fn another_path_than_the_remembered_is_begun_anew() {
    let mut cm = Manager::default();
    cm.recall(host(), learnt(200 * MTU), Duration::ZERO);
    let flow = cm.open(host(), MTU);
    assert_eq!(cm.query(flow).unwrap().srtt, Some(RTT));
    let elsewhere = Duration::from_millis(20);
    cm.update(at(20), flow, Update { rtt: Some(elsewhere), ..Update::default() }).unwrap();
    let path = cm.query(flow).unwrap();
    assert_eq!((path.window, path.srtt), (4 * MTU, Some(elsewhere)));
}

#[test]
fn what_is_old_counts_for_less_and_never_for_less_than_nothing() {
    let hour = Duration::from_secs(3_600);
    for (age, window) in [(Duration::ZERO, 100), (hour - RTT, 100), (hour, 50), (hour * 3, 12), (hour * 5_000, 4)] {
        let mut cm = Manager::default();
        cm.recall(host(), learnt(200 * MTU), age);
        let flow = cm.open(host(), MTU);
        assert_eq!(cm.query(flow).unwrap().window / MTU, window, "after {age:?}");
    }
    let mut cm = Manager::default();
    let poor = Learnt { window: MTU, ssthresh: Some(2 * MTU), ..learnt(MTU) };
    cm.recall(host(), poor, Duration::ZERO);
    let flow = cm.open(host(), MTU);
    let now = grow(&mut cm, at(0), flow, 1);
    assert_eq!(cm.query(flow).unwrap().window, 8 * MTU, "slow start, as without memory, at {now:?}");
}

#[test]
fn what_was_learnt_is_told_when_the_last_flow_is_closed_and_can_be_recalled() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(host(), MTU), cm.open(host(), MTU));
    let now = grow(&mut cm, at(0), a, 3);
    cm.close(now, b).unwrap();
    while cm.poll_learnt().is_some() {}
    let window = cm.query(a).unwrap().window;
    cm.close(now, a).unwrap();
    let (destination, learnt) = cm.poll_learnt().unwrap();
    assert_eq!((destination, learnt.window, learnt.srtt), (host(), window, RTT));
    assert_eq!(cm.poll_learnt(), None);
    let mut next = Manager::default();
    next.recall(destination, learnt, Duration::from_secs(60));
    let flow = next.open(host(), MTU);
    assert_eq!(next.query(flow).unwrap().window, window / 2);
}

#[test]
fn paths_that_nobody_uses_are_forgotten() {
    let mut cm = Manager::default();
    for n in 0..1_000u32 {
        let flow = cm.open(std::net::IpAddr::from(n.to_be_bytes()).into(), MTU);
        cm.close(at(u64::from(n)), flow).unwrap();
    }
    assert_eq!(cm.destinations().count(), 256, "no more than that of one user");
    let flow = cm.open(host(), MTU);
    cm.close(at(3_600_000), flow).unwrap();
    assert_eq!(cm.destinations().count(), 1);
    assert_eq!(cm.poll_timeout(), None, "and nobody wakes for it");
}
