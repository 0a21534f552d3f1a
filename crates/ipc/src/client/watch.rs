//! The client's poll descriptor: one epoll descriptor with a timer, which outlives the connections.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use timeous_core::{Duration, Instant};

use crate::clock::{now, timespec};

/// An epoll descriptor with a timer and the present connection's socket.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Time at which the timer expires, if it is set.
    due: Option<Instant>,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, due: None })
    }

    /// Adds a socket. It leaves the set when it is closed, since there is no duplicate of its descriptor.
    pub(crate) fn add(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?)
    }

    /// Makes the descriptor readable at `at`, or earlier if the timer is set already.
    pub(crate) fn by(&mut self, at: Instant) {
        if self.due.is_some_and(|due| due <= at) {
            return;
        }
        self.set(at);
    }

    /// Makes the descriptor readable at once: for events that no socket signals.
    pub(crate) fn nudge(&mut self) {
        self.by(Instant::from_nanos(1));
    }

    /// Returns whether the timer has expired, and stops it then.
    pub(crate) fn rang(&mut self) -> bool {
        if self.due.is_none_or(|due| now() < due) {
            return false;
        }
        self.still();
        true
    }

    /// Stops the timer.
    pub(crate) fn still(&mut self) {
        self.due = None;
        // The timer is unset and read: an unread expiry would keep the descriptor readable. A read without an expiry
        // fails harmlessly.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec(Duration::ZERO));
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
    }

    fn set(&mut self, at: Instant) {
        self.due = Some(at);
        // It fails only for invalid descriptors or values.
        let at = spec(at.saturating_since(Instant::ZERO));
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at).expect("our own timer takes a time");
    }

    /// Waits until the descriptor is readable or `deadline` has passed; returns whether it is readable.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        wait_for(&self.epoll, PollFlags::IN, deadline)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Waits until a descriptor is ready or `deadline` has passed; returns whether it is ready.
pub(crate) fn wait_for(descriptor: impl AsFd, what: PollFlags, deadline: Option<Instant>) -> bool {
    loop {
        let limit = deadline.map(|at| timespec(at.saturating_since(now())));
        match poll(&mut [PollFd::new(&descriptor, what)], limit.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            // Out of memory: the caller checks the descriptor.
            Err(_) => return true,
        }
    }
}

fn spec(value: Duration) -> Itimerspec {
    Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(value) }
}
