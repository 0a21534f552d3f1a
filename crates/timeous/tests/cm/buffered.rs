//! Tests of the congestion-controlled UDP socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous::cm::{Ack, Acks, BufferedSocket, CongestionManager, Error, Feedback, FeedbackError, ManagerLocation, Run};
use timeous::core::{Duration, Rate};
use timeous::{Culprit, clock};

use crate::support::{Link, PATIENCE, port};

fn socket() -> BufferedSocket {
    let cm = CongestionManager::open(ManagerLocation::InProcess).unwrap();
    BufferedSocket::new(&cm, port()).unwrap()
}

/// Acknowledges what comes to `far`, numbered, until `count` packets came; their numbers in the order in which they came.
fn acknowledge(far: UdpSocket, count: usize) -> thread::JoinHandle<Vec<u64>> {
    thread::spawn(move || {
        far.set_read_timeout(Some(PATIENCE.into())).unwrap();
        let mut acks = Acks::every(1, Duration::ZERO);
        let mut numbers = Vec::new();
        let mut buffer = [0; 1_500];
        while numbers.len() < count {
            let (_, from) = far.recv_from(&mut buffer).unwrap();
            let number = u64::from_be_bytes(*buffer.first_chunk().unwrap());
            acks.received(clock::now(), number);
            numbers.push(number);
            far.send_to(&acks.acknowledge(clock::now()).unwrap().encode(), from).unwrap();
        }
        numbers
    })
}

fn numbered(number: u64, len: usize) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(len, 0);
    packet
}

/// Takes in the acknowledgements that are there.
fn hear(socket: &mut BufferedSocket) {
    let mut buffer = [0; 1_500];
    while let Ok(len) = socket.recv(&mut buffer) {
        socket.acked(&Ack::decode(&buffer[..len]).unwrap()).unwrap();
    }
}

#[test]
fn it_takes_what_fits_and_goes_on_when_there_is_room() {
    const COUNT: u64 = 60;
    let far = port();
    let link = Link::to(far.local_addr().unwrap(), Rate::from_kbps(1_500), 100);
    let far = acknowledge(far, COUNT as usize);
    let mut socket = socket().with_capacity(5_000).with_feedback();
    socket.connect(link.near).unwrap();
    let (mut full, mut most) = (0, 0);
    for number in 0..COUNT {
        while let Err(error) = socket.send(&numbered(number, 1_000)) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            full += 1;
            socket.wait(None);
            hear(&mut socket);
        }
        most = most.max(socket.queued());
    }
    while socket.queued() > 0 || socket.query().unwrap().outstanding > 0 {
        socket.wait(None);
        hear(&mut socket);
    }
    assert_eq!(far.join().unwrap(), (0..COUNT).collect::<Vec<_>>(), "in order, and none twice");
    assert!(full > 0 && most == 5, "full {full} times, {most} at most");
    assert_eq!(socket.poll_departure(), None, "the socket keeps account itself");
    assert_eq!(link.end().counters.queue_drops, 0);
}

#[test]
fn feedback_by_the_application_does_as_well() {
    let far = port();
    let link = Link::to(far.local_addr().unwrap(), Rate::from_kbps(1_500), 100);
    let far = acknowledge(far, 30);
    let mut socket = socket();
    socket.connect(link.near).unwrap();
    for number in 0..30 {
        socket.send(&numbered(number, 700)).unwrap();
    }
    let mut feedback = Feedback::default();
    let mut buffer = [0; 1_500];
    while feedback.next_number() < 30 || feedback.outstanding() > 0 {
        socket.wait(feedback.poll_timeout());
        loop {
            while let Some(left) = socket.poll_departure() {
                assert_eq!((left.remote, left.bytes), (link.near, 700));
                feedback.sent(left.at, left.bytes as u64);
            }
            let Ok(len) = socket.recv(&mut buffer) else { break };
            while let Some(left) = socket.poll_departure() {
                feedback.sent(left.at, left.bytes as u64);
            }
            if let Some(update) = feedback.acked(clock::now(), &Ack::decode(&buffer[..len]).unwrap()).unwrap() {
                socket.update(update).unwrap();
            }
        }
        if let Some(update) = feedback.handle_timeout(clock::now()) {
            socket.update(update).unwrap();
        }
    }
    far.join().unwrap();
    let path = socket.query().unwrap();
    assert!(path.outstanding == 0 && path.srtt.unwrap() >= Duration::from_millis(40), "{path:?}");
}

