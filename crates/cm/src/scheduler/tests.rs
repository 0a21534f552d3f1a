//! Tests of the scheduling disciplines.

use std::net::{IpAddr, Ipv4Addr};

use timeous_core::Duration;

use super::*;
use crate::flow::ClientId;
use crate::flow::FlowSpec;

const MTU: u64 = 1_000;

fn flows<const N: usize>(weights: [u32; N]) -> (Flows, [FlowId; N]) {
    let mut flows = Flows::default();
    let to = FlowSpec::to(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), MTU);
    let ids = weights.map(|weight| flows.insert(Flow::new(ClientId::HOST, FlowSpec { weight, ..to }, 0)));
    (flows, ids)
}

fn requests(kind: Scheduling, flows: &mut Flows) -> Requests {
    let mut requests = Requests::default();
    requests.become_kind(kind, flows, 0);
    requests
}

fn request(requests: &mut Requests, flows: &mut Flows, id: FlowId, count: u32) {
    requests.request(id, flows.get_mut(id).unwrap(), count);
}

fn served(requests: &mut Requests, flows: &mut Flows) -> Vec<FlowId> {
    std::iter::from_fn(|| requests.next(flows)).collect()
}

#[test]
fn flows_take_turns_whatever_they_ask_for() {
    let (mut flows, [a, b]) = flows([1, 1]);
    let mut robin = Requests::default();
    for _ in 0..3 {
        request(&mut robin, &mut flows, a, 1);
    }
    request(&mut robin, &mut flows, b, 1);
    assert_eq!(served(&mut robin, &mut flows), [a, b, a, a]);
}

#[test]
fn a_flow_that_is_gone_gets_nothing() {
    for kind in [Scheduling::RoundRobin, Scheduling::Weighted, Scheduling::Deadline] {
        let (mut flows, [a, b]) = flows([1, 1]);
        let mut queue = requests(kind, &mut flows);
        request(&mut queue, &mut flows, a, 3);
        queue.request_by(a, flows.get_mut(a).unwrap(), Instant::ZERO);
        request(&mut queue, &mut flows, b, 1);
        queue.forget(a, flows.get_mut(a).unwrap());
        assert_eq!(served(&mut queue, &mut flows), [b], "{kind:?}");
        assert!(queue.is_empty());
    }
}

#[test]
fn weights_are_shares() {
    let (mut flows, [a, b, c]) = flows([1, 2, 5]);
    let mut fair = requests(Scheduling::Weighted, &mut flows);
    for id in [a, b, c] {
        request(&mut fair, &mut flows, id, 10_000);
    }
    let count = |order: &[FlowId], id| order.iter().filter(|&&f| f == id).count();
    let order: Vec<_> = (0..800).map(|_| fair.next(&mut flows).unwrap()).collect();
    assert_eq!([a, b, c].map(|id| count(&order, id)), [100, 200, 500]);
    for window in order[8..].windows(16) {
        assert!((1..=3).contains(&count(window, a)), "nobody waits long: {window:?}");
    }
}

#[test]
fn shares_are_of_bytes_and_not_of_packets() {
    let (mut flows, [large, small]) = flows([1, 1]);
    let mut fair = requests(Scheduling::Weighted, &mut flows);
    let mut sent = [0; 2];
    for id in [large, small] {
        request(&mut fair, &mut flows, id, 10_000);
    }
    for _ in 0..1_000 {
        let id = fair.next(&mut flows).unwrap();
        let bytes = if id == large { MTU } else { 200 };
        sent[usize::from(id == small)] += bytes;
        fair.refund(flows.get_mut(id).unwrap(), MTU - bytes);
    }
    assert!(sent[0].abs_diff(sent[1]) <= 2 * MTU, "{sent:?}");
}

#[test]
fn who_was_away_has_saved_nothing_up() {
    let (mut flows, [a, b]) = flows([1, 1]);
    let mut fair = requests(Scheduling::Weighted, &mut flows);
    request(&mut fair, &mut flows, a, 100);
    for _ in 0..50 {
        fair.next(&mut flows);
    }
    request(&mut fair, &mut flows, b, 100);
    let next: Vec<_> = (0..6).map(|_| fair.next(&mut flows).unwrap()).collect();
    assert_eq!(next.iter().filter(|&&f| f == a).count(), 3, "{next:?}");
}

#[test]
fn the_earliest_deadline_is_first_and_who_has_none_waits() {
    let (mut flows, [a, b, c]) = flows([1, 1, 1]);
    let mut dated = requests(Scheduling::Deadline, &mut flows);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    request(&mut dated, &mut flows, c, 2);
    for (id, by) in [(a, 30), (b, 10), (a, 20), (b, 20)] {
        dated.request_by(id, flows.get_mut(id).unwrap(), at(by));
    }
    request(&mut dated, &mut flows, a, 1);
    assert_eq!(served(&mut dated, &mut flows), [b, a, b, a, c, a, c]);
}

#[test]
fn another_order_serves_what_was_asked_before() {
    let (mut flows, [a, b]) = flows([1, 3]);
    let mut queue = requests(Scheduling::Deadline, &mut flows);
    queue.request_by(a, flows.get_mut(a).unwrap(), Instant::ZERO);
    request(&mut queue, &mut flows, a, 3);
    request(&mut queue, &mut flows, b, 4);
    for kind in [Scheduling::Weighted, Scheduling::RoundRobin] {
        queue.become_kind(kind, &mut flows, 0);
    }
    assert_eq!(served(&mut queue, &mut flows), [a, b, a, b, a, b, a, b]);
}
