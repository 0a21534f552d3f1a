//! UDP relay between two local ports, for one client: its delay, outages and own port can be changed while it runs.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous::clock;
use timeous::core::{Duration, Instant};

/// Longest wait between two checks.
const TICK: Duration = Duration::from_millis(10);

/// Settings that can be changed while the relay runs.
#[derive(Default)]
struct Controls {
    /// One-way delays, in nanoseconds.
    there: AtomicU64,
    back: AtomicU64,
    is_dark: AtomicBool,
    rebinds: AtomicBool,
    ends: AtomicBool,
}

/// Relay that runs until it is dropped.
pub(crate) struct Relay {
    controls: Arc<Controls>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay between `from` and `to`, with a delay of 20 ms each way.
    pub(crate) fn start(from: u16, to: u16) -> Self {
        let near = UdpSocket::bind(("127.0.0.1", from)).unwrap();
        let controls = Arc::new(Controls::default());
        let relay = Self { controls: controls.clone(), thread: Some(thread::spawn(move || run(&near, to, &controls))) };
        relay.set_delay(Duration::from_millis(20), Duration::from_millis(20));
        relay
    }

    /// Sets the delays of both directions.
    pub(crate) fn set_delay(&self, there: Duration, back: Duration) {
        self.controls.there.store(there.as_nanos(), Ordering::Relaxed);
        self.controls.back.store(back.as_nanos(), Ordering::Relaxed);
    }

    /// Starts or ends an outage, in which all packets are lost.
    pub(crate) fn set_dark(&self, is_dark: bool) {
        self.controls.is_dark.store(is_dark, Ordering::Relaxed);
    }

    /// Changes the client's port as seen by the target, like a NAT that lost its binding.
    pub(crate) fn rebind(&self) {
        self.controls.rebinds.store(true, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.controls.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Datagrams in flight, by arrival time and order.
#[derive(Default)]
struct InFlight {
    packets: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    count: u64,
}

impl InFlight {
    fn put(&mut self, at: Instant, is_there: bool, packet: &[u8]) {
        self.count += 1;
        self.packets.insert((at, self.count), (is_there, packet.to_vec()));
    }
}

fn run(near: &UdpSocket, to: u16, controls: &Controls) {
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = SocketAddr::from(([127, 0, 0, 1], to));
    let (mut far, mut client, mut under_way) = (bind(), None, InFlight::default());
    let mut buffer = vec![0; 1 << 16];
    while !controls.ends.load(Ordering::Relaxed) {
        if controls.rebinds.swap(false, Ordering::Relaxed) {
            far = bind();
        }
        let now = clock::now();
        while let Some(entry) = under_way.packets.first_entry().filter(|entry| entry.key().0 <= now) {
            let (is_there, packet) = entry.remove();
            // A closed port is reported by ICMP; its datagrams are lost.
            let _ = match (is_there, client) {
                (true, _) => far.send_to(&packet, to),
                (false, Some(client)) => near.send_to(&packet, client),
                (false, None) => Ok(0),
            };
        }
        let due = under_way.packets.keys().next().map_or(TICK, |(at, _)| at.saturating_since(now)).min(TICK);
        let timeout = Timespec { tv_sec: 0, tv_nsec: due.as_nanos() as i64 };
        let mut both = [PollFd::new(near, PollFlags::IN), PollFd::new(&far, PollFlags::IN)];
        if poll(&mut both, Some(&timeout)).is_err() {
            continue;
        }
        let ready = both.map(|fd| !fd.revents().is_empty());
        let (now, is_dark) = (clock::now(), controls.is_dark.load(Ordering::Relaxed));
        for (is_ready, is_there) in ready.into_iter().zip([true, false]) {
            let (socket, delay) = if is_there { (near, &controls.there) } else { (&far, &controls.back) };
            let Some(Ok((len, from))) = is_ready.then(|| socket.recv_from(&mut buffer)) else { continue };
            if is_there {
                client = Some(from);
            }
            if !is_dark {
                let delay = Duration::from_nanos(delay.load(Ordering::Relaxed));
                under_way.put(now + delay, is_there, &buffer[..len]);
            }
        }
    }
}
