//! The manager's promises, one scripted timeline each.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::flow::Loss;

const MTU: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);

fn destination() -> Destination {
    IpAddr::V4(Ipv4Addr::LOCALHOST).into()
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Requests and sends full packets until the window is full; how many.
fn fill(cm: &mut Manager, now: Instant, flow: FlowId) -> u64 {
    let mut sent = 0;
    loop {
        if !cm.is_waiting(flow) && !cm.has_grant(flow) {
            cm.request(now, flow).unwrap();
        }
        if !cm.has_grant(flow) {
            return sent;
        }
        cm.notify(now, flow, MTU).unwrap();
        sent += 1;
    }
}

/// The same, waiting for the pace: until only feedback could open the window.
fn fill_at_pace(cm: &mut Manager, now: &mut Instant, flow: FlowId) -> u64 {
    let mut sent = fill(cm, *now, flow);
    while let Some(due) = cm.poll_timeout() {
        *now = due.max(*now);
        cm.handle_timeout(*now);
        sent += fill(cm, *now, flow);
    }
    sent
}

#[test]
fn a_request_beyond_the_window_waits_until_an_update_opens_it() {
    let mut cm = Manager::default();
    let flow = cm.open(destination(), MTU);
    assert_eq!(fill(&mut cm, at(0), flow), 4, "the initial window");
    assert!(cm.is_waiting(flow));
    cm.update(at(100), flow, Update { acked: MTU, rtt: Some(RTT), ..Update::default() }).unwrap();
    assert!(cm.has_grant(flow));
}

#[test]
fn flows_to_one_destination_share_one_window() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    assert_eq!(fill(&mut cm, at(0), a), 4);
    cm.request(at(0), b).unwrap();
    assert!(!cm.has_grant(b), "a has used what there was");
    cm.update(at(100), a, Update { acked: 4 * MTU, rtt: Some(RTT), ..Update::default() }).unwrap();
    assert!(cm.has_grant(a) || cm.has_grant(b));
    assert_eq!(cm.query(b).unwrap().srtt, Some(RTT), "b knows what a has measured");
}

#[test]
fn a_grant_given_back_goes_to_the_next_flow() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    let held = 3;
    for _ in 0..held {
        cm.request(at(0), a).unwrap();
        cm.notify(at(0), a, MTU).unwrap();
    }
    cm.request(at(0), a).unwrap();
    cm.request(at(0), b).unwrap();
    assert!(cm.has_grant(a) && !cm.has_grant(b));
    cm.notify(at(0), a, 0).unwrap();
    assert!(cm.has_grant(b));
}

#[test]
fn a_grant_that_nobody_uses_is_taken_back() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    for _ in 0..4 {
        cm.request(at(0), a).unwrap();
    }
    cm.request(at(0), b).unwrap();
    assert!(!cm.has_grant(b));
    let due = cm.poll_timeout().unwrap();
    cm.handle_timeout(due);
    assert!(cm.has_grant(b) && !cm.has_grant(a));
    assert_eq!(cm.notify(due, a, MTU), Err(CmError::NotGranted(a)));
}

#[test]
fn a_closed_flow_gives_back_all_that_it_held() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    fill(&mut cm, at(0), a);
    cm.request(at(0), b).unwrap();
    cm.close(at(1), a).unwrap();
    assert!(cm.has_grant(b));
    assert_eq!(cm.request(at(1), a), Err(CmError::UnknownFlow(a)));
}

#[test]
fn feedback_for_more_than_was_sent_is_refused_and_changes_nothing() {
    let mut cm = Manager::default();
    let flow = cm.open(destination(), MTU);
    fill(&mut cm, at(0), flow);
    let before = cm.query(flow).unwrap();
    let lie = Update { acked: 5 * MTU, rtt: Some(RTT), ..Update::default() };
    let refused = CmError::MoreThanSent { flow, claimed: 5 * MTU, outstanding: 4 * MTU };
    assert_eq!(cm.update(at(10), flow, lie), Err(refused));
    assert_eq!(cm.query(flow).unwrap(), before);
}

#[test]
fn losses_of_one_window_are_one_event() {
    let mut cm = Manager::default();
    let flow = cm.open(destination(), MTU);
    let mut now = at(0);
    for _ in 0..3 {
        let sent = fill_at_pace(&mut cm, &mut now, flow);
        now += RTT;
        for _ in 0..sent {
            cm.update(now, flow, Update { acked: MTU, rtt: Some(RTT), ..Update::default() }).unwrap();
        }
    }
    fill_at_pace(&mut cm, &mut now, flow);
    let sent_at = now;
    let outstanding = cm.query(flow).unwrap().outstanding;
    assert!(outstanding >= 6 * MTU);
    let lost = Update { lost: MTU, loss: Some((Loss::Transient, sent_at)), ..Update::default() };
    cm.update(now + RTT, flow, lost).unwrap();
    let halved = cm.query(flow).unwrap().window;
    assert_eq!(halved, outstanding / 2);
    cm.update(now + RTT, flow, lost).unwrap();
    assert_eq!(cm.query(flow).unwrap().window, halved);
}

#[test]
fn a_window_leaves_at_a_pace_once_the_round_trip_is_known() {
    let mut cm = Manager::default();
    let flow = cm.open(destination(), MTU);
    fill(&mut cm, at(0), flow);
    cm.update(at(100), flow, Update { acked: 4 * MTU, rtt: Some(RTT), ..Update::default() }).unwrap();
    let at_once = fill(&mut cm, at(100), flow);
    assert!(at_once < 4, "{at_once} packets left at once");
    let mut now = at(100);
    let sent = at_once + fill_at_pace(&mut cm, &mut now, flow);
    assert!(sent >= 4 && now <= at(200), "{sent} packets by {now:?}");
}

#[test]
fn an_idle_path_starts_again_from_the_initial_window() {
    let mut cm = Manager::default();
    let flow = cm.open(destination(), MTU);
    let initial = cm.query(flow).unwrap().window;
    fill(&mut cm, at(0), flow);
    for _ in 0..4 {
        cm.update(at(100), flow, Update { acked: MTU, rtt: Some(RTT), ..Update::default() }).unwrap();
    }
    let grown = cm.query(flow).unwrap();
    assert!(grown.window > initial);
    if cm.has_grant(flow) {
        cm.notify(at(100), flow, 0).unwrap();
    }
    cm.request(at(5_000), flow).unwrap();
    assert_eq!(cm.query(flow).unwrap().window, initial);
}
