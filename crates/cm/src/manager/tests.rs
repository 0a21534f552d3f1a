//! Tests of the manager's guarantees, one scripted timeline each.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::{Cubic, Implausible, Loss, NewReno, Update};

const MTU: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);

fn destination() -> Destination {
    IpAddr::V4(Ipv4Addr::LOCALHOST).into()
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Requests and sends full packets until the window is full; returns their number.
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

/// The same with pacing: until only feedback could open the window.
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
fn a_flow_whose_peer_has_moved_joins_the_flows_there_and_takes_along_what_is_under_way() {
    let mut cm = Manager::default();
    let elsewhere = Destination::from(IpAddr::from([192, 0, 2, 77]));
    let (moving, stays, there) = (cm.open(destination(), MTU), cm.open(destination(), MTU), cm.open(elsewhere, MTU));
    assert_eq!(fill(&mut cm, at(0), moving), 4);
    cm.request(at(0), stays).unwrap();
    cm.redirect(at(1), moving, elsewhere).unwrap();
    assert!(cm.has_grant(stays), "what was under way is not on this path any more");
    cm.request(at(1), there).unwrap();
    assert!(!cm.has_grant(there), "it is on that one");
    assert_eq!(cm.query(moving).unwrap().srtt, None);
    cm.update(at(50), moving, Update { acked: 4 * MTU, rtt: Some(RTT / 2), ..Update::default() }).unwrap();
    assert!(cm.has_grant(there));
    assert_eq!((cm.query(there).unwrap().srtt, cm.query(stays).unwrap().srtt), (Some(RTT / 2), None));
    let users = Destination { user: Some(crate::User(7)), ..elsewhere };
    assert!(matches!(cm.redirect(at(60), moving, users), Err(CmError::Untrusted { .. })));
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
        assert_eq!(cm.poll_granted(), Some(a));
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
    let what = Implausible::MoreThanSent { claimed: 5 * MTU, outstanding: 4 * MTU };
    let refused = CmError::Implausible { flow, what };
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

/// A manager with NewReno and one flow that has filled its window.
fn tcp() -> (Manager, FlowId) {
    let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
    let flow = cm.open(destination(), MTU);
    fill(&mut cm, at(0), flow);
    (cm, flow)
}

fn acked(bytes: u64) -> Update {
    Update { acked: bytes, rtt: Some(RTT), ..Update::default() }
}

fn lost(bytes: u64, loss: Loss, sent_at: Instant) -> Update {
    Update { lost: bytes, loss: Some((loss, sent_at)), ..Update::default() }
}

fn window(cm: &Manager, flow: FlowId) -> u64 {
    cm.query(flow).unwrap().window
}

#[test]
fn as_many_full_packets_as_the_window_holds_are_under_way_all_the_time() {
    for new in [(|mtu| Box::new(NewReno::new(mtu))) as fn(u64) -> Box<dyn Controller>, |mtu| Box::new(Cubic::new(mtu))]
    {
        let mut cm = Manager::new(new);
        let flow = cm.open(destination(), MTU);
        let mut now = at(0);
        let mut sent_at = now;
        fill(&mut cm, now, flow);
        for step in 1..2_000 {
            now += Duration::from_millis(3);
            if step % 200 == 0 {
                cm.update(now, flow, lost(MTU, Loss::Transient, sent_at)).unwrap();
                sent_at = now;
            } else {
                cm.update(now, flow, acked(MTU)).unwrap();
            }
            fill(&mut cm, now, flow);
            let path = cm.query(flow).unwrap();
            assert!(path.outstanding + MTU > path.window, "step {step}: {path:?}");
            assert_eq!(cm.poll_timeout(), None, "nothing waits for a pace");
        }
    }
}

#[test]
fn while_a_loss_is_repaired_the_window_does_not_grow_but_moves_on() {
    let (mut cm, flow) = tcp();
    let start = window(&cm, flow);
    cm.update(at(100), flow, Update { recovering: true, ..acked(3 * MTU) }).unwrap();
    assert_eq!(window(&cm, flow), start);
    assert_eq!(cm.query(flow).unwrap().srtt, Some(RTT));
    assert_eq!(fill(&mut cm, at(100), flow), 3);
    cm.update(at(200), flow, acked(MTU)).unwrap();
    assert_eq!(window(&cm, flow), start + MTU);
}

#[test]
fn what_may_not_wait_for_the_window_is_sent_unasked_and_counts() {
    let (mut cm, flow) = tcp();
    assert!(!cm.has_grant(flow));
    cm.notify_unasked(at(100), flow, MTU).unwrap();
    assert_eq!(cm.query(flow).unwrap().outstanding, 11 * MTU);
    cm.update(at(200), flow, acked(MTU)).unwrap();
    assert!(cm.has_grant(flow), "the window has grown by one and one has left");
    cm.update(at(200), flow, acked(10 * MTU)).unwrap();
    assert_eq!(cm.query(flow).unwrap().outstanding, 0);
}

#[test]
fn what_was_under_way_before_the_news_is_halved() {
    let (mut cm, flow) = tcp();
    let news = Update { acked: 4 * MTU, recovering: true, ..lost(2 * MTU, Loss::Transient, at(0)) };
    cm.update(at(100), flow, news).unwrap();
    assert_eq!(window(&cm, flow), 5 * MTU);
    assert_eq!(cm.query(flow).unwrap().outstanding, 4 * MTU);
}

#[test]
fn what_leaves_at_the_instant_of_an_answer_leaves_after_it() {
    let (mut cm, flow) = tcp();
    cm.update(at(100), flow, lost(MTU, Loss::Transient, at(0))).unwrap();
    cm.notify_unasked(at(100), flow, MTU).unwrap();
    assert_eq!(window(&cm, flow), 5 * MTU);
    cm.update(at(150), flow, lost(MTU, Loss::Transient, at(99))).unwrap();
    assert_eq!(window(&cm, flow), 5 * MTU);
    cm.update(at(200), flow, lost(MTU, Loss::Transient, at(100))).unwrap();
    assert_eq!(window(&cm, flow), 2_500, "the loss of a retransmission is a second sign");
}

#[test]
fn marks_of_one_round_trip_are_one_event_and_so_are_marks_and_losses() {
    let (mut cm, flow) = tcp();
    let marked = |sent_at| Update { acked: MTU, recovering: true, ..lost(0, Loss::Ecn, sent_at) };
    cm.update(at(100), flow, marked(at(0))).unwrap();
    assert_eq!(window(&cm, flow), 5 * MTU);
    cm.update(at(110), flow, marked(at(50))).unwrap();
    cm.update(at(110), flow, lost(MTU, Loss::Transient, at(60))).unwrap();
    assert_eq!(window(&cm, flow), 5 * MTU);
    cm.update(at(200), flow, marked(at(100))).unwrap();
    assert_eq!(window(&cm, flow), 2_500);
    assert_eq!(cm.answered(flow), Ok(Answered { marks: 2, ..Answered::default() }));
}

#[test]
fn a_timeout_of_the_same_packet_again_holds_the_threshold() {
    let (mut cm, flow) = tcp();
    cm.update(at(1_000), flow, lost(10 * MTU, Loss::Persistent, at(0))).unwrap();
    for n in 1..4 {
        assert_eq!(window(&cm, flow), MTU);
        assert_eq!(fill(&mut cm, at(1_000 * n), flow), 1);
        cm.update(at(1_000 * (n + 1)), flow, lost(MTU, Loss::Persistent, at(1_000 * n))).unwrap();
    }
    // Slow start to five, half of the ten packets in flight; then one packet per window.
    let mut windows = Vec::new();
    for n in 0..7 {
        fill(&mut cm, at(5_000 + 100 * n), flow);
        cm.update(at(5_100 + 100 * n), flow, acked(MTU)).unwrap();
        windows.push(window(&cm, flow) / MTU);
    }
    assert_eq!(windows, [2, 3, 4, 5, 5, 5, 5]);
    let one = Answered { timeouts: 1, ..Answered::default() };
    assert_eq!(cm.answered(flow), Ok(one), "the others told the same loss");
    fill(&mut cm, at(6_000), flow);
    cm.update(at(7_000), flow, lost(5 * MTU, Loss::Persistent, at(6_000))).unwrap();
    assert_eq!(window(&cm, flow), MTU);
}

#[test]
fn timeouts_of_two_flows_that_lost_the_same_window_are_one() {
    let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    for flow in [a, b].repeat(5) {
        cm.request(at(0), flow).unwrap();
        cm.notify(at(0), flow, MTU).unwrap();
    }
    cm.update(at(1_000), a, lost(5 * MTU, Loss::Persistent, at(0))).unwrap();
    cm.update(at(1_001), b, lost(5 * MTU, Loss::Persistent, at(0))).unwrap();
    let mut grown = 0;
    for n in 0..4 {
        fill(&mut cm, at(2_000 + n), a);
        cm.update(at(2_001 + n), a, acked(MTU)).unwrap();
        grown = window(&cm, a);
    }
    assert_eq!(grown, 5 * MTU, "the threshold is half of the ten that were under way");
}

#[test]
fn bytes_lost_for_another_reason_are_no_longer_under_way() {
    let (mut cm, flow) = tcp();
    cm.update(at(100), flow, Update { lost: 4 * MTU, ..Update::default() }).unwrap();
    assert_eq!(cm.query(flow).unwrap().outstanding, 6 * MTU);
    cm.update(at(100), flow, lost(MTU, Loss::None, at(0))).unwrap();
    assert_eq!(fill(&mut cm, at(100), flow), 5);
    assert_eq!(window(&cm, flow), 10 * MTU);
}

#[test]
fn a_pause_shorter_than_a_timeout_changes_no_window() {
    let (mut cm, flow) = tcp();
    cm.update(at(100), flow, acked(10 * MTU)).unwrap();
    if cm.has_grant(flow) {
        cm.notify(at(100), flow, 0).unwrap();
    }
    let before = window(&cm, flow);
    assert!(before > 10 * MTU);
    cm.request(at(250), flow).unwrap();
    assert_eq!(window(&cm, flow), before);
}

#[test]
fn to_ask_is_to_request_once_and_to_hear_of_the_grant_at_once() {
    let mut cm = Manager::new(|mtu| Box::new(NewReno::new(mtu)));
    let (a, b) = (cm.open(destination(), MTU), cm.open(destination(), MTU));
    let mut sent = 0;
    while let Some(path) = cm.ask(at(0), a).unwrap() {
        assert_eq!(Ok(path), cm.query(a));
        assert_eq!(cm.ask(at(0), a).unwrap(), Some(path), "it is still there");
        cm.notify(at(0), a, MTU).unwrap();
        sent += 1;
    }
    assert_eq!((sent, cm.poll_granted()), (window(&cm, a) / MTU, None), "nobody has to be woken");
    assert!(cm.is_waiting(a));
    assert_eq!((cm.ask(at(1), a), cm.ask(at(1), b)), (Ok(None), Ok(None)));
    cm.update(at(100), a, acked(2 * MTU)).unwrap();
    let woken: Vec<_> = std::iter::from_fn(|| cm.poll_granted()).collect();
    assert_eq!(woken, [a, b], "each has asked once");
}
