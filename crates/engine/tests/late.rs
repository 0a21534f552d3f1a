//! Late choice behind `send()`: datagrams that expire while the path is cut are not on the wire when it works again. In a network namespace
//! with a firewall. Needs root and nftables.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant};
use timeous_engine::{
    Carrier, Engine, Reach, Sealing, Status, Stream, StreamConfig, TcpConfig, TcpFraming, TcpView, clock,
};
use timeous_net::emulator::{EmulatorError, Namespace};
use timeous_seal::{CallerCredential, Intent, ListenerCredential, Passphrase, Session, SharedPassphrase, Trust};
use timeous_tcp::record::{Counts, Framing, Ordered};

const PATIENCE: Duration = Duration::from_secs(30);
const PAYLOAD: usize = 700;

/// Lifetime of what goes stale: between the kernel's retransmissions 1400 and 3000 ms after the first transmission, so that either end of
/// the time in which a test acts is far away.
const SHORT: Duration = Duration::from_secs(2);
/// Time before the end of [`SHORT`] at which the kernel has noticed the loss and sends nothing new.
const NOTICED: Duration = Duration::from_secs(1);

/// Reports that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// A namespace with a loopback interface and a firewall.
struct Scene(Namespace);

impl Scene {
    fn make(test: &str) -> Option<Self> {
        let name = format!("timeous-{test}-{}", std::process::id());
        let namespace = match Namespace::open_or_make(&name) {
            Ok(namespace) => namespace,
            Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
                skip(test, &format!("root and iproute2 ({error})"));
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        namespace.ip(&["link", "set", "lo", "up"]).unwrap();
        let scene = Self(namespace);
        if !scene.nft("add table inet t") {
            skip(test, "nftables");
            return None;
        }
        assert!(scene.nft("add chain inet t input { type filter hook input priority 0; }"));
        Some(scene)
    }

    fn nft(&self, rule: &str) -> bool {
        let nft = || Command::new("nft").arg(rule).stdin(Stdio::null()).output();
        self.0.within(nft).unwrap().is_ok_and(|output| output.status.success())
    }

    fn cut(&self, port: u16) {
        assert!(self.nft(&format!("add rule inet t input tcp dport {port} drop")));
    }

    /// Drops packets from the peer, and passes those to it.
    fn silence(&self, port: u16) {
        self.mend();
        assert!(self.nft(&format!("add rule inet t input tcp sport {port} drop")));
    }

    fn mend(&self) {
        assert!(self.nft("flush chain inet t input"));
    }

    /// Opens a stream from an engine to a plain socket.
    fn stream(&self, form: Form) -> (Engine, Stream, Peer) {
        self.0
            .within(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let engine = Engine::start().unwrap();
                let stream = engine.connect(listener.local_addr().unwrap(), config(form)).unwrap();
                (engine, stream, Peer::accept(&listener, form))
            })
            .unwrap()
    }
}

/// Form of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Numbered,
    Encrypted,
    Rfc4571,
}

/// Runs a test with both forms of records, side by side, as it mostly waits.
fn with_records(test: impl Fn(Form) + Sync) {
    thread::scope(|scope| {
        for form in [Form::Numbered, Form::Encrypted] {
            let test = &test;
            scope.spawn(move || test(form));
        }
    });
}

fn passphrase() -> Option<Passphrase> {
    Some(Passphrase::from_key([1; 32]))
}

fn config(form: Form) -> StreamConfig {
    let framing = if form == Form::Rfc4571 { TcpFraming::Rfc4571 } else { TcpFraming::Records };
    let credential = CallerCredential::new("127.0.0.1", &Trust::Passphrase, passphrase(), None, Intent::Publish);
    let sealing = if form == Form::Encrypted { Sealing::Caller(credential.unwrap()) } else { Sealing::Local };
    StreamConfig {
        tcp: TcpConfig { framing, silence: PATIENCE, ..TcpConfig::default() },
        sealing,
        ..StreamConfig::new(Carrier::Tcp)
    }
}

/// The peer's plain socket, behind the handshake.
struct Peer {
    socket: TcpStream,
    framing: Framing,
}

impl Peer {
    fn accept(listener: &TcpListener, form: Form) -> Self {
        let mut socket = listener.accept().unwrap().0;
        let framing = if form == Form::Encrypted { Self::agree(&mut socket) } else { Framing::Numbered };
        Self { socket, framing }
    }

