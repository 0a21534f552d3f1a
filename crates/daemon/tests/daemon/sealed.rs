//! Tests of encrypted streams that the daemon's engine runs for clients.

use std::net::{SocketAddr, UdpSocket};

use timeous_core::Duration;
use timeous_engine::{CloseReason, Status, Stream, clock};
use timeous_ipc::messages::{
    Access, CallerCredential, Credential, Failure, Grant, Identity, ListenerCredential, PassphraseKey, Protection,
    Secret, Trust,
};
use timeous_ipc::{Client, ClientError, Event};
use timeous_seal::{CertificateFault, Intent, SealError};

use crate::streams::{local, receive, send, spec};
use crate::support::{Host, late, next};

fn key(byte: u8) -> PassphraseKey {
    PassphraseKey([byte; 32])
}

fn caller(passphrase: Option<PassphraseKey>) -> CallerCredential {
    CallerCredential {
        host: "127.0.0.1".to_owned(),
        trust: Trust::Passphrase,
        passphrase,
        identity: None,
        publishes: true,
        stream_id: "camera".to_owned(),
    }
}

fn shared(byte: u8) -> ListenerCredential {
    ListenerCredential { identity: None, authorities: None, access: Access::Shared(Some(key(byte))) }
}

fn listen(client: &mut Client, credential: ListenerCredential) -> SocketAddr {
    client.give_credential(&Credential::Listener(credential)).unwrap();
    client.listen_with(local(), spec(), None, Protection::Sealed).unwrap().1
}

fn call(client: &mut Client, at: SocketAddr, credential: CallerCredential) -> Stream {
    client.give_credential(&Credential::Caller(credential)).unwrap();
    let [ring, socket] = client.connect_stream_with(at, spec(), Protection::Sealed).unwrap();
    Stream::remote(ring, socket).unwrap()
}

fn taken(client: &mut Client) -> Stream {
    match next(client) {
        Event::Incoming { ring, socket, .. } => Stream::remote(ring, socket).unwrap(),
        other => panic!("{other:?} in place of a caller"),
    }
}

/// Reason why a call fails.
#[track_caller]
fn refusal(stream: &Stream) -> SealError {
    let end = late();
    let status = loop {
        match stream.status() {
            Status::Connecting if clock::now() < end => stream.waker().wait(Some(Duration::from_millis(20))),
            status => break status,
        };
    };
    assert_eq!(status, Status::Closed(CloseReason::Unsealed));
    stream.seal_error().expect("the reason comes before the status")
}

/// A relay before a listener, which keeps all datagrams.
struct Tap {
    socket: UdpSocket,
    listener: SocketAddr,
    caller: Option<SocketAddr>,
    datagrams: Vec<Vec<u8>>,
}

impl Tap {
    fn before(listener: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1).into())).unwrap();
        Self { socket, listener, caller: None, datagrams: Vec::new() }
    }

    fn pass(&mut self) {
        let mut buffer = [0; 2_048];
        let Ok((len, from)) = self.socket.recv_from(&mut buffer) else { return };
        self.datagrams.push(buffer[..len].to_vec());
        let to = if from == self.listener { self.caller } else { Some(self.listener) };
        if from != self.listener {
            self.caller = Some(from);
        }
        self.socket.send_to(&buffer[..len], to.expect("the caller speaks first")).unwrap();
    }

    fn shows(&self, text: &[u8]) -> bool {
        self.datagrams.iter().any(|datagram| datagram.windows(text.len()).any(|part| part == text))
    }
}

