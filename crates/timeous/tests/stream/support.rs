//! Test support: pairs of ends, and a link between them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::thread::{self, JoinHandle};

use timeous::core::{Duration, Fate, Instant};
use timeous::{Arrival, DropReason, Error, LateChoice, PathState, Queue, Receiver, Sender, Uri, clock, open_both};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator, Relay, RelayConfig, Stop, Stopper};

/// Long enough for anything that is going to happen; only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn patience() -> Option<Instant> {
    Some(clock::now() + PATIENCE)
}

/// A UDP and TCP port that nobody has, below those from which the system chooses by itself.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 2_000;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (std::process::id() as u16).wrapping_mul(32).wrapping_add(step) % COUNT;
        if UdpSocket::bind(("0.0.0.0", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn uri(text: &str) -> Uri {
    text.parse().unwrap()
}

/// Both directions of both ends: of the caller and of the listener. A caller reaches the listener at `port` by way of
/// `near`.
pub(crate) fn both_ends(near: SocketAddr, port: u16, query: &str) -> [(Sender, Receiver); 2] {
    let listener = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&{query}"));
    let listener = thread::spawn(move || open_both(&listener).unwrap());
    let caller = uri(&format!("timeous://{near}?{query}"));
    let caller = patiently(|| open_both(&caller));
    [caller, listener.join().unwrap()]
}

/// A plain socket that a sender of ours has called.
pub(crate) fn plain_peer(query: &str) -> (Sender, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sender = Sender::open(&uri(&format!("timeous://127.0.0.1:{port}?transport=tcp&{query}"))).unwrap();
    (sender, listener.accept().unwrap().0)
}

/// Lets time pass.
pub(crate) fn pause(time: Duration) {
    timeous::Waker::new().unwrap().wait(Some(time));
}

/// Opens a stream, repeating while the listener is not there yet.
pub(crate) fn patiently<T>(open: impl Fn() -> Result<T, Error>) -> T {
    let end = clock::now() + PATIENCE;
    loop {
        match open() {
            Err(Error::NobodyListens { .. }) if clock::now() < end => pause(Duration::from_millis(5)),
            opened => return opened.unwrap(),
        }
    }
}

/// The way to a port of this host without a link.
pub(crate) fn direct(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A stream from this process to itself.
pub(crate) fn stream(query: &str) -> (Sender, Receiver) {
    let port = free_port();
    one_way(both_ends(direct(port), port, query))
}

fn one_way([(sender, _), (_, receiver)]: [(Sender, Receiver); 2]) -> (Sender, Receiver) {
    (sender, receiver)
}

/// A link in a thread of its own, which ends with it.
pub(crate) struct TestLink {
    pub(crate) near: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl TestLink {
    /// A link to a port of this host. Each begins at an address of its own: streams to one address share what they
    /// know of the path there.
    pub(crate) fn to(port: u16, forward: LinkConfig, back: LinkConfig) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let listen = SocketAddr::from(([127, 0, 77, NEXT.fetch_add(1, Ordering::Relaxed)], 0));
        let mut relay = Relay::bind(RelayConfig { forward, back, ..RelayConfig::new(listen, direct(port)) }).unwrap();
        let near = relay.local_addr();
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let thread = thread::spawn(move || {
            relay.run_until(Instant::FAR_FUTURE, &stop).unwrap();
        });
        Self { near, stopper, thread: Some(thread) }
    }

    /// Passes nothing on any more.
    pub(crate) fn cut(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TestLink {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed, and dropping must not add another.
            let _ = thread.join();
        }
    }
}

/// The fates of everything that was sent, each told once.
pub(crate) fn fates(sender: &mut Sender) -> BTreeMap<u64, Fate> {
    let mut fates = BTreeMap::new();
    let end = clock::now() + PATIENCE;
    loop {
        while let Some(delivery) = sender.poll_delivery() {
            let before = fates.insert(delivery.seq.0, delivery.fate);
            assert_eq!(before, None, "ADU {} has a second fate, {:?}", delivery.seq.0, delivery.fate);
        }
        if sender.pending() == 0 {
            return fates;
        }
        assert!(clock::now() < end, "{} ADUs have no fate; {:?}", sender.pending(), sender.status());
        sender.wait(Some(end));
    }
}

/// All that comes until the end of the stream, in a thread of its own.
pub(crate) fn collect(mut receiver: Receiver) -> JoinHandle<Vec<Vec<u8>>> {
    thread::spawn(move || {
        let mut received = Vec::new();
        loop {
            match receiver.receive(patience()).unwrap() {
                Arrival::Data(data) => received.push(data.bytes),
                Arrival::End => return received,
                Arrival::Nothing => panic!("nothing within {PATIENCE:?}"),
            }
        }
    })
}

/// Drops each second ADU.
pub(crate) struct OddOnly;

impl LateChoice for OddOnly {
    fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
        for place in 0..queue.len() {
            if queue.get(place).is_some_and(|(meta, _)| meta.seq.0 % 2 == 0) {
                queue.drop_at(place, DropReason::Policy);
            }
        }
    }
}
