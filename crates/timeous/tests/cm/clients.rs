//! Tests of several clients of one Congestion Manager in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use timeous::cm::{
    CmError, CongestionManager, Error, Event, FlowId, FlowSpec, Kind, Loss, ManagerLocation, Scheduling, Update,
};
use timeous::core::{Duration, Instant};
use timeous::{Culprit, clock};

use crate::support::PATIENCE;

/// An address that no other test sends to: flows to one address share what they know.
fn remote() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    SocketAddr::from(([127, 0, 79, NEXT.fetch_add(1, Ordering::Relaxed)], 7_000))
}

fn client() -> CongestionManager {
    CongestionManager::open(ManagerLocation::InProcess).unwrap()
}

fn next(cm: &CongestionManager) -> Event {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(event) = cm.poll_event() {
            return event;
        }
        assert!(cm.wait(Some(end)) || clock::now() < end, "no event");
    }
}

fn granted(cm: &CongestionManager) -> FlowId {
    match next(cm) {
        Event::Granted(flow) => flow,
        other => panic!("{other:?}"),
    }
}

/// Sends a packet on a grant.
fn send(cm: &CongestionManager, flow: FlowId, bytes: u64) -> Instant {
    cm.request(flow).unwrap();
    assert_eq!(granted(cm), flow);
    cm.answer_grant(flow, bytes).unwrap();
    clock::now()
}

/// Packets of 1000 bytes leave unasked.
fn flood(cm: &CongestionManager, flow: FlowId, packets: u64) {
    for _ in 0..packets {
        cm.notify_unasked(flow, 1_000).unwrap();
    }
}

/// Waits, since no round trip is shorter than what it waits for.
fn pass(time: Duration) {
    client().wait(Some(clock::now() + time));
}

#[test]
fn siblings_share_the_path_and_nothing_else() {
    let (cm, remote) = (client(), remote());
    let sibling = cm.sibling().unwrap();
    let (mine, other) = (cm.open_to(remote, 1_000).unwrap(), sibling.open_to(remote, 1_000).unwrap());
    let at = send(&cm, mine, 1_000);
    pass(Duration::from_millis(5));
    let rtt = clock::now() - at;
    cm.update(mine, Update { acked: 1_000, rtt: Some(rtt), ..Update::default() }).unwrap();
    assert_eq!(sibling.query(other).unwrap().srtt, Some(rtt));
    sibling.request(other).unwrap();
    assert_eq!(granted(&sibling), other);
    assert!(cm.poll_event().is_none());
    sibling.answer_grant(other, 0).unwrap();
    assert_eq!(*sibling.place(), ManagerLocation::InProcess);
}

#[test]
fn bulk_forms_answer_each_entry_for_itself() {
    let (cm, remote) = (client(), remote());
    let flows = [(); 2].map(|()| cm.open_to(remote, 1_000).unwrap());
    let gone = cm.open_to(remote, 1_000).unwrap();
    cm.close(gone).unwrap();
    let is_unknown = |answer: &Error| matches!(answer, Error::Refused(CmError::UnknownFlow(_)));
    let acked = |acked| Update { acked, ..Update::default() };
    let told = loop {
        let asked = cm.bulk_request(&[(flows[0], 1), (gone, 1), (flows[1], 1)]);
        assert!(asked[0].is_ok() && asked[2].is_ok() && asked[1].as_ref().is_err_and(is_unknown));
        let mut who = [granted(&cm), granted(&cm)];
        who.sort();
        assert_eq!(who, flows);
        let told = cm.bulk_notify(&[(flows[0], 400), (gone, 1), (flows[1], 300)]);
        // A grant lasts 50 ms: where the machine was busy for longer, all begins again once what has left has arrived.
        let is_late = |answer: &Result<(), Error>| matches!(answer, Err(Error::Refused(CmError::NotGranted(_))));
        if !told.iter().any(is_late) {
            break told;
        }
        for (flow, bytes) in [(flows[0], 400), (flows[1], 300)] {
            let _ = cm.update(flow, acked(bytes));
        }
    };
    assert!(told[0].is_ok() && told[2].is_ok() && told[1].as_ref().is_err_and(is_unknown));
    let known = cm.bulk_query(&[flows[0], gone]);
    assert_eq!(known[0].as_ref().unwrap().outstanding, 700);
    assert!(known[1].as_ref().is_err_and(is_unknown));
    let heard = cm.bulk_update(&[(flows[0], acked(401)), (flows[0], acked(400)), (flows[1], acked(300))]);
    let error = heard[0].as_ref().unwrap_err();
    assert!(matches!(error, Error::Refused(CmError::Implausible { .. })), "{error}");
    assert_eq!(error.culprit(), Culprit::Caller);
    assert!(heard[1].is_ok() && heard[2].is_ok());
    assert_eq!(cm.query(flows[1]).unwrap().outstanding, 0);
}

