//! Flows that send by themselves what was queued, as it is granted (Andersen et al. §3.3, `CM_BUF`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::SendFlags;
use timeous::cm::FlowId;
use timeous::core::Instant;

use crate::failure::Failure;
use crate::library::Library;

const CAPACITY: usize = 64 << 10;
/// So many grants are asked for at once: a window's worth on most paths.
const REQUESTS: usize = 64;
/// Departures that nobody asks for are forgotten, the oldest first.
const DEPARTURES: usize = 4_096;

/// What waits for its grants, and by which socket it leaves.
#[derive(Debug)]
struct Buffer {
    socket: OwnedFd,
    mtu: u64,
    capacity: usize,
    queue: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Grants that were asked for and have not come.
    asked: usize,
    departures: VecDeque<Instant>,
}

/// Those of all flows that have one.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<BTreeMap<i64, Buffer>>);

impl Buffer {
    fn wants(&mut self) -> u32 {
        let more = self.queue.len().min(REQUESTS).saturating_sub(self.asked);
        self.asked += more;
        more as u32
    }

    /// A grant came; what was sent by it, or `None` if the socket has no room just now.
    fn leave(&mut self, now: Instant) -> Option<u64> {
        self.asked = self.asked.saturating_sub(1);
        let Some(datagram) = self.queue.front() else { return Some(0) };
        if rustix::net::send(&self.socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Err(Errno::AGAIN) {
            return None;
        }
        // What the network refuses is lost, and was sent.
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
    fn with<T>(&self, flow: i64, work: impl FnOnce(&mut Buffer) -> T) -> Result<T, Failure> {
        let no = || Failure::new(libc::ENOTCONN, format!("flow {flow} has no socket: give it one by CM_BUF"));
        self.0.lock().get_mut(&flow).map(work).ok_or_else(no)
    }

    pub(crate) fn set_capacity(&self, flow: i64, bytes: usize) -> Result<(), Failure> {
        self.with(flow, |buffer| buffer.capacity = bytes)
    }

    /// How many datagrams wait.
    pub(crate) fn queued(&self, flow: i64) -> Result<usize, Failure> {
        self.with(flow, |buffer| buffer.queue.len())
    }

    /// When the next datagram left of which this was not told yet.
    pub(crate) fn departure(&self, flow: i64) -> Result<Instant, Failure> {
        let none = || Failure::new(libc::EAGAIN, "no other datagram has left so far");
        self.with(flow, |buffer| buffer.departures.pop_front())?.ok_or_else(none)
    }

    pub(crate) fn forget(&self, flow: i64) {
        self.0.lock().remove(&flow);
    }
}

impl Library {
    /// Lets a flow send by itself, on a connected socket.
    pub(crate) fn buffer(&self, flow: i64, socket: OwnedFd) -> Result<(), Failure> {
        let mtu = self.mtu(flow)?;
        let mut buffers = self.buffers.0.lock();
        if buffers.contains_key(&flow) {
            return Err(Failure::new(libc::EBUSY, format!("flow {flow} has a socket already")));
        }
        let (queue, departures) = (VecDeque::new(), VecDeque::new());
        buffers.insert(flow, Buffer { socket, mtu, capacity: CAPACITY, queue, bytes: 0, asked: 0, departures });
        Ok(())
    }

    /// Queues a datagram.
    pub(crate) fn send(&self, flow: i64, datagram: &[u8]) -> Result<(), Failure> {
        let id = self.id(flow)?;
        let wants = self.buffers.with(flow, |buffer| {
            if datagram.len() as u64 > buffer.mtu {
                let words = format!("{} bytes, but packets of flow {flow} have at most {}", datagram.len(), buffer.mtu);
                return Err(Failure::new(libc::EMSGSIZE, words));
            }
            // One is always taken, however small the buffer.
            if !buffer.queue.is_empty() && buffer.bytes + datagram.len() > buffer.capacity {
                return Err(Failure::new(libc::EAGAIN, "the buffer is full: try again after cm_dispatch()"));
            }
            buffer.queue.push_back(datagram.into());
            buffer.bytes += datagram.len();
            Ok(buffer.wants())
        })??;
        self.ask(flow, id, wants);
        Ok(())
    }

    /// A grant came for a flow; `false` if the flow has no socket, so that another has to be told.
    pub(crate) fn leaves(&self, flow: i64, id: FlowId) -> bool {
        let Ok(sent) = self.buffers.with(flow, |buffer| buffer.leave(timeous::clock::now())) else { return false };
        // If the flow is gone by now, so is what it sent.
        let _ = self.account(id, sent.unwrap_or(0));
        let wants = self.buffers.with(flow, Buffer::wants);
        self.ask(flow, id, wants.unwrap_or(0));
        true
    }

    /// Asks for what waits, once the flow is open again.
    pub(crate) fn ask_again(&self, flow: i64, id: FlowId) {
        let wants = self.buffers.with(flow, |buffer| {
            buffer.asked = 0;
            buffer.wants()
        });
        self.ask(flow, id, wants.unwrap_or(0));
    }

    /// There is room for requests again.
    pub(crate) fn ask_for_all(&self) {
        let flows: Vec<i64> = self.buffers.0.lock().keys().copied().collect();
        for flow in flows {
            if let (Ok(id), Ok(wants)) = (self.id(flow), self.buffers.with(flow, Buffer::wants)) {
                self.ask(flow, id, wants);
            }
        }
    }

    fn ask(&self, flow: i64, id: FlowId, wants: u32) {
        if wants > 0 && self.manager.request_many(id, wants).is_err() {
            // Too many wait, or the daemon is gone: the next datagram, grant or reconnection asks for them.
            let _ = self.buffers.with(flow, |buffer| buffer.asked = buffer.asked.saturating_sub(wants as usize));
        }
    }
}
