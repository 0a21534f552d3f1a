//! A client with a daemon that works, is absent, stuck or unwilling, or has restarted.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use timeous_cm::Update;
use timeous_core::Duration;
use timeous_ipc::messages::{Failure, Nanos, Policy, Reason, StreamSpec};
use timeous_ipc::{Client, ClientError, ConnectError, Event, Flow, Geometry, Lost, OpenFlow, Options, Refusal};

use crate::standin::{LONG, Misbehaviour, Standin, TOO_MUCH, state};
use crate::{PATIENCE, flow, next, now, options, place};

#[test]
fn verbs_reach_the_daemon_and_events_the_client() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let flow = client.open(flow()).unwrap();
    assert_eq!(client.mtu(flow).unwrap(), 1_200);
    client.request_many(flow, 2).unwrap();
    assert!(matches!(next(&mut client), Event::Granted(granted) if granted == flow));
    assert!(matches!(next(&mut client), Event::Granted(granted) if granted == flow), "one event a grant");
    client.notify(flow, 1_000).unwrap();
    client.notify(flow, TOO_MUCH).unwrap();
    assert!(matches!(
        next(&mut client),
        Event::Refused { flow: refused, why: Refusal::NotGranted, value: TOO_MUCH } if refused == flow
    ));
    client.update(flow, Update { acked: 9, ..Update::default() }).unwrap();
    assert!(matches!(next(&mut client), Event::Changed(changed, told) if changed == flow && told == state(9)));
    assert!(client.poll_event().is_none());
    client.thresh(flow, 0.5, 2.0).unwrap();
    client.close(flow).unwrap();
    assert!(matches!(client.request(flow), Err(ClientError::Failed(Failure::UnknownFlow(_)))));
}

#[test]
fn a_query_is_answered_from_shared_memory_once_something_is_published() {
    let (_dir, path) = place();
    let daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let flow = client.open(flow()).unwrap();
    assert_eq!(client.query(flow).unwrap(), state(7), "nothing is published: the daemon is asked");
    client.update(flow, Update { acked: 9, ..Update::default() }).unwrap();
    next(&mut client);
    drop(daemon);
    assert_eq!(client.query(flow).unwrap(), state(9), "nobody could be asked");
}

#[test]
fn bulk_forms_give_each_its_own_result() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let flows = [client.open(flow()).unwrap(), client.open(flow()).unwrap()];
    client.close(flows[1]).unwrap();
    let results = client.bulk_request(&[(flows[0], 1), (flows[1], 1), (flows[0], 0), (flows[0], 1)]);
    assert!(matches!(
        results[..],
        [Ok(()), Err(ClientError::Failed(Failure::UnknownFlow(_))), Err(ClientError::Argument(_)), Ok(())]
    ));
    for _ in 0..2 {
        assert!(matches!(next(&mut client), Event::Granted(granted) if granted == flows[0]));
    }
    assert!(client.bulk_notify(&[(flows[0], 1), (flows[0], 2)]).iter().all(Result::is_ok));
    assert!(client.bulk_query(&flows)[0].is_ok());
}

#[test]
fn what_the_daemon_refuses_is_typed_and_the_connection_goes_on() {
    let (_dir, path) = place();
    let geometry = Geometry { flows: 2, ..Geometry::default() };
    let _daemon = Standin::with(&path, Misbehaviour { geometry, ..Misbehaviour::default() });
    let mut client = Client::connect(options(&path)).unwrap();
    let first = client.open(flow()).unwrap();
    client.open(flow()).unwrap();
    assert!(matches!(client.open(flow()), Err(ClientError::Failed(Failure::OverLimit { limit: 2, .. }))));
    assert!(matches!(client.set_controller(first, "none"), Err(ClientError::Failed(Failure::Invalid(_)))));
    assert!(matches!(client.open(OpenFlow { dscp: 64, ..flow() }), Err(ClientError::Argument(_))));
    assert!(matches!(client.thresh(first, f64::NAN, 2.0), Err(ClientError::Argument(_))));
    client.close(first).unwrap();
    let second = client.open(flow()).unwrap();
    assert_ne!(first, second, "a place that is used again is another flow");
    assert!(matches!(client.request(first), Err(ClientError::Failed(Failure::UnknownFlow(_)))));
    client.request(second).unwrap();
}

#[test]
fn documents_come_whole_in_a_packet_or_in_a_file() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    assert_eq!(client.snapshot().unwrap(), b"{}");
    assert_eq!(client.paths().unwrap(), vec![b'x'; LONG]);
}

