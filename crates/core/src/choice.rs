//! Late choice: the trait of a policy that decides what in a send queue is still worth sending, and of its part that speaks
//! with the source.

use crate::adu::{AduMeta, DropReason, Fate};
use crate::advice::{Advice, BufferState};
use crate::path::PathState;
use crate::queue::Queue;
use crate::time::{Instant, Rate};

/// A policy that is asked at the instant of sending, when nothing is known later (Lai & Kohler: *late data choice*).
///
/// An application brings its own by implementing this.
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
    /// Gives up what is not worth sending any more. What stays leaves in order, oldest first.
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue);

    /// Whether what stays waits until less is outstanding, as chosen last: for what will come, or for what has left and may have
    /// to leave again. Heeded while anything is outstanding, so that something is sure to ask once more.
    fn holds(&self) -> bool {
        false
    }

    /// Whether an ADU that is not queued any more is worth being sent again, where something else could be sent in its
    /// place. Not if it cannot arrive before its deadline.
    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + path.least_way())
    }

    /// Why an ADU of which [`is_worth_repeating`](Self::is_worth_repeating) says no is given up.
    fn why_not(&self, meta: &AduMeta) -> DropReason {
        let _ = meta;
        DropReason::TooLate
    }

    /// Whether an ADU that comes late is worse than one that does not come: then what brings others back has to be in time as
    /// well, as far as that can be known.
    fn is_punctual(&self) -> bool {
        false
    }

    /// Hears what became of an ADU that left, or that others gave up.
    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        let _ = (meta, fate);
    }

    /// Hears that an ADU has left and is of no use: it was not there by its deadline, as far as acknowledgements tell, or is
    /// lost and nothing brings it any more. Its fate comes besides, and may be that it arrived.
    fn on_missed(&mut self, meta: &AduMeta) {
        let _ = meta;
    }

    /// What of it speaks with the stream's source, if anything does.
    fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        None
    }
}

/// The part of a [`LateChoice`] that speaks with the stream's source.
///
/// A choice looks when something may leave. Where the path stands still nothing may, and that is when the source has to
/// know: so whoever drives the queue calls [`watch`](Self::watch) at [`poll_timeout`](Self::poll_timeout) as long as
/// anything waits, and passes on what [`poll_advice`](Self::poll_advice) gives after each look and each choice.
pub trait Adviser {
    /// The stream has this rate from now on. Zero takes back what was said.
    fn set_rate(&mut self, rate: Rate);

    /// Looks at what is queued, and gives up nothing: that is for the instant of sending.
    fn watch(&mut self, now: Instant, path: &PathState, queue: &dyn Queue);

    /// When it wants to look again if something is queued, and nothing was chosen before then.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What the source should know. What was not taken before it was told again is gone: only the newest matters.
    fn poll_advice(&mut self) -> Option<Advice>;

    /// How the buffer stands.
    fn state(&self) -> BufferState;
}
