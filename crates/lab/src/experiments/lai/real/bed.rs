//! Two network namespaces of this machine, joined by the emulated link, which runs in a thread of its own.

use std::thread::{self, JoinHandle};

use tempfile::NamedTempFile;
use timeous::core::Instant;
use timeous_net::LinkConfig;
use timeous_net::capture::Capture;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};

use super::super::setup;
use crate::experiment::LabError;

/// The address at the far end.
pub(super) const RIGHT: &str = "10.77.0.2";
/// Room for the largest packet of any of the transports: the same payload fits into each.
const MTU: u16 = setup::SIZE as u16 + 100;

/// A link with a namespace at either end.
pub(super) struct Bed {
    /// Where packets come from.
    pub(super) left: Namespace,
    /// Where they go to.
    pub(super) right: Namespace,
    capture: NamedTempFile,
    stopper: Stopper,
    router: JoinHandle<Result<(), EmulatorError>>,
}

impl Bed {
    /// Makes it. `name` tells it from others of this process.
    pub(super) fn make(name: &str, seed: u64) -> Result<Self, LabError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{name}-{}{side}", std::process::id()));
        let capture = NamedTempFile::new().map_err(LabError::system("make a file for a capture"))?;
        let mut config = RouterConfig::new(&left, &right);
        config.mtu = MTU;
        config.seed = seed;
        config.forward = LinkConfig {
            capacity: Capacity::Fixed(setup::RATE),
            burst: setup::BURST,
            queue: Limit::Packets(setup::QUEUE),
            delay: setup::DELAY,
            ..LinkConfig::default()
        };
        config.back = LinkConfig { delay: setup::DELAY, ..LinkConfig::default() };
        config.capture = Some(Capture::create(capture.path()).map_err(machine)?);
        let mut router = Router::open(config).map_err(machine)?;
        let stop = Stop::new().map_err(LabError::system("make a socket pair"))?;
        let stopper = stop.stopper().map_err(LabError::system("copy a socket"))?;
        let open = |name: &str| Namespace::open_or_make(name).map_err(machine);
        let (left, right) = (open(&left)?, open(&right)?);
        let router = thread::spawn(move || {
            router.run_until(Instant::FAR_FUTURE, &stop)?;
            router.flush()
        });
        Ok(Self { left, right, capture, stopper, router })
    }

    /// Does something at the left, as if on a machine there.
    pub(super) fn at_left<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.left.within(work).map_err(machine)
    }

    /// Does something at the right.
    pub(super) fn at_right<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.right.within(work).map_err(machine)
    }

    /// Takes the link down, and gives what was captured.
    pub(super) fn end(self) -> Result<NamedTempFile, LabError> {
        self.stopper.stop();
        self.router.join().expect("the router does not panic").map_err(machine)?;
        Ok(self.capture)
    }
}

/// What the emulator says of the machine, it says with what to do.
fn machine(error: impl std::fmt::Display) -> LabError {
    LabError::Machine(error.to_string())
}
