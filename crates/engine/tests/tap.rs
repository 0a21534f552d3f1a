//! Datagrams over the kernel's TCP with loss, received with a packet tap and without one, in network namespaces with an
//! emulated link. Needs root and iproute2.

mod test_network;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use test_network::TestNetwork;
use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant, Rate};
use timeous_engine::{
    Carrier, Engine, EngineError, ReceiveHalf, Sealing, Status, Stream, StreamConfig, TcpConfig, Unordered, clock,
};
use timeous_net::LinkConfig;
use timeous_net::emulator::Namespace;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_seal::{CallerCredential, Intent, ListenerCredential, Passphrase, SharedPassphrase, Trust};

const PATIENCE: Duration = Duration::from_secs(30);

fn config(unordered: Unordered) -> StreamConfig {
    StreamConfig {
        tcp: TcpConfig { unordered, silence: PATIENCE, ..TcpConfig::default() },
        slots: 1_024,
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Tcp)
    }
}

/// A link with 4 % loss, and an engine at each end.
struct Scene {
    near: Engine,
    far: Engine,
    _network: TestNetwork,
}

impl Scene {
    fn make(test: &str) -> Option<Self> {
        let way = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
        let network = TestNetwork::make(test, |config| {
            config.forward = LinkConfig {
                capacity: Capacity::Fixed(Rate::from_kbps(20_000)),
                queue: Limit::Packets(100),
                loss: Loss::Bernoulli { p: 0.04 },
                ..way.clone()
            };
            (config.back, config.seed) = (way, 3);
        })?;
        let start = |end: &Namespace| end.within(Engine::start).unwrap().unwrap();
        Some(Self { near: start(&network.left), far: start(&network.right), _network: network })
    }

    /// Opens a stream whose receiver has a tap or not.
    fn stream(&self, port: u16, unordered: Unordered, is_sealed: bool) -> (Stream, Stream) {
        let there = SocketAddr::from(([10, 77, 0, 2], port));
        let [of_caller, of_listener] = if is_sealed { credentials() } else { [Sealing::Off, Sealing::Off] };
        let with = |unordered, sealing| StreamConfig { sealing, ..config(unordered) };
        let mut listener = self.far.listen(there, with(unordered, of_listener)).unwrap();
        let mut sender = self.near.connect(there, with(Unordered::Off, of_caller)).unwrap();
        let receiver = listener.accept(Some(clock::now() + PATIENCE)).unwrap();
        let end = clock::now() + PATIENCE;
        while sender.status() == Status::Connecting {
            assert!(clock::now() < end);
            sender.sending().wait(Some(end));
        }
        (sender, receiver)
    }
}

fn credentials() -> [Sealing; 2] {
    let passphrase = Some(Passphrase::from_key([1; 32]));
    let caller = CallerCredential::new("10.77.0.2", &Trust::Passphrase, passphrase.clone(), None, Intent::Publish);
    let listener = ListenerCredential::new(None, None, Arc::new(SharedPassphrase(passphrase)));
    [Sealing::Caller(caller.unwrap()), Sealing::Listener(listener.unwrap())]
}

fn payload(seq: u64, at: Instant) -> Vec<u8> {
    let mut bytes = [seq.to_be_bytes(), at.as_nanos().to_be_bytes()].concat();
    bytes.extend((0..400 + seq as usize % 200).map(|place| (place as u64 * seq) as u8));
    bytes
}

/// Datagrams in the order of their arrival, with their one-way delays.
type Arrivals = Vec<(u64, Duration)>;

/// Receives until the end of the stream; each datagram comes once.
fn receive(mut receiver: ReceiveHalf) -> JoinHandle<Arrivals> {
    thread::spawn(move || {
        let (mut arrivals, mut known) = (Vec::new(), BTreeSet::new());
        loop {
            let status = receiver.status();
            while let Some(received) = receiver.poll_received() {
                let word = |at: usize| u64::from_be_bytes(received.bytes[at..at + 8].try_into().unwrap());
                let (seq, at) = (word(0), Instant::from_nanos(word(8)));
                assert_eq!(received.bytes, payload(seq, at));
                assert!(known.insert(seq), "{seq} came twice");
                arrivals.push((seq, received.at.saturating_since(at)));
            }
            if matches!(status, Status::Closed(_)) {
                return arrivals;
            }
            receiver.wait(None);
        }
    })
}

fn p95(arrivals: &Arrivals) -> Duration {
    let mut ages: Vec<_> = arrivals.iter().map(|(_, age)| *age).collect();
    ages.sort();
    ages[ages.len() * 95 / 100]
}

/// Number of datagrams that came before one that was sent earlier.
fn out_of_order(arrivals: &Arrivals) -> usize {
    let mut earliest = u64::MAX;
    let mut overtakes = |seq| {
        let overtakes = seq > earliest;
        earliest = earliest.min(seq);
        overtakes
    };
    arrivals.iter().rev().filter(|(seq, _)| overtakes(*seq)).count()
}

