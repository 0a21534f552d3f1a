//! Tests of grouping: macroflows, scheduling and controllers of flows.

use timeous_cm::{FlowSpec, Happening, Kind, Manager, Scheduling, User};

use super::script::*;

#[test]
fn flows_share_by_host_code_point_and_user() {
    let mut cm = Manager::default();
    let mut open = |destination| {
        let flow = cm.open(destination, MTU);
        cm.macroflow_of(flow).unwrap()
    };
    let base = open(host());
    assert_eq!(open(host()), base);
    let others = [host().with_dscp(46), host().with_user(User(7)), host().with_user(User(8))].map(&mut open);
    assert!(others.iter().all(|&other| other != base));
    assert_eq!(open(host().with_user(User(7))), others[1]);
}

#[test]
fn a_flow_that_splits_takes_along_what_is_its_own() {
    let mut cm = Manager::default();
    let (a, b) = (cm.open(host(), MTU), cm.open(host(), MTU));
    let now = grow(&mut cm, at(0), a, 2);
    cm.request(now, b).unwrap();
    cm.notify(now, b, MTU).unwrap();
    cm.request_many(now, b, 100).unwrap();
    let shared = cm.query_macroflow(a).unwrap();
    let held = cm.snapshot().macroflows[0].flows[1].grants;
    cm.split(now, b).unwrap();
    assert_eq!(cm.query(a).unwrap().outstanding, shared.outstanding - MTU);
    let apart = cm.query(b).unwrap();
    assert_eq!((apart.outstanding, apart.window, apart.srtt), (MTU, 4 * MTU, Some(RTT)));
    let view = cm.snapshot();
    assert_eq!((view.macroflows.len(), view.macroflows[1].destination), (2, host()));
    let flow = &view.macroflows[1].flows[0];
    assert!(flow.grants >= held.min(1) && flow.grants + flow.waiting == 100, "{flow:?}");
    let new = cm.open(host(), MTU);
    assert_eq!(cm.macroflow_of(new), cm.macroflow_of(a), "the old one is still where flows join");
    cm.merge(now, b, a).unwrap();
    assert_eq!(cm.macroflow_of(b), cm.macroflow_of(a));
    assert_eq!(cm.query(b).unwrap().outstanding, shared.outstanding);
    assert_eq!(cm.snapshot().macroflows.len(), 1, "what was apart and is empty is gone");
}

#[test]
fn weights_count_from_the_first_that_is_not_one() {
    let mut cm = Manager::default();
    let a = cm.open(host(), MTU);
    grow(&mut cm, at(0), a, 3);
    let b = cm.open_for(at(400), timeous_cm::ClientId::HOST, FlowSpec { weight: 3, ..spec() }).unwrap();
    assert_eq!(cm.scheduling(a), Ok(Scheduling::Weighted));
    let all = cm.query_macroflow(a).unwrap().rate.as_bps();
    let shares = [a, b].map(|flow| cm.query(flow).unwrap().rate.as_bps());
    assert_eq!(shares, [all / 4, all * 3 / 4]);
    cm.set_weight(a, 3).unwrap();
    assert_eq!(cm.query(a).unwrap().rate.as_bps(), all / 2);
    cm.set_scheduler(a, Scheduling::RoundRobin).unwrap();
    cm.set_weight(a, 9).unwrap();
    assert_eq!(cm.scheduling(a), Ok(Scheduling::RoundRobin), "somebody chose it");
}

#[test]
fn the_earliest_deadline_is_granted_first() {
    let mut cm = Manager::default();
    let [a, b, c] = [(); 3].map(|()| cm.open(host(), MTU));
    cm.set_scheduler(a, Scheduling::Deadline).unwrap();
    fill(&mut cm, at(0), a);
    for (flow, deadline) in [(a, 500), (b, 300), (c, 400), (b, 200)] {
        cm.request_by(at(0), flow, at(deadline)).unwrap();
    }
    while cm.poll_granted().is_some() {}
    cm.update(at(100), a, acked(4 * MTU)).unwrap();
    let mut order = Vec::new();
    let mut now = at(100);
    while order.len() < 4 {
        order.extend(std::iter::from_fn(|| cm.poll_granted()));
        now = cm.poll_timeout().unwrap().max(now);
        cm.handle_timeout(now);
    }
    // The first request of a waited before deadlines counted, and has none.
    assert_eq!(order[..4], [b, b, c, a]);
}

#[test]
fn a_new_controller_goes_on_where_the_old_one_stood() {
    for from in Kind::ALL {
        for to in Kind::ALL {
            let mut cm = Manager::new(from.constructor());
            let flow = cm.open(host(), MTU);
            grow(&mut cm, at(0), flow, 3);
            let before = cm.query(flow).unwrap().window;
            cm.set_controller(flow, to).unwrap();
            assert_eq!(cm.controller_name(flow), Ok(to.name()));
            assert_eq!(cm.query(flow).unwrap().window, before, "{from} to {to}");
        }
    }
}

/// Found by `timeous-peer-trials`: every live stream began with the window of a controller that it did not use.
#[test]
fn a_controller_that_is_chosen_before_anything_was_sent_begins_as_it_would_by_itself() {
    for from in Kind::ALL {
        for to in Kind::ALL {
            let window = |kind: Kind, chosen: Option<Kind>| {
                let mut cm = Manager::new(kind.constructor());
                let flow = cm.open(host(), MTU);
                chosen.into_iter().for_each(|kind| cm.set_controller(flow, kind).unwrap());
                cm.query(flow).unwrap().window
            };
            assert_eq!(window(from, Some(to)), window(to, None), "{from} to {to}");
        }
    }
}

#[test]
fn what_happens_is_traced_if_asked_for() {
    let mut cm = Manager::default();
    let quiet = cm.open(host(), MTU);
    assert_eq!(cm.poll_trace(), None);
    cm.trace(true);
    cm.request(at(0), quiet).unwrap();
    cm.notify(at(0), quiet, 700).unwrap();
    cm.update(at(100), quiet, acked(700)).unwrap();
    cm.update(at(100), quiet, acked(700)).unwrap_err();
    cm.split(at(101), quiet).unwrap();
    cm.close(at(102), quiet).unwrap();
    let what: Vec<_> = std::iter::from_fn(|| cm.poll_trace()).map(|traced| (traced.at, traced.what)).collect();
    assert!(matches!(what[0], (at0, Happening::Granted) if at0 == at(0)));
    assert_eq!(what[1], (at(0), Happening::Notified { bytes: 700 }));
    assert!(matches!(what[2].1, Happening::Metrics { state, threshold: None } if state.srtt == Some(RTT)));
    assert!(matches!(what[3].1, Happening::Refused(_)));
    assert!(matches!(what[4].1, Happening::MacroflowCreated { .. }));
    assert_eq!(what[5..], [(at(101), Happening::Split), (at(102), Happening::Closed)]);
}
