//! One end of a DCCP connection without a congestion limit, with its own Congestion Manager.

use timeous_cm::Manager;
use timeous_cm::controller::{Acked, Congestion, Controller, TimedOut};
use timeous_core::{AduSource, Duration, Ecn, Instant, Misuse, Rate, Rng};
use timeous_dccp::{Config, ConnectionId, Endpoint, EndpointConfig, Outgoing, Route, Sources};

/// Controller with an unlimited window and no pacing.
#[derive(Debug)]
struct Open;

impl Controller for Open {
    fn name(&self) -> &'static str {
        "open"
    }
    fn window(&self) -> u64 {
        u64::MAX / 4
    }
    fn on_acked(&mut self, _: Instant, _: Acked) {}
    fn on_congestion(&mut self, _: Instant, _: Congestion) {}
    fn on_timeout(&mut self, _: Instant, _: TimedOut) {}
    fn on_idle(&mut self, _: Instant, _: u32) {}
    fn rate(&self, _: Duration) -> Rate {
        Rate::MAX
    }
    fn pace(&self, _: Duration) -> Rate {
        Rate::MAX
    }
}

/// Source of the only connection.
#[derive(Debug, Default)]
pub struct One<S>(pub S);

impl<S: AduSource> Sources for One<S> {
    fn source(&mut self, _: ConnectionId) -> &mut dyn AduSource {
        &mut self.0
    }
}

/// One end, with its Congestion Manager.
#[derive(Debug)]
pub struct End {
    /// Endpoint of its connection.
    pub endpoint: Endpoint,
    cm: Manager,
}

impl End {
    /// Creates an end without a connection.
    #[must_use]
    pub fn new(connection: Config, seed: u64) -> Self {
        let settings = EndpointConfig { connection, ..EndpointConfig::default() };
        let endpoint = Endpoint::new(settings, Rng::from_seed(seed));
        Self { endpoint, cm: Manager::new(|_| Box::new(Open)) }
    }

    /// Processes a packet.
    pub fn hear(&mut self, now: Instant, from: impl Into<Route>, packet: &[u8]) {
        kept(self.endpoint.handle_datagram(now, &mut self.cm, from, packet, Ecn::NotEct));
    }

    /// Writes the next packet in place of what `packet` holds, if one may leave.
    pub fn poll(&mut self, now: Instant, sources: &mut dyn Sources, packet: &mut Vec<u8>) -> Option<Outgoing> {
        while let Some(flow) = self.cm.poll_granted() {
            self.endpoint.granted(flow);
        }
        packet.clear();
        kept(self.endpoint.poll_transmit(now, &mut self.cm, sources, packet))
    }

    /// Runs timers.
    pub fn pass_time(&mut self, now: Instant) {
        self.cm.handle_timeout(now);
        kept(self.endpoint.handle_timeout(now, &mut self.cm));
    }
}

/// Unwraps the result of a transport call: the rig keeps the driving order.
fn kept<T>(result: Result<T, Misuse>) -> T {
    result.expect("the rig keeps the driving order; its user's time must not go back")
}
