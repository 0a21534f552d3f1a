//! Threads of an engine: each runs transports with a Congestion Manager of its own.

use std::thread::JoinHandle;

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
}

impl WorkerThread {
    /// Starts a thread with this Congestion Manager.
    pub(crate) fn start(congestion: Congestion) -> Result<Self, EngineError> {
        let waker = Waker::new()?;
        let (commands, asked) = Commands::new(waker.clone());
        if !congestion.attach(waker.clone()) {
            return Err(EngineError::CongestionTaken);
        }
        let worker = Worker::new(asked, waker, congestion.clone());
        let thread = std::thread::Builder::new().name("timeous-engine".to_owned()).spawn(move || worker.run());
        match thread {
            Ok(thread) => Ok(Self { commands, congestion, thread: Some(thread) }),
            Err(error) => {
                congestion.detach();
                Err(error.into())
            }
        }
    }

    /// Returns whether the thread has ended: it does by itself only in a panic.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
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
