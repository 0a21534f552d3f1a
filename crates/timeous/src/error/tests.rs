//! Tests of errors: each variant has the right culprit.

use std::io;

use timeous_core::Misuse;
use timeous_engine::{Carrier, ConnectError as DccpError, CreateError, DccpConfig, Engine, StreamConfig};
use timeous_ipc::messages::{Malformed, Reason, Resource};

use super::*;

fn at() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn refused() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

/// A stream whose ring cannot be made.
fn odd_ring() -> StreamConfig {
    StreamConfig { slots: 3, dccp: DccpConfig::default(), ..StreamConfig::new(Carrier::Udp) }
}

#[test]
fn an_engine_without_a_manager_of_its_own_is_the_callers_fault() {
    let engine = Engine::start().unwrap();
    let error = Error::from(Engine::with_congestion(engine.congestion().clone()).unwrap_err());
    assert!(matches!(error, Error::Engine(EngineError::CongestionTaken)), "{error}");
    assert_eq!(error.culprit(), Culprit::Caller);
    assert_eq!(crate::cm::Error::from(EngineError::CongestionTaken).culprit(), Culprit::Caller);
}

#[test]
fn a_ring_of_a_wrong_size_is_the_callers_fault() {
    let engine = Engine::start().unwrap();
    let here = engine.connect(at(), odd_ring()).unwrap_err();
    assert!(matches!(here, EngineError::Ring(_)), "{here}");
    let shared = engine.connect_for(at(), odd_ring()).unwrap_err();
    assert!(matches!(shared, EngineError::SharedRing(_)), "{shared}");
    assert_eq!([here, shared].map(|error| Error::from(error).culprit()), [Culprit::Caller; 2]);
}

#[test]
fn every_error_of_a_stream_has_its_culprit() {
    use Culprit::{Caller, Environment, Peer};
    let listed: Vec<(Culprit, Error)> = vec![
        (Caller, UriError::BadMode("wrong").into()),
        (Caller, SecurityError::Unprotected { remote: at(), unsealable: None }.into()),
        (Caller, ConfigError::Buffers(0).into()),
        (Caller, SealError::WrongPassphrase.into()),
        (Caller, SealError::PassphraseWanted.into()),
        (Caller, SealError::NoPassphraseThere.into()),
        (Caller, SealError::UnknownStream("cam".to_owned()).into()),
        (Caller, SealError::NotAllowed("no".to_owned()).into()),
        (Caller, SealError::OurCertificate("none".to_owned()).into()),
        (Peer, SealError::NoAnswer.into()),
        (Peer, SealError::PeerIsPlain.into()),
        (Peer, SealError::PeerWithoutPassphrase.into()),
        (Peer, SealError::Certificate(CertificateFault::Untrusted).into()),
        (Environment, SealError::Certificate(CertificateFault::Clock("expired")).into()),
        (Peer, SealError::Protocol("?".to_owned()).into()),
        (Peer, SealError::Forgotten.into()),
        (Environment, SealError::IntegrityLimit.into()),
        (Environment, Error::UnknownHost { host: "h".to_owned(), error: refused() }),
        (Environment, EngineError::PortInUse(at()).into()),
        (Environment, EngineError::Socket { local: at(), error: refused() }.into()),
        (Environment, EngineError::NoRawSocket.into()),
        (Environment, EngineError::NoPacketTap(refused()).into()),
        (Environment, EngineError::System(refused()).into()),
        (Environment, EngineError::SharedRing(CreateError::System(refused())).into()),
        (Caller, EngineError::Connect(DccpError::TooMany(1)).into()),
        (Environment, EngineError::Connect(DccpError::NoPort(at())).into()),
        (Environment, EngineError::Connect(DccpError::Misuse(Misuse::NotDrained)).into()),
        (Caller, EngineError::CongestionTaken.into()),
        (Environment, EngineError::Stopped.into()),
        (Environment, ConnectError::NoDaemon { path: "/".to_owned(), error: refused() }.into()),
        (Environment, ConnectError::NoAnswer.into()),
        (Environment, ConnectError::Refused(Reason::Crowded).into()),
        (Environment, ConnectError::Foreign("other".to_owned()).into()),
        (Environment, ConnectError::System(refused()).into()),
        (Environment, ClientError::Disconnected.into()),
        (Environment, ClientError::Gone.into()),
        (Environment, ClientError::Full.into()),
        (Environment, ClientError::NoAnswer.into()),
        (Caller, ClientError::Argument(Malformed::Senseless("port")).into()),
        (Caller, ClientError::Failed(Failure::UnknownListener(1)).into()),
        (Caller, ClientError::Failed(Failure::Invalid("ring".to_owned())).into()),
        (Environment, ClientError::Failed(Failure::OverLimit { resource: Resource::Streams, limit: 1 }).into()),
        (Environment, ClientError::Failed(Failure::NotPermitted).into()),
        (Environment, ClientError::Failed(Failure::Absent("part".to_owned())).into()),
        (Environment, ClientError::Failed(Failure::Environment("port".to_owned())).into()),
        (Environment, RemoteError::System(refused()).into()),
        (Peer, Error::NoAnswer { remote: at(), after: Duration::ZERO }),
        (Peer, Error::NobodyListens { remote: at() }),
        (Peer, Error::Busy { remote: at() }),
        (Caller, Error::Closed(CloseReason::Local)),
        (Environment, Error::Closed(CloseReason::Abandoned)),
        (Peer, Error::Closed(CloseReason::Peer)),
        (Peer, Error::Closed(CloseReason::Timeout)),
        (Peer, Error::Closed(CloseReason::Unreachable)),
    ];
    for (culprit, error) in listed {
        assert_eq!(error.culprit(), culprit, "{error:?}");
    }
    let none = |tried| Error::NoneAnswers { host: "h".to_owned(), tried };
    let no_socket = || (at(), Error::from(EngineError::NoRawSocket));
    assert_eq!(none(vec![no_socket(), (at(), Error::NobodyListens { remote: at() })]).culprit(), Peer);
    assert_eq!(none(vec![no_socket(), no_socket()]).culprit(), Environment);
}

