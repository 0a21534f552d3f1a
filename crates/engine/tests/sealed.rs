//! Streams with encryption between engines: agreement, refusal, stream IDs, restarts, plain peers.

#[allow(dead_code, reason = "the tests of other carriers use more of it")]
mod sealed_support;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealed_support::{PATIENCE, config, listen, outcome, received, send, until};
use timeous_core::{AduMeta, AduSeq, Duration, Instant};
use timeous_engine::{
    Carrier, CloseReason, Engine, EngineError, Sealing, ServiceCode, Status, Stream, StreamConfig, clock,
};
use timeous_seal::{
    CallerCredential, CertificateFault, Identity, Intent, ListenerCredential, SealError, SharedPassphrase, Trust,
};

const UDP: Carrier = Carrier::Udp;

fn caller(byte: u8) -> StreamConfig {
    sealed_support::caller(UDP, byte)
}

fn listener(byte: u8) -> StreamConfig {
    sealed_support::listener(UDP, byte)
}

#[test]
fn data_goes_both_ways_and_no_datagram_shows_it() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    // A relay between the two sees every datagram.
    let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
    relay.set_read_timeout(Some(Duration::from_millis(1).into())).unwrap();
    let mut near = engine.connect(relay.local_addr().unwrap(), caller(1)).unwrap();
    let (mut seen, mut client): (Vec<Vec<u8>>, Option<SocketAddr>) = Default::default();
    let behind = there.local_addr();
    let mut pass = |seen: &mut Vec<Vec<u8>>| {
        let mut buffer = [0; 2048];
        if let Ok((len, from)) = relay.recv_from(&mut buffer) {
            seen.push(buffer[..len].to_vec());
            let to = if from == behind { client.unwrap() } else { behind };
            if to == behind {
                client = Some(from);
            }
            relay.send_to(&buffer[..len], to).unwrap();
        }
    };
    until(|| {
        pass(&mut seen);
        (near.status() == Status::Open).then_some(())
    });
    let text = b"a text that a listener on the way could read";
    send(&mut near, 1, text);
    let mut far = until(|| {
        pass(&mut seen);
        there.accept(Some(clock::now()))
    });
    assert_eq!((far.stream_id().as_deref(), far.intent()), (Some("camera"), Some(Intent::Publish)));
    let came = until(|| {
        pass(&mut seen);
        far.receiving().poll_received()
    });
    assert_eq!(&came.bytes[..], text);
    send(&mut far, 1, text);
    let back = until(|| {
        pass(&mut seen);
        near.receiving().poll_received()
    });
    assert_eq!(&back.bytes[..], text);
    assert!(seen.len() > 6);
    assert!(seen.iter().all(|datagram| !datagram.windows(8).any(|part| text.windows(8).any(|known| known == part))));
    assert!(seen.iter().all(|datagram| datagram.len() <= 1200));
}

/// First byte of a sealed datagram, and of a notice that an association is unknown.
const SEALED: u8 = 0x40;
const FORGOTTEN: u8 = 0x13;

/// A NAT between a caller and a listener, driven by the test.
struct Nat {
    /// Where the caller sends.
    inner: UdpSocket,
    /// How the listener sees the caller.
    outer: UdpSocket,
    listener: SocketAddr,
    caller: Option<SocketAddr>,
    /// Newest sealed datagrams of the caller and of the listener.
    newest: Vec<u8>,
    newest_back: Vec<u8>,
}

impl Nat {
    fn new(listener: SocketAddr) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Self { inner: socket(), outer: socket(), listener, caller: None, newest: Vec::new(), newest_back: Vec::new() }
    }

    /// Takes another address towards the listener.
    fn rebind(&mut self) {
        self.outer = Self::new(self.listener).outer;
    }

    fn pass(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = self.inner.recv_from(&mut buffer) {
            self.caller = Some(from);
            if buffer[0] == SEALED {
                self.newest = buffer[..len].to_vec();
            }
            self.outer.send_to(&buffer[..len], self.listener).unwrap();
        }
        while let Ok((len, _)) = self.outer.recv_from(&mut buffer) {
            if buffer[0] == SEALED {
                self.newest_back = buffer[..len].to_vec();
            }
            self.inner.send_to(&buffer[..len], self.caller.unwrap()).unwrap();
        }
        std::thread::park_timeout(Duration::from_millis(1).into());
    }
}

