//! Encrypted streams over the kernel's TCP between engines: agreement, refusal, plain peers, what a relay sees.

#[allow(dead_code, reason = "the tests of other carriers use more of it")]
mod sealed_support;
mod test_network;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use sealed_support::{PATIENCE, config, end, listen, outcome, received, send, until};
use test_network::TestNetwork;
use timeous_core::{Duration, Fate};
use timeous_engine::{
    Carrier, CloseReason, Engine, EngineError, Sealing, Status, StreamConfig, TcpConfig, TcpFraming, clock,
};
use timeous_net::emulator::Namespace;
use timeous_seal::{
    CallerCredential, CertificateFault, Identity, Intent, ListenerCredential, SealError, SharedPassphrase, Trust,
};

const TCP: Carrier = Carrier::Tcp;

fn caller(byte: u8) -> StreamConfig {
    sealed_support::caller(TCP, byte)
}

fn listener(byte: u8) -> StreamConfig {
    sealed_support::listener(TCP, byte)
}

/// Passes one connection on, until it ends the connection to the listener in order, as somebody on the path can.
fn relay_that_cuts(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Option<TcpStream>>>) {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, cut) = (front.local_addr().unwrap(), Arc::<Mutex<Option<TcpStream>>>::default());
    let kept = cut.clone();
    thread::spawn(move || {
        let near = front.accept().unwrap().0;
        let far = TcpStream::connect(to).unwrap();
        *kept.lock().unwrap() = Some(far.try_clone().unwrap());
        for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
            thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    (address, cut)
}

#[test]
fn an_end_that_is_not_the_peers_is_none_in_order() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let (address, cut) = relay_that_cuts(there.local_addr());
    let mut near = engine.connect(address, caller(1)).unwrap();
    send(&mut near, 1, b"the beginning");
    let mut far = until(|| there.poll_accept());
    assert_eq!(received(&mut far), b"the beginning");
    cut.lock().unwrap().take().unwrap().shutdown(Shutdown::Write).unwrap();
    let (reason, _) = end(&far);
    assert!(matches!(reason, CloseReason::Reset(_)), "{reason:?}");

    // A stream that its application has dropped ends in order.
    let mut near = engine.connect(there.local_addr(), caller(1)).unwrap();
    send(&mut near, 1, b"all");
    let mut far = until(|| there.poll_accept());
    assert_eq!(received(&mut far), b"all");
    drop(near);
    assert_eq!(end(&far), (CloseReason::Peer, None));
}

/// Passes one connection on, and keeps all bytes of both directions. `burst`: at most so many bytes at once.
fn relay(to: SocketAddr, burst: usize) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let (front, seen) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let (address, kept) = (front.local_addr().unwrap(), seen.clone());
    thread::spawn(move || {
        let near = front.accept().unwrap().0;
        let far = TcpStream::connect(to).unwrap();
        for socket in [&near, &far] {
            socket.set_nodelay(true).unwrap();
        }
        let ways = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
        for (mut from, mut to) in ways {
            let kept = kept.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; burst];
                while let Ok(len @ 1..) = from.read(&mut buffer) {
                    kept.lock().unwrap().extend_from_slice(&buffer[..len]);
                    if to.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    (address, seen)
}

#[test]
fn data_goes_both_ways_and_no_byte_of_the_stream_shows_it() {
    let engine = Engine::start().unwrap();
    for burst in [7, 65_536] {
        let mut there = listen(&engine, listener(1));
        let (address, seen) = relay(there.local_addr(), burst);
        let mut near = engine.connect(address, caller(1)).unwrap();
        let text = b"a text that a listener on the way could read ".repeat(20);
        // Queued before the keys are there.
        send(&mut near, 0, &text);
        let mut far = there.accept(Some(clock::now() + PATIENCE)).unwrap();
        assert_eq!((far.stream_id().as_deref(), far.intent()), (Some("camera"), Some(Intent::Publish)));
        send(&mut far, 0, &text);
        assert_eq!((received(&mut far), received(&mut near)), (text.clone(), text.clone()));
        for seq in 1..50 {
            send(&mut near, seq, &text[..seq as usize * 10]);
        }
        for seq in 1..50 {
            assert_eq!(received(&mut far), text[..seq * 10]);
        }
        near.sending().finish();
        assert_eq!(end(&near), (CloseReason::Local, None));
        assert_eq!(end(&far), (CloseReason::Peer, None));
        let fates = std::iter::from_fn(|| near.sending().poll_completion()).map(|done| done.fate);
        assert!(fates.eq([Fate::Acked; 50]));
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 50 * 250);
        assert!(!seen.windows(6).any(|part| text[..51].windows(6).any(|known| known == part)));
    }
}

#[test]
fn a_wrong_passphrase_is_told_and_blocks_nobody() {
    let engine = Engine::start().unwrap();
    let mut there = listen(&engine, listener(1));
    let wrong = engine.connect(there.local_addr(), caller(2)).unwrap();
    assert_eq!(end(&wrong), (CloseReason::Unsealed, Some(SealError::WrongPassphrase)));
    // Others that say nothing, or garbage.
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(there.local_addr()).unwrap()).collect();
    let mut garbage = TcpStream::connect(there.local_addr()).unwrap();
    garbage.write_all(&[0x55; 3_000]).unwrap();
    let mut right = engine.connect(there.local_addr(), caller(1)).unwrap();
    assert_eq!(outcome(&right), Status::Open);
    send(&mut right, 1, b"hello");
    assert_eq!(received(&mut there.accept(Some(clock::now() + PATIENCE)).unwrap()), b"hello");
    assert!(there.accept(Some(clock::now())).is_none(), "only who is admitted is a caller");
    garbage.set_read_timeout(Some(PATIENCE.into())).unwrap();
    let mut alert = Vec::new();
    let _ = garbage.read_to_end(&mut alert);
    assert!(alert.len() < 20, "{alert:?}");
    drop(silent);
}