#[test]
fn every_error_of_sending_has_its_culprit() {
    assert_eq!(SendError::Full.culprit(), Culprit::Environment);
    assert_eq!(SendError::TooLarge { len: 2, max: 1 }.culprit(), Culprit::Caller);
    assert_eq!(SendError::ForeignZone.culprit(), Culprit::Caller);
    assert_eq!(SendError::Closed(CloseReason::Peer).culprit(), Culprit::Peer);
    assert_eq!(SendError::Closed(CloseReason::Local).culprit(), Culprit::Caller);
    assert_eq!(SendError::Closed(CloseReason::Abandoned).culprit(), Culprit::Environment);
}

#[test]
fn every_error_of_the_congestion_manager_has_its_culprit() {
    use crate::cm::Error as CmError;
    use Culprit::{Caller, Environment, Peer};
    let listed: Vec<(Culprit, CmError)> = vec![
        (Caller, timeous_cm::CmError::BadMtu(0).into()),
        (Caller, timeous_ipc::Refusal::NotGranted.into()),
        (Environment, ConnectError::NoAnswer.into()),
        (Environment, CmError::Disconnected),
        (Environment, ClientError::Full.into()),
        (Caller, ClientError::Argument(Malformed::Senseless("weight")).into()),
        (Caller, ClientError::Failed(Failure::Invalid("weight".to_owned())).into()),
        (Environment, ClientError::Failed(Failure::NotPermitted).into()),
        (Peer, crate::cm::FeedbackError::Malformed { len: 0 }.into()),
        (Environment, EngineError::Stopped.into()),
        (Environment, refused().into()),
    ];
    for (culprit, error) in listed {
        assert_eq!(error.culprit(), culprit, "{error:?}");
    }
}
