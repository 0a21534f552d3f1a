//! Protection of a stream: a call of another host needs a credential, and credentials that cannot be used are told.

use timeous::{
    Access, Admission, Call, Culprit, DialEvent, Dialer, Error, Listener, Receiver, SecurityError, Sender, UriError,
};

use crate::support::{free_port, uri};

/// A host of RFC 5737's documentation, which is never called.
const OTHER: &str = "timeous://192.0.2.1:7000?timeout=200ms";

#[test]
fn a_call_of_another_host_without_credential_says_how_to_get_one() {
    let error = Sender::open(&uri(OTHER)).unwrap_err();
    assert!(matches!(error, Error::Security(SecurityError::Unprotected { .. })), "{error}");
    assert_eq!(error.culprit(), Culprit::Caller);
    let words = error.to_string();
    assert!(
        ["192.0.2.1:7000", "`timeous passphrase", "encryption=off"].iter().all(|part| words.contains(part)),
        "{words}"
    );
    assert!(!words.contains('\n'), "{words}");
    let error = Receiver::open(&uri(&format!("{OTHER}&encap=none"))).unwrap_err().to_string();
    assert!(error.contains("encap=none carries no encryption") && error.contains("encryption=off"), "{error}");
    let dialer = Dialer::new(uri(OTHER)).unwrap();
    dialer.wait(None);
    assert!(matches!(dialer.poll(), Some(DialEvent::GivenUp { error: Error::Security(_) })));
}

#[test]
fn a_credential_that_cannot_be_read_is_named() {
    for (query, words) in [
        ("passphrase=file:no/such/file", "no/such/file"),
        ("passphrase=env:NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
        ("ca=no/such/file", "no/such/file"),
    ] {
        let error = Sender::open(&uri(&format!("{OTHER}&{query}"))).unwrap_err();
        assert!(matches!(error, Error::Security(_)) && error.to_string().contains(words), "{error}");
        assert_eq!(error.culprit(), Culprit::Caller);
    }
    let listener = uri(&format!("timeous://127.0.0.1:{}?mode=listener&access=no/such/file", free_port()));
    let error = Listener::open(&listener).unwrap_err();
    assert!(error.to_string().contains("access=no/such/file"), "{error}");
}

#[test]
fn an_access_check_of_ones_own_is_a_listeners_and_decides_alone() {
    #[derive(Debug)]
    struct Anyone;
    impl Access for Anyone {
        fn admit(&self, _: &Call<'_>) -> Admission {
            Admission::Open
        }
    }
    let refused = |text: &str| match Receiver::open(&uri(text).with_access(Anyone)).unwrap_err() {
        Error::Uri(UriError::Contradiction(found)) => found.advice,
        other => panic!("{other}"),
    };
    assert!(refused(OTHER).contains("for listeners"));
    assert!(refused("timeous://:7000?passphrase=file:pass").contains("leave out passphrase"));
    assert!(refused("timeous://:7000?encryption=off").contains("encryption=off"));
    assert!(refused("timeous://:7000?encap=none").contains("encap=none"));
    let by_daemon = refused("timeous://:7000?daemon=/nowhere/daemon.sock");
    assert!(by_daemon.contains("leave out daemon") && by_daemon.contains("access=FILE"), "{by_daemon}");
}
