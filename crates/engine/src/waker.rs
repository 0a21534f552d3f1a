//! A signal from one thread to another, with a descriptor for those who poll, and a list of many that were signalled.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, Timespec};
use rustix::thread::futex;
use timeous_core::{Duration, Instant};

use crate::clock;

/// Wakes threads that wait for it or poll its descriptor. Clones share it.
///
/// The descriptor exists once somebody has asked for it: a thousand streams whose application waits by
/// [`wait`](Self::wait), or by a [`ReadyList`], need no descriptor. A signal costs a system call only if somebody
/// sleeps or has the descriptor, and only the first one since the last [`clear`](Self::clear).
#[derive(Clone)]
pub struct Waker(Arc<Inner>);

struct Inner {
    /// 1: signalled.
    signal: AtomicU32,
    /// Threads asleep in `wait`.
    sleepers: AtomicU32,
    /// Descriptor that is readable while it is signalled.
    shown: OnceLock<OwnedFd>,
    /// List that the signal is reported to.
    list: OnceLock<(ReadyList, u64)>,
}

impl Waker {
    /// Creates a waker that is not signalled.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        // Kept for `as_fd`, which cannot fail.
        if ALWAYS_READABLE.get().is_none() {
            let _ = ALWAYS_READABLE.set(eventfd(1)?);
        }
        let (signal, sleepers) = (AtomicU32::new(0), AtomicU32::new(0));
        Ok(Self(Arc::new(Inner { signal, sleepers, shown: OnceLock::new(), list: OnceLock::new() })))
    }

    /// Signals it: the descriptor is readable until [`clear`](Self::clear). A second signal has no effect.
    pub fn wake(&self) {
        let Inner { signal, sleepers, shown, list } = &*self.0;
        if signal.swap(1, Ordering::SeqCst) == 1 {
            return;
        }
        if sleepers.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(signal, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
        if let Some(fd) = shown.get() {
            // The only possible failure is a full counter, which is readable, too.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
        if let Some((list, key)) = list.get() {
            list.push(*key);
        }
    }

    /// Clears the signal; returns `true` if there was one.
    pub fn clear(&self) -> bool {
        // The descriptor first: a signal that comes between is cleared, too, and its cause is looked for after this.
        let was_readable = self.0.shown.get().is_some_and(|fd| rustix::io::read(fd, &mut [0u8; 8]).is_ok());
        (self.0.signal.swap(0, Ordering::SeqCst) == 1) | was_readable
    }

    /// Sleeps until it is signalled, or until `limit` has passed, without clearing. Returns `true` if it was signalled.
    pub fn is_rung(&self, limit: Option<Duration>) -> bool {
        let Inner { signal, sleepers, .. } = &*self.0;
        let until = limit.map(|limit| clock::now() + limit);
        sleepers.fetch_add(1, Ordering::SeqCst);
        let is_rung = loop {
            if signal.load(Ordering::SeqCst) == 1 {
                break true;
            }
            let left = until.map(|until| until.saturating_since(clock::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break false;
            }
            // Woken, interrupted, too late or signalled before: the loop finds out.
            let _ = futex::wait(signal, futex::Flags::PRIVATE, 0, left.map(timespec).as_ref());
        };
        sleepers.fetch_sub(1, Ordering::SeqCst);
        is_rung
    }

    /// Sleeps until it is signalled, or until `limit` has passed, and clears it. Returns `true` if it was signalled.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let rung = self.is_rung(limit);
        self.clear();
        rung
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").field("signal", &self.0.signal).finish_non_exhaustive()
    }
}

impl AsFd for Waker {
    /// Returns the descriptor, and creates it at the first call. In a process without a free descriptor it is one that
    /// is always readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Inner { signal, shown, .. } = &*self.0;
        if shown.get().is_none() {
            let Ok(fd) = eventfd(0) else {
                tracing::warn!("no descriptor is left for a waker: its stream is polled all the time");
                return ALWAYS_READABLE.get().expect("it was made with the first waker").as_fd();
            };
            let _ = shown.set(fd);
        }
        let fd = shown.get().expect("it was set above");
        // A signal before the descriptor was there.
        if signal.load(Ordering::SeqCst) == 1 {
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
        fd.as_fd()
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Stands in where a process has no descriptor left.
static ALWAYS_READABLE: OnceLock<OwnedFd> = OnceLock::new();

fn eventfd(value: u32) -> std::io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(value, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Streams that have something to poll, by keys: for an application with thousands of them, which looks at those only.
///
/// ```
/// use timeous_engine::{ReadyList, Waker};
/// let (list, waker) = (ReadyList::new()?, Waker::new()?);
/// list.add(&waker, 7);
/// waker.wake();
/// assert_eq!(list.poll(), Some(7));
/// waker.clear(); // then poll the stream: a later signal reports the key again
/// assert_eq!(list.poll(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadyList(Arc<List>);

#[derive(Debug)]
struct List {
    keys: Mutex<std::collections::VecDeque<u64>>,
    waker: Waker,
    /// Whether the waker was signalled since the list was last found empty.
    is_rung: AtomicBool,
}

impl ReadyList {
    /// Creates an empty list.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(List { keys: Mutex::default(), waker: Waker::new()?, is_rung: AtomicBool::new(false) })))
    }

    /// Reports the waker's signals from now on, each by `key`. A waker reports to one list, for good; `false`: it
    /// reports to another one already.
    pub fn add(&self, waker: &Waker, key: u64) -> bool {
        let is_new = waker.0.list.set((self.clone(), key)).is_ok();
        // A signal before.
        if is_new && waker.0.signal.load(Ordering::SeqCst) == 1 {
            self.push(key);
        }
        is_new
    }

    /// Returns the key of a waker that was signalled. Clear that waker, then poll its stream until there is nothing
    /// more: a later signal reports the key again.
    pub fn poll(&self) -> Option<u64> {
        let mut keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.pop_front();
        if key.is_none() && self.0.is_rung.swap(false, Ordering::SeqCst) {
            self.0.waker.clear();
        }
        key
    }

    /// Sleeps until there is a key, at most until `deadline`; `false`: there is none.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.0.waker.is_rung(deadline.map(|at| at.saturating_since(clock::now())))
    }

    /// Returns the waker that is signalled while there are keys.
    pub fn waker(&self) -> &Waker {
        &self.0.waker
    }

    fn push(&self, key: u64) {
        let mut keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push_back(key);
        if !self.0.is_rung.swap(true, Ordering::SeqCst) {
            self.0.waker.wake();
        }
    }
}

/// Converts a duration for the system.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    const NANOS: u64 = 1_000_000_000;
    let nanos = duration.as_nanos();
    Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as i64 }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags};

    use super::*;

    fn is_readable(fd: impl AsFd) -> bool {
        let at_once = timespec(Duration::ZERO);
        rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)) == Ok(1)
    }

    #[test]
    fn a_signal_before_the_wait_is_not_missed_and_counts_once() {
        let waker = Waker::new().unwrap();
        waker.wake();
        waker.clone().wake();
        assert!(waker.wait(Some(Duration::ZERO)));
        assert!(!waker.wait(Some(Duration::ZERO)));
    }

    #[test]
    fn the_descriptor_is_readable_while_it_is_signalled() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(is_readable(&waker), "it was signalled before it was shown");
        assert!(waker.clear() && !is_readable(&waker) && !waker.clear());
        waker.wake();
        assert!(is_readable(&waker));
        assert!(waker.wait(None) && !is_readable(&waker));
    }

    #[test]
    fn a_sleeper_is_woken_by_another_thread() {
        let (here, there) = (Waker::new().unwrap(), Waker::new().unwrap());
        let (one, two) = (here.clone(), there.clone());
        let thread = std::thread::spawn(move || {
            for _ in 0..10_000 {
                assert!(two.wait(Some(Duration::from_secs(10))));
                one.wake();
            }
        });
        for _ in 0..10_000 {
            there.wake();
            assert!(here.wait(Some(Duration::from_secs(10))), "a signal was lost");
        }
        thread.join().unwrap();
    }

    #[test]
    fn a_list_reports_each_signalled_waker_once() {
        let list = ReadyList::new().unwrap();
        let wakers: Vec<_> = (0..3).map(|_| Waker::new().unwrap()).collect();
        wakers[2].wake();
        assert!(wakers.iter().zip(0..).all(|(waker, key)| list.add(waker, key)));
        assert!(!ReadyList::new().unwrap().add(&wakers[0], 9), "one list for each");
        wakers[0].wake();
        wakers[0].wake();
        assert!(list.wait(None));
        assert_eq!([list.poll(), list.poll(), list.poll()], [Some(2), Some(0), None]);
        assert!(!list.wait(Some(clock::now())), "nothing is left");
        wakers[0].wake();
        assert_eq!(list.poll(), None, "not cleared yet");
        wakers[0].clear();
        wakers[0].wake();
        assert_eq!(list.poll(), Some(0));
    }
}
