//! Late choice: trait of a policy that decides which queued ADUs are still worth sending, and of its adviser for the source.

use crate::adu::{AduMeta, DropReason, Fate};
use crate::advice::{Advice, BufferState, RateRange};
use crate::path::PathState;
use crate::queue::Queue;
use crate::time::{Instant, Rate};

/// Policy that is run at the latest possible instant, when a packet is sent (Lai & Kohler: *late data choice*).
///
/// Applications may implement their own.
///
/// ```
/// use timeous_core::{DropReason, Instant, LateChoice, PathState, Queue};
///
/// /// A sensor of which only the newest reading matters.
/// struct Newest;
///
/// impl LateChoice for Newest {
///     fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
///         for stale in 0..queue.len().saturating_sub(1) {
///             queue.drop_at(stale, DropReason::Policy);
///         }
///     }
/// }
/// ```
pub trait LateChoice: Send {
    /// Drops ADUs that are not worth sending any more. The others are sent in order, oldest first.
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue);

    /// Whether the last decision holds the queue back until fewer bytes are in flight: in favour of ADUs to come, or of
    /// retransmissions. Only effective while bytes are in flight, whose fates trigger the next call.
    fn holds(&self) -> bool {
        false
    }

    /// Whether an ADU that has left the queue is worth a retransmission in place of something else. Not if it cannot
    /// arrive before its deadline.
    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !path.is_too_late(now, meta, 0)
    }

    /// Drop reason of an ADU for which [`is_worth_repeating`](Self::is_worth_repeating) returned false.
    fn why_not(&self, meta: &AduMeta) -> DropReason {
        let _ = meta;
        DropReason::TooLate
    }

    /// Whether a late ADU is worse than a missing one: then repairs of other ADUs must be in time as well, as far as
    /// that can be known.
    fn is_punctual(&self) -> bool {
        false
    }

    /// Notes the fate of an ADU that was sent, or dropped by another policy.
    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        let _ = (meta, fate);
    }

    /// Notes that a sent ADU is useless: it was not there by its deadline, as far as acknowledgements tell, or is lost
    /// without repair. Its fate is reported in addition, and may be an arrival.
    fn on_missed(&mut self, meta: &AduMeta) {
        let _ = meta;
    }

    /// The policy's adviser for the source, if it has one.
    fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        None
    }
}

/// Part of a [`LateChoice`] that advises the stream's source.
///
/// A policy runs when a packet may be sent. On a stalled path none may, just when the source needs advice: the driver
/// of the queue therefore calls [`watch`](Self::watch) at [`poll_timeout`](Self::poll_timeout) while packets are
/// queued, and passes on the advice from [`poll_advice`](Self::poll_advice) after each call and each choice.
pub trait Adviser {
    /// Sets the stream's rate. Zero removes it.
    fn set_rate(&mut self, rate: Rate);

    /// Looks at the queue without dropping anything, which is left to the instant of sending.
    fn watch(&mut self, now: Instant, path: &PathState, queue: &dyn Queue);

    /// Next time to call `watch` if packets are queued and no choice was made before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Takes the newest advice; older advice that was not taken is discarded.
    fn poll_advice(&mut self) -> Option<Advice>;

    /// State of the send buffer.
    fn state(&self) -> BufferState;

    /// Range of rates that the stream asks of its transport; `None`: any.
    fn rate_range(&self) -> Option<RateRange> {
        None
    }
}
