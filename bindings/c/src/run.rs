//! The library's own event loop, with the application's descriptors.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_short};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use timeous::core::Duration;

use crate::failure::Failure;
use crate::sys::callback::{Callback, ReadyFn};
use crate::sys::{errno, poll};

/// Set by `cm_stop`, which a signal handler may call: so it only uses atomics.
static STOP: AtomicBool = AtomicBool::new(false);
static BELL: AtomicI32 = AtomicI32::new(-1);

#[derive(Clone, Copy, Debug)]
struct Watch {
    events: c_short,
    callback: Callback<ReadyFn>,
}

/// Event loop, with the descriptors it watches beside the manager's.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Rung when the watched descriptors change, or the loop is to end.
    bell: OwnedFd,
    watches: Mutex<BTreeMap<c_int, Watch>>,
    running: AtomicBool,
}

impl Loop {
    pub(crate) fn new() -> Result<Self, Failure> {
        let bell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        BELL.store(bell.as_raw_fd(), SeqCst);
        Ok(Self { bell, watches: Mutex::default(), running: AtomicBool::new(false) })
    }

    pub(crate) fn watch(&self, fd: c_int, events: c_short, callback: Callback<ReadyFn>) {
        self.watches.lock().insert(fd, Watch { events, callback });
        poll::ring(self.bell.as_raw_fd());
    }

    pub(crate) fn forget(&self, fd: c_int) {
        self.watches.lock().remove(&fd);
        poll::ring(self.bell.as_raw_fd());
    }
}

/// Ends the loop, or the next one.
pub(crate) fn stop() {
    let before = errno::get();
    STOP.store(true, SeqCst);
    poll::ring(BELL.load(SeqCst));
    errno::set(before);
}

/// Clears the running flag when the loop ends, however it ends.
struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Loop {
    /// Waits, and calls `dispatch` when `control` is readable or `limit` has passed, until it is stopped.
    pub(crate) fn run(
        &self,
        control: c_int,
        limit: impl Fn() -> Option<Duration>,
        dispatch: impl Fn(),
    ) -> Result<(), Failure> {
        if self.running.swap(true, SeqCst) {
            return Err(Failure::new(
                libc::EBUSY,
                "cm_loop() runs already: one thread at a time, and not in a callback",
            ));
        }
        let _running = Running(&self.running);
        let mut entries = Vec::new();
        while !STOP.swap(false, SeqCst) {
            entries.clear();
            entries.extend([poll::entry(control, libc::POLLIN), poll::entry(self.bell.as_raw_fd(), libc::POLLIN)]);
            entries.extend(self.watches.lock().iter().map(|(&fd, watch)| poll::entry(fd, watch.events)));
            let limit = limit();
            if !poll::wait(&mut entries, limit)? {
                continue;
            }
            if entries[1].revents != 0 {
                // Empty if another thread has read it.
                let _ = rustix::io::read(&self.bell, &mut [0; 8]);
            }
            if entries[0].revents != 0 || limit.is_some() {
                dispatch();
            }
            entries[2..].iter().filter(|entry| entry.revents != 0).for_each(|entry| self.ready(entry));
        }
        Ok(())
    }

    fn ready(&self, entry: &libc::pollfd) {
        // An earlier callback of this round may have removed it.
        let Some(watch) = self.watches.lock().get(&entry.fd).copied() else { return };
        watch.callback.call(entry.fd, entry.revents);
        if entry.revents & libc::POLLNVAL != 0 {
            // The application has closed it: it would be ready for ever.
            self.forget(entry.fd);
        }
    }
}
