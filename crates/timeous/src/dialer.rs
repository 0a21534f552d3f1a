//! Calls in the background, again and again: for streams that outlive breaks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use timeous_core::{Duration, Instant, Rng};
use timeous_engine::{Waker, clock};

use crate::error::{Culprit, Error};
use crate::open::{Cancel, open_unless};
use crate::options::{Reconnect, Role};
use crate::receiver::Receiver;
use crate::sender::{Sender, both_of};
use crate::uri::{Uri, UriError};

/// Wait after the first failure. Each further wait is twice as long, up to [`Reconnect::LONGEST`]: somebody who looks on has a
/// picture again soon after a short break, and a long one costs a call in five seconds.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait for a receiver that serves another caller: it answers at once, and may be free at any moment.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// Share by which a wait is longer or shorter at random, in percent, so that callers that lost one receiver do not call it
/// together.
const JITTER_PERCENT: u64 = 10;
/// A stream that lasted so long was a success: waits begin anew.
const LASTING: Duration = Duration::from_secs(10);

/// What a [`Dialer`] tells.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
pub enum DialEvent {
    /// The call was answered: a stream, in both directions. Nothing further happens until [`Dialer::redial`].
    Connected(Sender, Receiver),
    /// It was not.
    Failed {
        /// Why.
        error: Error,
        /// Time until the next call.
        again_in: Duration,
    },
    /// It was not, and there is no next call: the URI has to be mended, or says `reconnect=off`.
    GivenUp {
        /// Why.
        error: Error,
    },
}

/// Calls on a thread of its own until somebody answers, and again when told to. [`Options::reconnect`](crate::Options) says
/// whether it calls more than once, and how long it waits at most; without it, it does.
///
/// ```no_run
/// use timeous::{Arrival, DialEvent, Dialer};
/// let dialer = Dialer::new("timeous://camera.example:7000".parse()?)?;
/// loop {
///     match dialer.poll() {
///         Some(DialEvent::Connected(_sender, mut receiver)) => {
///             while let Ok(Arrival::Data(adu)) = receiver.receive(None) {
///                 println!("{} bytes", adu.bytes.len());
///             }
///             dialer.redial();
///         }
///         Some(DialEvent::Failed { error, again_in }) => println!("{error}; again in {again_in:?}"),
///         Some(DialEvent::GivenUp { error }) => return Err(error.into()),
///         None => {
///             dialer.wait(None);
///         }
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Dialer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    events: Mutex<VecDeque<DialEvent>>,
    /// Rings when there is an event.
    waker: Waker,
    /// Rings when the thread is to look what is wanted of it.
    wish: Waker,
    redials: AtomicBool,
    stops: AtomicBool,
}

impl Dialer {
    /// Begins to call.
    ///
    /// # Errors
    /// [`Error::Uri`] if the URI listens; the system's: no thread, no descriptor.
    pub fn new(uri: Uri) -> Result<Self, Error> {
        if matches!(uri.role, Role::Listener { .. }) {
            return Err(UriError::BadMode("a dialer calls: give the URI a host").into());
        }
        let system = |error: std::io::Error| Error::Engine(error.into());
        let shared = Arc::new(Shared {
            events: Mutex::default(),
            waker: Waker::new().map_err(system)?,
            wish: Waker::new().map_err(system)?,
            redials: AtomicBool::new(false),
            stops: AtomicBool::new(false),
        });
        let longest = match uri.options.reconnect {
            Some(Reconnect::Off) => None,
            Some(Reconnect::UpTo(longest)) => Some(longest),
            None => Some(Reconnect::LONGEST),
        };
        let backoff = longest.map(|longest| Backoff::new(longest, Rng::from_seed(seed())));
        let caller = Caller { uri, backoff, shared: shared.clone() };
        let thread = std::thread::Builder::new().name("timeous-dialer".to_owned());
        thread.spawn(move || caller.run()).map_err(system)?;
        Ok(Self { shared })
    }

    /// What has happened, if anything.
    #[must_use]
    pub fn poll(&self) -> Option<DialEvent> {
        self.shared.events().pop_front()
    }

    /// Sleeps until something has happened, but not beyond `deadline`; `false` if nothing has.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.shared.waker.wait(deadline.map(|at| at.saturating_since(clock::now())))
    }

    /// Rings when something has happened: for an application with a loop of its own.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.shared.waker
    }

    /// The stream has ended, and another one is wanted: calls at once if it lasted for ten seconds, else after a wait.
    pub fn redial(&self) {
        self.shared.redials.store(true, Ordering::Relaxed);
        self.shared.wish.wake();
    }
}

