//! Two drivers that exchange packets in memory.

use std::net::SocketAddr;

use timeous_core::{AduMeta, Duration, Ecn, Fate, Rng};
use timeous_dccp::{CloseReason, EndpointConfig, Event, Outgoing, ResetCode, ServiceCode, Statistics};
use timeous_ring::{Producer, create};

use super::*;
use crate::send_side::SendSide;
use crate::settings::ring_settings;

const SERVICE: ServiceCode = ServiceCode::NONE;
const PORT: u16 = 5_004;
const ONE_WAY: Duration = Duration::from_millis(5);

struct TestSession {
    sending: SendSide,
    producer: Producer,
    received: Vec<Vec<u8>>,
    closed: Option<CloseReason>,
    reports: u32,
}

impl TestSession {
    fn new() -> Self {
        let (producer, consumer) = create(&ring_settings(8, 1_400)).unwrap();
        let sending = SendSide::new(consumer, None, None);
        Self { sending, producer, received: Vec::new(), closed: None, reports: 0 }
    }
}

impl Session for TestSession {
    type Connection = timeous_dccp::Connection;

    fn sending(&mut self) -> &mut SendSide {
        &mut self.sending
    }

    fn handle_event(&mut self, _: Instant, event: Event) {
        self.sending.handle_event(&event);
        match event {
            Event::Received(bytes) => self.received.push(bytes),
            Event::Closed { reason } => self.closed = Some(reason),
            _ => {}
        }
    }

    fn report(&mut self, _: Instant, _: &Statistics, _: bool) {
        self.reports += 1;
    }
}

struct End {
    driver: Driver<timeous_dccp::Endpoint, TestSession>,
    cm: Manager,
    address: SocketAddr,
}

impl End {
    fn new(address: &str, seed: u64) -> Self {
        let driver = Driver::new(timeous_dccp::Endpoint::new(EndpointConfig::default(), Rng::from_seed(seed)));
        Self { driver, cm: Manager::default(), address: address.parse().unwrap() }
    }

    /// Runs one round, and returns the packets that leave.
    fn round(&mut self, now: Instant, from: SocketAddr, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let Self { driver, cm, .. } = self;
        for datagram in datagrams {
            driver.endpoint.handle_datagram(now, cm, from, datagram, Ecn::NotEct).unwrap();
        }
        cm.handle_timeout(now);
        driver.handle_timeout(now, cm);
        let (mut out, mut packet) = (Vec::new(), Vec::new());
        loop {
            while let Some(flow) = cm.poll_granted() {
                driver.endpoint.granted(flow);
            }
            let mut progress = false;
            while let Some(Outgoing { connection, transmit, .. }) = driver.poll_transmit(now, cm, 1, &mut packet) {
                if let (Some(id), Some(mut adu)) = (connection, transmit.adu) {
                    let sending = driver.sessions.get_mut(id).unwrap().sending();
                    adu.gather(sending.source(), &mut packet);
                    sending.sent(adu.token);
                }
                out.push(std::mem::take(&mut packet));
                progress = true;
            }
            while let Some((id, event)) = driver.poll_event() {
                if let Event::Incoming { .. } = event {
                    driver.sessions.insert(id, TestSession::new());
                }
                driver.deliver(now, cm, id, event);
                progress = true;
            }
            if !(progress | driver.look_after_sources(now)) {
                driver.end_round(now, cm);
                return out;
            }
        }
    }

    fn session(&mut self, id: ConnectionId) -> &mut TestSession {
        self.driver.sessions.get_mut(id).unwrap()
    }
}

struct Pair {
    now: Instant,
    near: End,
    far: End,
    to_near: Vec<Vec<u8>>,
}

impl Pair {
    fn new() -> Self {
        let (near, mut far) = (End::new("10.0.0.1:1", 1), End::new("10.0.0.2:2", 2));
        far.driver.endpoint.listen(PORT, &[SERVICE]);
        Self { now: Instant::from_nanos(1), near, far, to_near: Vec::new() }
    }

    fn call(&mut self) -> ConnectionId {
        let id = self.near.driver.endpoint.connect(self.now, self.far.address, PORT, SERVICE).unwrap();
        self.near.driver.sessions.insert(id, TestSession::new());
        id
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let to_far = self.near.round(self.now, self.far.address, &self.to_near);
            self.now += ONE_WAY;
            self.to_near = self.far.round(self.now, self.near.address, &to_far);
            self.now += ONE_WAY;
        }
    }

    /// Queues a datagram, and notifies the driver as the engine and the simulator do.
    fn send(&mut self, id: ConnectionId, bytes: &[u8]) {
        let session = self.near.session(id);
        session.producer.enqueue(&AduMeta::default(), bytes).unwrap();
        assert!(session.producer.needs_notify(), "the driver asked for a notification");
        self.near.driver.notify(id);
    }
}

const A_WHILE: Duration = Duration::from_secs(1);

#[test]
fn queued_data_arrives_and_a_finished_stream_closes() {
    let mut pair = Pair::new();
    let id = pair.call();
    pair.run(A_WHILE);
    pair.send(id, b"hello");
    pair.near.driver.finish(id);
    pair.run(A_WHILE);
    let session = pair.near.session(id);
    assert_eq!(session.producer.poll_completion().map(|done| done.fate), Some(Fate::Acked));
    assert_eq!(session.closed, Some(CloseReason::Local));
    let (_, there) = pair.far.driver.sessions.iter().next().unwrap();
    assert_eq!((&there.received[..], there.closed), (&[b"hello".to_vec()][..], Some(CloseReason::Peer)));
}

#[test]
fn a_round_looks_only_at_streams_that_something_happened_to() {
    let mut pair = Pair::new();
    let (busy, idle) = (pair.call(), pair.call());
    pair.run(A_WHILE);
    let before = [busy, idle].map(|id| pair.near.driver.sessions.get(id).unwrap().reports);
    pair.send(busy, b"hello");
    pair.run(ONE_WAY * 4);
    let after = [busy, idle].map(|id| pair.near.driver.sessions.get(id).unwrap().reports);
    assert!(after[0] > before[0]);
    assert_eq!(after[1], before[1]);
}

#[test]
fn a_removed_stream_gets_no_more_events() {
    let mut pair = Pair::new();
    let id = pair.call();
    pair.run(A_WHILE);
    let removed = pair.near.driver.remove(pair.now, id).unwrap();
    pair.near.driver.endpoint.abort(pair.now, id, ResetCode::TooBusy).unwrap();
    pair.run(A_WHILE);
    assert_eq!(removed.closed, None);
    assert!(pair.near.driver.sessions.is_empty());
    let (_, there) = pair.far.driver.sessions.iter().next().unwrap();
    assert!(matches!(there.closed, Some(CloseReason::Reset(_))), "{:?}", there.closed);
}
