//! Credentials, patience and ends of encrypted streams, for the tests of all carriers.

use std::sync::Arc;
use std::thread;

use timeous_core::{AduMeta, AduSeq, Duration};
use timeous_engine::{Carrier, CloseReason, Engine, Listener, Sealing, Status, Stream, StreamConfig, clock};
use timeous_seal::{CallerCredential, Intent, ListenerCredential, Passphrase, SealError, SharedPassphrase, Trust};

/// Longest wait for anything, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn passphrase(byte: u8) -> Passphrase {
    Passphrase::from_key([byte; 32])
}

/// Returns the credential of a caller that trusts the passphrase.
pub(crate) fn credential(stream_id: &str, byte: u8) -> CallerCredential {
    let made = CallerCredential::new("127.0.0.1", &Trust::Passphrase, Some(passphrase(byte)), None, Intent::Publish);
    made.unwrap().with_stream_id(stream_id).unwrap()
}

pub(crate) fn config(carrier: Carrier, sealing: Sealing) -> StreamConfig {
    StreamConfig { sealing, slots: 64, ..StreamConfig::new(carrier) }
}

pub(crate) fn caller(carrier: Carrier, byte: u8) -> StreamConfig {
    config(carrier, Sealing::Caller(credential("camera", byte)))
}

pub(crate) fn listener(carrier: Carrier, byte: u8) -> StreamConfig {
    let access = Arc::new(SharedPassphrase(Some(passphrase(byte))));
    config(carrier, Sealing::Listener(ListenerCredential::new(None, None, access).unwrap()))
}

pub(crate) fn listen(engine: &Engine, config: StreamConfig) -> Listener {
    engine.listen("127.0.0.1:0".parse().unwrap(), config).unwrap()
}

/// Waits until `done` returns something.
pub(crate) fn until<T>(mut done: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(clock::now() < end, "it takes too long");
        thread::park_timeout(Duration::from_millis(1).into());
    }
}

/// Waits for the outcome of a call.
pub(crate) fn outcome(stream: &Stream) -> Status {
    until(|| Some(stream.status()).filter(|status| *status != Status::Connecting))
}

/// Waits for the end of a stream.
pub(crate) fn end(stream: &Stream) -> (CloseReason, Option<SealError>) {
    let reason = until(|| if let Status::Closed(reason) = stream.status() { Some(reason) } else { None });
    (reason, stream.seal_error())
}

pub(crate) fn send(stream: &mut Stream, seq: u64, bytes: &[u8]) {
    let deadline = Some(clock::now() + PATIENCE);
    stream.sending().enqueue(&AduMeta { seq: AduSeq(seq), deadline, ..AduMeta::default() }, bytes).unwrap();
}

/// Waits for a datagram.
pub(crate) fn received(stream: &mut Stream) -> Vec<u8> {
    until(|| stream.receiving().poll_received()).bytes.to_vec()
}
