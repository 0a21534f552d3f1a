//! Late choice: the view of a send queue, and the trait of a policy that decides what in it is still worth sending.

use crate::adu::{AduMeta, DropReason, Fate};
use crate::time::Instant;
use crate::transport::PathState;

/// What is queued and may still be chosen, oldest first.
///
/// The application's side of the packet ring gives one for what it has pulled back, the transport's side one for what
/// it has not sent yet. A policy cannot tell them apart, so that the same choice can be made in either place.
pub trait Queue {
    /// How many places there are, those given up included.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ADU at place `index` and its payload's length, or `None` if it was given up (or is beyond the end).
    fn get(&self, index: usize) -> Option<(&AduMeta, usize)>;

    /// Gives up the ADU at place `index`; a second time is harmless. Places keep their numbers.
    fn drop_at(&mut self, index: usize, reason: DropReason);
}

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

    /// Hears what became of an ADU that left, or that others gave up.
    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        let _ = (meta, fate);
    }
}
