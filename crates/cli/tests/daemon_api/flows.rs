//! Applications' own flows through a daemon: congestion control, feedback and buffered sockets.

use std::net::UdpSocket;
use std::thread;

use timeous::cm::{
    Ack, Acks, BufferedSocket, CongestionManager, Error, Event, FlowId, Kind, ManagerLocation, Scheduling, Update,
};
use timeous::core::Duration;
use timeous::{Culprit, clock};

use crate::support::{PATIENCE, TestDaemon, address, next, port};

fn granted(cm: &CongestionManager) -> FlowId {
    match next(cm) {
        Event::Granted(flow) => flow,
        other => panic!("{other:?}"),
    }
}

/// Waits until `until` holds for the path's state; the daemon processes feedback a little later.
fn known(cm: &CongestionManager, flow: FlowId, until: impl Fn(&timeous::cm::PathState) -> bool) {
    let end = clock::now() + PATIENCE;
    while !until(&cm.query(flow).unwrap()) {
        assert!(clock::now() < end, "{:?}", cm.query(flow));
        thread::yield_now();
    }
}

#[test]
fn two_processes_clients_share_a_path() {
    let daemon = TestDaemon::start();
    let (one, other) = (daemon.client(), daemon.client());
    assert_eq!(*one.place(), ManagerLocation::Daemon(Some(daemon.socket())));
    let remote = address();
    let (mine, theirs) = (one.open_to(remote, 1_000).unwrap(), other.open_to(remote, 1_000).unwrap());
    assert_eq!(one.mtu(mine).unwrap(), 1_000);
    let at = clock::now();
    one.request(mine).unwrap();
    assert_eq!(granted(&one), mine);
    one.notify(mine, 900).unwrap();
    known(&other, theirs, |path| path.outstanding == 900);
    one.wait(Some(clock::now() + Duration::from_millis(5)));
    let rtt = clock::now() - at;
    one.update(mine, Update { acked: 900, rtt: Some(rtt), ..Update::default() }).unwrap();
    known(&other, theirs, |path| path.srtt == Some(rtt) && path.outstanding == 0);
    one.split(mine).unwrap();
    one.notify_unasked(mine, 700).unwrap();
    known(&one, mine, |path| path.outstanding == 700);
    known(&other, theirs, |path| path.outstanding == 0);
    one.merge(mine, mine).ok();
    one.set_weight(mine, 2).unwrap();
    one.set_controller(mine, Kind::Cubic).unwrap();
    for scheduling in [Scheduling::Weighted, Scheduling::Deadline, Scheduling::RoundRobin] {
        one.set_scheduler(mine, scheduling).unwrap();
    }
    one.close(mine).unwrap();
    assert!(one.query(mine).is_err());
}

#[test]
fn what_the_daemon_refuses_is_told_by_an_event() {
    let daemon = TestDaemon::start();
    let cm = daemon.client();
    let flow = cm.open_to(address(), 1_000).unwrap();
    cm.update(flow, Update { acked: 5_000, ..Update::default() }).unwrap();
    let Event::Refused { flow: refused, why, value } = next(&cm) else { panic!("not refused") };
    assert_eq!((refused, value), (flow, 5_000));
    assert_eq!(Error::from(why).culprit(), Culprit::Caller);
    cm.notify(flow, 100).unwrap();
    assert!(matches!(next(&cm), Event::Refused { .. }), "it held no grant");
    assert_eq!(cm.query(flow).unwrap().outstanding, 0);
}

/// Acknowledges packets until the sender stops; returns the payloads after the numbers.
fn acknowledge(far: UdpSocket) -> thread::JoinHandle<Vec<Vec<u8>>> {
    thread::spawn(move || {
        far.set_read_timeout(Some(PATIENCE.into())).unwrap();
        let mut acks = Acks::every(1, Duration::ZERO);
        let mut came = Vec::new();
        let mut buffer = [0; 1_500];
        loop {
            let (len, from) = far.recv_from(&mut buffer).unwrap();
            let Some((number, payload)) = buffer[..len].split_first_chunk() else { return came };
            acks.received(clock::now(), u64::from_be_bytes(*number));
            far.send_to(&acks.acknowledge(clock::now()).unwrap().encode(), from).unwrap();
            came.push(payload.to_vec());
        }
    })
}

/// Sends packets `from` to `to`, and waits until all are acknowledged.
fn send(socket: &mut BufferedSocket, from: u64, to: u64) {
    let mut buffer = [0; 1_500];
    let mut hear = |socket: &mut BufferedSocket| {
        while let Ok(len) = socket.recv(&mut buffer) {
            socket.acked(&Ack::decode(&buffer[..len]).unwrap()).unwrap();
        }
    };
    for number in from..to {
        let packet = [number.to_be_bytes(), number.to_le_bytes()].concat();
        while socket.send(&packet).is_err() {
            socket.wait(None);
            hear(socket);
        }
    }
    let end = clock::now() + PATIENCE;
    while socket.queued() > 0 || socket.poll_timeout().is_some() {
        assert!(clock::now() < end, "{} wait; {:?}; {:?}", socket.queued(), socket.query(), socket.poll_event());
        socket.wait(Some(end));
        hear(socket);
    }
}

#[test]
fn a_buffered_socket_outlives_the_daemon() {
    let mut daemon = TestDaemon::start();
    let far = port();
    let remote = far.local_addr().unwrap();
    let received = acknowledge(far);
    let mut socket = BufferedSocket::new(&daemon.client(), UdpSocket::bind("127.0.0.1:0").unwrap())
        .unwrap()
        .with_capacity(2_000)
        .with_feedback();
    socket.connect(remote).unwrap();
    send(&mut socket, 0, 200);
    assert!(socket.query().unwrap().srtt.is_some());
    daemon.stop();
    let event = |socket: &mut BufferedSocket| {
        let end = clock::now() + PATIENCE;
        loop {
            if let Some(event) = socket.poll_event() {
                return event;
            }
            assert!(clock::now() < end, "no event");
            socket.wait(Some(end));
        }
    };
    assert!(matches!(event(&mut socket), Event::Disconnected));
    assert!(matches!(socket.query(), Err(Error::Disconnected)));
    // It accepts and keeps as many packets as fit.
    let queued =
        (200..230u64).take_while(|n| socket.send(&[n.to_be_bytes(), n.to_le_bytes()].concat()).is_ok()).count();
    assert_eq!((queued, socket.queued()), (30, 30));
    daemon.again();
    assert!(matches!(event(&mut socket), Event::Reconnected));
    send(&mut socket, 230, 400);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", remote).unwrap();
    let numbers: Vec<u64> =
        received.join().unwrap().into_iter().map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_flow_of_before_the_restart_is_gone_and_a_new_one_is_not() {
    let mut daemon = TestDaemon::start();
    let cm = daemon.client();
    let remote = address();
    let flow = cm.open_to(remote, 1_000).unwrap();
    daemon.stop();
    assert!(matches!(next(&cm), Event::Disconnected));
    assert!(matches!(cm.request(flow), Err(Error::Disconnected)));
    assert!(matches!(cm.open_to(remote, 1_000), Err(Error::Disconnected)));
    daemon.again();
    assert!(matches!(next(&cm), Event::Reconnected));
    assert!(matches!(cm.request(flow), Err(Error::Disconnected)), "it was the former daemon's");
    let flow = cm.open_to(remote, 1_000).unwrap();
    cm.request(flow).unwrap();
    assert_eq!(granted(&cm), flow);
}
