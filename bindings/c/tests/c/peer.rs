//! Receiver that acknowledges the examples' packets, over a simulated path.

use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time;

use timeous::clock;
use timeous::cm::Acks;
use timeous::core::{Duration, Instant};

/// Properties of the emulated path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Round-trip time.
    pub(crate) rtt: Duration,
    /// Every `lost`-th packet is lost; 0 for none.
    pub(crate) lost: u64,
}

/// Stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    arrived: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub(crate) fn start(path: Path) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (arrived, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (arrived, stop) = (arrived.clone(), stop.clone());
            move || receive(&socket, path, &arrived, &stop)
        });
        Self { address, arrived, stop, thread: Some(thread) }
    }

    pub(crate) fn port(&self) -> String {
        self.address.port().to_string()
    }

    /// Bytes that came through.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(SeqCst)
    }
}

fn receive(socket: &UdpSocket, path: Path, arrived: &AtomicU64, stop: &AtomicBool) {
    let mut under_way: VecDeque<(Instant, Vec<u8>, SocketAddr)> = VecDeque::new();
    // One after the other, several examples send to it.
    let mut halves: BTreeMap<SocketAddr, Acks> = BTreeMap::new();
    let mut packets = 0;
    while !stop.load(SeqCst) {
        let due = under_way.front().map_or(Duration::from_millis(20), |(due, ..)| *due - clock::now());
        // A timeout of nothing would mean for ever.
        socket.set_read_timeout(Some(time::Duration::from(due).max(time::Duration::from_micros(1)))).unwrap();
        let mut packet = [0; 2_000];
        if let Ok((len, from)) = socket.recv_from(&mut packet) {
            packets += 1;
            if path.lost == 0 || packets % path.lost != 0 {
                arrived.fetch_add(len as u64, SeqCst);
                let now = clock::now();
                let acks = halves.entry(from).or_insert_with(|| Acks::every(1, Duration::ZERO));
                acks.received(now, u64::from_be_bytes(*packet.first_chunk().unwrap()));
                under_way.extend(acks.poll_ack(now).map(|ack| (now + path.rtt, ack.encode(), from)));
            }
        }
        while under_way.front().is_some_and(|(due, ..)| *due <= clock::now()) {
            let (_, ack, to) = under_way.pop_front().unwrap();
            // A sender that has ended refuses it.
            let _ = socket.send_to(&ack, to);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}
