//! Test support: a daemon in this process, at a socket of its own.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use timeous::clock;
use timeous::cm::{CongestionManager, Event, ManagerLocation};
use timeous::core::Duration;
use timeous_daemon::{Config, Daemon, Stopper};

/// Timeout for events that must happen; only failing tests wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Daemon that can be stopped and restarted at its socket.
pub(crate) struct TestDaemon {
    directory: TempDir,
    running: Option<(Stopper, JoinHandle<()>)>,
    /// Whether its Congestion Manager has, or recently had, a flow to an address.
    knows: Option<Box<dyn Fn(IpAddr) -> bool>>,
}

impl TestDaemon {
    pub(crate) fn start() -> Self {
        let mut daemon = Self { directory: tempfile::tempdir().unwrap(), running: None, knows: None };
        daemon.again();
        daemon
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("daemon.sock")
    }

    pub(crate) fn again(&mut self) {
        let socket = self.socket();
        let (ready, bound) = mpsc::channel();
        // A daemon stays on the thread that created it.
        let thread = thread::spawn(move || {
            let daemon = Daemon::bind(Config::at(socket)).unwrap();
            ready.send((daemon.stopper(), daemon.congestion().clone())).unwrap();
            daemon.run().unwrap();
        });
        let (stopper, congestion) = bound.recv().unwrap();
        self.knows = Some(Box::new(move |ip| {
            congestion.lock().snapshot().macroflows.iter().any(|macroflow| macroflow.destination.addr == ip)
        }));
        self.running = Some((stopper, thread));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((stopper, thread)) = self.running.take() {
            stopper.stop();
            thread.join().unwrap();
        }
    }

    /// Whether the daemon has, or recently had, a flow to `ip`.
    pub(crate) fn knows(&self, ip: IpAddr) -> bool {
        self.knows.as_ref().unwrap()(ip)
    }

    pub(crate) fn client(&self) -> CongestionManager {
        CongestionManager::open(ManagerLocation::Daemon(Some(self.socket()))).unwrap()
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        if let Some((stopper, _)) = self.running.take() {
            stopper.stop();
        }
    }
}

/// Loopback address that no other test uses: flows to one address share path state.
pub(crate) fn address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    SocketAddr::from(([127, 0, 80, NEXT.fetch_add(1, Ordering::Relaxed)], 0))
}

/// UDP socket at such an address.
pub(crate) fn port() -> UdpSocket {
    UdpSocket::bind(address()).unwrap()
}

/// Waits for the next event.
pub(crate) fn next(cm: &CongestionManager) -> Event {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(event) = cm.poll_event() {
            return event;
        }
        assert!(cm.wait(Some(end)) || clock::now() < end, "no event");
    }
}
