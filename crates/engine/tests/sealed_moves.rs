//! Encrypted streams that move from DCCP to TCP: what a relay sees, and callers that claim the stream of another.

#[allow(dead_code, reason = "the tests of other carriers use more of it")]
mod sealed_support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use sealed_support::{credential, end, passphrase, send, until};
use timeous_core::{Duration, Fate, Priority};
use timeous_engine::{Carrier, CloseReason, DccpConfig, Engine, Listener, Sealing, Stream, StreamConfig, clock};
use timeous_seal::{Access, Admission, Agreement, Call, CallerCredential, ListenerCredential, SealError, Session};
use timeous_tcp::record;

/// Two streams, each with a passphrase of its own.
#[derive(Debug)]
struct Cameras;

impl Access for Cameras {
    fn admit(&self, call: &Call<'_>) -> Admission {
        match call.stream_id {
            "camera 1" => Admission::With(passphrase(1)),
            "camera 2" => Admission::With(passphrase(2)),
            _ => Admission::Refused(timeous_seal::Refusal::UnknownStream),
        }
    }
}

fn config(sealing: Sealing) -> StreamConfig {
    // Probes and retransmissions, as `transport=auto` of the library has them.
    let dccp = DccpConfig { keep_alive: Some(Duration::from_millis(400)), ..DccpConfig::default() };
    let repair = Some(Priority(1));
    StreamConfig { sealing, slots: 1024, dccp, repair, ..StreamConfig::new(Carrier::Auto) }
}

fn listen(engine: &Engine) -> Listener {
    let credential = ListenerCredential::new(None, None, Arc::new(Cameras)).unwrap();
    engine.listen("127.0.0.1:0".parse().unwrap(), config(Sealing::Listener(credential))).unwrap()
}

fn call(engine: &Engine, to: SocketAddr, credential: CallerCredential) -> Stream {
    engine.connect(to, config(Sealing::Caller(credential))).unwrap()
}

/// The text of datagram `seq`.
fn text(seq: u64) -> Vec<u8> {
    format!("{seq:04} a text that a listener on the way could read").into_bytes()
}

/// Receives until these datagrams have come.
fn receive(stream: &mut Stream, seqs: std::ops::Range<u64>) {
    let mut missing: Vec<Vec<u8>> = seqs.map(text).collect();
    until(|| {
        while let Some(received) = stream.receiving().poll_received() {
            missing.retain(|text| *text != received.bytes[..]);
        }
        missing.is_empty().then_some(())
    });
}

/// A path to a listener, over UDP and TCP: it keeps what it passes on, and blocks UDP on request.
struct Relay {
    front: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
    tcp_bytes: Arc<Mutex<usize>>,
    is_blocked: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
}

