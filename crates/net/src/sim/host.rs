//! Hosts of a simulated network.

use timeous_core::Instant;

use super::packet::Packet;

/// A host, sans-IO. The network drives it as a driver does a [`timeous_core::Transport`]: feeds it (packets, time, and
/// an experiment's actions), drains [`poll_transmit`](Self::poll_transmit) until `None`, then asks
/// [`poll_timeout`](Self::poll_timeout). `now` never goes back.
pub trait Host {
    /// Processes a packet addressed to this host.
    fn handle_packet(&mut self, now: Instant, packet: Packet);

    /// Advances time: called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next packet to send now.
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet>;

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due; `None`: not before another event.
    fn poll_timeout(&mut self) -> Option<Instant>;
}

impl<H: Host + ?Sized> Host for Box<H> {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        (**self).handle_packet(now, packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        (**self).handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        (**self).poll_transmit(now)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        (**self).poll_timeout()
    }
}
