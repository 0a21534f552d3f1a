//! Faulty congestion controllers, for sabotages.

use timeous::core::{Duration, Instant, Rate};
use timeous_cm::controller::{Acked, Congestion, Controller, TimedOut};
use timeous_cm::{Kind, Manager};

/// Fault of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Window of 50 packets, whatever is lost.
    Fixed,
    /// Twice the window.
    Doubled,
}

/// Packets of a fixed window. Chosen by us: several times what the paths of the sabotaged experiments carry in a round trip.
const FIXED: u64 = 50;

/// Creates a manager with a sound or a faulty controller.
pub(crate) fn manager(kind: Kind, fault: Option<Fault>) -> Manager {
    Manager::new(match fault {
        None => kind.constructor(),
        Some(fault) => faulty(kind, fault),
    })
}

/// A constructor is a function without state: one for each controller and fault.
fn faulty(kind: Kind, fault: Fault) -> fn(u64) -> Box<dyn Controller> {
    macro_rules! constructors {
        ($($kind:ident),*) => {
            match (kind, fault) {
                $((Kind::$kind, Fault::Fixed) => |mtu| FaultyController::boxed(Kind::$kind, Fault::Fixed, mtu),
                (Kind::$kind, Fault::Doubled) => |mtu| FaultyController::boxed(Kind::$kind, Fault::Doubled, mtu),)*
            }
        };
    }
    constructors!(Copa, Live, Scream, Bbr, Aimd, NewReno, Cubic, Tfrc)
}

/// Controller with a fault.
#[derive(Debug)]
struct FaultyController {
    inner: Box<dyn Controller>,
    fault: Fault,
    mtu: u64,
}

impl FaultyController {
    fn boxed(kind: Kind, fault: Fault, mtu: u64) -> Box<dyn Controller> {
        Box::new(Self { inner: kind.constructor()(mtu), fault, mtu })
    }
}

impl Controller for FaultyController {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn window(&self) -> u64 {
        match self.fault {
            Fault::Fixed => FIXED * self.mtu,
            Fault::Doubled => 2 * self.inner.window(),
        }
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        self.inner.on_acked(now, acked);
    }

    fn heeds_recovery(&self) -> bool {
        self.inner.heeds_recovery()
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion) {
        self.inner.on_congestion(now, congestion);
    }

    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut) {
        self.inner.on_timeout(now, timed_out);
    }

    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.inner.on_idle(now, timeouts);
    }

    fn pace(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in(2 * self.window(), srtt)
    }
}