    fn agree(socket: &mut TcpStream) -> Framing {
        let access = Arc::new(SharedPassphrase(passphrase()));
        let mut session = Session::answer(&ListenerCredential::new(None, None, access).unwrap()).unwrap();
        loop {
            let mut buffer = [0; 4096];
            let len = socket.read(&mut buffer).unwrap();
            assert_eq!(session.read(&buffer[..len]), Ok(len), "no record comes before the answer");
            let mut answer = Vec::new();
            session.write(&mut answer);
            socket.write_all(&answer).unwrap();
            if let Some(agreement) = session.take_agreement() {
                return Framing::Encrypted(agreement.secrets.cipher, agreement.secrets.opening);
            }
        }
    }

    fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Reads the stream to its end in a separate thread.
    fn collect(self) -> thread::JoinHandle<Bytes> {
        let Self { mut socket, framing } = self;
        thread::spawn(move || {
            let mut bytes = Vec::new();
            socket.read_to_end(&mut bytes).unwrap();
            Bytes { bytes, framing }
        })
    }
}

/// All bytes of a stream, as they came.
struct Bytes {
    bytes: Vec<u8>,
    framing: Framing,
}

impl Bytes {
    fn datagrams(&self) -> (Vec<Vec<u8>>, Counts) {
        let (mut reader, mut got) = (Ordered::new(self.framing.clone(), 2_000), Vec::new());
        // An encrypted stream ends with a record between the engines.
        reader.push(&self.bytes, |datagram| {
            if !datagram.is_control {
                got.push(datagram.payload.to_vec());
            }
        });
        (got, *reader.counts())
    }

    /// Returns whether a datagram came, or a part of it.
    fn contains(&self, seq: u64) -> bool {
        // Without zeros, COBS does not change a payload.
        let pattern = [seq as u8 | 0x40; 200];
        let shows = |bytes: &[u8]| bytes.windows(pattern.len()).any(|window| window == pattern);
        match self.framing {
            Framing::Encrypted(..) => {
                assert!(!shows(&self.bytes), "it is not encrypted");
                self.datagrams().0.iter().any(|datagram| shows(datagram))
            }
            _ => shows(&self.bytes),
        }
    }
}

fn payload(seq: u64) -> Vec<u8> {
    [&seq.to_be_bytes()[..], &[seq as u8 | 0x40; PAYLOAD]].concat()
}

fn send(stream: &mut Stream, seq: u64, deadline: Instant) {
    send_bytes(stream, seq, deadline, &payload(seq));
}

fn send_bytes(stream: &mut Stream, seq: u64, deadline: Instant, bytes: &[u8]) {
    let meta = AduMeta { seq: AduSeq(seq), deadline: Some(deadline), enqueued: clock::now(), ..AduMeta::default() };
    stream.sending().enqueue(&meta, bytes).unwrap();
}

fn until(stream: &mut Stream, what: &str, mut so: impl FnMut(&mut Stream) -> bool) {
    let end = clock::now() + PATIENCE;
    while !so(stream) {
        assert!(clock::now() < end, "{what}: {:?}", stream.sending().snapshot());
        stream.sending().wait(Some(clock::now() + Duration::from_millis(10)));
    }
}

fn view(stream: &mut Stream) -> TcpView {
    stream.sending().snapshot().tcp.unwrap_or_default()
}

/// Sends 0, which arrives, and then cuts the path; returns the peer's port last.
fn cut_after_one(scene: &Scene, form: Form, long: Instant) -> (Engine, Stream, thread::JoinHandle<Bytes>, u16) {
    let (engine, mut stream, peer) = scene.stream(form);
    let port = peer.port();
    let received = peer.collect();
    send(&mut stream, 0, long);
    until(&mut stream, "the first one arrives", |stream| stream.sending().poll_completion().is_some());
    scene.cut(port);
    (engine, stream, received, port)
}

/// Sends 0, which arrives. Then the path is cut, 1 to 4 are sent and expire, 5 to 8 are fresh, and the path is restored.
fn cut_and_mended(scene: &Scene, form: Form) -> (Engine, Stream, thread::JoinHandle<Bytes>) {
    let long = clock::now() + PATIENCE;
    let (engine, mut stream, received, _) = cut_after_one(scene, form, long);
    let soon = clock::now() + SHORT;
    for seq in 1..5 {
        send(&mut stream, seq, soon);
    }
    until(&mut stream, "all are given to the kernel", |stream| stream.sending().snapshot().transport.data_sent == 5);
    // The kernel has noticed the loss, so that it sends nothing new.
    until(&mut stream, "it is time", |_| clock::now() + NOTICED > soon);
    for seq in 5..9 {
        send(&mut stream, seq, long);
    }
    until(&mut stream, "they have gone stale", |_| clock::now() > soon + Duration::from_millis(50));
    scene.mend();
    (engine, stream, received)
}

