//! Tests of daemon restarts: clients survive them, and get an event.

use std::net::IpAddr;

use timeous_daemon::{Config, Daemon, DaemonError};
use timeous_engine::{CloseReason, Status, Stream, clock};
use timeous_ipc::messages::Reason;
use timeous_ipc::{ClientError, Event, Lost, OpenFlow};

use crate::streams::connected;
use crate::support::{Host, granted, late, next, pause};

#[test]
fn a_daemon_that_is_killed_and_comes_back_is_told_and_flows_are_opened_again() {
    let mut host = Host::start();
    let mut client = host.client();
    let to = OpenFlow::to(IpAddr::from([192, 0, 2, 1]), 1_000);
    let old = client.open(to).unwrap();
    let (mut here, _elsewhere, _listener) = connected(&host, &mut client);
    host.kill();
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::Gone)));
    assert!(matches!(client.request(old), Err(ClientError::Gone | ClientError::Disconnected)));
    assert_eq!(ended(&mut here), CloseReason::Abandoned);
    host.start_again();
    assert!(matches!(next(&mut client), Event::Reconnected));
    assert!(matches!(client.request(old), Err(ClientError::Gone)));
    let new = client.open(to).unwrap();
    client.request(new).unwrap();
    granted(&mut client, new);
    // Streams, too.
    let (here, _elsewhere, _) = connected(&host, &mut client);
    assert_eq!(here.status(), Status::Open);
}

#[test]
fn a_daemon_that_stops_says_goodbye() {
    let mut host = Host::start();
    let mut client = host.client();
    let (mut here, _elsewhere, _listener) = connected(&host, &mut client);
    host.stop();
    assert!(matches!(next(&mut client), Event::Disconnected(Lost::Said(Reason::Stopping))));
    ended(&mut here);
    assert!(!host.path().exists(), "the socket is gone");
    host.start_again();
    assert!(matches!(next(&mut client), Event::Reconnected));
}

#[test]
fn a_socket_has_one_daemon() {
    let mut host = Host::start();
    let path = host.path();
    let other = || Daemon::bind(Config::at(&path));
    assert!(matches!(other(), Err(DaemonError::InUse(_))));
    host.client();
    host.kill();
    // The files that a killed daemon leaves do not stop another one.
    assert!(path.exists());
    drop(other().unwrap());
    std::fs::write(&path, "something else").unwrap();
    // A process that another test starts has the lock of the last daemon, too, until it is executed.
    let mut refused = other();
    host.until("the lock is free", || {
        let is_locked = matches!(refused, Err(DaemonError::InUse(_)));
        if is_locked {
            refused = other();
        }
        !is_locked
    });
    assert!(matches!(refused, Err(DaemonError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

#[track_caller]
fn ended(stream: &mut Stream) -> CloseReason {
    let end = late();
    loop {
        if let Status::Closed(reason) = stream.status() {
            return reason;
        }
        assert!(clock::now() < end, "the stream is {:?}", stream.status());
        pause(timeous_core::Duration::from_millis(2));
    }
}