/// Sends datagrams until one of them arrives.
fn arrives(nat: &mut Nat, near: &mut Stream, far: &mut Stream, text: &[u8]) {
    let mut next = clock::now();
    until(|| {
        nat.pass();
        if clock::now() >= next {
            next = clock::now() + Duration::from_millis(20);
            let _ = near.sending().enqueue(&AduMeta::default(), text);
        }
        while near.sending().poll_completion().is_some() {}
        std::iter::from_fn(|| far.receiving().poll_received()).any(|came| came.bytes[..] == *text).then_some(())
    });
}

#[test]
fn an_address_that_changes_five_times_is_followed_and_a_copy_from_elsewhere_is_not() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let mut nat = Nat::new(there.local_addr());
    let mut near = engine.connect(nat.inner.local_addr().unwrap(), caller(1)).unwrap();
    let mut far = until(|| {
        nat.pass();
        there.accept(Some(clock::now()))
    });
    for change in 0..5_u8 {
        nat.rebind();
        let began = clock::now();
        arrives(&mut nat, &mut near, &mut far, &[change; 50]);
        until(|| {
            nat.pass();
            (far.peer() == Some(nat.outer.local_addr().unwrap())).then_some(())
        });
        assert!(clock::now() - began < Duration::from_secs(3), "{:?}", clock::now() - began);
    }
    // Somebody on the path is faster: a true datagram comes from his address first, and the original does not arrive.
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 100..150_u8 {
        let _ = near.sending().enqueue(&AduMeta::default(), &[round; 50]);
        let mut buffer = [0; 2048];
        if let Ok((len, _)) = nat.inner.recv_from(&mut buffer) {
            elsewhere.send_to(&buffer[..len], nat.listener).unwrap();
        }
        elsewhere.send_to(&nat.newest, nat.listener).unwrap();
        std::thread::park_timeout(Duration::from_millis(5).into());
    }
    arrives(&mut nat, &mut near, &mut far, b"still here");
    assert_eq!(far.peer(), Some(nat.outer.local_addr().unwrap()));
    assert_eq!((near.status(), far.status()), (Status::Open, Status::Open));
}

#[test]
fn a_forged_notice_ends_no_stream_that_has_nothing_to_say() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let mut nat = Nat::new(there.local_addr());
    let mut near = engine.connect(nat.inner.local_addr().unwrap(), caller(1)).unwrap();
    let mut far = until(|| {
        nat.pass();
        there.poll_accept()
    });
    arrives(&mut nat, &mut near, &mut far, b"one");
    let pass_for = |nat: &mut Nat, time: Duration| {
        let end = clock::now() + time;
        while clock::now() < end {
            nat.pass();
        }
    };
    // The last feedback has come, and the path is silent.
    pass_for(&mut nat, Duration::from_secs(1));
    let forgotten = |newest: &[u8]| [&[FORGOTTEN], &newest[1..5]].concat();
    nat.inner.send_to(&forgotten(&nat.newest), nat.caller.unwrap()).unwrap();
    nat.outer.send_to(&forgotten(&nat.newest_back), nat.listener).unwrap();
    pass_for(&mut nat, Duration::from_secs(3));
    assert_eq!((near.status(), far.status()), (Status::Open, Status::Open));
    arrives(&mut nat, &mut near, &mut far, b"two");
}