fn finish(stream: &mut Stream) -> Vec<(u64, Fate)> {
    let mut fates = Vec::new();
    stream.sending().finish();
    until(stream, "the end", |stream| {
        let closed = matches!(stream.status(), Status::Closed(_));
        fates.extend(std::iter::from_fn(|| stream.sending().poll_completion()).map(|done| (done.seq.0, done.fate)));
        closed
    });
    fates.sort_by_key(|(seq, _)| *seq);
    fates
}

#[test]
fn what_went_stale_while_the_path_was_cut_never_arrives_and_the_fresh_goes_in_its_place() {
    with_records(|form| {
        let Some(scene) = Scene::make(&format!("late-{form:?}")) else { return };
        let (_engine, mut stream, received) = cut_and_mended(&scene, form);
        until(&mut stream, "the fresh arrive", |stream| stream.sending().snapshot().transport.acked >= 5);
        let view = view(&mut stream);
        let fates = finish(&mut stream);
        let bytes = received.join().unwrap();
        assert_eq!(view.reach, Reach::Retransmissions);
        assert_eq!(view.replaced + view.padded, 4, "{view:?}");
        for seq in 1..5 {
            assert!(!bytes.contains(seq), "{seq} was sent again when it was stale");
        }
        let (mut got, counts) = bytes.datagrams();
        assert_eq!((counts.damaged, counts.overlong), (0, 0));
        assert!(
            view.replaced >= 1 && counts.duplicates >= 1,
            "the first place carried what was fresh: {view:?} {counts:?}"
        );
        got.sort();
        assert_eq!(got, [0, 5, 6, 7, 8].map(payload));
        assert_eq!(
            fates.iter().map(|fate| fate.1).collect::<Vec<_>>(),
            [[Fate::Lost; 4].as_slice(), &[Fate::Acked; 4]].concat()
        );
    });
}

#[test]
fn where_there_is_no_room_for_a_replacement_all_that_was_sent_arrives() {
    let Some(scene) = Scene::make("plain") else { return };
    let (_engine, mut stream, received) = cut_and_mended(&scene, Form::Rfc4571);
    until(&mut stream, "the fresh arrive", |stream| stream.sending().snapshot().transport.acked == 9);
    assert_eq!(view(&mut stream).reach, Reach::Queue);
    finish(&mut stream);
    let bytes = received.join().unwrap();
    assert!((0..9).all(|seq| bytes.contains(seq)));
}

/// Regression, found by `timeous-soak`: it was reported as dropped, which means that it was never sent.
#[test]
fn what_left_as_a_copy_is_lost_when_it_goes_stale_and_not_dropped() {
    with_records(|form| {
        let Some(scene) = Scene::make(&format!("copy-{form:?}")) else { return };
        let long = clock::now() + PATIENCE;
        let (_engine, mut stream, received, port) = cut_after_one(&scene, form, long);
        let began = clock::now();
        let after = |millis| began + Duration::from_millis(millis);
        // Sent and lost at once, and again after 200, 600 and 1400 ms: the next transmissions are at 3000 and 6200 ms.
        send(&mut stream, 1, after(2_000));
        until(&mut stream, "a retransmission is lost", |_| clock::now() > after(1_000));
        send(&mut stream, 2, after(4_600));
        until(&mut stream, "1 makes way for a copy of 2", |stream| view(stream).replaced == 1);
        scene.silence(port);
        until(&mut stream, "2 goes stale where it waits", |stream| view(stream).padded == 1);
        scene.mend();
        let fates = finish(&mut stream);
        assert!(received.join().unwrap().contains(2), "its copy arrived");
        assert_eq!(fates, [(1, Fate::Lost), (2, Fate::Lost)]);
    });
}

/// Regression, found by `tcp-expired`: it was reported as lost as soon as another retransmission would have been too late, and datagrams
/// that refer to it were dropped, although it had arrived.
#[test]
fn what_has_arrived_is_no_loss_because_its_acknowledgement_is_late() {
    with_records(|form| {
        let Some(scene) = Scene::make(&format!("fate-{form:?}")) else { return };
        let (_engine, mut stream, peer) = scene.stream(form);
        let (port, mut socket) = (peer.port(), peer.socket.try_clone().unwrap());
        let received = peer.collect();
        send(&mut stream, 0, clock::now() + PATIENCE);
        until(&mut stream, "the first one arrives", |stream| stream.sending().poll_completion().is_some());
        scene.silence(port);
        // Retransmitted after 200, 600, 1400 and 3000 ms, and then not before 6200 ms.
        send(&mut stream, 1, clock::now() + Duration::from_millis(3_400));
        until(&mut stream, "it makes way for padding", |stream| view(stream).padded == 1);
        scene.mend();
        // This carries an acknowledgement.
        socket.write_all(&[0]).unwrap();
        let fates = finish(&mut stream);
        assert!(received.join().unwrap().contains(1));
        assert_eq!(fates, [(1, Fate::Acked)]);
    });
}

