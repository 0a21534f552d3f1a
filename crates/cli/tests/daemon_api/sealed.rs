//! Encrypted streams run by the daemon: same results and same errors as without it.

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;

use timeous::seal::{CertificateFault, Identity, SealError};
use timeous::{
    Access, Admission, Arrival, Call, Culprit, Error, Hints, Receiver, SecurityError, Sender, Uri, UriError, clock,
};

use crate::streams::{call, free, receive, send_and_compare, uri, video};
use crate::support::{PATIENCE, TestDaemon};

const KEY: &str = "passphrase=correct-horse-1";

/// Both ways to run a stream: in this process, and by the daemon.
fn runners(daemon: &TestDaemon) -> [String; 2] {
    [String::new(), format!("&daemon={}", daemon.socket().display())]
}

#[test]
fn both_ends_or_either_by_the_daemon_with_a_passphrase_or_certificates() {
    let daemon = TestDaemon::start();
    let [here, by_daemon] = runners(&daemon);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (identity, chain, key) = Identity::with_pem(&["127.0.0.1".to_owned()]).unwrap();
    fs::write(at("me.pem"), chain).unwrap();
    fs::write(at("me.key"), key.as_bytes()).unwrap();
    let own = format!("cert={}&key={}", at("me.pem"), at("me.key"));
    let fingerprint = format!("fingerprint={}&{own}", identity.fingerprint());
    let mutual = format!("{own}&ca={}", at("me.pem"));
    for (calling, listening) in [(KEY, KEY), (&*fingerprint, &*mutual)] {
        for (sending, receiving) in [(&by_daemon, &by_daemon), (&by_daemon, &here), (&here, &by_daemon)] {
            let (ip, port) = free();
            send_and_compare(
                &uri(&format!("timeous://{ip}:{port}?latency=20s&{calling}{sending}")),
                uri(&format!("timeous://{ip}:{port}?mode=listener&{listening}{receiving}")),
            );
            // A listener's flow goes to the caller's address, which is that of other streams, too.
            assert_eq!(daemon.knows(ip), *sending == by_daemon);
        }
    }
}

/// Errors of a caller, by both runners: the same.
#[test]
fn a_caller_that_is_refused_hears_the_same_reason_with_and_without_the_daemon() {
    let daemon = TestDaemon::start();
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    fs::write(&list, "camera1 publish correct-horse-1\ncamera1 play correct-horse-2").unwrap();
    let other = Identity::self_signed(&["other".to_owned()]).unwrap().fingerprint();
    for listening in runners(&daemon) {
        for calling in runners(&daemon) {
            let (ip, port) = free();
            let access = format!("timeous://{ip}:{port}?mode=listener&access={}{listening}", list.display());
            let received = receive(uri(&access));
            let refused = |query: &str| {
                let caller = uri(&format!("timeous://{ip}:{port}?latency=20s&{query}{calling}"));
                let end = clock::now() + PATIENCE;
                loop {
                    match Sender::open(&caller).map(drop).unwrap_err() {
                        Error::NobodyListens { .. } if clock::now() < end => thread::yield_now(),
                        error => return error,
                    }
                }
            };
            let sealing = |query: &str| match refused(query) {
                Error::Sealing(error) => error,
                other => panic!("{query}: {other}"),
            };
            assert_eq!(sealing("streamid=camera1&passphrase=correct-horse-2"), SealError::WrongPassphrase);
            assert_eq!(sealing(&format!("streamid=camera2&{KEY}")), SealError::UnknownStream("camera2".to_owned()));
            assert_eq!(sealing("encryption=off"), SealError::EncryptionWanted);
            let by_other = format!("streamid=camera1&fingerprint={other}");
            assert!(matches!(sealing(&by_other), SealError::Certificate(CertificateFault::Fingerprint(_))));
            assert_eq!(refused(&format!("streamid=camera2&{KEY}")).culprit(), Culprit::Caller);
            // Who has the right one is served still.
            let mut sender = call(&uri(&format!("timeous://{ip}:{port}?latency=20s&streamid=camera1&{KEY}{calling}")));
            sender.send(b"here", Hints::default()).unwrap();
            sender.finish().unwrap();
            assert_eq!(received.join().unwrap().unwrap(), [b"here".to_vec()]);
        }
    }
}

#[test]
fn a_peer_that_does_not_encrypt_is_told_and_a_listener_sees_the_stream_id() {
    let daemon = TestDaemon::start();
    for runner in runners(&daemon) {
        let (ip, port) = free();
        let plain = receive(uri(&format!("timeous://{ip}:{port}?mode=listener{runner}")));
        let caller = uri(&format!("timeous://{ip}:{port}?latency=20s&{KEY}{runner}"));
        let end = clock::now() + PATIENCE;
        loop {
            match Sender::open(&caller).map(drop).unwrap_err() {
                Error::NobodyListens { .. } if clock::now() < end => thread::yield_now(),
                error => break assert!(matches!(error, Error::Sealing(SealError::PeerIsPlain)), "{error}"),
            }
        }
        call(&uri(&format!("timeous://{ip}:{port}?latency=20s"))).finish().unwrap();
        plain.join().unwrap().unwrap();

        let (ip, port) = free();
        let listener = uri(&format!("timeous://{ip}:{port}?mode=listener&{KEY}{runner}"));
        let heard = thread::spawn(move || Receiver::open(&listener).unwrap().stream_id().map(str::to_owned));
        drop(call(&uri(&format!("timeous://{ip}:{port}?latency=20s&streamid=cam 1&{KEY}{runner}"))));
        assert_eq!(heard.join().unwrap().as_deref(), Some("cam 1"));
    }
}

