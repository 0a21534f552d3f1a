//! The one descriptor to poll: it outlives every connection, and has a clock in it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use timeous_core::{Duration, Instant};

use crate::clock::{now, timespec};

/// An epoll descriptor with a timer, and with the socket of the connection of the moment.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer rings, if it is set.
    due: Option<Instant>,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, due: None })
    }

    /// Watches a socket. It is forgotten when it is closed: nobody else has it.
    pub(crate) fn add(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?)
    }

    /// Has the descriptor ring at `at`, or earlier if it is set already.
    pub(crate) fn by(&mut self, at: Instant) {
        if self.due.is_some_and(|due| due <= at) {
            return;
        }
        self.set(at);
    }

    /// Has the descriptor ring at once: something waits that no socket tells of.
    pub(crate) fn nudge(&mut self) {
        self.by(Instant::from_nanos(1));
    }

    /// Whether the timer has rung; it is silent then until it is set again.
    pub(crate) fn rang(&mut self) -> bool {
        if self.due.is_none_or(|due| now() < due) {
            return false;
        }
        self.still();
        true
    }

    /// The timer does not ring, until it is set again.
    pub(crate) fn still(&mut self) {
        self.due = None;
        // Unset and read: a count that is left would ring for ever. Nothing to read is as well.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec(Duration::ZERO));
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
    }

    fn set(&mut self, at: Instant) {
        self.due = Some(at);
        // It can fail for a bad descriptor or bad values only, which these are not.
        let at = spec(at.saturating_since(Instant::ZERO));
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at).expect("our own timer takes a time");
    }

    /// Sleeps until there is something, but not beyond `deadline`. `true` if there is.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        wait_for(&self.epoll, PollFlags::IN, deadline)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Sleeps until a descriptor is ready, but not beyond `deadline`. `true` if it is.
pub(crate) fn wait_for(descriptor: impl AsFd, what: PollFlags, deadline: Option<Instant>) -> bool {
    loop {
        let limit = deadline.map(|at| timespec(at.saturating_since(now())));
        match poll(&mut [PollFd::new(&descriptor, what)], limit.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            // No memory at present: looking once more is as good as sleeping.
            Err(_) => return true,
        }
    }
}

fn spec(value: Duration) -> Itimerspec {
    Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(value) }
}