/// Regression, found by `timeous-peer-trials`: it was copied into the kernel when there was room, shortly before its deadline, and
/// retransmitted after that.
#[test]
fn what_the_kernel_had_no_room_for_keeps_its_deadline() {
    with_records(|form| {
        let Some(scene) = Scene::make(&format!("room-{form:?}")) else { return };
        // Room for a few segments.
        scene.0.set_sysctl("net/ipv4/tcp_wmem", "4096 6144 6144").unwrap();
        let long = clock::now() + PATIENCE;
        let (_engine, mut stream, received, _) = cut_after_one(&scene, form, long);
        let soon = clock::now() + SHORT;
        for seq in 1..20 {
            send(&mut stream, seq, soon);
        }
        until(&mut stream, "they have gone stale", |_| clock::now() > soon + Duration::from_millis(50));
        let given = stream.sending().snapshot().transport.data_sent;
        assert!((2..20).contains(&given), "the kernel has no room for all: {given}");
        send(&mut stream, 20, long);
        scene.mend();
        until(&mut stream, "the fresh one arrives", |stream| stream.sending().snapshot().transport.acked >= 2);
        assert_eq!(view(&mut stream).unchanged, 0);
        let fates = finish(&mut stream);
        let bytes = received.join().unwrap();
        let late: Vec<u64> = (1..20).filter(|&seq| bytes.contains(seq)).collect();
        assert_eq!(late, [], "of {given} given to the kernel");
        assert_eq!(fates.last(), Some(&(20, Fate::Acked)));
    });
}

/// Regression, found by `tl-middleboxes --real`: with datagrams of two lengths, one in a hundred was reported as too large, and one in
/// twenty where segments were split.
#[test]
fn what_is_longer_than_the_place_of_another_waits_for_its_own_turn() {
    with_records(|form| {
        let Some(scene) = Scene::make(&format!("longer-{form:?}")) else { return };
        let long = clock::now() + PATIENCE;
        let (_engine, mut stream, received, _) = cut_after_one(&scene, form, long);
        let soon = clock::now() + SHORT;
        for seq in 1..5 {
            send(&mut stream, seq, soon);
        }
        until(&mut stream, "all are given to the kernel", |stream| {
            stream.sending().snapshot().transport.data_sent == 5
        });
        until(&mut stream, "it is time", |_| clock::now() + NOTICED > soon);
        // More than the kernel takes at once.
        for seq in 5..200 {
            send_bytes(&mut stream, seq, long, &[payload(seq), vec![7; 100]].concat());
        }
        until(&mut stream, "they have gone stale", |_| clock::now() > soon + Duration::from_millis(50));
        scene.mend();
        let fates = finish(&mut stream);
        received.join().unwrap();
        let expected = (1..200).map(|seq| (seq, if seq < 5 { Fate::Lost } else { Fate::Acked }));
        assert!(fates.iter().copied().eq(expected), "{fates:?}");
    });
}

/// Found by `tl-middleboxes --real`: where segments were split, half of the small datagrams arrived in time; three quarters do if two
/// waiting ones share a segment.
#[test]
fn small_datagrams_that_wait_together_share_segments() {
    with_records(|form| {
        const COUNT: u64 = 20;
        let Some(scene) = Scene::make(&format!("company-{form:?}")) else { return };
        let segments = || {
            let told = scene.0.within(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
            let mut lines = told.lines().filter(|line| line.starts_with("Tcp:"));
            let place = lines.next().unwrap().split(' ').position(|name| name == "OutSegs").unwrap();
            lines.next().unwrap().split(' ').nth(place).unwrap().parse::<u64>().unwrap()
        };
        let listener = scene.0.within(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        // Makes all of them wait when the connection is established.
        scene.cut(to.port());
        let (_engine, mut stream) = scene
            .0
            .within(|| {
                let engine = Engine::start().unwrap();
                let stream = engine.connect(to, config(form)).unwrap();
                (engine, stream)
            })
            .unwrap();
        for seq in 0..COUNT {
            send(&mut stream, seq, clock::now() + PATIENCE);
        }
        scene.mend();
        let received = Peer::accept(&listener, form).collect();
        until(&mut stream, "all arrive", |stream| stream.sending().snapshot().transport.acked == COUNT);
        let segments = segments();
        assert!(segments < COUNT, "{segments}, the acknowledgements among them");
        assert_eq!(finish(&mut stream).len(), COUNT as usize);
        let (got, _) = received.join().unwrap().datagrams();
        assert!(got.iter().cloned().eq((0..COUNT).map(payload)));
    });
}
