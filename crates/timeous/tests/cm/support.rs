//! Test support: a narrow link in this process, in real time.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};

use timeous::core::{Duration, Instant, Rate};
use timeous_net::emulator::{Emulator, Relay, RelayConfig, Snapshot, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};
use timeous_net::{Direction, LinkConfig};

/// Long enough for anything that is going to happen; only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A port of this host.
pub(crate) fn port() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A link in a thread of its own: 40 ms there and back, and this rate on the way there.
pub(crate) struct Link {
    pub(crate) near: SocketAddr,
    stopper: Stopper,
    thread: JoinHandle<Snapshot>,
}

impl Link {
    /// A link to `far`, whose queue holds this many packets. Each begins at an address of its own, since flows to one
    /// address share what they know.
    pub(crate) fn to(far: SocketAddr, rate: Rate, packets: u64) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let listen = SocketAddr::from(([127, 0, 78, NEXT.fetch_add(1, Ordering::Relaxed)], 0));
        let back = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
        let forward =
            LinkConfig { capacity: Capacity::Fixed(rate), queue: Limit::Packets(packets as usize), ..back.clone() };
        let mut relay = Relay::bind(RelayConfig { forward, back, ..RelayConfig::new(listen, far) }).unwrap();
        let near = relay.local_addr();
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let thread = thread::spawn(move || {
            relay.run_until(Instant::FAR_FUTURE, &stop).unwrap();
            relay.snapshot(Direction::Forward)
        });
        Self { near, stopper, thread }
    }

    /// Ends it; what it has seen on the way there.
    pub(crate) fn end(self) -> Snapshot {
        self.stopper.stop();
        self.thread.join().unwrap()
    }
}
