//! Send queues of flows with a socket (`CM_BUF`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;
use timeous::core::Instant;

use crate::failure::Failure;

const CAPACITY: usize = 64 << 10;
/// Maximum number of grants requested at once: a window's worth on most paths.
const REQUESTS: usize = 64;
/// Maximum number of unpolled departures; the oldest are dropped first.
const DEPARTURES: usize = 4_096;

/// Send queue of a flow, with its socket.
#[derive(Debug)]
pub(crate) struct Buffer {
    socket: OwnedFd,
    mtu: u64,
    capacity: usize,
    queue: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Grants requested and not received yet.
    asked: usize,
    departures: VecDeque<Instant>,
}

/// Send queues of all flows that have one.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<BTreeMap<i64, Buffer>>);

impl Buffer {
    fn new(socket: OwnedFd, mtu: u64) -> Self {
        let (queue, departures) = (VecDeque::new(), VecDeque::new());
        Self { socket, mtu, capacity: CAPACITY, queue, bytes: 0, asked: 0, departures }
    }

    /// Queues a datagram, if there is room.
    pub(crate) fn push(&mut self, datagram: &[u8]) -> Result<(), Failure> {
        if datagram.len() as u64 > self.mtu {
            let words = format!("{} bytes: the flow's packets have at most {}", datagram.len(), self.mtu);
            return Err(Failure::new(libc::EMSGSIZE, words));
        }
        // An empty queue always takes one, however small the buffer.
        if !self.queue.is_empty() && self.bytes + datagram.len() > self.capacity {
            return Err(Failure::new(libc::EAGAIN, "the buffer is full: try again after cm_dispatch()"));
        }
        self.queue.push_back(datagram.into());
        self.bytes += datagram.len();
        Ok(())
    }

    /// Number of grants to request now; they count as requested.
    pub(crate) fn wants(&mut self) -> u32 {
        let more = self.queue.len().min(REQUESTS).saturating_sub(self.asked);
        self.asked += more;
        more as u32
    }

    /// Notes that requests failed.
    pub(crate) fn asked_in_vain(&mut self, grants: u32) {
        self.asked = self.asked.saturating_sub(grants as usize);
    }

    /// Notes that no request is pending any more.
    pub(crate) fn forget_asked(&mut self) {
        self.asked = 0;
    }

    /// Handles a grant: returns the bytes sent, or `None` if the socket has no room.
    pub(crate) fn leave(&mut self, now: Instant) -> Option<u64> {
        self.asked = self.asked.saturating_sub(1);
        let Some(datagram) = self.queue.front() else { return Some(0) };
        if rustix::net::send(&self.socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Err(Errno::AGAIN) {
            return None;
        }
        // A datagram that the network refuses counts as sent, and is lost.
        let len = datagram.len();
        self.bytes -= len;
        self.queue.pop_front();
        if self.departures.len() == DEPARTURES {
            self.departures.pop_front();
        }
        self.departures.push_back(now);
        Some(len as u64)
    }
}

impl Buffers {
    pub(crate) fn with<T>(&self, flow: i64, work: impl FnOnce(&mut Buffer) -> T) -> Result<T, Failure> {
        let no = || Failure::new(libc::ENOTCONN, format!("flow {flow} has no socket: give it one by CM_BUF"));
        self.0.lock().get_mut(&flow).map(work).ok_or_else(no)
    }

    pub(crate) fn add(&self, flow: i64, socket: OwnedFd, mtu: u64) -> Result<(), Failure> {
        match self.0.lock().entry(flow) {
            Entry::Occupied(_) => Err(Failure::new(libc::EBUSY, format!("flow {flow} has a socket already"))),
            Entry::Vacant(place) => {
                place.insert(Buffer::new(socket, mtu));
                Ok(())
            }
        }
    }

    /// All flows with a send queue.
    pub(crate) fn flows(&self) -> Vec<i64> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn set_capacity(&self, flow: i64, bytes: usize) -> Result<(), Failure> {
        self.with(flow, |buffer| buffer.capacity = bytes)
    }

    /// Number of datagrams queued.
    pub(crate) fn queued(&self, flow: i64) -> Result<usize, Failure> {
        self.with(flow, |buffer| buffer.queue.len())
    }

    /// Returns the oldest unpolled departure time.
    pub(crate) fn departure(&self, flow: i64) -> Result<Instant, Failure> {
        let none = || Failure::new(libc::EAGAIN, "no other datagram has left so far");
        self.with(flow, |buffer| buffer.departures.pop_front())?.ok_or_else(none)
    }

    pub(crate) fn forget(&self, flow: i64) {
        self.0.lock().remove(&flow);
    }
}