#[test]
fn a_wrong_passphrase_is_told_and_blocks_nobody() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let wrong = engine.connect(there.local_addr(), caller(2)).unwrap();
    assert_eq!(outcome(&wrong), Status::Closed(CloseReason::Unsealed));
    assert_eq!(wrong.seal_error(), Some(SealError::WrongPassphrase));
    let mut right = engine.connect(there.local_addr(), caller(1)).unwrap();
    assert_eq!(outcome(&right), Status::Open);
    send(&mut right, 1, b"hello");
    assert_eq!(received(&mut there.accept(Some(clock::now() + PATIENCE)).unwrap()), b"hello");
}

#[test]
fn fingerprints_are_checked() {
    let (own, other) = (Identity::self_signed(&["a".into()]).unwrap(), Identity::self_signed(&["b".into()]).unwrap());
    let engine = Engine::start().unwrap();
    let access = Arc::new(SharedPassphrase(None));
    let credential = ListenerCredential::new(Some(&own), None, access).unwrap();
    let there = listen(&engine, config(UDP, Sealing::Listener(credential)));
    let call = |identity: &Identity| {
        let trust = Trust::Fingerprint(identity.fingerprint());
        let credential = CallerCredential::new("127.0.0.1", &trust, None, None, Intent::Publish).unwrap();
        let stream = engine.connect(there.local_addr(), config(UDP, Sealing::Caller(credential))).unwrap();
        (outcome(&stream), stream.seal_error())
    };
    assert_eq!(call(&own), (Status::Open, None));
    let fault = CertificateFault::Fingerprint(own.fingerprint().to_string());
    assert_eq!(call(&other), (Status::Closed(CloseReason::Unsealed), Some(SealError::Certificate(fault))));
}

#[test]
fn plain_and_encrypted_ends_tell_each_other() {
    let engine = Engine::start().unwrap();
    let plain = listen(&engine, config(UDP, Sealing::Local));
    let stream = engine.connect(plain.local_addr(), caller(1)).unwrap();
    assert_eq!(outcome(&stream), Status::Closed(CloseReason::Unsealed));
    assert_eq!(stream.seal_error(), Some(SealError::PeerIsPlain));
    let sealed = listen(&engine, listener(1));
    let stream = engine.connect(sealed.local_addr(), config(UDP, Sealing::Local)).unwrap();
    let Status::Closed(CloseReason::Reset(reset)) = outcome(&stream) else { panic!("{:?}", stream.status()) };
    assert_eq!(reset.code.number(), 120);
}

#[test]
fn nobody_there_is_told_at_once() {
    let engine = Engine::start().unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = clock::now();
    let stream = engine.connect(free, caller(1)).unwrap();
    assert_eq!(outcome(&stream), Status::Closed(CloseReason::Unsealed));
    assert_eq!(stream.seal_error(), Some(SealError::Unreachable));
    assert!(clock::now() - began < Duration::from_secs(3));
}

#[test]
fn a_stream_without_encryption_to_another_host_needs_to_be_asked_for() {
    let engine = Engine::start().unwrap();
    let elsewhere = "192.0.2.1:7000".parse().unwrap();
    assert!(matches!(engine.connect(elsewhere, config(UDP, Sealing::Local)), Err(EngineError::Unencrypted(_))));
    assert!(engine.connect(elsewhere, config(UDP, Sealing::Off)).is_ok());
    let native = StreamConfig { carrier: Carrier::Ip, ..caller(1) };
    assert!(matches!(engine.connect(elsewhere, native), Err(EngineError::WrongSealing)));
    assert!(matches!(engine.connect(elsewhere, listener(1)), Err(EngineError::WrongSealing)));
}

