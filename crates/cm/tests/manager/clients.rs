//! Tests of clients: their events, and the fate of what they held.

use timeous_cm::{ClientEvent, ClientId, CmError, FlowSpec, Manager};

use super::script::*;

#[test]
fn each_client_hears_of_its_own_grants_and_is_announced_once() {
    let mut cm = Manager::default();
    let (one, two) = (cm.join(), cm.join());
    let a = cm.open_for(at(0), one, spec()).unwrap();
    let b = cm.open_for(at(0), two, spec()).unwrap();
    cm.request_many(at(0), a, 2).unwrap();
    cm.request(at(0), b).unwrap();
    assert_eq!([cm.poll_ready(), cm.poll_ready(), cm.poll_ready()], [Some(one), Some(two), None]);
    assert!(!cm.has_granted(), "none of the host's own");
    assert_eq!(events(&mut cm, one), [ClientEvent::Granted(a); 2]);
    cm.request(at(1), a).unwrap();
    assert_eq!((cm.poll_ready(), cm.poll_ready()), (Some(one), None), "it has polled, and two has not");
    assert_eq!(events(&mut cm, two), [ClientEvent::Granted(b)]);
}

#[test]
fn a_client_that_never_joined_or_has_left_opens_nothing() {
    let mut cm = Manager::default();
    let client = cm.join();
    cm.leave(at(0), client);
    for client in [client, ClientId::from_u64(99)] {
        assert_eq!(cm.open_for(at(0), client, spec()), Err(CmError::UnknownClient(client)));
    }
    let bad = |spec| Manager::default().open_for(at(0), ClientId::HOST, spec);
    assert_eq!(bad(FlowSpec { mtu: 0, ..spec() }), Err(CmError::BadMtu(0)));
    assert_eq!(bad(FlowSpec { mtu: 65_536, ..spec() }), Err(CmError::BadMtu(65_536)));
    assert_eq!(bad(FlowSpec { weight: 0, ..spec() }), Err(CmError::BadWeight(0)));
}

#[test]
fn what_a_dead_client_held_goes_to_others_at_once() {
    let mut cm = Manager::default();
    let (dying, other) = (cm.join(), cm.join());
    let flows: Vec<_> = (0..4).map(|_| cm.open_for(at(0), dying, spec()).unwrap()).collect();
    let waits = cm.open_for(at(0), other, spec()).unwrap();
    for &flow in &flows[..2] {
        cm.request(at(0), flow).unwrap();
        cm.notify(at(0), flow, MTU).unwrap();
    }
    for &flow in &flows {
        cm.request(at(0), flow).unwrap();
    }
    cm.request_many(at(0), waits, 4).unwrap();
    assert_eq!(events(&mut cm, other), []);
    cm.leave(at(1), dying);
    assert_eq!(events(&mut cm, other), [ClientEvent::Granted(waits); 4]);
    assert_eq!(cm.query(waits).unwrap().outstanding, 0);
    assert!(flows.iter().all(|&flow| cm.query(flow) == Err(CmError::UnknownFlow(flow))));
    assert_eq!(events(&mut cm, dying), []);
}

#[test]
fn a_grant_that_its_client_never_heard_of_is_owed_to_it() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    cm.request(at(0), flow).unwrap();
    for _ in 0..3 {
        let due = cm.poll_timeout().unwrap();
        cm.handle_timeout(due);
    }
    assert_eq!(events(&mut cm, client), [ClientEvent::Granted(flow)]);
    let due = cm.poll_timeout().unwrap();
    cm.handle_timeout(due);
    assert_eq!((cm.notify(due, flow, MTU), cm.is_waiting(flow)), (Err(CmError::NotGranted(flow)), false));
}

#[test]
fn a_rate_is_told_when_it_has_crossed_a_threshold_and_only_as_it_is_now() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    assert_eq!(cm.thresh(flow, 0.0, 2.0), Err(CmError::Thresholds { down: 0.0, up: 2.0 }));
    cm.thresh(flow, 0.5, 2.0).unwrap();
    let now = grow(&mut cm, at(0), flow, 1);
    let told = events(&mut cm, client);
    let state = cm.query(flow).unwrap();
    assert_eq!(told, [ClientEvent::Changed(flow, state)], "there was none before");
    let first = state.rate.as_bps();
    let now = grow(&mut cm, now, flow, 4);
    let told = events(&mut cm, client);
    let state = cm.query(flow).unwrap();
    assert_eq!(told, [ClientEvent::Changed(flow, state)], "several changes are one");
    assert!(state.rate.as_bps() >= 2 * first);
    // A second flow takes half of the rate.
    let other = cm.open_for(now, client, spec()).unwrap();
    assert_eq!(events(&mut cm, client), [ClientEvent::Changed(flow, cm.query(flow).unwrap())]);
    cm.clear_thresh(flow).unwrap();
    cm.close(now, other).unwrap();
    assert_eq!(events(&mut cm, client), []);
}

#[test]
fn a_bad_one_among_many_changes_nothing_of_the_others() {
    let mut cm = Manager::default();
    let (a, b, gone) = (cm.open(host(), MTU), cm.open(host(), MTU), cm.open(host(), MTU));
    cm.close(at(0), gone).unwrap();
    let unknown = Err(CmError::UnknownFlow(gone));
    assert_eq!(cm.bulk_request(at(0), &[(a, 1), (gone, 1), (b, 1)]), [Ok(()), unknown, Ok(())]);
    assert_eq!(
        cm.bulk_notify(at(0), &[(gone, MTU), (a, MTU), (b, MTU), (b, MTU)]),
        [unknown, Ok(()), Ok(()), Err(CmError::NotGranted(b))]
    );
    let updates = [(gone, acked(MTU)), (a, acked(9 * MTU)), (b, acked(MTU))];
    let results = cm.bulk_update(at(100), &updates);
    assert!(results[0].is_err() && results[1].is_err() && results[2].is_ok());
    let known = cm.bulk_query(&[a, gone]);
    assert_eq!((known[0].unwrap().outstanding, known[1].is_err()), (MTU, true));
}

#[test]
fn more_requests_than_may_wait_are_refused() {
    let mut cm = Manager::default();
    let flow = cm.open(host(), MTU);
    let refused = Err(CmError::TooManyRequests { flow, limit: 65_536 });
    assert_eq!(cm.request_many(at(0), flow, u32::MAX), refused);
    assert!(!cm.is_waiting(flow) && !cm.has_grant(flow));
    cm.request_many(at(0), flow, 65_536).unwrap();
    assert_eq!(cm.request_many(at(0), flow, 6), refused);
}
