//! Two network namespaces with an emulated link, and the program loaded under a separate name.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use timeous_core::{Duration, Instant, Rate};
use timeous_kernel::{Installed, KernelError};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};

/// Address of the far end.
pub(crate) const RIGHT: &str = "10.77.0.2";

/// A link between two namespaces: 10 Mbit/s and a queue of 100 packets from the left, 20 ms each way.
pub(crate) struct TestNetwork {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    stopper: Stopper,
    router: Option<JoinHandle<Result<(), EmulatorError>>>,
}

impl TestNetwork {
    pub(crate) fn make(name: &str) -> Result<Self, EmulatorError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{name}-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        let delay = Duration::from_millis(20);
        config.back = LinkConfig { delay, ..LinkConfig::default() };
        let (capacity, queue) = (Capacity::Fixed(Rate::from_kbps(10_000)), Limit::Packets(100));
        config.forward = LinkConfig { capacity, queue, ..config.back.clone() };
        let mut router = Router::open(config)?;
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let (left, right) = (Namespace::open_or_make(&left)?, Namespace::open_or_make(&right)?);
        let router = thread::spawn(move || router.run_until(Instant::FAR_FUTURE, &stop).map(drop));
        Ok(Self { left, right, stopper, router: Some(router) })
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            let _ = router.join();
        }
    }
}

/// The program under a test's name. It is removed when this is dropped.
pub(crate) struct LoadedProgram {
    pub(crate) name: String,
    pub(crate) at: PathBuf,
    pub(crate) installed: Option<Installed>,
}

impl LoadedProgram {
    pub(crate) fn new(test: &str) -> Result<Self, KernelError> {
        let name = format!("t{}_{test}", std::process::id() % 100_000);
        let at = PathBuf::from(format!("{}_{name}", timeous_kernel::PINNED));
        let installed = Some(Installed::load(&at, &name)?);
        Ok(Self { name, at, installed })
    }

    pub(crate) fn installed(&self) -> &Installed {
        self.installed.as_ref().unwrap()
    }
}

impl Drop for LoadedProgram {
    fn drop(&mut self) {
        if let Some(installed) = self.installed.take() {
            installed.remove("reno").unwrap();
        }
    }
}

/// Returns a test's requirement, or prints that this machine lacks it; with `TIMEOUS_REQUIRE_ALL=1` it must not.
pub(crate) fn need<T, E: std::fmt::Display>(test: &str, what: Result<T, E>) -> Option<T> {
    match what {
        Ok(there) => Some(there),
        Err(error) => {
            let required = std::env::var_os("TIMEOUS_REQUIRE_ALL").is_some_and(|value| value == "1");
            assert!(!required, "{test}: {error}");
            eprintln!("SKIPPED {test}: {error}");
            None
        }
    }
}

/// Opens a connection, with this congestion control if given; returns the caller's and the listener's end.
pub(crate) fn pair(network: &TestNetwork, to: &str, congestion_control: Option<&str>) -> (TcpStream, TcpStream) {
    let any: SocketAddr = SocketAddr::new(to.parse().unwrap(), 0);
    let listener = network.right.within(|| TcpListener::bind(any)).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let called = network.left.within(|| call(address, congestion_control)).unwrap().unwrap();
    (called, listener.accept().unwrap().0)
}

fn call(address: SocketAddr, congestion_control: Option<&str>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family, SocketType::STREAM, None)?;
    if let Some(name) = congestion_control {
        sockopt::set_tcp_congestion(&fd, name)?;
    }
    connect(&fd, &address)?;
    Ok(TcpStream::from(fd))
}

/// Sends `bytes` bytes, and waits until all have arrived.
pub(crate) fn transfer(sending: &TcpStream, receiving: &TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sending = sending;
            sending.write_all(&vec![7; bytes]).unwrap();
        });
        let (mut left, mut receiving, mut buffer) = (bytes, receiving, vec![0; 1 << 16]);
        while left > 0 {
            let len = left.min(buffer.len());
            left -= match receiving.read(&mut buffer[..len]).unwrap() {
                0 => panic!("the connection ended {left} bytes early"),
                len => len,
            };
        }
    });
}
