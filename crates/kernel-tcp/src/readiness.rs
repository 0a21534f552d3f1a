//! Descriptors of TCP connections that the kernel reports as ready, each by its stream.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use timeous_stream::StreamId;

/// Events taken per call. Chosen by us: a higher value takes more memory; a lower one more calls.
const EVENTS: usize = 256;

/// The descriptors, watched by one of their own, which exists once there is something to watch.
#[derive(Default)]
pub(crate) struct Readiness {
    epoll: Option<OwnedFd>,
}

impl Readiness {
    /// Watches a descriptor until it is closed.
    pub(crate) fn watch(&mut self, fd: impl AsFd, id: StreamId, interest: EventFlags) -> io::Result<()> {
        let epoll = match &self.epoll {
            Some(epoll) => epoll,
            None => self.epoll.insert(epoll::create(CreateFlags::CLOEXEC)?),
        };
        Ok(epoll::add(epoll, fd, EventData::new_u64(id.0), interest)?)
    }

    /// Changes what a watched descriptor is watched for.
    pub(crate) fn change(&self, fd: impl AsFd, id: StreamId, interest: EventFlags) -> io::Result<()> {
        let Some(epoll) = &self.epoll else { return Ok(()) };
        Ok(epoll::modify(epoll, fd, EventData::new_u64(id.0), interest)?)
    }

    /// Calls `each` for streams whose descriptors are ready now. If there are more, later calls have the others.
    pub(crate) fn poll(&self, each: impl FnMut(StreamId)) {
        let Some(epoll) = &self.epoll else { return };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interrupted call is made again in the next round.
        if let Ok((events, _)) = epoll::wait(epoll, &mut events[..], Some(&at_once)) {
            events.iter().map(|event| StreamId(event.data.u64())).for_each(each);
        }
    }

    /// Returns the descriptor that is readable while a watched one is ready.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.as_ref().map(AsFd::as_fd)
    }
}
