//! What stands at an address of a simulated network.

use timeous_core::Instant;

use super::packet::Packet;

/// A host, sans-IO. The network drives it as a driver does a [`timeous_core::Transport`]: it feeds it (packets, time, and what
/// an experiment does to it), drains [`poll_transmit`](Self::poll_transmit) until it gives `None`, then asks
/// [`poll_timeout`](Self::poll_timeout). `now` never goes back.
pub trait Host {
    /// A packet arrives that is addressed to it.
    fn handle_packet(&mut self, now: Instant, packet: Packet);

    /// Lets time pass: called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send now, or `None`.
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet>;

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None`: not before something else happens.
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