#[test]
fn a_restarted_listener_is_noticed_and_called_again() {
    let first = Engine::start().unwrap();
    let mut there = listen(&first, listener(1));
    let address = there.local_addr();
    let caller_engine = Engine::start().unwrap();
    let mut near = caller_engine.connect(address, caller(1)).unwrap();
    assert_eq!(outcome(&near), Status::Open);
    let far = there.accept(Some(clock::now() + PATIENCE)).unwrap();
    // The process ends without a word: its socket is gone with its keys.
    std::mem::forget(far);
    drop(there);
    let began: Instant = clock::now();
    let second = Engine::start().unwrap();
    drop(first);
    let _again = until(|| second.listen(address, listener(1)).ok());
    until(|| {
        // A full queue is no reason to stop asking.
        let _ = near.sending().enqueue(&AduMeta::default(), b"is anybody there?");
        std::thread::park_timeout(Duration::from_millis(10).into());
        matches!(near.status(), Status::Closed(_)).then_some(())
    });
    assert!(clock::now() - began < Duration::from_secs(10));
    let again = caller_engine.connect(address, caller(1)).unwrap();
    assert_eq!(outcome(&again), Status::Open);
}

#[test]
fn other_services_and_ports_are_refused_inside() {
    let engine = Engine::start().unwrap();
    let there = listen(&engine, listener(1));
    let odd = StreamConfig { service: ServiceCode::from_bytes(*b"else"), ..caller(1) };
    let stream = engine.connect(there.local_addr(), odd).unwrap();
    assert!(matches!(outcome(&stream), Status::Closed(CloseReason::Reset(_))));
}

/// First datagrams of calls that nobody makes, 100 in a millisecond; returns their number when it is told to stop. A thread that has waited
/// for its turn makes up for a millisecond: more would be another flood, in bursts that no socket holds.
fn flood(to: SocketAddr, stop: &AtomicBool) -> u64 {
    let engine = Engine::start().unwrap();
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let _call = engine.connect(sink.local_addr().unwrap(), caller(2)).unwrap();
    let mut first = [0; 1200];
    assert_eq!(sink.recv(&mut first).unwrap(), 1200);
    let sockets: Vec<_> = (0..32).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (mut count, mut next) = (0_u64, clock::now());
    while !stop.load(Ordering::Relaxed) {
        let now = clock::now();
        if now < next {
            std::thread::yield_now();
            continue;
        }
        next = next.max(now.saturating_sub(Duration::from_millis(1))) + Duration::from_micros(10);
        // Each is another caller: the identifier that it has chosen, behind kind, version and ours.
        first[6..10].copy_from_slice(&(count as u32 + 1).to_be_bytes());
        let _ = sockets[count as usize % sockets.len()].send_to(&first, to);
        count += 1;
    }
    count
}

#[test]
fn a_flood_of_forged_calls_leaves_a_stream_its_data_and_others_their_turn() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let address = there.local_addr();
    let mut near = engine.connect(address, caller(1)).unwrap();
    assert_eq!(outcome(&near), Status::Open);
    let mut far = there.accept(Some(clock::now() + PATIENCE)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flooder = std::thread::spawn({
        let stop = stop.clone();
        move || flood(address, &stop)
    });
    let (began, mut came) = (clock::now(), 0);
    for seq in 0..300 {
        let deadline = Some(clock::now() + Duration::from_millis(300));
        let meta = AduMeta { seq: AduSeq(seq), deadline, ..AduMeta::default() };
        let _ = near.sending().enqueue(&meta, &[7; 500]);
        while far.receiving().poll_received().is_some() {
            came += 1;
        }
        while near.sending().poll_completion().is_some() {}
        std::thread::park_timeout(Duration::from_millis(10).into());
    }
    // Somebody else calls meanwhile.
    let other = engine.connect(address, caller(1)).unwrap();
    assert_eq!(outcome(&other), Status::Open);
    let took = (clock::now() - began).as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let flooded = flooder.join().unwrap();
    until(|| {
        came += std::iter::from_fn(|| far.receiving().poll_received()).count();
        while near.sending().poll_completion().is_some() {}
        (near.sending().snapshot().transport.acked > 0).then_some(())
    });
    eprintln!("{:.0} forged calls a second; {came} of 300 datagrams arrived within 300 ms", flooded as f64 / took);
    assert!(came > 270, "{came} of 300");
}