/// Opens a stream through a tap, and sends one datagram each way.
fn through_tap(client: &mut Client, at: SocketAddr, call: impl FnOnce(&mut Client, SocketAddr) -> Stream) -> Tap {
    let mut tap = Tap::before(at);
    let mut here = call(client, tap.socket.local_addr().unwrap());
    let end = late();
    let mut there = None;
    while there.is_none() || here.status() != Status::Open {
        assert!(clock::now() < end, "{:?} {:?}", here.status(), here.seal_error());
        tap.pass();
        if there.is_none()
            && let Some(Event::Incoming { ring, socket, .. }) = client.poll_event()
        {
            there = Some(Stream::remote(ring, socket).unwrap());
        }
    }
    let mut there = there.unwrap();
    let mut exchange = |from: &mut Stream, to: &mut Stream, number: u64| {
        send(from, number..number + 1);
        let received = loop {
            assert!(clock::now() < end, "{:?}", to.status());
            tap.pass();
            if let Some(received) = to.receiving().poll_received() {
                break received;
            }
        };
        assert_eq!(received.bytes, number.to_le_bytes());
    };
    exchange(&mut here, &mut there, NUMBER);
    exchange(&mut there, &mut here, NUMBER + 1);
    tap
}

/// A number whose eight bytes do not come about by chance.
const NUMBER: u64 = 0x7061_7274_6f66_6120;

#[test]
fn data_goes_both_ways_and_no_datagram_shows_it() {
    let host = Host::start();
    let mut client = host.client();
    let at = listen(&mut client, shared(1));
    let tap = through_tap(&mut client, at, |client, near| call(client, near, caller(Some(key(1)))));
    assert!(tap.datagrams.len() > 6);
    for text in [&NUMBER.to_le_bytes()[..], &(NUMBER + 1).to_le_bytes(), b"camera", b"test"] {
        assert!(!tap.shows(text), "{text:?} can be read");
    }
    // The same tap shows a stream without encryption, so that it would have shown this one.
    let (_, at) = client.listen(local(), spec()).unwrap();
    let tap = through_tap(&mut client, at, |client, near| {
        let [ring, socket] = client.connect_stream(near, spec()).unwrap();
        Stream::remote(ring, socket).unwrap()
    });
    assert!(tap.shows(&NUMBER.to_le_bytes()) && tap.shows(b"test"));
}

#[test]
fn a_listener_hears_the_stream_id_and_the_callers_reasons_are_those_of_the_library() {
    let host = Host::start();
    let mut client = host.client();
    let grants = vec![
        Grant { stream_id: "camera".to_owned(), publish: true, passphrase: key(1) },
        Grant { stream_id: "studio".to_owned(), publish: false, passphrase: key(2) },
    ];
    let access = Access::Streams { grants, only_publish: None };
    let at = listen(&mut client, ListenerCredential { identity: None, authorities: None, access });
    let here = call(&mut client, at, caller(Some(key(1))));
    let there = taken(&mut client);
    host.until("the stream is open", || here.status() == Status::Open && there.status() == Status::Open);
    assert_eq!((there.stream_id().as_deref(), there.intent()), (Some("camera"), Some(Intent::Publish)));
    assert_eq!((here.stream_id(), here.intent()), (None, None));
    let named = |stream_id: &str| CallerCredential { stream_id: stream_id.to_owned(), ..caller(Some(key(1))) };
    let not_allowed = SealError::NotAllowed("the stream may be received, not sent".to_owned());
    for (credential, reason) in [
        (caller(Some(key(2))), SealError::WrongPassphrase),
        (caller(None), SealError::PassphraseWanted),
        (named("garden"), SealError::UnknownStream("garden".to_owned())),
        (named("studio"), not_allowed),
    ] {
        let refused = call(&mut client, at, credential);
        assert_eq!(refusal(&refused), reason);
    }
    assert_eq!(here.status(), Status::Open);
}

