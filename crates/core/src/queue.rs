//! Late choice: the view of a send queue, the trait of a policy that decides what in it is still worth sending, and of its
//! part that speaks with the source.

use crate::adu::{AduMeta, DropReason, Fate};
use crate::advice::{Advice, BufferState};
use crate::time::{Instant, Rate};
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

    /// Whether the ADU at place `index` has left before and did not arrive, as far as can be told, so that it would leave
    /// again. Such ADUs stand before the fresh ones. Their bytes cost as much again; what else belongs to their frame has
    /// left, too, or stands behind them. To give one up is to lose it for good.
    fn was_sent(&self, index: usize) -> bool {
        let _ = index;
        false
    }

    /// Gives up the ADU at place `index`; a second time is harmless. Places keep their numbers.
    fn drop_at(&mut self, index: usize, reason: DropReason);
}

/// One queue before another, as one: what may leave again before what is fresh.
pub struct Joined<'a> {
    ahead: &'a mut dyn Queue,
    behind: &'a mut dyn Queue,
    len_ahead: usize,
}

impl<'a> Joined<'a> {
    /// All of `ahead`, then all of `behind`.
    pub fn new(ahead: &'a mut dyn Queue, behind: &'a mut dyn Queue) -> Self {
        let len_ahead = ahead.len();
        Self { ahead, behind, len_ahead }
    }
}

impl Queue for Joined<'_> {
    fn len(&self) -> usize {
        self.len_ahead + self.behind.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.get(index),
            None => self.ahead.get(index),
        }
    }

    fn was_sent(&self, index: usize) -> bool {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.was_sent(index),
            None => self.ahead.was_sent(index),
        }
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        match index.checked_sub(self.len_ahead) {
            Some(index) => self.behind.drop_at(index, reason),
            None => self.ahead.drop_at(index, reason),
        }
    }
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

    /// Whether an ADU that is not queued any more is worth being sent again, where something else could be sent in its
    /// place. Not if it cannot arrive before its deadline.
    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + path.one_way())
    }

    /// Hears what became of an ADU that left, or that others gave up.
    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        let _ = (meta, fate);
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
