//! Two ports of this host that exchange packets, driven by the test.

use timeous_core::{AduMeta, AduSeq, DropReason, Duration, Fate};

use timeous_kernel_tcp::{Identity, SequenceNumbers};
use timeous_seal::{
    CallerCredential, Intent, ListenerCredential, MigrationSecret, Passphrase, SharedPassphrase, Trust,
};

use super::*;
use crate::Completion;
use crate::carrier::Carrier;
use crate::command::Incoming;
use crate::line::Orders;
use crate::shared::Status;
use crate::stream::Stream;
use crate::waker::Waker;

const PATIENCE: Duration = Duration::from_secs(20);

struct End {
    port: Port,
    cm: Manager,
    streams: Streams,
}

impl End {
    fn open(seed: u64) -> Self {
        Self::with(seed, None)
    }

    fn with(seed: u64, secret: Option<&[u8; 32]>) -> Self {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (orders, _) = Orders::new(Waker::new().unwrap());
        let port = Port::new(0, socket, None, &mut Rng::from_seed(seed), secret);
        Self { port, cm: Manager::default(), streams: Streams::new(orders) }
    }

    /// Runs one round of the loop at `now`.
    fn round(&mut self, now: Instant) {
        let now = self.port.receive(now, &mut self.cm);
        self.cm.handle_timeout(now);
        self.port.handle_timeout(now, &mut self.cm);
        while let Some(flow) = self.cm.poll_granted() {
            self.port.granted(flow);
        }
        while self.port.drain(now, &mut self.cm, &mut self.streams) {}
        self.port.wake_applications(now, &self.cm);
    }
}

fn config() -> StreamConfig {
    StreamConfig { slots: 64, ..StreamConfig::new(Carrier::Udp) }
}

fn here(made: Made) -> Stream {
    match made {
        Made::Here(stream) => *stream,
        Made::Elsewhere(_) => panic!("it was asked for here"),
    }
}

/// Opens a stream and returns both ends, with both sides of the stream.
fn connected() -> (End, End, Stream, Stream) {
    let (mut left, mut right) = (End::open(1), End::open(2));
    let incoming = Incoming::new(None).unwrap();
    let listening = Listening {
        id: ListenerId(0),
        user: User::Here,
        config: config(),
        incoming: incoming.clone(),
        life: Arc::new(()),
    };
    right.port.listen(listening, None);
    let to = right.port.local_addr().unwrap();
    let (_, made) = left.port.connect(clock::now(), (to, User::Here), &config(), &mut left.streams).unwrap();
    let (sender, end) = (here(made), clock::now() + PATIENCE);
    while sender.status() != Status::Open {
        assert!(clock::now() < end, "no connection");
        left.round(clock::now());
        right.round(clock::now());
    }
    let receiver = here(incoming.pop().expect("who calls comes in"));
    (left, right, sender, receiver)
}

/// Opens an encrypted stream; returns both ends, and the caller's identifier and stream.
fn sealed(stream_id: &str) -> (End, End, StreamId, Stream) {
    let passphrase = Passphrase::from_key([1; 32]);
    let (mut left, mut right) = (End::with(1, Some(&[1; 32])), End::with(2, Some(&[2; 32])));
    let incoming = Incoming::new(None).unwrap();
    let access = Arc::new(SharedPassphrase(Some(passphrase.clone())));
    let sealing = Sealing::Listener(ListenerCredential::new(None, None, access).unwrap());
    let config = |sealing| StreamConfig { sealing, ..config() };
    let listening = Listening {
        id: ListenerId(0),
        user: User::Here,
        config: config(sealing),
        incoming: incoming.clone(),
        life: Arc::new(()),
    };
    right.port.listen(listening, None);
    let to = right.port.local_addr().unwrap();
    let caller = CallerCredential::new("h", &Trust::Passphrase, Some(passphrase), None, Intent::Publish).unwrap();
    let sealing = Sealing::Caller(caller.with_stream_id(stream_id).unwrap());
    let (id, made) = left.port.connect(clock::now(), (to, User::Here), &config(sealing), &mut left.streams).unwrap();
    let (sender, end) = (here(made), clock::now() + PATIENCE);
    while incoming.pop().is_none() {
        assert!(clock::now() < end, "no connection");
        left.round(clock::now());
        right.round(clock::now());
    }
    (left, right, id, sender)
}

#[test]
fn an_encrypted_stream_is_identified_by_its_secret_for_a_caller_of_its_stream_id_only() {
    let (left, right, id, _sender) = sealed("camera 1");
    let identity = left.port.identity(id).unwrap();
    assert!(matches!(identity, Identity::Secret(_)));
    assert!(right.port.identified(&identity, "camera 1").is_some());
    // A copy of the secret is of no use to a caller that was admitted for another stream.
    assert_eq!(right.port.identified(&identity, "camera 2"), None);
    assert_eq!(right.port.identified(&identity, ""), None);
    assert_eq!(right.port.identified(&Identity::Secret(MigrationSecret::new([7; 16])), "camera 1"), None);
    // Sequence numbers, which an encrypted stream does not rely on.
    let connection = left.port.driver.endpoint.connection(left.port.connection(id).unwrap()).unwrap();
    let (sent, received) = connection.initial_sequence_numbers();
    let numbers = SequenceNumbers { caller: sent.value(), listener: received.unwrap().value() };
    assert_eq!(right.port.identified(&Identity::Numbers(numbers), "camera 1"), None);
    // Each handshake has a secret of its own.
    let (other, _, other_id, _other_sender) = sealed("camera 1");
    assert_eq!(right.port.identified(&other.port.identity(other_id).unwrap(), "camera 1"), None);
    // Between plain ends, the numbers are the identity, and a secret is none.
    let (_left, plain, _plain_sender, _receiver) = connected();
    assert_eq!(plain.port.identified(&identity, "camera 1"), None);
}

fn offer(sender: &mut Stream, seq: u64, deadline: Instant) {
    let meta = AduMeta { seq: AduSeq(seq), deadline: Some(deadline), ..AduMeta::default() };
    sender.sending().enqueue(&meta, &[seq as u8; 100]).unwrap();
}

/// Regression: on a busy machine much time passes between the beginning of a round and the system call. A datagram that expired meanwhile
/// was reported as lost, which means that it was sent.
#[test]
fn what_goes_stale_between_the_pull_and_the_system_call_does_not_leave_and_is_told_of_as_expired() {
    let (mut left, mut right, mut sender, mut receiver) = connected();
    let began = clock::now();
    let soon = began + Duration::from_millis(5);
    offer(&mut sender, 1, soon);
    offer(&mut sender, 2, began + PATIENCE);
    while clock::now() <= soon {
        std::thread::yield_now();
    }
    left.round(began);
    let fate = sender.sending().poll_completion();
    assert_eq!(fate, Some(Completion::new(AduSeq(1), Fate::Dropped(DropReason::Expired))));
    let (mut fates, mut came, end) = (Vec::new(), Vec::new(), clock::now() + PATIENCE);
    while fates.is_empty() {
        assert!(clock::now() < end, "nothing is acknowledged");
        right.round(clock::now());
        left.round(clock::now());
        came.extend(std::iter::from_fn(|| receiver.receiving().poll_received()).map(|received| received.bytes[0]));
        fates.extend(std::iter::from_fn(|| sender.sending().poll_completion()).map(|done| (done.seq.0, done.fate)));
    }
    assert_eq!((fates, came), (vec![(2, Fate::Acked)], vec![2]));
}