#[test]
fn fingerprints_are_checked() {
    let (own, other) = (Identity::self_signed(&["a".into()]).unwrap(), Identity::self_signed(&["b".into()]).unwrap());
    let engine = Engine::start().unwrap();
    let credential = ListenerCredential::new(Some(&own), None, Arc::new(SharedPassphrase(None))).unwrap();
    let there = listen(&engine, config(TCP, Sealing::Listener(credential)));
    let call = |identity: &Identity| {
        let trust = Trust::Fingerprint(identity.fingerprint());
        let credential = CallerCredential::new("127.0.0.1", &trust, None, None, Intent::Publish).unwrap();
        engine.connect(there.local_addr(), config(TCP, Sealing::Caller(credential))).unwrap()
    };
    assert_eq!(outcome(&call(&own)), Status::Open);
    let fault = CertificateFault::Fingerprint(own.fingerprint().to_string());
    assert_eq!(end(&call(&other)), (CloseReason::Unsealed, Some(SealError::Certificate(fault))));
}

#[test]
fn plain_and_encrypted_ends_tell_each_other() {
    let engine = Engine::start().unwrap();
    let mut plain = listen(&engine, config(TCP, Sealing::Local));
    let near = engine.connect(plain.local_addr(), caller(1)).unwrap();
    assert_eq!(end(&near), (CloseReason::Unsealed, Some(SealError::PeerIsPlain)));
    let far = plain.accept(Some(clock::now() + PATIENCE)).unwrap();
    let (CloseReason::Reset(reset), None) = end(&far) else { panic!("{:?}", far.status()) };
    assert_eq!(reset.code.number(), 120);
    let mut sealed = listen(&engine, listener(1));
    let mut near = engine.connect(sealed.local_addr(), config(TCP, Sealing::Local)).unwrap();
    send(&mut near, 0, b"in the clear");
    let (CloseReason::Reset(reset), None) = end(&near) else { panic!("{:?}", near.status()) };
    assert_eq!(reset.code.number(), 120);
    assert!(sealed.accept(Some(clock::now())).is_none());
}

#[test]
fn who_sends_in_the_clear_or_closes_is_plain_and_who_is_silent_does_not_answer() {
    let engine = Engine::start().unwrap();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let call = |patience: Duration| {
        let tcp = TcpConfig { connect_timeout: patience, ..TcpConfig::default() };
        let stream = engine.connect(there.local_addr().unwrap(), StreamConfig { tcp, ..caller(1) }).unwrap();
        (stream, there.accept().unwrap().0)
    };
    let (stream, mut peer) = call(PATIENCE);
    peer.write_all(&[0, 2, 1, 0]).unwrap();
    assert_eq!(end(&stream), (CloseReason::Unsealed, Some(SealError::PeerIsPlain)));
    let (stream, mut peer) = call(PATIENCE);
    assert!(peer.read(&mut [0; 2_000]).unwrap() > 100);
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(end(&stream), (CloseReason::Unsealed, Some(SealError::PeerIsPlain)));
    let (stream, _peer) = call(Duration::from_millis(300));
    assert_eq!(end(&stream), (CloseReason::Unsealed, Some(SealError::NoAnswer)));
}

