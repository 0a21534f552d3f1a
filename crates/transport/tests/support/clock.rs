//! Virtual time that jumps from event to event, for the tests of all transports.

use timeous_core::{Duration, Instant};

/// Parts of a world: its time, what it does at once, and its next event.
pub(crate) type Parts<W> = (fn(&mut W) -> &mut Instant, fn(&mut W), fn(&mut W) -> Option<Instant>);

/// Runs a world until it is `done`, or `limit` has passed; returns whether it is done.
pub(crate) fn run_until<W>(
    world: &mut W,
    limit: Duration,
    mut done: impl FnMut(&W) -> bool,
    (now, settle, next): Parts<W>,
) -> bool {
    let end = *now(world) + limit;
    loop {
        settle(world);
        if done(world) {
            return true;
        }
        let at = next(world);
        let now = now(world);
        match at {
            // An event due at once (pacing with slack) still needs the clock to advance.
            Some(at) if at <= end => *now = at.max(*now + Duration::from_nanos(1)),
            _ => {
                *now = end;
                return false;
            }
        }
    }
}
