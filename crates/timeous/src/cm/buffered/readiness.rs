//! One descriptor for a socket and its manager.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::super::manager::CongestionManager;

/// An epoll descriptor: readable when either is, or when the socket has room again for what it refused.
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

    /// Whether the socket is waited for to have room again.
    pub(super) fn waits_for_room(&self) -> bool {
        self.for_room
    }

    /// The socket was full.
    pub(super) fn wait_for_room(&mut self, socket: &UdpSocket) -> io::Result<()> {
        self.for_room = true;
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(0), EventFlags::IN | EventFlags::OUT)?)
    }

    /// Whether the socket was full, and is worth another try.
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
