//! Applications of virtual time over real sockets: their clock, and what they send and receive by.

use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use timeous::core::{AduMeta, AduSeq, Advice, Duration, Fate, Instant, Rate};
use timeous_engine::{ReceiveHalf, SendHalf, Stream, clock};
use timeous_host::{Application, Outlet, Refused};
use timeous_ring::{EnqueueError, Producer};
use timeous_testbed::machine::timespec;

/// Longest time between two looks at an application.
const TICK: Duration = Duration::from_millis(20);
/// Longest read, in bytes.
const READ: usize = 64 << 10;

/// Clock that begins at zero with a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamClock {
    begin: Instant,
}

impl StreamClock {
    pub(super) fn new() -> Self {
        Self { begin: clock::now() }
    }

    pub(super) fn now(self) -> Instant {
        Instant::ZERO + clock::now().saturating_since(self.begin)
    }

    /// Returns the machine's time at an instant of the trial.
    pub(super) fn real(self, at: Instant) -> Instant {
        self.begin + at.saturating_since(Instant::ZERO)
    }
}

/// One end of a connection.
pub(super) trait End: Outlet + Send {
    /// Returns received bytes, if there are any.
    fn poll_received(&mut self) -> Option<Vec<u8>>;

    /// Returns the next packet whose fate is known.
    fn poll_fate(&mut self) -> Option<(AduSeq, Fate)> {
        None
    }

    fn poll_advice(&mut self) -> Option<Advice> {
        None
    }

    /// Waits until something has happened, or until this time of the machine.
    fn wait(&mut self, until: Instant);
}

/// Runs an application until this time of the trial.
pub(super) fn drive(application: &mut dyn Application, end: &mut dyn End, clock: StreamClock, until: Instant) {
    loop {
        let now = clock.now();
        if now >= until {
            return;
        }
        while let Some(bytes) = end.poll_received() {
            application.on_received(clock.now(), &bytes);
        }
        while let Some((seq, fate)) = end.poll_fate() {
            application.on_fate(now, seq, fate);
        }
        while let Some(advice) = end.poll_advice() {
            application.on_advice(now, &advice);
        }
        application.run(clock.now(), end);
        let next = application.poll_timeout().unwrap_or(until).min(until).min(now + TICK);
        end.wait(clock.real(next));
    }
}

/// Waits until a descriptor can be read, or until this time of the machine.
fn wait_to_read(descriptor: impl AsFd, until: Instant) {
    let left = timespec(until.saturating_since(clock::now()));
    // An interrupted wait is harmless: the caller looks again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)], Some(&left));
}

/// End of a TCP connection of the kernel.
#[derive(Debug)]
pub(super) struct TcpEnd {
    stream: TcpStream,
    seq: u64,
    /// Rest of a packet of which the kernel took the front.
    rest: Vec<u8>,
    is_over: bool,
}

impl TcpEnd {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, seq: 0, rest: Vec::new(), is_over: false })
    }

    /// Hands over what the kernel takes; returns the number of bytes.
    fn write(&mut self, bytes: &[u8]) -> usize {
        match send(&self.stream, bytes, SendFlags::NOSIGNAL) {
            Ok(len) => len,
            Err(error) => {
                self.is_over |=
                    !matches!(io::Error::from(error).kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                0
            }
        }
    }

    fn write_rest(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        let len = if rest.is_empty() { 0 } else { self.write(&rest) };
        self.rest = rest[len..].to_vec();
    }
}

impl Outlet for TcpEnd {
    fn next_seq(&self) -> AduSeq {
        AduSeq(self.seq)
    }

    fn send(&mut self, _: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        self.write_rest();
        let len = if self.rest.is_empty() { self.write(bytes) } else { 0 };
        if self.is_over {
            return Err(Refused::Closed);
        }
        if len == 0 {
            return Err(Refused::Full);
        }
        self.rest.extend_from_slice(&bytes[len..]);
        self.seq += 1;
        Ok(AduSeq(self.seq - 1))
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        None
    }

    fn finish(&mut self) {
        self.write_rest();
        // A peer that is gone has all that it wants.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

impl End for TcpEnd {
    fn poll_received(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; READ];
        let len = self.stream.read(&mut buffer).unwrap_or(0);
        buffer.truncate(len);
        Some(buffer).filter(|bytes| !bytes.is_empty())
    }

    fn wait(&mut self, until: Instant) {
        self.write_rest();
        wait_to_read(&self.stream, until);
    }
}

/// UDP socket of the packet pairs.
#[derive(Debug)]
pub(super) struct UdpEnd {
    socket: UdpSocket,
    seq: u64,
}

impl UdpEnd {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, seq: 0 })
    }
}

impl Outlet for UdpEnd {
    fn next_seq(&self) -> AduSeq {
        AduSeq(self.seq)
    }

    fn send(&mut self, _: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        self.socket.send(bytes).map_err(|_| Refused::Full)?;
        self.seq += 1;
        Ok(AduSeq(self.seq - 1))
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        None
    }

    fn finish(&mut self) {}
}

impl End for UdpEnd {
    fn poll_received(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; READ];
        let len = self.socket.recv(&mut buffer).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }

    fn wait(&mut self, until: Instant) {
        wait_to_read(&self.socket, until);
    }
}

/// End of a DCCP connection of the engine.
#[derive(Debug)]
pub(super) struct DccpEnd {
    sending: SendHalf,
    receiving: ReceiveHalf,
    seq: u64,
    is_player: bool,
}

impl DccpEnd {
    pub(super) fn streamer(stream: Stream) -> Self {
        let (sending, receiving) = stream.split();
        Self { sending, receiving, seq: 0, is_player: false }
    }

    pub(super) fn player(stream: Stream) -> Self {
        Self { is_player: true, ..Self::streamer(stream) }
    }
}

impl Outlet for DccpEnd {
    fn next_seq(&self) -> AduSeq {
        AduSeq(self.seq)
    }

    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        let seq = AduSeq(self.seq);
        let meta = AduMeta { seq, enqueued: clock::now(), ..meta };
        self.sending.enqueue(&meta, bytes).map_err(|error| match error {
            EnqueueError::Closed => Refused::Closed,
            _ => Refused::Full,
        })?;
        self.seq += 1;
        Ok(seq)
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        Some(self.sending.ring())
    }

    fn set_rate(&mut self, rate: Rate) {
        self.sending.set_rate(rate);
    }

    fn finish(&mut self) {
        self.sending.finish();
    }
}

impl End for DccpEnd {
    fn poll_received(&mut self) -> Option<Vec<u8>> {
        self.receiving.poll_received().map(|datagram| datagram.bytes.to_vec())
    }

    fn poll_fate(&mut self) -> Option<(AduSeq, Fate)> {
        self.sending.poll_completion().map(|done| (done.seq, done.fate))
    }

    fn poll_advice(&mut self) -> Option<Advice> {
        self.sending.poll_advice()
    }

    fn wait(&mut self, until: Instant) {
        let until = Some(until);
        let _news = if self.is_player { self.receiving.wait(until) } else { self.sending.wait(until) };
    }
}
