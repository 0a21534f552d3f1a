//! A caller in the background that reconnects: for streams that survive interruptions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use timeous_core::{Duration, Instant, Rng};
use timeous_engine::{Waker, clock};
use timeous_seal::Intent;

use crate::error::{Culprit, Error};
use crate::open::{Cancel, Purpose, open_unless};
use crate::options::{Reconnect, Role};
use crate::receiver::Receiver;
use crate::sender::{Sender, both_of};
use crate::uri::{Uri, UriError};

/// First wait after a failure; it doubles up to [`Reconnect::LONGEST`]. Chosen by us: a higher value shows a picture
/// later after a short break; a lower one calls a missing receiver more often.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// Longest wait for a receiver that is busy with another caller. Chosen by us: it answers at once, and may be free at
/// any time; a higher value calls less often.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// Random variation of a wait, in percent, so that callers that lost the same receiver do not call it at once. Chosen
/// by us: a higher value spreads them more.
const JITTER_PERCENT: u64 = 10;
/// Duration from which a stream counts as a success, which resets the wait. Chosen by us: a higher value waits longer
/// after several short streams.
const LASTING: Duration = Duration::from_secs(10);

/// Event of a [`Dialer`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
#[non_exhaustive]
pub enum DialEvent {
    /// The call was answered: a stream, in both directions. The dialer is idle until [`Dialer::redial`].
    Connected(Sender, Receiver),
    /// The call failed, and is repeated.
    Failed {
        /// Reason for the failure.
        error: Error,
        /// Time until the next call.
        again_in: Duration,
    },
    /// The call failed for good: the URI is wrong, or says `reconnect=off`.
    GivenUp {
        /// Reason for the failure.
        error: Error,
    },
}

/// Calls on a thread of its own until a peer answers, and again on [`redial`](Self::redial).
/// [`Options::reconnect`](crate::Options) says whether failed calls are repeated (the default), and the longest wait.
///
/// ```no_run
/// use timeous::{Arrival, DialEvent, Dialer};
/// let dialer = Dialer::new("timeous://camera.example:7000?passphrase=file:pass".parse()?)?;
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
///         _ => {
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
    /// Rings when `redials` or `stops` has changed.
    wish: Waker,
    redials: AtomicBool,
    stops: AtomicBool,
}

impl Dialer {
    /// Starts calling, to send and perhaps to receive.
    ///
    /// # Errors
    /// [`Error::Uri`] if the URI listens; a system error if there is no thread or descriptor.
    pub fn new(uri: Uri) -> Result<Self, Error> {
        Self::with_intent(uri, Intent::Publish)
    }

    /// Starts calling, with this intent in the eyes of a listener that distinguishes them.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_intent(uri: Uri, intent: Intent) -> Result<Self, Error> {
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
        let purpose = match intent {
            Intent::Publish => Purpose::Both,
            Intent::Play => Purpose::Receive,
        };
        let caller = Caller { uri, purpose, was_connected: false, backoff, shared: shared.clone() };
        let thread = std::thread::Builder::new().name("timeous-dialer".to_owned());
        thread.spawn(move || caller.run()).map_err(system)?;
        Ok(Self { shared })
    }

    /// Returns the next event, if any.
    #[must_use]
    pub fn poll(&self) -> Option<DialEvent> {
        self.shared.events().pop_front()
    }

    /// Sleeps until there is an event, at most until `deadline`; `false` if there is none.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.shared.waker.wait(deadline.map(|at| at.saturating_since(clock::now())))
    }

    /// Waker that rings when there is an event: for an application with an event loop.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.shared.waker
    }

    /// Asks for a new stream after the last one has ended: calls at once if that lasted for ten seconds, else after a
    /// wait.
    pub fn redial(&self) {
        self.shared.redials.store(true, Ordering::Relaxed);
        self.shared.wish.wake();
    }
}

impl Drop for Dialer {
    /// Cancels a call in progress; the thread ends once the name resolver returns.
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

    /// Sleeps until `deadline` or until `is_enough`; `false` if the dialer was dropped.
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

/// State of the calling thread.
struct Caller {
    uri: Uri,
    purpose: Purpose,
    was_connected: bool,
    /// Wait before the next call; `None` if a failed call is not repeated.
    backoff: Option<Backoff>,
    shared: Arc<Shared>,
}

impl Caller {
    fn run(mut self) {
        while self.call() {}
    }

    /// Makes one call and waits for the next; `false` if there is none.
    fn call(&mut self) -> bool {
        let shared = self.shared.clone();
        let cancel = Cancel { wanted: &shared.stops, waker: &shared.wish };
        let error = match open_unless(&self.uri, self.purpose, Some(cancel)) {
            Ok(None) => return false,
            Ok(Some(opened)) => {
                self.was_connected = true;
                let (sender, receiver) = both_of(opened, self.uri.options.clone());
                return self.serve(sender, receiver);
            }
            Err(error) => error,
        };
        // Our credential has been accepted before: whoever answers now may be somebody else, and may go away.
        let is_refusal = matches!(error, Error::Sealing(_)) && self.was_connected;
        match &mut self.backoff {
            Some(backoff) if is_refusal || error.culprit() != Culprit::Caller => {
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

    /// Delivers a stream, and waits until the application asks for the next one.
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

/// Exponential backoff with jitter.
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

/// Returns a random seed from the system.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // Fallback before the system has entropy.
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
