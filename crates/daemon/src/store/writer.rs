//! Writer thread of the path memory, so that no other thread waits for the disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::file::File;
use super::memory::Memory;

/// Time for which changes are collected into one write: each write waits for the disk.
const COMPANY: Duration = Duration::from_millis(500);
/// Retry interval after a failed write.
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled on changes, and after writes.
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    memory: Memory,
    failures: u64,
    /// A thread waits for the disk.
    hurry: bool,
    stop: bool,
    writing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic, the data is still only a cache of measurements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.rung.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a limited time: the other thread may be gone.
    fn glance<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.rung.wait_timeout(state, COMPANY).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for `at_most`, less if a thread waits for the disk.
    fn linger<'a>(&self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        let calm = |state: &mut State| !state.stop && !state.hurry;
        self.rung.wait_timeout_while(state, at_most, calm).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Writer {
    pub(super) fn start(file: File, memory: Memory) -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(State { memory, ..State::default() }), ..Shared::default() });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("timeous-paths".into()).spawn(move || write(&its, file));
        if let Err(error) = &thread {
            tracing::warn!(%error, "no thread for the path memory: it is not written");
        }
        Self { shared, thread: thread.ok() }
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Memory) -> T) -> T {
        look(&self.shared.lock().memory)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        let changed = change(&mut self.shared.lock().memory);
        self.shared.rung.notify_all();
        changed
    }

    pub(super) fn failures(&self) -> u64 {
        self.shared.lock().failures
    }

    pub(super) fn flush(&self) {
        let mut state = self.shared.lock();
        let failures = state.failures;
        let lives = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while lives() && (state.memory.has_changes() || state.writing) && state.failures == failures {
            state.hurry = true;
            self.shared.rung.notify_all();
            state = self.shared.glance(state);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported already.
            let _ = thread.join();
        }
    }
}

fn write(shared: &Shared, mut file: File) {
    let mut state = shared.lock();
    loop {
        while !state.memory.has_changes() && !state.stop {
            state = shared.wait(state);
        }
        if !state.memory.has_changes() {
            return;
        }
        state = shared.linger(state, COMPANY);
        state.hurry = false;
        state.writing = true;
        let changes = state.memory.take_changes();
        drop(state);
        let done = file.apply(&changes);
        state = shared.lock();
        state.writing = false;
        if let Err(error) = &done {
            tracing::warn!(%error, "the path memory was not written");
            state.failures += 1;
            state.memory.put_back(&changes);
        }
        shared.rung.notify_all();
        if done.is_err() {
            if state.stop {
                return;
            }
            state = shared.linger(state, RETRY);
        }
    }
}
