//! State of this process that its threads and the library's thread share: sockets, send queues, and what was received.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, getpid};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::{Timespec, nanosleep};
use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::datagram::Datagram;
use crate::outlet::Outlet;
use crate::queue::SendQueue;
use crate::rare::Rare;
use crate::reporter::Reporter;
use crate::settings::Settings;
use crate::statistics::Figures;
use crate::sys::sockets;

/// Maximum number of destinations with a flow. Chosen by us: bounds memory; datagrams to others leave as they are.
const MAX_FLOWS: usize = 256;
/// Longest time for which a call on a non-blocking socket waits for room: a program that polls for room, which the kernel has,
/// would not rest otherwise. Chosen by us: a higher value disturbs an event loop.
const NONBLOCKING_WAIT: Duration = Duration::from_millis(1);
/// Time between looks at the queues when the program ends. Chosen by us: a higher value ends later.
const FLUSH_LOOK: Duration = Duration::from_millis(2);

/// Socket of the program.
#[derive(Debug)]
struct Socket {
    outlet: Arc<Outlet>,
    /// Address that it is connected to, once looked up.
    peer: Option<SocketAddr>,
}

/// Program's sockets, and send queues by destination.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    sockets: BTreeMap<RawFd, Socket>,
    rare: Rare,
    /// Send queue of each destination with a flow.
    pub(crate) queues: BTreeMap<SocketAddr, SendQueue>,
    /// Figures of each destination, written by the library's thread.
    pub(crate) figures: BTreeMap<SocketAddr, Figures>,
    /// Whether datagrams are no longer queued: the library's thread has failed.
    pub(crate) has_failed: bool,
}

/// Ports at which this process receives, and its reports.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) reporter: Reporter,
    ports: BTreeMap<RawFd, u16>,
}

/// State of this process.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    pub(crate) settings: Settings,
    sending: Mutex<Sending>,
    /// Signalled when a queue has become shorter.
    room: Condvar,
    receiving: Mutex<Receiving>,
    /// Whether this process receives, and has to be reachable at a feedback port.
    is_receiver: AtomicBool,
    bell: OwnedFd,
    is_asleep: AtomicBool,
}

/// Result of a call to send that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The datagram is queued, and the call has succeeded.
    Queued,
    /// The call fails with this `errno`.
    Failed(i32),
}