#[test]
fn credentials_that_cannot_be_used_are_told_as_without_the_daemon() {
    let daemon = TestDaemon::start();
    let [_, by_daemon] = runners(&daemon);
    let listener = format!("timeous://127.0.0.1:7000?mode=listener{by_daemon}");
    // Documentation (RFC 5737): never called.
    let elsewhere = format!("timeous://192.0.2.1:7000?timeout=200ms{by_daemon}");
    let error = Sender::open(&uri(&elsewhere)).unwrap_err();
    assert!(matches!(error, Error::Security(SecurityError::Unprotected { .. })), "{error}");
    for query in ["passphrase=file:no/such/file", "ca=no/such/file", "passphrase=env:NO_SUCH_VARIABLE"] {
        let error = Sender::open(&uri(&format!("{elsewhere}&{query}"))).unwrap_err();
        assert!(matches!(error, Error::Security(_)), "{error}");
    }
    let error = Receiver::open(&uri(&format!("{listener}&access=no/such/file"))).unwrap_err();
    assert!(error.to_string().contains("access=no/such/file"), "{error}");
    // Code of this process does not run in the daemon.
    #[derive(Debug)]
    struct Anyone;
    impl Access for Anyone {
        fn admit(&self, _: &Call<'_>) -> Admission {
            Admission::Open
        }
    }
    let error = Receiver::open(&uri(&listener).with_access(Anyone)).unwrap_err();
    let Error::Uri(UriError::Contradiction(found)) = &error else { panic!("{error}") };
    assert!(found.keys.contains(&"daemon") && found.advice.contains("leave out daemon"), "{error}");
}

/// A relay before a listener sees every datagram: none shows what is sent.
#[test]
fn the_daemon_puts_no_plaintext_on_the_wire() {
    let daemon = TestDaemon::start();
    let [here, by_daemon] = runners(&daemon);
    let text = b"a text that a listener on the way could read";
    for query in [format!("{KEY}{by_daemon}"), format!("encryption=off{by_daemon}"), format!("{KEY}{here}")] {
        let (ip, port) = free();
        let listener: Uri = uri(&format!("timeous://{ip}:{port}?mode=listener&{query}"));
        let received = thread::spawn(move || {
            let mut receiver = Receiver::open(&listener).unwrap();
            match receiver.receive(Some(clock::now() + PATIENCE)).unwrap() {
                Arrival::Data(data) => data.bytes,
                other => panic!("{other:?}"),
            }
        });
        let relay = UdpSocket::bind((ip, 0)).unwrap();
        relay.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        let near = relay.local_addr().unwrap();
        let sending = {
            let caller = uri(&format!("timeous://{near}?latency=20s&{query}"));
            thread::spawn(move || {
                let mut sender = call(&caller);
                sender.send(text, Hints::default()).unwrap();
                sender
            })
        };
        let (mut client, mut is_seen) = (None, false);
        let end = clock::now() + PATIENCE;
        while !received.is_finished() {
            assert!(clock::now() < end, "nothing arrives");
            let mut buffer = [0; 2_048];
            let Ok((len, from)) = relay.recv_from(&mut buffer) else { continue };
            is_seen |= buffer[..len].windows(text.len()).any(|part| part == text);
            let to = if from.port() == port { client.unwrap() } else { (ip, port).into() };
            if from.port() != port {
                client = Some(from);
            }
            relay.send_to(&buffer[..len], to).unwrap();
        }
        assert_eq!(received.join().unwrap(), text);
        assert_eq!(is_seen, query.contains("encryption=off"), "{query}");
        drop(sending.join().unwrap());
    }
}

/// With `daemon=auto` the tool uses the daemon for an encrypted stream, and works without one if it does not run.
#[test]
fn auto_takes_the_daemon_that_is_there() {
    let mut daemon = TestDaemon::start();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("clip.h264");
    fs::write(&source, video()).unwrap();
    for there in [true, false] {
        if !there {
            daemon.stop();
        }
        let (ip, port) = free();
        let received = receive(uri(&format!("timeous://{ip}:{port}?mode=listener&{KEY}")));
        let mut sending = Command::new(env!("CARGO_BIN_EXE_timeous"));
        sending.env("TIMEOUS_SOCKET", daemon.socket()).arg("send").arg(&source);
        let sent = sending.arg(format!("timeous://{ip}:{port}?latency=5s&daemon=auto&{KEY}")).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        assert!(!received.join().unwrap().unwrap().is_empty());
        assert_eq!(daemon.knows(ip), there);
    }
}