#[test]
fn certificates_are_checked_by_the_daemon_as_by_the_library() {
    let host = Host::start();
    let mut client = host.client();
    let made = timeous_seal::Identity::self_signed(&["127.0.0.1".to_owned()]).unwrap();
    let chain: Vec<_> = made.certificates().iter().map(|certificate| certificate.to_vec()).collect();
    let identity = || Identity { chain: chain.clone(), key: Secret::new(made.secret_der()) };
    let at = listen(
        &mut client,
        ListenerCredential {
            identity: Some(identity()),
            authorities: Some(chain.clone()),
            access: Access::Shared(None),
        },
    );
    let with = |trust: Trust, identity| CallerCredential { trust, identity, ..caller(None) };
    let fingerprint = Trust::Fingerprint(made.fingerprint().to_bytes());
    for trust in [fingerprint.clone(), Trust::Authorities(chain.clone())] {
        let here = call(&mut client, at, with(trust, Some(identity())));
        host.until("the stream is open", || here.status() == Status::Open);
        drop(taken(&mut client));
    }
    let refused = call(&mut client, at, with(Trust::Fingerprint([7; 32]), Some(identity())));
    let fault = CertificateFault::Fingerprint(made.fingerprint().to_string());
    assert_eq!(refusal(&refused), SealError::Certificate(fault));
    let refused = call(&mut client, at, with(fingerprint, None));
    assert!(matches!(refusal(&refused), SealError::OurCertificate(_)), "{:?}", refused.seal_error());
}

#[test]
fn plain_and_encrypted_ends_refuse_each_other_with_the_reason() {
    let host = Host::start();
    let mut client = host.client();
    let sealed = listen(&mut client, shared(1));
    let (_, plain) = client.listen(local(), spec()).unwrap();
    let refused = call(&mut client, plain, caller(Some(key(1))));
    assert_eq!(refusal(&refused), SealError::PeerIsPlain);
    let [ring, socket] = client.connect_stream(sealed, spec()).unwrap();
    let refused = Stream::remote(ring, socket).unwrap();
    host.until(
        "the plain caller is refused",
        || matches!(refused.status(), Status::Closed(reason) if reason.wants_encryption()),
    );
}

/// The daemon itself refuses, whatever the client has checked.
#[test]
fn no_plain_stream_leaves_this_host_unless_that_is_asked_for() {
    let host = Host::start();
    let mut client = host.client();
    // Documentation (RFC 5737): never called.
    let elsewhere = "192.0.2.1:7000".parse().unwrap();
    match client.connect_stream(elsewhere, spec()) {
        Err(ClientError::Failed(Failure::Invalid(words))) => assert!(words.contains("not encrypted"), "{words}"),
        other => panic!("{other:?}"),
    }
    match client.connect_stream_with(elsewhere, spec(), Protection::Sealed) {
        Err(ClientError::Failed(Failure::Invalid(words))) => assert!(words.contains("credential"), "{words}"),
        other => panic!("{other:?}"),
    }
    // A listener's credential does not call, nor the other way round.
    client.give_credential(&Credential::Listener(shared(1))).unwrap();
    let refused = client.connect_stream_with(local(), spec(), Protection::Sealed);
    assert!(matches!(refused, Err(ClientError::Failed(Failure::Invalid(_)))), "{refused:?}");
    client.give_credential(&Credential::Caller(caller(Some(key(1))))).unwrap();
    let refused = client.listen_with(local(), spec(), None, Protection::Sealed);
    assert!(matches!(refused, Err(ClientError::Failed(Failure::Invalid(_)))), "{refused:?}");
}

#[test]
fn a_long_credential_holds_up_no_stream() {
    let host = Host::start();
    let mut client = host.client();
    let at = listen(&mut client, shared(1));
    let mut here = call(&mut client, at, caller(Some(key(1))));
    let mut there = taken(&mut client);
    let grant = |n: usize| Grant { stream_id: format!("camera {n}"), publish: true, passphrase: key(n as u8) };
    let access = Access::Streams { grants: (0..5_000).map(grant).collect(), only_publish: Some(true) };
    let long = Credential::Listener(ListenerCredential { identity: None, authorities: None, access });
    for n in 0..5 {
        client.give_credential(&long).unwrap();
        let (listener, _) = client.listen_with(local(), spec(), None, Protection::Sealed).unwrap();
        send(&mut here, n..n + 1);
        assert_eq!(receive(&mut there).bytes, n.to_le_bytes());
        client.stop_listening(listener).unwrap();
    }
}
