//! Two network namespaces joined by the emulated link, with the kernel's TCP in both set to NewReno.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::{self, JoinHandle};

use timeous::core::{Instant, Rng};
use timeous_engine::tun::{TcpConfig, TunConfig, TunHost};
use timeous_net::capture::Capture;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::{Counters, Direction, LinkConfig};

use crate::experiment::LabError;

/// The kernel's address at the left.
const LEFT: &str = "10.77.0.1";

/// Our stack's address, behind the left.
pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

/// What is set, for both ends alike. The rest is as the kernel has it by default.
pub(crate) const SYSCTLS: [(&str, &str); 2] = [
    ("net/ipv4/tcp_congestion_control", "reno"),
    // Otherwise a connection begins with the window at which the one before it ended.
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// Both links of a path.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// From the left, where our stack is if there is one.
    pub(crate) forward: LinkConfig,
    /// From the right.
    pub(crate) back: LinkConfig,
}

/// A link with a namespace at either end, and a router that runs in a thread of its own.
pub(crate) struct Bed {
    /// 10.77.0.1.
    pub(crate) left: Namespace,
    /// 10.77.0.2.
    pub(crate) right: Namespace,
    stopper: Stopper,
    router: Option<JoinHandle<Result<Router, EmulatorError>>>,
}

impl Bed {
    /// Makes it. `name` tells it from others of this process.
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

    /// Both kernels ask for ECN, which by default they only agree to.
    pub(crate) fn request_ecn(&self) -> Result<(), LabError> {
        [&self.left, &self.right].iter().try_for_each(|end| end.set_sysctl("net/ipv4/tcp_ecn", "1")).map_err(machine)
    }

    /// A variable of the kernel, as it is for both ends.
    pub(crate) fn sysctl(&self, name: &str) -> Result<String, LabError> {
        self.right.sysctl(name).map_err(machine)
    }

    /// Our stack behind the left: the namespace there passes on what goes between it and the link.
    pub(crate) fn host(&self, tcp: TcpConfig, seed: u64) -> Result<TunHost, LabError> {
        self.host_as(TunConfig { tcp, ..TunConfig::default() }, seed)
    }

    /// The same, as `config` says but for its address.
    pub(crate) fn host_as(&self, config: TunConfig, seed: u64) -> Result<TunHost, LabError> {
        let config = TunConfig { address: OURS, ..config };
        let host = TunHost::open(&self.left, config, Rng::from_seed(seed)).map_err(machine)?;
        self.pass_on(OURS)?;
        Ok(host)
    }

    /// The left passes on what goes to `host`, which is behind it, and what comes from there.
    pub(crate) fn pass_on(&self, host: Ipv4Addr) -> Result<(), LabError> {
        self.left.set_sysctl("net/ipv4/ip_forward", "1").map_err(machine)?;
        self.right.ip(&["route", "add", &host.to_string(), "via", LEFT]).map_err(machine)
    }

    /// Takes the link down, and gives what it counted each way.
    pub(crate) fn end(mut self) -> Result<[Counters; 2], LabError> {
        self.stopper.stop();
        let router = self.router.take().expect("it ends once").join().expect("the router does not panic");
        let router = router.map_err(machine)?;
        Ok(Direction::ALL.map(|direction| router.snapshot(direction).counters))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            // It is taken down because something else went wrong, which is what is told.
            let _ = router.join();
        }
    }
}

/// What the emulator says of the machine, it says with what to do.
pub(crate) fn machine(error: impl std::fmt::Display) -> LabError {
    LabError::Machine(error.to_string())
}