impl Process {
    /// Creates the state of this process; `None` if the system refuses a descriptor.
    pub(crate) fn new(settings: Settings) -> Option<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let receiving = Receiving { reporter: Reporter::new(random_key()), ports: BTreeMap::new() };
        Some(Self {
            pid: getpid(),
            settings,
            sending: Mutex::new(Sending::default()),
            room: Condvar::new(),
            receiving: Mutex::new(receiving),
            is_receiver: AtomicBool::new(false),
            bell,
            is_asleep: AtomicBool::new(false),
        })
    }

    /// Whether the caller is this process. A child of `vfork()` has its memory, but descriptors of its own.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == getpid()
    }

    /// Locks sockets and queues.
    pub(crate) fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks ports and reports.
    pub(crate) fn receiving(&self) -> MutexGuard<'_, Receiving> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a datagram of the program, which is built by `datagram` once its fate is clear. `None` if it leaves as it is.
    pub(crate) fn send(
        &self,
        fd: RawFd,
        to: Option<SocketAddr>,
        len: usize,
        may_wait: bool,
        datagram: impl FnOnce(SocketAddr) -> Datagram,
    ) -> Option<Sent> {
        let mut sending = self.sending();
        let (outlet, to) = sending.outlet(fd, to)?;
        let remote = SocketAddr::new(to.ip().to_canonical(), to.port());
        if sending.has_failed || !self.is_controlled(remote) {
            return None;
        }
        if !sending.queues.contains_key(&remote) {
            let is_free = sending.queues.len() >= MAX_FLOWS || sending.rare.take(clock::now(), remote);
            if is_free || sockets::may_broadcast(fd) {
                return None;
            }
            sending.queues.insert(remote, SendQueue::new(self.settings.latency));
        }
        if let Some(error) = outlet.take_error() {
            return Some(Sent::Failed(error));
        }
        let has_room = |sending: &mut Sending| sending.queues.get(&remote).is_none_or(|queue| queue.has_room(len));
        if !has_room(&mut sending) {
            let limit = match may_wait && !sockets::is_nonblocking(fd) {
                // Whatever waits in the queue leaves or expires by then.
                true => self.settings.latency * 2,
                false => NONBLOCKING_WAIT,
            };
            let wait = self.room.wait_timeout_while(sending, limit.into(), |sending| !has_room(sending));
            sending = wait.unwrap_or_else(PoisonError::into_inner).0;
            if !has_room(&mut sending) {
                return Some(Sent::Failed(libc::EAGAIN));
            }
        }
        // It may have gone while this thread waited.
        let queue = sending.queues.entry(remote).or_insert_with(|| SendQueue::new(self.settings.latency));
        queue.push(clock::now(), outlet, datagram(to));
        drop(sending);
        self.ring();
        Some(Sent::Queued)
    }

    /// Whether datagrams to an address are controlled.
    fn is_controlled(&self, remote: SocketAddr) -> bool {
        let ip = remote.ip();
        let is_group = ip.is_multicast() || ip == IpAddr::from([255; 4]);
        remote.port() != 0 && !is_group && (self.settings.loopback || !sockets::is_loopback(ip))
    }

    /// Notes that a socket's descriptor is about to be closed. Its queued datagrams leave nevertheless.
    pub(crate) fn closes(&self, fd: RawFd) {
        if let Some(socket) = self.sending().sockets.remove(&fd)
            && Arc::strong_count(&socket.outlet) > 1
        {
            socket.outlet.keep();
        }
        let mut receiving = self.receiving();
        if let Some(port) = receiving.ports.remove(&fd)
            && !receiving.ports.values().any(|&other| other == port)
        {
            receiving.reporter.unwatch(port);
        }
    }

    /// Descriptors that are known from `first` to `last`.
    pub(crate) fn descriptors(&self, first: RawFd, last: RawFd) -> Vec<RawFd> {
        let known: Vec<_> = self.sending().sockets.range(first..=last).map(|(&fd, _)| fd).collect();
        let received = self.receiving().ports.range(first..=last).map(|(&fd, _)| fd).collect();
        [known, received].concat()
    }

    /// Notes that a socket is connected to another address now, or to none.
    pub(crate) fn reconnected(&self, fd: RawFd) {
        if let Some(socket) = self.sending().sockets.get_mut(&fd) {
            socket.peer = None;
        }
    }

    /// Notes a datagram that came from `source`.
    pub(crate) fn received(&self, fd: RawFd, source: IpAddr, datagram: &[u8]) {
        if !self.settings.loopback && sockets::is_loopback(source) {
            return;
        }
        let mut receiving = self.receiving();
        let port = match receiving.ports.get(&fd) {
            Some(&port) => port,
            None => {
                let Some(port) = sockets::local_port(fd) else { return };
                receiving.ports.insert(fd, port);
                receiving.reporter.watch(port);
                port
            }
        };
        let is_reported = receiving.reporter.observe(clock::now(), source, port, datagram);
        drop(receiving);
        if !self.is_receiver.swap(true, Ordering::Relaxed) || is_reported {
            self.ring();
        }
    }

    /// Whether this process has to be reachable at a feedback port.
    pub(crate) fn is_receiver(&self) -> bool {
        self.is_receiver.load(Ordering::Relaxed)
    }

    /// Locks sockets and queues if that is possible at once. The program may have jumped out of a call that held the lock.
    pub(crate) fn try_sending(&self) -> Option<MutexGuard<'_, Sending>> {
        match self.sending.try_lock() {
            Ok(sending) => Some(sending),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until all queues are empty; at most until nothing in them can leave any more.
    pub(crate) fn flush(&self) {
        let end = clock::now() + self.settings.latency;
        let is_empty = |sending: MutexGuard<'_, Sending>| sending.queues.values().all(|queue| queue.len() == 0);
        while !self.try_sending().is_some_and(is_empty) && clock::now() < end {
            let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: FLUSH_LOOK.as_nanos() as _ });
        }
    }

    /// Tells waiting threads that a queue has become shorter.
    pub(crate) fn has_room(&self) {
        self.room.notify_all();
    }

    fn ring(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // A full counter rings as well.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Notes that the library's thread is about to sleep: it looks once more for work after that.
    pub(crate) fn falls_asleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
    }

    /// Notes that the library's thread is awake.
    pub(crate) fn wakes(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// Descriptor that is readable when there is work.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Sending {
    /// Outlet of a socket, and the destination of its datagram; `None` if there is neither.
    fn outlet(&mut self, fd: RawFd, to: Option<SocketAddr>) -> Option<(Arc<Outlet>, SocketAddr)> {
        let identity = sockets::identity(fd)?;
        if self.sockets.get(&fd).is_some_and(|socket| !socket.outlet.is(identity)) {
            // It was closed unseen: datagrams in its queue cannot be sent any more.
            self.sockets.remove(&fd);
            sockets::forget(fd);
            if !sockets::is_udp(fd) {
                return None;
            }
        }
        let new = || Socket { outlet: Arc::new(Outlet::new(fd, Some(identity))), peer: None };
        let socket = self.sockets.entry(fd).or_insert_with(new);
        let to = match to {
            Some(to) => to,
            None => *socket.peer.insert(socket.peer.or_else(|| sockets::peer(fd))?),
        };
        Some((socket.outlet.clone(), to))
    }

    /// Figures of all destinations, with the latest counts of their queues.
    pub(crate) fn latest_figures(&self) -> BTreeMap<SocketAddr, Figures> {
        let mut figures = self.figures.clone();
        for (to, queue) in &self.queues {
            let figures = figures.entry(*to).or_default();
            (figures.sent, figures.expired) = (queue.sent, queue.expired);
        }
        figures
    }

    /// Time at which the next queued datagram is too old.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.queues.values().filter_map(SendQueue::expiry).min()
    }
}

/// Returns a random key.
pub(crate) fn random_key() -> [u8; 16] {
    let mut key = [0; 16];
    // Sixteen bytes come whole; a kernel that has no randomness yet gives predictable keys.
    let _ = getrandom(&mut key, GetRandomFlags::empty());
    key
}
