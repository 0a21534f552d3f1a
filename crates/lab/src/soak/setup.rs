//! Test setup: two network namespaces with an emulated link, and a stream over kernel TCP between them.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use timeous::core::{Duration, Instant};
use timeous_engine::{
    Carrier, Engine, EngineError, ReceiveHalf, Sealing, SendHalf, Status, Stream, StreamConfig, TcpConfig, clock,
};
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::{Counters, Direction, LinkConfig};

use super::content::MOST;
use crate::experiment::LabError;

const THERE: &str = "10.77.0.2:6000";
/// Time limit for any expected event.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The link, which runs in a thread of its own, and the engines of both ends.
pub(super) struct TestSetup {
    // Dropped before the link, which they depend on.
    _engines: [Engine; 2],
    stopper: Stopper,
    router: Option<JoinHandle<Result<Router, EmulatorError>>>,
}

/// Counters of the forward link.
pub(super) type Link = Counters;

impl TestSetup {
    /// Creates the setup and opens the stream.
    pub(super) fn make(forward: LinkConfig, back: LinkConfig, seed: u64) -> Result<(Self, StreamEnds), LabError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-soak-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        (config.forward, config.back, config.seed) = (forward, back, seed);
        let mut router = Router::open(config).map_err(machine)?;
        let stop = Stop::new().map_err(LabError::system("make a socket pair"))?;
        let stopper = stop.stopper().map_err(LabError::system("copy a socket"))?;
        let engine = |name: &str| {
            let namespace = Namespace::open_or_make(name).map_err(machine)?;
            // Reno: available in every kernel, and treats loss as congestion.
            namespace.set_sysctl("net/ipv4/tcp_congestion_control", "reno").map_err(machine)?;
            namespace.within(Engine::start).map_err(machine)?.map_err(unusable)
        };
        // A thread inherits the namespace of its parent, and so do the sockets that it opens.
        let engines = [engine(&left)?, engine(&right)?];
        let router = thread::spawn(move || {
            router.run_until(Instant::FAR_FUTURE, &stop)?;
            Ok(router)
        });
        let scene = Self { _engines: engines, stopper, router: Some(router) };
        let ends = scene.connect()?;
        Ok((scene, ends))
    }

    fn connect(&self) -> Result<StreamEnds, LabError> {
        let there: SocketAddr = THERE.parse().expect("an address and a port");
        let [near, far] = &self._engines;
        let mut listener = far.listen(there, config()).map_err(unusable)?;
        let mut sending = near.connect(there, config()).map_err(unusable)?;
        let end = clock::now() + PATIENCE;
        let receiving = listener.accept(Some(end)).ok_or_else(no_connection)?;
        while sending.status() == Status::Connecting && clock::now() < end {
            sending.sending().wait(Some(end));
        }
        if sending.status() == Status::Open { Ok(StreamEnds { sending, receiving }) } else { Err(no_connection()) }
    }

    /// Takes the link down, and returns its counters.
    pub(super) fn end(mut self) -> Result<Link, LabError> {
        self.stopper.stop();
        let router = self.router.take().expect("it ends once").join().expect("the router does not panic");
        Ok(router.map_err(machine)?.snapshot(Direction::Forward).counters)
    }
}

impl Drop for TestSetup {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            // Dropped after another error, which is the one reported.
            let _ = router.join();
        }
    }
}

/// Both ends of the stream.
pub(super) struct StreamEnds {
    sending: Stream,
    receiving: Stream,
}

impl StreamEnds {
    /// Splits into the halves that are used, and those that are only kept open.
    pub(super) fn split(self) -> (SendHalf, ReceiveHalf, impl Sized) {
        let (sending, heard) = self.sending.split();
        let (said, receiving) = self.receiving.split();
        (sending, receiving, (heard, said))
    }
}

fn config() -> StreamConfig {
    StreamConfig {
        tcp: TcpConfig { longest: MOST, connect_timeout: PATIENCE, ..TcpConfig::default() },
        slots: 512,
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Tcp)
    }
}

fn machine(error: EmulatorError) -> LabError {
    LabError::Machine(error.to_string())
}

fn unusable(error: EngineError) -> LabError {
    LabError::Machine(error.to_string())
}

fn no_connection() -> LabError {
    LabError::Machine("nobody answers at the other end of the link: is a firewall between the namespaces?".to_owned())
}