#[test]
fn a_receiver_that_says_nothing_holds_it_up_but_not_for_ever() {
    let far = port();
    far.set_read_timeout(Some(PATIENCE.into())).unwrap();
    // Alone at its address, so that nobody else's acknowledgements help.
    let link = Link::to(far.local_addr().unwrap(), Rate::from_kbps(10_000), 100);
    let mut socket = socket().with_feedback();
    socket.connect(link.near).unwrap();
    for number in 0..40 {
        socket.send(&numbered(number, 1_000)).unwrap();
    }
    let first = socket.queued();
    assert!(first > 0, "no window is so large without an acknowledgement");
    while socket.queued() == first {
        assert!(socket.poll_timeout().is_some());
        socket.wait(None);
    }
    let path = socket.query().unwrap();
    assert!(path.window <= 2_400 && path.loss_ppm > 0, "after a timeout: {path:?}");
}

#[test]
fn its_one_descriptor_rings_for_datagrams_and_for_grants() {
    let far = port();
    let mut socket = socket().with_feedback();
    socket.connect(far.local_addr().unwrap()).unwrap();
    let readable = |socket: &BufferedSocket| {
        let limit = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)).unwrap() > 0
    };
    assert!(!readable(&socket));
    socket.send(&numbered(0, 100)).unwrap();
    while socket.queued() > 0 {
        socket.wait(None);
    }
    let mut buffer = [0; 1_500];
    let (len, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..len], numbered(0, 100));
    far.send_to(b"a question", from).unwrap();
    assert!(readable(&socket));
    assert_eq!(socket.recv(&mut buffer).unwrap(), 10);
    assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!readable(&socket));
}

#[test]
fn each_destination_has_its_flow_and_its_queue() {
    let (left, right) = (port(), port());
    let addresses: [SocketAddr; 2] = [left.local_addr().unwrap(), right.local_addr().unwrap()];
    let mut socket = socket().with_feedback();
    for number in 0..3u64 {
        for address in addresses {
            socket.send_to(&numbered(number, 50), address).unwrap();
        }
    }
    let flows = addresses.map(|address| socket.flow(address).unwrap());
    assert_ne!(flows[0], flows[1]);
    let acknowledging = [acknowledge(left, 3), acknowledge(right, 3)];
    let outstanding = |socket: &BufferedSocket| socket.manager().query(flows[0]).unwrap().outstanding;
    let mut buffer = [0; 1_500];
    while socket.queued() > 0 || outstanding(&socket) > 0 {
        socket.wait(None);
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            socket.acked_from(from, &Ack::decode(&buffer[..len]).unwrap()).unwrap();
        }
    }
    for receiver in acknowledging {
        assert_eq!(receiver.join().unwrap(), [0, 1, 2]);
    }
    socket.forget(addresses[0]).unwrap();
    assert!(matches!(socket.flow(addresses[0]), Err(Error::Io(error)) if error.kind() == ErrorKind::NotConnected));
    assert!(socket.manager().query(flows[0]).is_err(), "closed");
}

#[test]
fn mistakes_are_told_apart_by_culprit() {
    let far = port();
    let mut socket = socket().with_mtu(500).with_feedback();
    assert_eq!(socket.send(b"to whom?").unwrap_err().kind(), ErrorKind::NotConnected);
    assert!(socket.update(timeous::cm::Update::default()).is_err());
    socket.connect(far.local_addr().unwrap()).unwrap();
    assert_eq!(socket.send(&[0; 501]).unwrap_err().kind(), ErrorKind::InvalidInput);
    let ack = Ack { newest: 7, delay: Duration::ZERO, marked: 0, runs: vec![Run { missing: 0, there: 8 }] };
    let error = socket.acked(&ack).unwrap_err();
    assert!(matches!(error, Error::Feedback(FeedbackError::NotSent { number: 7, sent: 0 })), "{error}");
    assert_eq!(error.culprit(), Culprit::Peer);
    let error = socket.update(timeous::cm::Update { acked: 1, ..Default::default() }).unwrap_err();
    assert_eq!(error.culprit(), Culprit::Caller, "{error}");
}
