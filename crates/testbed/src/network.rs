//! Two network namespaces joined by the emulated link, with the kernel's TCP in both set to NewReno.

use std::net::Ipv4Addr;
use std::path::Path;

use timeous_core::Rng;
use timeous_net::capture::Capture;
use timeous_net::emulator::{Namespace, RouterConfig};
use timeous_net::{Counters, LinkConfig};

use crate::error::RunError;
use crate::machine::{RunningLink, machine};
use crate::tun::{TcpConfig, TunConfig, TunHost};

/// Address of the left kernel.
const LEFT: &str = "10.77.0.1";

/// Address of our stack, behind the left namespace.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

/// Kernel settings of both ends; all others keep the kernel's defaults.
pub const SYSCTLS: [(&str, &str); 2] = [
    ("net/ipv4/tcp_congestion_control", "reno"),
    // Otherwise a connection would begin with the previous one's cached window.
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// Links of a path, one per direction.
#[derive(Clone, Debug)]
pub struct Links {
    /// Link from the left, where our stack is if it takes part.
    pub forward: LinkConfig,
    /// Link from the right.
    pub back: LinkConfig,
}

/// Link with a namespace at either end, and a router that runs in a thread of its own.
pub struct TestNetwork {
    /// Left namespace, 10.77.0.1.
    pub left: Namespace,
    /// Right namespace, 10.77.0.2.
    pub right: Namespace,
    link: RunningLink,
}

impl TestNetwork {
    /// Builds the bed. `name` distinguishes it from other beds of this process.
    pub fn make(name: &str, links: &Links, seed: u64, capture: Option<&Path>) -> Result<Self, RunError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{name}-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        (config.forward, config.back) = (links.forward.clone(), links.back.clone());
        config.seed = seed;
        config.capture = capture.map(Capture::create).transpose().map_err(machine)?;
        let link = RunningLink::start(config)?;
        let open = |name: &str| Namespace::open_or_make(name).map_err(machine);
        let (left, right) = (open(&left)?, open(&right)?);
        for namespace in [&left, &right] {
            for (name, value) in SYSCTLS {
                namespace.set_sysctl(name, value).map_err(machine)?;
            }
        }
        Ok(Self { left, right, link })
    }

    /// Lets both kernels request ECN, which by default they only accept.
    pub fn request_ecn(&self) -> Result<(), RunError> {
        [&self.left, &self.right].iter().try_for_each(|end| end.set_sysctl("net/ipv4/tcp_ecn", "1")).map_err(machine)
    }

    /// Returns a kernel variable, which is the same at both ends.
    pub fn sysctl(&self, name: &str) -> Result<String, RunError> {
        self.right.sysctl(name).map_err(machine)
    }

    /// Opens our stack behind the left namespace, which forwards between it and the link.
    pub fn host(&self, tcp: TcpConfig, seed: u64) -> Result<TunHost, RunError> {
        self.host_as(TunConfig { tcp, ..TunConfig::default() }, seed)
    }

    /// Opens our stack with `config`, except for its address.
    pub fn host_as(&self, config: TunConfig, seed: u64) -> Result<TunHost, RunError> {
        let config = TunConfig { address: OURS, ..config };
        let host = TunHost::open(&self.left, config, Rng::from_seed(seed)).map_err(machine)?;
        self.pass_on(OURS)?;
        Ok(host)
    }

    /// Lets the left namespace forward packets to and from `host` behind it.
    pub fn pass_on(&self, host: Ipv4Addr) -> Result<(), RunError> {
        self.left.set_sysctl("net/ipv4/ip_forward", "1").map_err(machine)?;
        self.right.ip(&["route", "add", &host.to_string(), "via", LEFT]).map_err(machine)
    }

    /// Removes the link, and returns its counters in each direction.
    pub fn end(self) -> Result<[Counters; 2], RunError> {
        self.link.end()
    }
}
