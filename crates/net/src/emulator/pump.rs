//! Event loop of an emulator: waits for packets and due deliveries, to the microsecond, in one thread.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use timeous_core::{Duration, Instant, Rng};

use super::end::Clock;
use super::error::EmulatorError;
use super::stop::Stop;
use crate::link::{Counters, Link, LinkConfig, Markable};
use crate::path::{Direction, Path};

/// Kernel timer slack (Linux's default, prctl(2)): the last part of a wait, done in short polls instead. A higher value
/// costs more time, and lets packets leave more exactly.
const TIMER_SLACK: Duration = Duration::from_micros(50);

/// Reason why [`run_until`](super::Emulator::run_until) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The requested time was reached.
    TimeUp,
    /// A stop was requested.
    Stopped,
}

/// State of a link at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Counters so far.
    pub counters: Counters,
    /// Packets queued for transmission.
    pub queue_len: usize,
    /// Bytes queued for transmission.
    pub queue_bytes: u64,
    /// Packets in transmission or in flight.
    pub in_flight: usize,
}

/// The two ends of an emulated path.
pub(super) trait Ends {
    type Packet: Markable + Clone + Send + 'static;

    /// Descriptors to wait for, numbered as `receive` expects.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads from the descriptor of this index, which is readable, and hands packets to the path.
    fn receive(&mut self, index: usize, clock: &Clock, path: &mut Path<Self::Packet>) -> Result<(), EmulatorError>;

    /// Delivers a packet that has arrived at the far end of `direction`.
    fn deliver(&mut self, direction: Direction, packet: Self::Packet, clock: &Clock) -> Result<(), EmulatorError>;
}

/// A path between real ends.
#[derive(Debug)]
pub(super) struct Pump<E: Ends> {
    pub(super) ends: E,
    clock: Clock,
    path: Path<E::Packet>,
}

impl<E: Ends> Pump<E> {
    pub(super) fn new(ends: E, forward: LinkConfig, back: LinkConfig, seed: u64) -> Self {
        Self { ends, clock: Clock::start(), path: Path::new(forward, back, &mut Rng::from_seed(seed)) }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn snapshot(&self, direction: Direction) -> Snapshot {
        let link: &Link<E::Packet> = self.path.link(direction);
        Snapshot {
            counters: *link.counters(),
            queue_len: link.queue_len(),
            queue_bytes: link.queue_bytes(),
            in_flight: link.in_flight(),
        }
    }

    pub(super) fn run_until(&mut self, until: Instant, stop: &Stop) -> Result<Ended, EmulatorError> {
        loop {
            let now = self.clock.now();
            while let Some((direction, _, packet)) = self.path.poll_deliver(now) {
                self.ends.deliver(direction, packet, &self.clock)?;
            }
            if now >= until {
                return Ok(Ended::TimeUp);
            }
            let wake = self.path.poll_timeout().unwrap_or(until).min(until);
            let ready = wait(stop, &self.ends.descriptors(), (wake - now) - TIMER_SLACK)?;
            match ready {
                Ready::Stop => return Ok(Ended::Stopped),
                Ready::Descriptors(indexes) => {
                    for index in indexes {
                        self.ends.receive(index, &self.clock, &mut self.path)?;
                    }
                }
            }
        }
    }
}

enum Ready {
    Stop,
    Descriptors(Vec<usize>),
}

fn wait(stop: &Stop, descriptors: &[BorrowedFd<'_>], timeout: Duration) -> Result<Ready, EmulatorError> {
    let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
    fds.extend(descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
    let nanos = timeout.as_nanos();
    let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::Descriptors(Vec::new())),
        Err(errno) => return Err(EmulatorError::system("wait for packets")(errno)),
    }
    if !fds[0].revents().is_empty() {
        return Ok(Ready::Stop);
    }
    let ready = fds[1..].iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
    Ok(Ready::Descriptors(ready.map(|(index, _)| index).collect()))
}