impl Drop for Dialer {
    /// A call that is under way ends; the thread does, too, as soon as the resolver of names has let go of it.
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.shared.wish.wake();
    }
}

impl Shared {
    fn events(&self) -> std::sync::MutexGuard<'_, VecDeque<DialEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: DialEvent) {
        self.events().push_back(event);
        self.waker.wake();
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Sleeps until `deadline` has come or `is_enough`; `false` if the dialer is gone.
    fn sleep(&self, deadline: Option<Instant>, is_enough: impl Fn() -> bool) -> bool {
        loop {
            let left = deadline.map(|at| at.saturating_since(clock::now()));
            match (self.stops(), is_enough() || left.is_some_and(|left| left.is_zero())) {
                (true, _) => return false,
                (false, true) => return true,
                (false, false) => {
                    self.wish.wait(left);
                }
            }
        }
    }
}

/// What runs on the thread.
struct Caller {
    uri: Uri,
    /// None if a call that fails is the last one.
    backoff: Option<Backoff>,
    shared: Arc<Shared>,
}

impl Caller {
    fn run(mut self) {
        while self.call() {}
    }

    /// One call, and the wait for the next; `false` if there is none.
    fn call(&mut self) -> bool {
        let shared = self.shared.clone();
        let error = match open_unless(&self.uri, Some(Cancel { wanted: &shared.stops, waker: &shared.wish })) {
            Ok(None) => return false,
            Ok(Some(opened)) => {
                let (sender, receiver) = both_of(opened, self.uri.options.clone());
                return self.serve(sender, receiver);
            }
            Err(error) => error,
        };
        match &mut self.backoff {
            Some(backoff) if error.culprit() != Culprit::Caller => {
                let limit = if matches!(error, Error::Busy { .. }) { BUSY_WAIT } else { backoff.longest };
                let again_in = backoff.next_within(limit);
                shared.tell(DialEvent::Failed { error, again_in });
                shared.sleep(Some(clock::now() + again_in), || false)
            }
            _ => {
                shared.tell(DialEvent::GivenUp { error });
                false
            }
        }
    }

    /// Hands over a stream, and waits for the word that it has ended.
    fn serve(&mut self, sender: Sender, receiver: Receiver) -> bool {
        let (shared, began) = (self.shared.clone(), clock::now());
        shared.redials.store(false, Ordering::Relaxed);
        shared.tell(DialEvent::Connected(sender, receiver));
        if !shared.sleep(None, || shared.redials.swap(false, Ordering::Relaxed)) {
            return false;
        }
        match &mut self.backoff {
            Some(backoff) if clock::now() - began < LASTING => {
                let until = clock::now() + backoff.next();
                shared.sleep(Some(until), || false)
            }
            Some(backoff) => {
                backoff.reset();
                true
            }
            None => true,
        }
    }
}

/// Waits that become longer.
struct Backoff {
    next: Duration,
    longest: Duration,
    rng: Rng,
}

impl Backoff {
    fn new(longest: Duration, rng: Rng) -> Self {
        Self { next: FIRST_WAIT.min(longest), longest, rng }
    }

    fn next(&mut self) -> Duration {
        self.next_within(self.longest)
    }

    fn next_within(&mut self, limit: Duration) -> Duration {
        let wait = self.next.min(limit);
        self.next = (wait * 2).min(self.longest);
        let percent = 100 - JITTER_PERCENT + self.rng.below(2 * JITTER_PERCENT + 1);
        wait * percent / 100
    }

    fn reset(&mut self) {
        self.next = FIRST_WAIT.min(self.longest);
    }
}

/// A seed of the system's.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // Before the system has any randomness: what there is.
        _ => clock::now().as_nanos() ^ (u64::from(std::process::id()) << 32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_within_a_tenth_and_begin_anew() {
        let mut backoff = Backoff::new(Reconnect::LONGEST, Rng::from_seed(7));
        let mut seen = Vec::new();
        for millis in [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000] {
            let wait = backoff.next();
            let [least, most] = [90, 110].map(|percent| Duration::from_millis(millis) * percent / 100);
            assert!((least..=most).contains(&wait), "{wait:?}");
            seen.push(wait.as_nanos() * 1_000_000 / millis);
        }
        seen.dedup();
        assert!(seen.len() > 5, "all alike: {seen:?}");
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(275));
        let mut short = Backoff::new(Duration::from_millis(100), Rng::from_seed(7));
        assert!((0..9).all(|_| short.next() <= Duration::from_millis(110)));
        let mut busy = Backoff::new(Reconnect::LONGEST, Rng::from_seed(7));
        assert!((0..9).all(|_| busy.next_within(BUSY_WAIT) <= BUSY_WAIT * 110 / 100));
    }
}
