//! Tests of the in-process client of the Congestion Manager.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use timeous_cm::{ClientEvent, CmError, FlowSpec, Update, User};
use timeous_core::Duration;

use super::*;
use crate::Engine;

const PATIENCE: Duration = Duration::from_secs(20);

fn spec() -> FlowSpec {
    FlowSpec::to(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)).into(), 1_000)
}

fn engine() -> Engine {
    Engine::start().unwrap()
}

#[track_caller]
fn next(client: &CmClient) -> ClientEvent {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(event) = client.poll_event() {
            return event;
        }
        assert!(client.wait(Some(end)), "nothing is told");
    }
}

#[test]
fn grants_that_only_time_brings_come_by_the_engines_thread() {
    let engine = engine();
    let client = engine.congestion().client(None).unwrap();
    let flow = client.open(spec()).unwrap();
    // Without feedback the window is soon full: further grants come when earlier ones expire, which only the engine's
    // thread handles.
    client.request_many(flow, 100).unwrap();
    for _ in 0..100 {
        assert_eq!(next(&client), ClientEvent::Granted(flow));
    }
    assert_eq!(client.poll_event(), None);
    // The engine's thread may still signal an event that has been polled.
    let end = clock::now() + PATIENCE;
    while client.wait(Some(clock::now())) {
        assert_eq!(client.poll_event(), None);
        assert!(clock::now() < end, "nothing to poll, and the descriptor does not say so");
    }
}

#[test]
fn what_one_client_gives_back_another_gets() {
    let engine = engine();
    let (a, b) = (engine.congestion().client(None).unwrap(), engine.congestion().client(None).unwrap());
    let (flow_a, flow_b) = (a.open(spec()).unwrap(), b.open(spec()).unwrap());
    // Fill the window.
    a.request_many(flow_a, 200).unwrap();
    while let Some(event) = a.poll_event() {
        assert_eq!(event, ClientEvent::Granted(flow_a));
        a.notify(flow_a, 1_000).unwrap();
    }
    b.request(flow_b).unwrap();
    assert_eq!(b.poll_event(), None);
    let outstanding = a.query(flow_a).unwrap().outstanding;
    assert!(outstanding > 0);
    // The first client is closed, and its data in flight is released.
    drop(a);
    assert_eq!(next(&b), ClientEvent::Granted(flow_b));
    assert_eq!(b.query(flow_b).unwrap().outstanding, 0);
}

#[test]
fn a_grant_that_lapsed_before_anybody_looked_is_rung_for_when_it_comes_again() {
    // No engine runs: only this test drives the manager's timers.
    let congestion = Congestion::default();
    let (a, b) = (congestion.client(None).unwrap(), congestion.client(None).unwrap());
    let (flow_a, flow_b) = (a.open(spec()).unwrap(), b.open(spec()).unwrap());
    // No thread sleeps on this descriptor.
    let pass = |millis| assert!(!b.bell.waker().is_rung(Some(Duration::from_millis(millis))));
    let has_grant = || congestion.lock().has_client_event(a.id());
    // The other client has the whole window, until one of its packets is acknowledged.
    b.request(flow_b).unwrap();
    while b.poll_event().is_some() {
        b.notify(flow_b, 1_000).unwrap();
        b.request(flow_b).unwrap();
    }
    a.request(flow_a).unwrap();
    assert!(!has_grant(), "the window is full");
    while !has_grant() {
        b.update(flow_b, Update { acked: 1_000, ..Update::default() }).unwrap();
    }
    // The client does not use its grant in time, so that it expires; the window is now too small for another.
    let full = b.query(flow_b).unwrap().outstanding;
    b.update(flow_b, Update { loss: Some((timeous_cm::Loss::Ecn, clock::now())), ..Update::default() }).unwrap();
    pass(80);
    congestion.lock().handle_timeout(clock::now());
    assert!(!has_grant(), "it lapsed");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| a.wait(Some(clock::now() + PATIENCE)));
        // The descriptor must be signalled also if its client waits already.
        pass(50);
        b.update(flow_b, Update { acked: full, ..Update::default() }).unwrap();
        assert!(waiting.join().unwrap(), "nobody rang");
    });
    assert_eq!(a.poll_event(), Some(ClientEvent::Granted(flow_a)));
}