#[test]
fn a_stream_comes_with_its_two_descriptors() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let second = Nanos(1_000_000_000);
    let spec = StreamSpec {
        service: *b"RTPV",
        dccp_port: 5004,
        ccid: 2,
        controller: None,
        local: None,
        native: false,
        slots: 64,
        mps: 1_200,
        connect_timeout: second,
        keep_alive: None,
        silence: second,
        msl: second,
        server_holds_timewait: true,
        policy: Policy::Fifo,
        repair: None,
    };
    let [ring, socket] = client.connect_stream("127.0.0.1:9".parse().unwrap(), spec).unwrap();
    rustix::io::write(&ring, b"whole").unwrap();
    let mut room = [0; 8];
    assert_eq!(rustix::io::read(&socket, &mut room).unwrap(), 5);
    let odd = StreamSpec { slots: 3, ..spec };
    assert!(matches!(client.connect_stream("127.0.0.1:9".parse().unwrap(), odd), Err(ClientError::Argument(_))));
}

/// The descriptor belongs to the application's loop: it must be readable exactly while an event waits.
#[test]
fn the_descriptor_is_readable_when_there_is_an_event() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let flow = client.open(flow()).unwrap();
    while client.poll_event().is_some() {}
    let readable = |client: &Client, millis: i64| {
        let limit = rustix::event::Timespec { tv_sec: millis / 1_000, tv_nsec: millis % 1_000 * 1_000_000 };
        poll(&mut [PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN)], Some(&limit)).unwrap() > 0
    };
    assert!(!readable(&client, 0));
    for _ in 0..100 {
        client.request(flow).unwrap();
        assert!(readable(&client, 20_000));
        assert!(matches!(next(&mut client), Event::Granted(_)));
        assert!(client.poll_event().is_none());
    }
    // A call consumes the daemon's wake-up message from the socket: the event behind it must not be lost.
    client.request(flow).unwrap();
    client.snapshot().unwrap();
    assert!(readable(&client, 20_000));
    assert!(matches!(next(&mut client), Event::Granted(_)));
}

/// An application may begin its loop with a poll, and ask for events only when the descriptor is readable.
#[test]
fn the_descriptor_rings_before_the_first_look_for_events() {
    let (_dir, path) = place();
    let daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let readable = |client: &Client| {
        let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN)], Some(&limit)).unwrap() > 0
    };
    let first = client.open(flow()).unwrap();
    client.request(first).unwrap();
    assert!(readable(&client));
    assert!(matches!(client.poll_event(), Some(Event::Granted(_))));
    // The same after a restart.
    drop(daemon);
    assert!(matches!(next(&mut client), Event::Disconnected(_)));
    let _daemon = Standin::start(&path);
    assert!(matches!(next(&mut client), Event::Reconnected));
    let second = client.open(flow()).unwrap();
    client.request(second).unwrap();
    assert!(readable(&client));
    assert!(matches!(client.poll_event(), Some(Event::Granted(_))));
}

#[test]
fn a_full_queue_is_told_and_so_is_room() {
    let (_dir, path) = place();
    let geometry = Geometry { submissions: 2, completions: 2, flows: 1 };
    let _daemon = Standin::with(&path, Misbehaviour { geometry, ..Misbehaviour::default() });
    let mut client = Client::connect(options(&path)).unwrap();
    let flow = client.open(flow()).unwrap();
    let (mut submitted, mut granted, mut full) = (0, 0, 0);
    while granted < 20_000 {
        if submitted < 20_000 {
            match client.request(flow) {
                Ok(()) => {
                    submitted += 1;
                    continue;
                }
                Err(ClientError::Full) => full += 1,
                Err(other) => panic!("{other}"),
            }
        }
        loop {
            match next(&mut client) {
                Event::Granted(_) => granted += 1,
                Event::Room => {}
                other => panic!("{other:?}"),
            }
            if submitted < 20_000 || granted == 20_000 {
                break;
            }
        }
    }
    assert!(full > 0, "a queue of two is full at times");
}

#[test]
fn nobody_at_home_is_an_error_that_says_what_to_do() {
    let (_dir, path) = place();
    let error = Client::connect(options(&path)).unwrap_err();
    assert!(matches!(error, ConnectError::NoDaemon { .. }));
    assert!(error.to_string().contains("timeous daemon"), "{error}");
}

#[test]
fn an_unwilling_daemon_says_why() {
    let (_dir, path) = place();
    let unwelcoming = Some(Reason::Version { daemon: 9 });
    let _daemon = Standin::with(&path, Misbehaviour { unwelcoming, ..Misbehaviour::default() });
    let error = Client::connect(options(&path)).unwrap_err();
    assert!(matches!(error, ConnectError::Refused(Reason::Version { daemon: 9 })), "{error}");
}