impl Relay {
    fn to(listener: SocketAddr) -> Self {
        let front = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = front.local_addr().unwrap();
        let relay = Self {
            front: address,
            seen: Arc::default(),
            tcp_bytes: Arc::default(),
            is_blocked: Arc::default(),
            stops: Arc::default(),
        };
        let socket = |address: SocketAddr| {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
            socket
        };
        let (inside, outside) = (socket(address), socket("127.0.0.1:0".parse().unwrap()));
        let (seen, is_blocked, stops) = (relay.seen.clone(), relay.is_blocked.clone(), relay.stops.clone());
        thread::spawn(move || {
            let (mut caller, mut buffer) = (None, [0; 2048]);
            while !stops.load(Ordering::Relaxed) {
                for (from, to, is_inside) in [(&inside, &outside, true), (&outside, &inside, false)] {
                    let Ok((len, source)) = from.recv_from(&mut buffer) else { continue };
                    if is_inside {
                        caller = Some(source);
                    }
                    seen.lock().unwrap().extend_from_slice(&buffer[..len]);
                    let remote = if is_inside { Some(listener) } else { caller };
                    if let Some(remote) = remote.filter(|_| !is_blocked.load(Ordering::Relaxed)) {
                        let _ = to.send_to(&buffer[..len], remote);
                    }
                }
            }
        });
        let (seen, tcp_bytes) = (relay.seen.clone(), relay.tcp_bytes.clone());
        thread::spawn(move || {
            for near in front.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(listener) else { break };
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let (seen, tcp_bytes) = (seen.clone(), tcp_bytes.clone());
                    thread::spawn(move || {
                        let mut buffer = [0; 65_536];
                        while let Ok(len @ 1..) = from.read(&mut buffer) {
                            seen.lock().unwrap().extend_from_slice(&buffer[..len]);
                            *tcp_bytes.lock().unwrap() += len;
                            if to.write_all(&buffer[..len]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        relay
    }

    fn block_udp(&self) {
        self.is_blocked.store(true, Ordering::Relaxed);
    }

    fn tcp_bytes(&self) -> usize {
        *self.tcp_bytes.lock().unwrap()
    }

    /// No part of the texts was seen, nor the name of the stream.
    fn has_seen_nothing(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(seen.len() > 2000);
        let known = text(0);
        let secrets = known[5..].windows(8).chain([&b"camera 1"[..]]);
        assert!(secrets.into_iter().all(|secret| !seen.windows(8).any(|part| part == secret)));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_stream_moves_to_tcp_when_udp_is_blocked_and_no_byte_shows_it() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine);
    let relay = Relay::to(there.local_addr());
    let mut near = call(&engine, relay.front, credential("camera 1", 1));
    let mut far = until(|| there.accept(Some(clock::now())));
    assert_eq!(far.stream_id().as_deref(), Some("camera 1"));
    for seq in 0..20 {
        send(&mut near, seq, &text(seq));
        send(&mut far, seq, &text(seq));
    }
    receive(&mut far, 0..20);
    receive(&mut near, 0..20);
    assert_eq!(relay.tcp_bytes(), 0);
    relay.block_udp();
    for seq in 20..40 {
        send(&mut near, seq, &text(seq));
        send(&mut far, seq, &text(seq));
    }
    receive(&mut far, 20..40);
    receive(&mut near, 20..40);
    assert!(relay.tcp_bytes() > 2 * 20 * 50);
    assert!(there.accept(Some(clock::now())).is_none(), "it is the same stream");
    near.sending().finish();
    assert_eq!(end(&near), (CloseReason::Local, None));
    assert_eq!(end(&far), (CloseReason::Peer, None));
    let fates = std::iter::from_fn(|| near.sending().poll_completion()).map(|done| done.fate);
    assert!(fates.eq([Fate::Acked; 40]));
    relay.has_seen_nothing();
}

#[test]
fn a_stream_begins_over_tcp_where_udp_is_blocked() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine);
    let relay = Relay::to(there.local_addr());
    relay.block_udp();
    let mut near = call(&engine, relay.front, credential("camera 1", 1));
    // Queued before any transport has an answer.
    send(&mut near, 0, &text(0));
    let mut far = until(|| there.accept(Some(clock::now())));
    assert_eq!(far.stream_id().as_deref(), Some("camera 1"));
    receive(&mut far, 0..1);
    for seq in 0..40 {
        send(&mut far, seq, &text(seq));
    }
    receive(&mut near, 0..40);
    assert!(relay.tcp_bytes() > 0);
    relay.has_seen_nothing();
}

#[test]
fn a_refusal_is_told_by_tcp_where_udp_is_blocked() {
    let engine = Engine::start().unwrap();
    let there = listen(&engine);
    let relay = Relay::to(there.local_addr());
    relay.block_udp();
    let wrong = call(&engine, relay.front, credential("camera 1", 2));
    assert_eq!(end(&wrong), (CloseReason::Unsealed, Some(SealError::WrongPassphrase)));
    let unknown = call(&engine, relay.front, credential("camera 3", 1));
    assert_eq!(end(&unknown), (CloseReason::Unsealed, Some(SealError::UnknownStream("camera 3".into()))));
}

#[test]
fn a_listener_over_tcp_alone_is_found_and_none_at_all_is_told_at_once() {
    let engine = Engine::start().unwrap();
    let sealing = Sealing::Listener(ListenerCredential::new(None, None, Arc::new(Cameras)).unwrap());
    let tcp = StreamConfig { carrier: Carrier::Tcp, ..config(sealing) };
    let mut there = engine.listen("127.0.0.1:0".parse().unwrap(), tcp).unwrap();
    let mut near = call(&engine, there.local_addr(), credential("camera 1", 1));
    send(&mut near, 0, &text(0));
    let mut far = until(|| there.accept(Some(clock::now())));
    receive(&mut far, 0..1);
    let began = clock::now();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = call(&engine, free, credential("camera 1", 1));
    assert_eq!(end(&nobody), (CloseReason::Unsealed, Some(SealError::Unreachable)));
    assert!(clock::now() - began < Duration::from_secs(3));
}

/// Calls over TCP by hand as an admitted caller, and claims a stream by the first record; returns whether the listener resets it.
fn claim(to: SocketAddr, credential: &CallerCredential, identity: [u8; 17]) -> bool {
    let mut socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let mut session = Session::call(credential).unwrap();
    let (mut out, mut buffer) = (Vec::new(), [0; 4096]);
    let Agreement { secrets, .. } = loop {
        session.write(&mut out);
        socket.write_all(&out).unwrap();
        out.clear();
        if let Some(agreement) = session.take_agreement() {
            break agreement;
        }
        let len = socket.read(&mut buffer).unwrap();
        session.read(&buffer[..len]).unwrap();
    };
    record::Writer::encrypted(secrets.cipher, secrets.sealing).control(0, &identity, &mut out);
    socket.write_all(&out).unwrap();
    matches!(socket.read(&mut buffer), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn an_admitted_caller_cannot_take_over_a_stream_that_it_did_not_begin() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine);
    let mut near = call(&engine, there.local_addr(), credential("camera 1", 1));
    let mut far = until(|| there.accept(Some(clock::now())));
    // A guessed secret, of the other stream and of the same one.
    let mut guess = [9; 17];
    guess[0] = 2;
    assert!(claim(there.local_addr(), &credential("camera 2", 2), guess));
    assert!(claim(there.local_addr(), &credential("camera 1", 1), guess));
    assert!(there.accept(Some(clock::now())).is_none());
    // The identity of a plain stream is none here: the caller is a new one, and the stream is left alone.
    guess[0] = 1;
    assert!(!claim(there.local_addr(), &credential("camera 2", 2), guess));
    let other = until(|| there.accept(Some(clock::now())));
    assert_eq!(other.stream_id().as_deref(), Some("camera 2"));
    for seq in 0..5 {
        send(&mut near, seq, &text(seq));
        send(&mut far, seq, &text(seq));
    }
    receive(&mut far, 0..5);
    receive(&mut near, 0..5);
}
