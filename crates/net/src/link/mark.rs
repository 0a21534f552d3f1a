//! ECN marking of packets by a queue (RFC 3168).

use timeous_core::Ecn;

/// A packet with an ECN field.
pub trait Markable {
    /// ECN field.
    fn ecn(&self) -> Ecn;

    /// Sets it to [`Ecn::Ce`].
    fn mark(&mut self);
}

/// Marks a packet; `false` if it is not ECN-capable (RFC 3168 §5).
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
