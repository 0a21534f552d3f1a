//! A TCP socket, with the system calls that std and rustix lack.

use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::SystemTime;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use timeous_core::Duration;

use crate::info::{self, Info};
use crate::zone::Place;

/// Not in libc (`linux/sockios.h`).
const SIOCOUTQNSD: libc::Ioctl = 0x894B;
/// Origin of a zero-copy completion (`linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
/// Code of a zero-copy completion for copied data (`linux/errqueue.h`).
const CODE_COPIED: u8 = 1;
/// Origin of a timestamp, and what makes it the time of an acknowledgement: `SCM_TSTAMP_ACK` (`linux/errqueue.h`).
const ORIGIN_TIMESTAMPING: u8 = 4;
const STAMP_ACK: u32 = 2;
/// Buffer growth factor: the kernel charges a page and its bookkeeping for a datagram of some hundred bytes. Chosen by
/// us: a lower value fills the kernel's buffer before the window.
const PAGES_FOR_BYTES: usize = 4;
/// Socket option for the maximum retransmission timeout, in milliseconds; not in libc (`linux/tcp.h`, Linux 6.15).
const TCP_RTO_MAX_MS: i32 = 44;
/// Lower bound of `TCP_RTO_MAX_MS` (Linux 6.15; docs/decisions/tcp-timeout-cap.md).
pub(crate) const LEAST_LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Upper bound of `TCP_RTO_MAX_MS`, in milliseconds (Linux 6.15).
const MOST_LONGEST_TIMEOUT: u64 = 120_000;
/// Size of a control message's header (`struct cmsghdr`), in bytes.
const HEAD: usize = size_of::<libc::cmsghdr>();

/// Relation of bytes given to the kernel to those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// More bytes may follow, and may share the segment.
    Open,
    /// More of the same segment follows at once.
    Company,
    /// The segment ends here.
    OfSegment,
}

impl End {
    /// Returns the mark for a write: whether it is a segment of its own, and whether more of the segment follows.
    pub(crate) fn of(is_segment: bool, has_company: bool) -> Self {
        match (has_company, is_segment) {
            (true, _) => Self::Company,
            (false, true) => Self::OfSegment,
            (false, false) => Self::Open,
        }
    }
}

/// A non-blocking TCP socket.
#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

/// Range of zero-copy sends whose memory the kernel has released, counted from the connection's first; inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The data was copied: by the kernel at once, or by a device of this host.
    pub(crate) copied: bool,
}

/// Acknowledgement of all bytes of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamped {
    /// Number of the send's last byte, counted from [`Socket::stamp_acknowledgements`] on; it wraps.
    pub(crate) last: u32,
    /// When the acknowledgement came, since the Unix epoch.
    pub(crate) at: Duration,
}

/// Returns the time of the clock by which the kernel stamps, since the Unix epoch.
#[allow(clippy::disallowed_methods, reason = "the kernel stamps by this clock; only differences are used")]
pub(crate) fn stamping_clock() -> Duration {
    // With a clock before 1970 all stamps are in the future, as if they came just now.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(Duration::ZERO, Duration::from)
}

/// Notice in the socket's error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Released(Released),
    Stamped(Stamped),
    Other,
}

impl Socket {
    /// Starts to connect, from `local` if there is one.
    pub(crate) fn call(local: Option<IpAddr>, remote: SocketAddr) -> io::Result<Self> {
        Self::call_within(local, remote, None)
    }