#[test]
fn a_flow_is_its_clients_own() {
    let engine = engine();
    let (a, b) = (engine.congestion().client(None).unwrap(), engine.congestion().client(None).unwrap());
    let flow = a.open(spec()).unwrap();
    let own = b.open(spec()).unwrap();
    let unknown = CmError::UnknownFlow(flow);
    assert_eq!(b.request(flow), Err(unknown));
    assert_eq!(b.notify(flow, 1), Err(unknown));
    assert_eq!(b.update(flow, Update::default()), Err(unknown));
    assert_eq!(b.query(flow).unwrap_err(), unknown);
    assert_eq!(b.merge(own, flow), Err(unknown));
    assert_eq!(b.close(flow), Err(unknown));
    assert_eq!(b.bulk_request(&[(flow, 1), (own, 1)]), [Err(unknown), Ok(())]);
    assert_eq!(next(&b), ClientEvent::Granted(own));
    assert_eq!(a.mtu(flow), Ok(1_000));
}

#[test]
fn users_do_not_share_what_is_known_of_a_path() {
    let engine = engine();
    let client = |user| engine.congestion().client(user).unwrap();
    let clients = [client(Some(User(1))), client(Some(User(1))), client(Some(User(2))), client(None)];
    let flows = clients.each_ref().map(|client| client.open(spec()).unwrap());
    let cm = engine.congestion().lock();
    let [a, same, other, trusted] = flows.map(|flow| cm.macroflow_of(flow).unwrap());
    assert_eq!(a, same);
    assert!(a != other && other != trusted && a != trusted);
}

#[test]
fn a_congestion_manager_has_one_engine_at_a_time() {
    let congestion = Congestion::default();
    let first = Engine::with_congestion(congestion.clone()).unwrap();
    assert!(matches!(Engine::with_congestion(congestion.clone()), Err(crate::EngineError::CongestionTaken)));
    drop(first);
    Engine::with_congestion(congestion).unwrap();
}

#[test]
fn nobody_rings_for_who_is_awake_and_the_descriptor_tells_once_it_was_asked_for() {
    let engine = engine();
    let client = engine.congestion().client(None).unwrap();
    let flow = client.open(spec()).unwrap();
    client.request(flow).unwrap();
    assert!(!client.bell.waker().is_rung(Some(Duration::ZERO)), "nobody listens");
    assert!(client.sleep(|_| ()).is_none(), "there is no sleep over what is there");
    assert!(client.waker().is_rung(Some(Duration::ZERO)), "it was there when the descriptor was asked for");
    assert_eq!((next(&client), client.poll_event()), (ClientEvent::Granted(flow), None));
    assert!(!client.waker().is_rung(Some(Duration::ZERO)));
    client.request(flow).unwrap();
    assert!(client.waker().is_rung(Some(Duration::ZERO)), "it tells by itself from then on");
}

#[test]
fn no_wake_up_is_lost_between_many_sleeps() {
    const SLEEPS: u32 = 1_000;
    let engine = engine();
    let client = engine.congestion().client(None).unwrap();
    let flow = client.open(spec()).unwrap();
    let turn = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // Causes the grant at the moment when the client begins to wait.
        scope.spawn(|| {
            for n in 1..=SLEEPS {
                while turn.load(Ordering::SeqCst) != n {
                    std::thread::yield_now();
                }
                engine.congestion().lock().request(clock::now(), flow).unwrap();
            }
        });
        for n in 1..=SLEEPS {
            turn.store(n, Ordering::SeqCst);
            assert_eq!(next(&client), ClientEvent::Granted(flow), "sleep {n}");
            client.notify(flow, 0).unwrap();
        }
    });
}