/// Found by a user: with bytes that were not read, the close of a plain listener is a reset, which counted as "busy", and the caller
/// called for ever.
#[test]
fn a_reset_before_the_peer_has_said_anything_is_of_one_that_does_not_encrypt() {
    let engine = Engine::start().unwrap();
    let plain = (CloseReason::Unsealed, Some(SealError::PeerIsPlain));
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = engine.connect(there.local_addr().unwrap(), caller(1)).unwrap();
    let mut peer = there.accept().unwrap().0;
    peer.read_exact(&mut [0; 5]).unwrap();
    drop(peer);
    assert_eq!(end(&stream), plain);
    // Our own listener, which waits for a caller's first record.
    let config = config(TCP, Sealing::Local);
    let tcp = TcpConfig { awaits_data: true, ..config.tcp.clone() };
    let mut there = listen(&engine, StreamConfig { tcp, ..config.clone() });
    assert_eq!(end(&engine.connect(there.local_addr(), caller(1)).unwrap()), plain);
    assert!(matches!(end(&there.accept(Some(clock::now() + PATIENCE)).unwrap()).0, CloseReason::Reset(_)));
    // A call again would help no more if it serves another caller.
    let full = engine.listen_with_room("127.0.0.1:0".parse().unwrap(), config, Some(0)).unwrap();
    assert_eq!(end(&engine.connect(full.local_addr(), caller(1)).unwrap()), plain);
}

#[test]
fn a_full_listener_is_busy_and_no_listener_is_no_question_of_keys() {
    let engine = Engine::start().unwrap();
    let there = engine.listen_with_room("127.0.0.1:0".parse().unwrap(), listener(1), Some(0)).unwrap();
    let (reason, error) = end(&engine.connect(there.local_addr(), caller(1)).unwrap());
    let CloseReason::Reset(reset) = reason else { panic!("{reason:?} {error:?}") };
    assert_eq!((reset.code.number(), error), (9, None), "too busy");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(end(&engine.connect(free, caller(1)).unwrap()), (CloseReason::Unreachable, None));
}

#[test]
fn what_cannot_be_encrypted_is_refused_at_once() {
    let engine = Engine::start().unwrap();
    let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let tcp = TcpConfig { framing: TcpFraming::Rfc4571, ..TcpConfig::default() };
    let bare = |config: StreamConfig| StreamConfig { tcp: tcp.clone(), ..config };
    assert!(matches!(engine.connect(here, bare(caller(1))), Err(EngineError::SealedFraming)));
    assert!(matches!(engine.listen(here, bare(listener(1))), Err(EngineError::SealedFraming)));
    let auto = |config: StreamConfig| StreamConfig { carrier: Carrier::Auto, ..config };
    assert!(matches!(engine.connect(here, auto(bare(caller(1)))), Err(EngineError::SealedFraming)));
    assert!(matches!(engine.listen(here, auto(bare(listener(1)))), Err(EngineError::SealedFraming)));
    let native = |config: StreamConfig| StreamConfig { carrier: Carrier::Ip, ..config };
    assert!(matches!(engine.connect(here, native(caller(1))), Err(EngineError::WrongSealing)));
    assert!(matches!(engine.listen(here, native(listener(1))), Err(EngineError::WrongSealing)));
    assert!(matches!(engine.connect(here, listener(1)), Err(EngineError::WrongSealing)));
    assert!(matches!(engine.listen(here, caller(1)), Err(EngineError::WrongSealing)));
}

/// Needs root and iproute2.
#[test]
fn a_listener_without_a_credential_takes_callers_of_its_own_host_only() {
    let Some(network) = TestNetwork::make("own-host", |_| {}) else { return };
    let start = |end: &Namespace| end.within(Engine::start).unwrap().unwrap();
    let (near, far) = (start(&network.left), start(&network.right));
    let there = SocketAddr::from(([10, 77, 0, 2], 6_100));
    let mut local = far.listen(there, config(TCP, Sealing::Local)).unwrap();
    let stream = near.connect(there, config(TCP, Sealing::Off)).unwrap();
    assert_eq!(end(&stream).1, None);
    assert!(local.accept(Some(clock::now())).is_none());
    let own = far.connect(there, config(TCP, Sealing::Off)).unwrap();
    assert_eq!(end(&own).1, None, "its address is one of the network's, and so could be another host's");
    drop(local);
    let mut open = until(|| far.listen(there, config(TCP, Sealing::Off)).ok());
    let mut stream = near.connect(there, config(TCP, Sealing::Off)).unwrap();
    send(&mut stream, 0, b"hello");
    assert_eq!(received(&mut open.accept(Some(clock::now() + PATIENCE)).unwrap()), b"hello");
}