/// A socket that listens but never accepts: a stopped daemon.
#[test]
fn a_daemon_that_is_stuck_is_not_waited_for_for_ever() {
    let (_dir, path) = place();
    let _listener = timeous_ipc::socket::listen_at(&path, 1).unwrap();
    let options = Options { timeout: Duration::from_millis(50), ..options(&path) };
    // Connections within the backlog get no welcome; those beyond it are not accepted.
    for _ in 0..5 {
        assert!(matches!(Client::connect(options.clone()), Err(ConnectError::NoAnswer)));
    }
}

#[test]
fn a_call_to_a_daemon_that_fell_asleep_ends() {
    let (_dir, path) = place();
    let _daemon = Standin::with(&path, Misbehaviour { falls_asleep: true, ..Misbehaviour::default() });
    let options = Options { timeout: Duration::from_secs(1), ..options(&path) };
    let mut client = Client::connect(options).unwrap();
    client.open(flow()).unwrap();
    assert!(matches!(client.snapshot(), Err(ClientError::NoAnswer)));
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::NoAnswer)));
    assert!(matches!(client.snapshot(), Err(ClientError::Disconnected)), "and nothing waits any more");
}

/// No call is made: the client only waits for a grant.
#[test]
fn a_daemon_that_does_not_read_its_queue_is_given_up() {
    let (_dir, path) = place();
    let _daemon = Standin::with(&path, Misbehaviour { falls_asleep: true, ..Misbehaviour::default() });
    let options = Options { timeout: Duration::from_secs(1), ..options(&path) };
    let mut client = Client::connect(options).unwrap();
    let flow = client.open(flow()).unwrap();
    client.request(flow).unwrap();
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::NoAnswer)));
}

/// A daemon that reads is not given up, however long it has nothing to send.
#[test]
fn a_daemon_that_is_idle_is_not_given_up() {
    let (_dir, path) = place();
    let _daemon = Standin::start(&path);
    let options = Options { timeout: Duration::from_secs(1), ..options(&path) };
    let mut client = Client::connect(options).unwrap();
    let flow = client.open(flow()).unwrap();
    let until = now() + Duration::from_millis(2_500);
    while now() < until {
        assert!(client.poll_event().is_none());
        client.wait(Some(until));
    }
    client.request(flow).unwrap();
    assert!(matches!(next(&mut client), Event::Granted(_)));
}

#[test]
fn a_restart_of_the_daemon_is_told_and_flows_of_before_are_gone() {
    let (_dir, path) = place();
    let mut daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    let mut before: Option<Flow> = None;
    for _ in 0..5 {
        let flow = client.open(flow()).unwrap();
        if let Some(before) = before {
            assert!(matches!(client.request(before), Err(ClientError::Gone)));
            assert_ne!(before, flow);
        }
        client.request(flow).unwrap();
        assert!(matches!(next(&mut client), Event::Granted(granted) if granted == flow));
        assert_eq!(daemon.stop(), []);
        assert!(matches!(next(&mut client), Event::Disconnected(Lost::Gone)));
        assert!(!client.is_connected());
        assert!(matches!(client.request(flow), Err(ClientError::Disconnected)));
        daemon = Standin::start(&path);
        assert!(matches!(next(&mut client), Event::Reconnected));
        assert!(client.is_connected());
        before = Some(flow);
    }
}

#[test]
fn a_daemon_that_takes_its_leave_is_heard() {
    let (_dir, path) = place();
    let farewell = Some(Reason::Stopping);
    let daemon = Standin::with(&path, Misbehaviour { farewell: farewell.clone(), ..Misbehaviour::default() });
    let mut client = Client::connect(options(&path)).unwrap();
    daemon.stop();
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::Said(Reason::Stopping))));
    // The same if a call detects that the daemon is gone.
    let daemon = Standin::with(&path, Misbehaviour { farewell, ..Misbehaviour::default() });
    assert!(matches!(next(&mut client), Event::Reconnected));
    daemon.stop();
    assert!(matches!(client.snapshot(), Err(ClientError::Disconnected)));
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::Said(Reason::Stopping))));
}

/// Without a daemon the client sleeps between attempts.
#[test]
fn a_client_without_a_daemon_sleeps_most_of_the_time() {
    let (_dir, path) = place();
    let daemon = Standin::start(&path);
    let mut client = Client::connect(options(&path)).unwrap();
    daemon.stop();
    assert!(matches!(next(&mut client), Event::Disconnected(_)));
    let until = now() + Duration::from_millis(600);
    let mut woken = 0;
    while now() < until {
        assert!(client.poll_event().is_none());
        client.wait(Some(until));
        woken += 1;
    }
    assert!(woken < 20, "woken {woken} times");
    assert!(until < now() + PATIENCE);
}
