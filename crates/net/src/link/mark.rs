//! Packets that a queue can mark instead of dropping them (RFC 3168).

use timeous_core::Ecn;

/// A packet with an ECN field.
pub trait Markable {
    /// The field.
    fn ecn(&self) -> Ecn;

    /// Sets it to [`Ecn::Ce`].
    fn mark(&mut self);
}

/// Tells the packet's ends of congestion without dropping it; `false` if they do not take part (RFC 3168 §5).
pub(super) fn mark<P: Markable>(packet: &mut P) -> bool {
    match packet.ecn() {
        Ecn::NotEct => false,
        Ecn::Ce => true,
        Ecn::Ect0 | Ecn::Ect1 => {
            packet.mark();
            true
        }
    }
}