fn finish(sender: &mut Stream) -> u64 {
    sender.sending().finish();
    let (mut acked, end) = (0, clock::now() + PATIENCE);
    while !matches!(sender.status(), Status::Closed(_)) {
        assert!(clock::now() < end, "{:?}", sender.sending().snapshot());
        sender.sending().wait(Some(clock::now() + Duration::from_millis(20)));
    }
    while let Some(done) = sender.sending().poll_completion() {
        assert_eq!(done.fate, Fate::Acked);
        acked += 1;
    }
    acked
}

#[test]
fn a_tap_shows_what_is_behind_a_loss_before_the_loss_is_repaired_and_each_datagram_comes_once() {
    shows_what_is_behind_a_loss("tap", false);
}

#[test]
fn a_tap_shows_encrypted_records_as_well() {
    shows_what_is_behind_a_loss("tap-sealed", true);
}

fn shows_what_is_behind_a_loss(test: &str, is_sealed: bool) {
    const COUNT: u64 = 800;
    let Some(scene) = Scene::make(test) else { return };
    // Both streams at once, over one link.
    let (mut plain, plain_far) = scene.stream(6_000, Unordered::Off, is_sealed);
    let (mut tapped, tapped_far) = scene.stream(6_001, Unordered::Require, is_sealed);
    let (_plain_back, plain_far) = plain_far.split();
    let (tapped_back, tapped_far) = tapped_far.split();
    let (plain_got, tapped_got) = (receive(plain_far), receive(tapped_far));
    let mut due = clock::now();
    for seq in 0..COUNT {
        for stream in [&mut plain, &mut tapped] {
            let meta = AduMeta { seq: AduSeq(seq), enqueued: clock::now(), ..AduMeta::default() };
            stream.sending().enqueue(&meta, &payload(seq, clock::now())).unwrap();
        }
        due += Duration::from_millis(4);
        while clock::now() < due {
            plain.sending().wait(Some(due));
        }
    }
    assert_eq!((finish(&mut plain), finish(&mut tapped)), (COUNT, COUNT));
    let (plain, tapped) = (plain_got.join().unwrap(), tapped_got.join().unwrap());
    let view = tapped_back.snapshot().tcp.unwrap_or_default();
    println!("p95 {:?} in order, {:?} by the tap; {view:?}", p95(&plain), p95(&tapped));
    assert_eq!((plain.len() as u64, tapped.len() as u64), (COUNT, COUNT));
    // What is behind a loss does not wait for its repair: an order that no machine's pace changes, unlike the delays.
    assert_eq!(out_of_order(&plain), 0);
    assert!(out_of_order(&tapped) as u64 > COUNT / 10 && view.early > COUNT / 10, "{view:?}");
}

/// Starts an engine that may not open packet sockets.
fn without_rights() -> Engine {
    thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, sets).unwrap();
        Engine::start().unwrap()
    })
    .join()
    .unwrap()
}

#[test]
fn without_the_right_datagrams_come_in_order_or_the_stream_is_refused() {
    let engine = without_rights();
    let here = || SocketAddr::from(([127, 0, 0, 1], 0));
    let refused = engine.listen(here(), config(Unordered::Require)).unwrap_err();
    assert!(matches!(refused, EngineError::NoPacketTap(_)), "{refused}");
    assert!(refused.to_string().contains("cap_net_raw"), "{refused}");
    let mut listener = engine.listen(here(), config(Unordered::Auto)).unwrap();
    let refused = engine.connect(listener.local_addr(), config(Unordered::Require)).unwrap_err();
    assert!(matches!(refused, EngineError::NoPacketTap(_)), "{refused}");
    let mut sender = engine.connect(listener.local_addr(), config(Unordered::Auto)).unwrap();
    let receiver = listener.accept(Some(clock::now() + PATIENCE)).unwrap();
    let (back, receiver) = receiver.split();
    let got = receive(receiver);
    for seq in 0..50 {
        let meta = AduMeta { seq: AduSeq(seq), enqueued: clock::now(), ..AduMeta::default() };
        sender.sending().enqueue(&meta, &payload(seq, clock::now())).unwrap();
    }
    assert_eq!(finish(&mut sender), 50);
    assert_eq!(got.join().unwrap().len(), 50);
    let view = back.snapshot().tcp.unwrap_or_default();
    assert!(!view.tapped && view.early == 0, "{view:?}");
}

#[test]
fn what_came_before_the_tap_was_open_is_delivered_first() {
    const COUNT: u64 = 20;
    let Ok(engine) = Engine::start() else { return };
    let Ok(mut listener) = engine.listen(SocketAddr::from(([127, 0, 0, 1], 0)), config(Unordered::Require)) else {
        return;
    };
    for _ in 0..100 {
        let mut sender = engine.connect(listener.local_addr(), config(Unordered::Off)).unwrap();
        for seq in 0..COUNT {
            let meta = AduMeta { seq: AduSeq(seq), enqueued: clock::now(), ..AduMeta::default() };
            sender.sending().enqueue(&meta, &payload(seq, clock::now())).unwrap();
            sender.sending().wait(Some(clock::now() + Duration::from_micros(50)));
        }
        let receiver = listener.accept(Some(clock::now() + PATIENCE)).unwrap();
        let (_back, receiver) = receiver.split();
        let got = receive(receiver);
        assert_eq!(finish(&mut sender), COUNT);
        let order: Vec<_> = got.join().unwrap().into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(order, (0..COUNT).collect::<Vec<_>>());
    }
}