#[test]
fn a_rate_that_crosses_a_threshold_is_told() {
    let (cm, remote) = (client(), remote());
    let flow = cm.open_to(remote, 1_000).unwrap();
    assert_eq!(cm.thresh(flow, 1.5, 2.0).unwrap_err().culprit(), Culprit::Caller);
    cm.thresh(flow, 0.7, 1.3).unwrap();
    let at = send(&cm, flow, 1_000);
    pass(Duration::from_millis(20));
    cm.update(flow, Update { acked: 1_000, rtt: Some(clock::now() - at), ..Update::default() }).unwrap();
    let Event::Changed(changed, first) = next(&cm) else { panic!("no change") };
    assert_eq!(changed, flow);
    assert!(first.srtt.is_some());
    let at = send(&cm, flow, 1_000);
    let lost = Update { lost: 1_000, loss: Some((Loss::Persistent, at)), ..Update::default() };
    cm.update(flow, lost).unwrap();
    let Event::Changed(_, second) = next(&cm) else { panic!("no change") };
    assert!(second.rate < first.rate && second.window < first.window, "{first:?} {second:?}");
}

#[test]
fn a_sender_with_a_clock_of_its_own_tells_what_it_sent_without_asking() {
    let (cm, remote) = (client(), remote());
    let flow = cm.open_to(remote, 1_000).unwrap();
    assert!(matches!(cm.notify(flow, 500), Err(Error::Refused(CmError::NotGranted(_)))));
    cm.notify_unasked(flow, 500).unwrap();
    assert_eq!(cm.query(flow).unwrap().outstanding, 500);
}

#[test]
fn a_packet_that_left_by_a_grant_that_has_expired_counts_as_sent() {
    let (cm, remote) = (client(), remote());
    let flow = cm.open_to(remote, 1_000).unwrap();
    cm.request(flow).unwrap();
    assert_eq!(granted(&cm), flow);
    timeous::Waker::new().unwrap().wait(Some(Duration::from_millis(200)));
    assert!(matches!(cm.notify(flow, 500), Err(Error::Refused(CmError::NotGranted(_)))), "it has expired");
    cm.answer_grant(flow, 0).unwrap();
    cm.answer_grant(flow, 500).unwrap();
    assert_eq!(cm.query(flow).unwrap().outstanding, 500);
}

#[test]
fn what_a_client_held_goes_to_others_when_it_is_dropped() {
    let (cm, remote) = (client(), remote());
    let flow = cm.open_to(remote, 1_000).unwrap();
    let greedy = cm.sibling().unwrap();
    let hog = greedy.open_to(remote, 1_000).unwrap();
    flood(&greedy, hog, cm.query(flow).unwrap().window / 10);
    cm.request(flow).unwrap();
    assert!(cm.poll_event().is_none(), "the window is full many times over");
    let clone = greedy.clone();
    drop(greedy);
    assert!(clone.query(hog).is_ok(), "a clone is the same client");
    drop(clone);
    assert_eq!(granted(&cm), flow);
}

#[test]
fn flows_are_split_merged_weighted_and_scheduled() {
    let (cm, here, there) = (client(), remote(), remote());
    let flows = [here, here, there].map(|remote| cm.open_flow(FlowSpec::to(remote.ip().into(), 1_000)).unwrap());
    let shares = |flow| cm.query(flow).unwrap().outstanding;
    cm.notify_unasked(flows[0], 700).unwrap();
    assert_eq!(flows.map(shares), [700, 700, 0]);
    cm.split(flows[1]).unwrap();
    assert_eq!(flows.map(shares), [700, 0, 0]);
    cm.merge(flows[2], flows[0]).unwrap();
    assert_eq!(flows.map(shares), [700, 0, 700]);
    cm.set_scheduler(flows[0], Scheduling::Deadline).unwrap();
    cm.set_controller(flows[0], Kind::Cubic).unwrap();
    cm.set_weight(flows[0], 3).unwrap();
    assert_eq!(cm.set_weight(flows[0], 0).unwrap_err().culprit(), Culprit::Caller);
    assert_eq!(cm.mtu(flows[0]).unwrap(), 1_000);
    // The window is full: what is asked for now is granted when there is room, by deadline.
    let packets = cm.query(flows[0]).unwrap().window.div_ceil(1_000);
    flood(&cm, flows[0], packets);
    cm.request_by(flows[0], clock::now() + PATIENCE).unwrap();
    cm.request_by(flows[2], clock::now() + PATIENCE / 2).unwrap();
    cm.update(flows[0], Update { acked: packets * 1_000 + 700, ..Update::default() }).unwrap();
    assert_eq!([granted(&cm), granted(&cm)], [flows[2], flows[0]]);
}

#[test]
fn a_daemon_that_is_not_there_is_the_environments_fault() {
    let nowhere = PathBuf::from("/nonexistent/daemon.sock");
    let error = CongestionManager::open(ManagerLocation::Daemon(Some(nowhere))).unwrap_err();
    assert!(matches!(error, Error::NoDaemon(_)), "{error}");
    assert_eq!(error.culprit(), Culprit::Environment);
    assert!(error.to_string().contains("/nonexistent/daemon.sock"), "{error}");
}