    /// Starts to connect, with packets that pass at most `hops - 1` routers.
    pub(crate) fn call_within(local: Option<IpAddr>, remote: SocketAddr, hops: Option<u8>) -> io::Result<Self> {
        let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        if let Some(local) = local {
            rustix::net::bind(&fd, &SocketAddr::from((local, 0)))?;
        }
        let socket = Self(TcpStream::from(fd));
        if hops.is_some() {
            socket.set_hops_of(remote, hops)?;
        }
        match rustix::net::connect(&socket.0, &remote) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets packets of a connection pass at most `hops - 1` routers from now on; `None`: as many as usual.
    pub(crate) fn set_hops(&self, hops: Option<u8>) -> io::Result<()> {
        self.set_hops_of(self.local()?, hops)
    }

    fn set_hops_of(&self, family: SocketAddr, hops: Option<u8>) -> io::Result<()> {
        let (level, name) = match family {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        self.set(level, name, hops.map_or(-1, i32::from))
    }

    /// Copies bytes that have arrived, and leaves them to be received. `None`: none are available.
    pub(crate) fn peek(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(self.0.peek(into))
    }

    /// Takes over an accepted connection.
    pub(crate) fn accepted(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    /// Disables Nagle's algorithm, and sets the time after which a silent peer is given up: while data waits for its acknowledgement or its
    /// window, and by keep-alives when idle.
    pub(crate) fn set_up(&self, silence: Duration) -> io::Result<()> {
        self.0.set_nodelay(true)?;
        sockopt::set_tcp_user_timeout(&self.0, u32::try_from(silence.as_millis()).unwrap_or(u32::MAX))?;
        let half = std::time::Duration::from(silence / 2).max(std::time::Duration::from_secs(1));
        sockopt::set_tcp_keepidle(&self.0, half)?;
        sockopt::set_tcp_keepintvl(&self.0, (half / 4).max(std::time::Duration::from_secs(1)))?;
        sockopt::set_socket_keepalive(&self.0, true)?;
        self.set_longest_timeout(LEAST_LONGEST_TIMEOUT);
        Ok(())
    }

    /// Caps the retransmission timeout, at one second or more. Its doubling (RFC 6298 §5.5) reaches two minutes, and data that goes stale
    /// would be blocked long after the path is back. One segment per second is little load. Kernels before 6.15 reject the option.
    pub(crate) fn set_longest_timeout(&self, longest: Duration) {
        let millis = longest.max(LEAST_LONGEST_TIMEOUT).as_millis().min(MOST_LONGEST_TIMEOUT);
        if let Err(error) = self.set(libc::IPPROTO_TCP, TCP_RTO_MAX_MS, millis as i32) {
            tracing::debug!(%error, "the kernel's timeouts become as long as any");
        }
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Returns the pending error, and clears it.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        self.0.take_error()?.map_or(Ok(()), Err)
    }

    /// Makes closing the socket reset the connection (`SO_LINGER` of zero), so that the peer learns that the end was not orderly.
    pub(crate) fn reset_when_closed(&self) {
        // A connection that is already gone reports that elsewhere.
        let _gone = sockopt::set_socket_linger(&self.0, Some(std::time::Duration::ZERO));
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.reset_when_closed();
    }

    /// Shuts down the sending side.
    pub(crate) fn shut(&self) {
        // A connection that is already gone reports that elsewhere.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads bytes. `None`: none are available. Zero: end of stream.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(self.0.read(into))
    }

    /// Copies bytes into the kernel's send buffer; `None` if it is full.
    pub(crate) fn send(&self, bytes: &[u8], end: End) -> io::Result<Option<usize>> {
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        flags.set(SendFlags::EOR, end == End::OfSegment);
        flags.set(SendFlags::MORE, end == End::Company);
        unless_blocked(rustix::net::send(&self.0, bytes, flags).map_err(io::Error::from))
    }

    /// Gives memory to the kernel, which transmits and retransmits from there: as a segment of its own if it fits into one, or in one with
    /// what follows at once. `None`: it has no room.
    pub(crate) fn send_from(&self, place: &Place<'_>, has_company: bool) -> io::Result<Option<usize>> {
        let end = if has_company { libc::MSG_MORE } else { libc::MSG_EOR };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY | end;
        // SAFETY: the place lies within a zone that stays mapped while it is borrowed, and the kernel holds its pages from then on. It only
        // reads them, so that concurrent writes are allowed.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), place.address().cast(), place.len(), flags) };
        unless_blocked(usize::try_from(sent).map_err(|_| io::Error::last_os_error()))
    }

    /// Enables zero-copy sends. Returns `false` on a system without them.
    pub(crate) fn allow_zero_copy(&self) -> bool {
        self.set(libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1).is_ok()
    }

    /// Makes the kernel tell when each send is acknowledged, counted in bytes from here. Returns `false` on kernels before 6.2.
    pub(crate) fn stamp_acknowledgements(&self) -> bool {
        let flags = libc::SOF_TIMESTAMPING_TX_ACK
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_ID_TCP
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32).is_ok()
    }

    /// Acknowledges what was read without waiting for a second segment: the sender's window and its model of the path go by
    /// acknowledgements. The kernel keeps no such mode, so that this is called after each read.
    pub(crate) fn acknowledge_at_once(&self) {
        // An acknowledgement that waits is no failure.
        let _delayed = self.set(libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
    }

    /// Enlarges the send buffer where the kernel goes on to autotune it. Zero-copy data is charged by whole pages: without, a dozen
    /// segments fill the buffer, and with as many behind a gap no new data leaves whose SACKs would show the loss.
    pub(crate) fn widen(&self) -> io::Result<()> {
        // Setting the size disables autotuning, unless the lock is cleared again (Linux 5.14).
        let is_sized_by_kernel = || self.set(libc::SOL_SOCKET, libc::SO_BUF_LOCK, 0);
        let now = sockopt::socket_send_buffer_size(&self.0)?;
        let wanted = (now * PAGES_FOR_BYTES).min(largest_send_buffer()?);
        if wanted > now && is_sized_by_kernel().is_ok() {
            // The kernel doubles the value that is set, and reports the doubled one.
            sockopt::set_socket_send_buffer_size(&self.0, wanted / 2)?;
            is_sized_by_kernel()?;
        }
        Ok(())
    }

    /// Sets the limit of unsent bytes above which the socket is not writable. The kernel compares twice the unsent bytes with it.
    pub(crate) fn set_unsent_limit(&self, bytes: u32) -> io::Result<()> {
        let value = bytes.saturating_mul(2).saturating_sub(1).min(i32::MAX as u32);
        self.set(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, value as i32)
    }

    fn set(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        let len = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of a number that lives through the call.
        let done = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, (&raw const value).cast(), len) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the number of bytes given to the kernel and not sent.
    pub(crate) fn unsent(&self) -> io::Result<u32> {
        self.ask(SIOCOUTQNSD)
    }

    /// Returns the number of bytes given to the kernel and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> io::Result<u32> {
        self.ask(libc::TIOCOUTQ)
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<u32> {
        let mut value = 0_i32;
        // SAFETY: both requests write one `int`, which lives through the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), what, &raw mut value) };
        if done == 0 { Ok(u32::try_from(value).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the kernel's state of the connection.
    pub(crate) fn info(&self) -> io::Result<Info> {
        let mut bytes = [0; info::LEN];
        let mut len = info::LEN as libc::socklen_t;
        let (fd, level) = (self.0.as_raw_fd(), libc::IPPROTO_TCP);
        // SAFETY: the kernel writes at most `len` bytes into `bytes`, which live through the call.
        let done = unsafe { libc::getsockopt(fd, level, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut len) };
        if done == 0 { Ok(Info::new(bytes)) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the next notice of the error queue; `None`: there is none.
    pub(crate) fn notice(&self) -> io::Result<Option<Notice>> {
        let mut control = [0_u64; 32];
        // SAFETY: a C structure of numbers and pointers, for all of which zero is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header shows a control buffer that lives through the call, with its length, and nothing else.
        let done =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        let done = unless_blocked(usize::try_from(done).map_err(|_| io::Error::last_os_error()))?;
        let len = (header.msg_controllen as usize).min(size_of_val(&control));
        let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).take(len).collect();
        Ok(done.map(|_| read_notice(&bytes)))
    }
}

/// Returns the largest send buffer that an application may set (`net.core.wmem_max`).
fn largest_send_buffer() -> io::Result<usize> {
    let other =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_socket_send_buffer_size(&other, i32::MAX as usize / 2)?;
    Ok(sockopt::socket_send_buffer_size(&other)?)
}

/// Parses the control messages of a notice: a `sock_extended_err`, and before it a `scm_timestamping` if it is a timestamp.
fn read_notice(control: &[u8]) -> Notice {
    let mut at = None;
    let mut rest = control;
    while let Some((len, level, kind)) = read_head(rest) {
        let Some(body) = rest.get(HEAD..len) else { break };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            at = read_time(body);
        } else if let Some(notice) = read_extended(body, at) {
            return notice;
        }
        rest = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
    Notice::Other
}

/// Returns the length, level and type of a `cmsghdr`.
fn read_head(bytes: &[u8]) -> Option<(usize, i32, i32)> {
    let len = usize::from_ne_bytes(*bytes.first_chunk()?);
    let number = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    Some((len, number(HEAD - 8)?, number(HEAD - 4)?))
}

/// Returns the first time of a `scm_timestamping`, which is the software's.
fn read_time(body: &[u8]) -> Option<Duration> {
    let long = |at: usize| Some(libc::c_long::from_ne_bytes(*body.get(at..)?.first_chunk()?));
    let (secs, nanos) = (long(0)?, long(size_of::<libc::c_long>())?);
    Some(Duration::from_secs(u64::try_from(secs).ok()?) + Duration::from_nanos(u64::try_from(nanos).ok()?))
}

/// Parses a `sock_extended_err`, given the timestamp before it.
fn read_extended(body: &[u8], at: Option<Duration>) -> Option<Notice> {
    let word = |at: usize| Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?));
    let byte = |at: usize| body.get(at).copied();
    match (byte(4)?, at) {
        (ORIGIN_ZEROCOPY, _) => {
            let copied = byte(6)? & CODE_COPIED != 0;
            Some(Notice::Released(Released { first: word(8)?, last: word(12)?, copied }))
        }
        (ORIGIN_TIMESTAMPING, Some(at)) if word(8)? == STAMP_ACK => {
            Some(Notice::Stamped(Stamped { last: word(12)?, at }))
        }
        _ => None,
    }
}

fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(n) => Ok(Some(n)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec};

    use super::*;

    /// Regression, found by `ldc-layers --real`: with a dozen segments behind a gap the buffer was full, and nothing was sent until a
    /// timeout.
    #[test]
    fn a_buffer_that_counts_pages_is_wider_never_smaller_and_still_sized_by_the_kernel() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::accepted(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let before = sockopt::socket_send_buffer_size(&socket).unwrap();
        socket.widen().unwrap();
        let after = sockopt::socket_send_buffer_size(&socket).unwrap();
        let most = largest_send_buffer().unwrap();
        let wanted = (before * PAGES_FOR_BYTES).min(most).max(before);
        assert!(after.abs_diff(wanted) < 2, "{before}, at most {most}: {after}");
        // No size is locked: `SO_BUF_LOCK` has no bit set.
        let (mut lock, mut len) = (-1_i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: the kernel writes at most `len` bytes of a number that lives through the call.
        let done = unsafe {
            let fd = socket.0.as_raw_fd();
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_BUF_LOCK, (&raw mut lock).cast(), &raw mut len)
        };
        assert!(done != 0 || lock == 0, "{lock}");
    }

    /// Regression, found by `tcp-expired`: after several lost retransmissions a stream stalled for half a minute.
    #[test]
    fn timeouts_do_not_become_ever_longer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::accepted(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        socket.set_up(Duration::from_secs(30)).unwrap();
        let value = |option: i32| {
            let (mut value, mut len) = (-1_i32, size_of::<i32>() as libc::socklen_t);
            // SAFETY: the kernel writes at most `len` bytes of a number that lives through the call.
            let done = unsafe {
                let fd = socket.0.as_raw_fd();
                libc::getsockopt(fd, libc::IPPROTO_TCP, option, (&raw mut value).cast(), &raw mut len)
            };
            (done == 0).then_some(value)
        };
        match value(TCP_RTO_MAX_MS) {
            Some(longest) => {
                assert_eq!(longest, 1_000);
                socket.set_longest_timeout(Duration::from_millis(2_500));
                assert_eq!(value(TCP_RTO_MAX_MS), Some(2_500));
            }
            None => {
                let all = std::env::var("TIMEOUS_REQUIRE_ALL");
                assert_ne!(all.as_deref(), Ok("1"), "this test may not be skipped: it needs Linux 6.15");
                eprintln!("SKIPPED timeouts_do_not_become_ever_longer: the kernel has no TCP_RTO_MAX_MS");
            }
        }
    }

    #[test]
    fn the_kernel_tells_when_a_send_is_acknowledged() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::accepted(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        socket.send(&[0; 10], End::OfSegment).unwrap();
        assert!(socket.stamp_acknowledgements(), "Linux 6.2 or later");
        socket.send(&[0; 100], End::OfSegment).unwrap();
        // An error is always polled for, so that this wakes the engine.
        let mut fds = [PollFd::new(&socket, PollFlags::empty())];
        let most = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&most)), Ok(1));
        let Some(Notice::Stamped(stamped)) = socket.notice().unwrap() else { panic!("no time") };
        assert_eq!(stamped.last, 99, "counted from the call on");
        assert!(stamping_clock().saturating_sub(stamped.at) < Duration::from_secs(10));
    }

    /// Adds a control message.
    fn add(control: &mut Vec<u8>, (level, kind): (i32, i32), body: &[u8]) {
        control.extend((HEAD + body.len()).to_ne_bytes());
        control.extend([level, kind].into_iter().flat_map(i32::to_ne_bytes));
        control.extend(body);
        control.resize(control.len().next_multiple_of(size_of::<usize>()), 0);
    }

    fn extended(origin: u8, code: u8, info: u32, data: u32) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0, origin, 0, code, 0];
        body.extend([info, data].into_iter().flat_map(u32::to_ne_bytes));
        body
    }

    const ERROR: (i32, i32) = (libc::IPPROTO_IP, libc::IP_RECVERR);

    #[test]
    fn a_note_of_the_kernels_is_read_and_another_error_is_none() {
        let mut control = Vec::new();
        add(&mut control, ERROR, &extended(ORIGIN_ZEROCOPY, CODE_COPIED, 3, 9));
        assert_eq!(read_notice(&control), Notice::Released(Released { first: 3, last: 9, copied: true }));
        assert_eq!(read_notice(&control[..HEAD + 3]), Notice::Other);
        let mut other = Vec::new();
        add(&mut other, ERROR, &extended(2, 0, 3, 9));
        assert_eq!(read_notice(&other), Notice::Other);
    }

    #[test]
    fn the_time_of_an_acknowledgement_is_read_with_the_place_of_its_last_byte() {
        let mut control = Vec::new();
        let time: Vec<u8> = [7, 5, 0, 0, 0, 0].into_iter().flat_map(libc::c_long::to_ne_bytes).collect();
        add(&mut control, (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING), &time);
        let without = control.clone();
        add(&mut control, ERROR, &extended(ORIGIN_TIMESTAMPING, 0, STAMP_ACK, 999));
        let at = Duration::from_secs(7) + Duration::from_nanos(5);
        assert_eq!(read_notice(&control), Notice::Stamped(Stamped { last: 999, at }));
        for len in 0..control.len() {
            assert_eq!(read_notice(&control[..len]), Notice::Other, "{len}");
        }
        assert_eq!(read_notice(&without), Notice::Other);
    }
}
