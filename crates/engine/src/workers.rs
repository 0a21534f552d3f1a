//! Threads of an engine: each runs transports with a Congestion Manager of its own.

use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use timeous_core::Rng;

use crate::command::{Command, Commands};
use crate::congestion::Congestion;
use crate::error::EngineError;
use crate::waker::Waker;
use crate::worker::Worker;

/// A running thread. When it is dropped, its connections end.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    pub(crate) commands: Commands,
    pub(crate) congestion: Congestion,
    thread: Option<JoinHandle<()>>,
    /// Goes before the thread's streams do.
    life: Weak<()>,
}

impl WorkerThread {
    /// Starts a thread with this Congestion Manager.
    pub(crate) fn start(congestion: Congestion) -> Result<Self, EngineError> {
        let (waker, rng) = (Waker::new()?, unpredictable_rng()?);
        // Its descriptor is made now: a thread that finds none when it sleeps first would spin.
        let _ = waker.as_fd();
        let (commands, asked) = Commands::new(waker.clone());
        if !congestion.attach(waker.clone()) {
            return Err(EngineError::CongestionTaken);
        }
        let worker = Worker::new(asked, waker, congestion.clone(), rng);
        let running = Arc::new(());
        let life = Arc::downgrade(&running);
        let thread = std::thread::Builder::new().name("timeous-engine".to_owned()).spawn(move || worker.run(running));
        match thread {
            Ok(thread) => Ok(Self { commands, congestion, thread: Some(thread), life }),
            Err(error) => {
                congestion.detach();
                Err(error.into())
            }
        }
    }

    /// Returns whether the thread has ended: it does by itself only in a panic. It is known before its streams tell that they are over.
    pub(crate) fn has_ended(&self) -> bool {
        self.life.strong_count() == 0
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread's panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Returns a generator with a key from the system: blind attackers must not guess sequence numbers and ports (RFC 4340 §7.2,
/// RFC 6528).
fn unpredictable_rng() -> std::io::Result<Rng> {
    let mut key = [0; 16];
    // A read of up to 256 bytes is never short (getrandom(2)).
    retry_on_intr(|| getrandom(&mut key, GetRandomFlags::empty()))?;
    Ok(Rng::from_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_peers_see_cannot_be_computed_from_earlier_ones() {
        let (mut rng, mut other) = (unpredictable_rng().unwrap(), unpredictable_rng().unwrap());
        assert!(rng.is_unpredictable() && rng.fork().is_unpredictable());
        assert_ne!(rng.next_u64(), other.next_u64(), "the key is the system's");
    }

    #[test]
    #[should_panic(expected = "peers could compute")]
    fn no_worker_runs_with_numbers_that_can_be_computed() {
        let waker = Waker::new().unwrap();
        let (_commands, asked) = Commands::new(waker.clone());
        Worker::new(asked, waker, Congestion::default(), Rng::from_seed(1));
    }
}
