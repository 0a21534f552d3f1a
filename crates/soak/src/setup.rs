//! Test setup: two network namespaces with an emulated link, and a stream over kernel TCP between them.

use std::net::SocketAddr;

use timeous_core::Duration;
use timeous_engine::{Carrier, Engine, ReceiveHalf, Sealing, SendHalf, Status, Stream, StreamConfig, TcpConfig, clock};
use timeous_net::emulator::{Namespace, RouterConfig};
use timeous_net::{Counters, Direction, LinkConfig};
use timeous_testbed::RunError;
use timeous_testbed::machine::{RunningLink, machine, no_connection};

use crate::tally::MOST;

const THERE: &str = "10.77.0.2:6000";
/// Time limit for any expected event.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The link, which runs in a thread of its own, and the engines of both ends.
pub(super) struct TestSetup {
    // Dropped before the link, which they depend on.
    _engines: [Engine; 2],
    link: RunningLink,
}

/// Counters of the forward link.
pub(super) type Link = Counters;

impl TestSetup {
    /// Creates the setup and opens the stream.
    pub(super) fn make(forward: LinkConfig, back: LinkConfig, seed: u64) -> Result<(Self, StreamEnds), RunError> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-soak-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        (config.forward, config.back, config.seed) = (forward, back, seed);
        let link = RunningLink::start(config)?;
        let engine = |name: &str| {
            let namespace = Namespace::open_or_make(name).map_err(machine)?;
            // Reno: available in every kernel, and treats loss as congestion.
            namespace.set_sysctl("net/ipv4/tcp_congestion_control", "reno").map_err(machine)?;
            namespace.within(Engine::start).map_err(machine)?.map_err(machine)
        };
        // A thread inherits the namespace of its parent, and so do the sockets that it opens.
        let engines = [engine(&left)?, engine(&right)?];
        let scene = Self { _engines: engines, link };
        let ends = scene.connect()?;
        Ok((scene, ends))
    }

    fn connect(&self) -> Result<StreamEnds, RunError> {
        let there: SocketAddr = THERE.parse().expect("an address and a port");
        let [near, far] = &self._engines;
        let mut listener = far.listen(there, config()).map_err(machine)?;
        let mut sending = near.connect(there, config()).map_err(machine)?;
        let end = clock::now() + PATIENCE;
        let receiving = listener.accept(Some(end)).ok_or_else(no_connection)?;
        while sending.status() == Status::Connecting && clock::now() < end {
            sending.sending().wait(Some(end));
        }
        if sending.status() == Status::Open { Ok(StreamEnds { sending, receiving }) } else { Err(no_connection()) }
    }

    /// Takes the link down, and returns its counters.
    pub(super) fn end(self) -> Result<Link, RunError> {
        Ok(self.link.end()?[Direction::Forward as usize])
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
