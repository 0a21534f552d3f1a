//! `SIGIO` for events to dispatch, for programs driven by signals (Andersen et al. §2.2.1).
//!
//! The kernel does not send `SIGIO` for the control descriptor's type, so a thread waits on it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll};

use crate::failure::Failure;
use crate::sys::{poll, signal};

/// The waiting thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Sigio {
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

const CONTROL: u64 = 0;
const END: u64 = 1;

impl Sigio {
    /// Sends `SIGIO` to this process for each new event at `control`.
    pub(crate) fn start(control: BorrowedFd<'_>) -> Result<Self, Failure> {
        let end = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Edge-triggered: undispatched events are not signalled again, new ones are.
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&both, control, epoll::EventData::new_u64(CONTROL), edges)?;
        epoll::add(&both, &end, epoll::EventData::new_u64(END), epoll::EventFlags::IN)?;
        let builder = thread::Builder::new().name("libcm-sigio".to_owned());
        let thread = signal::blocked(|| builder.spawn(move || wait(&both)));
        let thread = thread.map_err(|error| Failure::new(libc::EAGAIN, format!("no thread for SIGIO: {error}")))?;
        Ok(Self { end, thread: Some(thread) })
    }
}

fn wait(both: &OwnedFd) {
    let mut events = Vec::with_capacity(2);
    loop {
        events.clear();
        match epoll::wait(both, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if events.iter().any(|event| event.data.u64() == END) {
            return;
        }
        if !events.is_empty() {
            signal::sigio();
        }
    }
}

impl Drop for Sigio {
    fn drop(&mut self) {
        poll::ring(self.end.as_raw_fd());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}
