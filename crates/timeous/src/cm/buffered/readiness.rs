//! One descriptor for a socket and its manager's events.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::super::manager::CongestionManager;

/// Epoll descriptor: readable when either is, or when a full socket has room again.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: OwnedFd,
    for_room: bool,
}

impl Readiness {
    pub(super) fn of(socket: &UdpSocket, cm: &CongestionManager) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, socket, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&epoll, cm.descriptor(), EventData::new_u64(1), EventFlags::IN)?;
        Ok(Self { epoll, for_room: false })
    }

    /// Whether it waits for room in the socket.
    pub(super) fn waits_for_room(&self) -> bool {
        self.for_room
    }

    /// Starts waiting for room in a full socket.
    pub(super) fn wait_for_room(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.for_room = true;
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(0), EventFlags::IN | EventFlags::OUT)?)
    }

    /// Stops waiting for room; returns whether it did wait, so that sending is worth another try.
    pub(super) fn stop_waiting_for_room(&mut self, socket: &UdpSocket) -> io::Result<bool> {
        if self.for_room {
            epoll::modify(&self.epoll, socket, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(std::mem::take(&mut self.for_room))
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
