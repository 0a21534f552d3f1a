//! Test support for the emulators.

use std::thread::JoinHandle;

use timeous_core::Instant;
use timeous_net::emulator::{Emulator, Ended, Stop, Stopper};

pub(crate) use crate::tshark::{COMPLAINTS, assert_no_complaint, skip, tshark};

/// An emulator that runs in a thread of its own until it is dropped or taken back.
pub(crate) struct Running<E> {
    stopper: Stopper,
    thread: Option<JoinHandle<E>>,
}

impl<E: Emulator + Send + 'static> Running<E> {
    pub(crate) fn start(mut emulator: E) -> Self {
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let run = move || {
            assert_eq!(emulator.run_until(Instant::FAR_FUTURE, &stop).unwrap(), Ended::Stopped);
            emulator.flush().unwrap();
            emulator
        };
        Self { stopper, thread: Some(std::thread::spawn(run)) }
    }

    /// Stops it.
    pub(crate) fn stop(mut self) -> E {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Time limit, longer than any success takes.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
