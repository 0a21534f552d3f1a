//! Predicted arrivals of flows that share a macroflow, or change it.

use timeous_cm::{Departure, FlowId, Kind, Manager, Observed, Update};
use timeous_core::Duration;

use super::script::{MTU, RTT, at, host};

fn sent(cm: &mut Manager, millis: u64, flow: FlowId) -> Departure {
    cm.notify_unasked(at(millis), flow, MTU).unwrap();
    cm.departure(flow).unwrap()
}

fn answered(cm: &mut Manager, millis: u64, flow: FlowId, departure: Departure, acked: u64) {
    let update = Update { acked, rtt: Some(RTT), ..Update::default() };
    cm.update(at(millis), flow, update).unwrap();
    cm.observe(flow, Observed { departure, answered: at(millis), uncertain: Duration::ZERO }).unwrap();
}

#[test]
fn a_packet_from_before_a_move_says_nothing_about_the_new_path() {
    let mut cm = Manager::default();
    let flow = cm.open(host(), MTU);
    let departures: Vec<_> = (0..3).map(|n| sent(&mut cm, n, flow)).collect();
    cm.split(at(10), flow).unwrap();
    for (n, &departure) in (0..).zip(&departures) {
        answered(&mut cm, 100 + n, flow, departure, MTU);
    }
    assert_eq!(cm.query(flow).unwrap().arrivals, None);
    let departure = sent(&mut cm, 200, flow);
    answered(&mut cm, 300, flow, departure, MTU);
    let model = cm.query(flow).unwrap().arrivals.unwrap();
    assert_eq!((model.passage, model.clears), (RTT / 2, at(250)));
}

/// Each flow's acknowledgements tell of its own bytes, and the flows' packets alternate on the path.
#[test]
fn what_other_flows_have_sent_is_not_taken_for_lost() {
    let mut cm = Manager::default();
    let flows = [cm.open(host(), MTU), cm.open(host(), MTU)];
    for n in 0..200 {
        for flow in flows {
            sent(&mut cm, 400 * n, flow);
        }
        let second = flows.map(|flow| sent(&mut cm, 400 * n, flow));
        // The link takes 10 ms for a packet; each flow has one acknowledgement for two of its own.
        answered(&mut cm, 400 * n + 130, flows[0], second[0], 2 * MTU);
        answered(&mut cm, 400 * n + 140, flows[1], second[1], 2 * MTU);
    }
    let departures: Vec<_> = (0..4).map(|_| sent(&mut cm, 80_000, flows[0])).collect();
    let off = departures[3].expected.saturating_since(at(80_000 + 90));
    assert!(off < Duration::from_millis(3), "{off:?} later than 40 ms behind the first");
}

/// One packet is under way at a time, over 100 ms and then 300.
#[test]
fn over_a_path_that_became_longer_the_minimum_is_that_of_the_new_one_if_the_controller_goes_by_the_model() {
    let least = |kind: Kind| {
        let mut cm = Manager::new(kind.constructor());
        let flow = cm.open(host(), MTU);
        for n in 0..60 {
            let (now, rtt) = (400 * n, if n < 20 { 100 } else { 300 });
            let departure = sent(&mut cm, now, flow);
            let update = Update { acked: MTU, rtt: Some(Duration::from_millis(rtt)), ..Update::default() };
            cm.update(at(now + rtt), flow, update).unwrap();
            cm.observe(flow, Observed { departure, answered: at(now + rtt), uncertain: Duration::ZERO }).unwrap();
        }
        cm.query(flow).unwrap().min_rtt
    };
    assert_eq!(least(Kind::Live), Some(RTT * 3));
    assert_eq!(least(Kind::Cubic), Some(RTT));
}
