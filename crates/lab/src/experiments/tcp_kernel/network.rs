//! Two network namespaces joined by the emulated link, with the kernel's TCP in both set to NewReno.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::{self, JoinHandle};

use crate::tun::{TcpConfig, TunConfig, TunHost};
use timeous::core::{Instant, Rng};
use timeous_net::capture::Capture;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::{Counters, Direction, LinkConfig};

use crate::experiment::LabError;

/// Address of the left kernel.
const LEFT: &str = "10.77.0.1";

/// Address of our stack, behind the left namespace.
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

/// Kernel settings of both ends; all others keep the kernel's defaults.
pub(crate) const SYSCTLS: [(&str, &str); 2] = [
    ("net/ipv4/tcp_congestion_control", "reno"),
    // Otherwise a connection would begin with the previous one's cached window.
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// Links of a path, one per direction.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// Link from the left, where our stack is if it takes part.
    pub(crate) forward: LinkConfig,
    /// Link from the right.
    pub(crate) back: LinkConfig,
}

/// Link with a namespace at either end, and a router that runs in a thread of its own.
pub(crate) struct TestNetwork {
    /// Left namespace, 10.77.0.1.
    pub(crate) left: Namespace,
    /// Right namespace, 10.77.0.2.
    pub(crate) right: Namespace,
    stopper: Stopper,
    router: Option<JoinHandle<Result<Router, EmulatorError>>>,
}

impl TestNetwork {
    /// Builds the bed. `name` distinguishes it from other beds of this process.
    pub(crate) fn make(name: &str, links: &Links, seed: u64, capture: Option<&Path>) -> Result<Self, LabError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{name}-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        (config.forward, config.back) = (links.forward.clone(), links.back.clone());
        config.seed = seed;
        config.capture = capture.map(Capture::create).transpose().map_err(machine)?;
        let mut router = Router::open(config).map_err(machine)?;
        let stop = Stop::new().map_err(LabError::system("make a socket pair"))?;
        let stopper = stop.stopper().map_err(LabError::system("copy a socket"))?;
        let open = |name: &str| Namespace::open_or_make(name).map_err(machine);
        let (left, right) = (open(&left)?, open(&right)?);
        for namespace in [&left, &right] {
            for (name, value) in SYSCTLS {
                namespace.set_sysctl(name, value).map_err(machine)?;
            }
        }
        let router = thread::spawn(move || {
            router.run_until(Instant::FAR_FUTURE, &stop)?;
            router.flush()?;
            Ok(router)
        });
        Ok(Self { left, right, stopper, router: Some(router) })
    }

    /// Lets both kernels request ECN, which by default they only accept.
    pub(crate) fn request_ecn(&self) -> Result<(), LabError> {
        [&self.left, &self.right].iter().try_for_each(|end| end.set_sysctl("net/ipv4/tcp_ecn", "1")).map_err(machine)
    }

    /// Returns a kernel variable, which is the same at both ends.
    pub(crate) fn sysctl(&self, name: &str) -> Result<String, LabError> {
        self.right.sysctl(name).map_err(machine)
    }

    /// Opens our stack behind the left namespace, which forwards between it and the link.
    pub(crate) fn host(&self, tcp: TcpConfig, seed: u64) -> Result<TunHost, LabError> {
        self.host_as(TunConfig { tcp, ..TunConfig::default() }, seed)
    }

    /// Opens our stack with `config`, except for its address.
    pub(crate) fn host_as(&self, config: TunConfig, seed: u64) -> Result<TunHost, LabError> {
        let config = TunConfig { address: OURS, ..config };
        let host = TunHost::open(&self.left, config, Rng::from_seed(seed)).map_err(machine)?;
        self.pass_on(OURS)?;
        Ok(host)
    }

    /// Lets the left namespace forward packets to and from `host` behind it.
    pub(crate) fn pass_on(&self, host: Ipv4Addr) -> Result<(), LabError> {
        self.left.set_sysctl("net/ipv4/ip_forward", "1").map_err(machine)?;
        self.right.ip(&["route", "add", &host.to_string(), "via", LEFT]).map_err(machine)
    }

    /// Removes the link, and returns its counters in each direction.
    pub(crate) fn end(mut self) -> Result<[Counters; 2], LabError> {
        self.stopper.stop();
        let router = self.router.take().expect("it ends once").join().expect("the router does not panic");
        let router = router.map_err(machine)?;
        Ok(Direction::ALL.map(|direction| router.snapshot(direction).counters))
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            // Dropped after another error, which is the one to report.
            let _ = router.join();
        }
    }
}

/// Converts an emulator error, whose text says what the machine lacks and how to fix it.
pub(crate) fn machine(error: impl std::fmt::Display) -> LabError {
    LabError::Machine(error.to_string())
}
