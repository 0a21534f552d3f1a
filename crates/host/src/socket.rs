//! Send buffer of a socket: written, unacknowledged bytes, as a kernel counts them.

use std::any::Any;
use std::collections::BTreeMap;

use timeous_core::{AduMeta, AduSeq, AduSource, DropReason, Instant, PathState, PulledAdu};
use timeous_ring::Producer;
use timeous_tcp::StreamBuffer;

use crate::application::{Application, Outlet, Refused};
use crate::journal::Journal;
use crate::side::{Ends, Side};

/// Size of a socket's send buffer. Sent data counts until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffer {
    /// Fixed size in bytes, as by `SO_SNDBUF`.
    Fixed(u64),
    /// Autotuned as in Linux: twice the congestion window, between `least` and `most` bytes (`tcp_wmem`), never
    /// shrinking.
    Tuned {
        /// Initial size.
        least: u64,
        /// Maximum size.
        most: u64,
    },
}

impl Default for SendBuffer {
    /// Returns Linux's defaults.
    fn default() -> Self {
        Self::Tuned { least: 16 << 10, most: 4 << 20 }
    }
}

/// Sending side of an application: a socket with a send buffer.
pub struct Socket {
    pub(crate) application: Box<dyn Application>,
    pub(crate) buffer: SendBuffer,
}

impl Socket {
    /// Creates a socket of `application`, with an autotuned buffer.
    pub fn new(application: impl Application) -> Self {
        Self { application: Box::new(application), buffer: SendBuffer::default() }
    }

    /// Sets the buffer size.
    #[must_use]
    pub fn buffer(mut self, buffer: SendBuffer) -> Self {
        self.buffer = buffer;
        self
    }
}

/// The buffer as the transport's source.
struct Buffer {
    bytes: StreamBuffer,
    under_way: BTreeMap<u64, u64>,
    under_way_bytes: u64,
    limit: u64,
    setting: SendBuffer,
    /// Data was acknowledged.
    freed: bool,
}

impl Buffer {
    fn new(setting: SendBuffer) -> Self {
        let (SendBuffer::Fixed(limit) | SendBuffer::Tuned { least: limit, .. }) = setting;
        let bytes = StreamBuffer::new(usize::MAX);
        Self { bytes, under_way: BTreeMap::new(), under_way_bytes: 0, limit, setting, freed: false }
    }

    /// Like Linux, accepts a whole packet as long as there is any room.
    fn has_room(&self) -> bool {
        (self.bytes.len() as u64).saturating_add(self.under_way_bytes) < self.limit
    }

    fn settle(&mut self, token: u64) {
        if let Some(len) = self.under_way.remove(&token) {
            self.under_way_bytes -= len;
            self.freed = true;
        }
    }
}

impl AduSource for Buffer {
    fn has_queued(&mut self, now: Instant) -> bool {
        self.bytes.has_queued(now)
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if let SendBuffer::Tuned { most, .. } = self.setting {
            self.limit = self.limit.max((2 * path.window).min(most));
        }
        let pulled = self.bytes.pull(now, path, room, packet)?;
        self.under_way.insert(pulled.token, pulled.len as u64);
        self.under_way_bytes += pulled.len as u64;
        Some(pulled)
    }

    fn waiting_bytes(&self) -> Option<u64> {
        self.bytes.waiting_bytes()
    }

    fn sent(&mut self, _: u64) {}

    fn acked(&mut self, token: u64) {
        self.settle(token);
    }

    fn lost(&mut self, token: u64) {
        self.settle(token);
    }

    fn dropped(&mut self, token: u64, _: DropReason) {
        self.settle(token);
    }

    fn close(&mut self) {
        self.bytes.close();
    }
}

/// An open socket, with its application and its journal.
pub(crate) struct SocketSide {
    application: Box<dyn Application>,
    buffer: Buffer,
    journal: Journal,
    ends: Ends,
    finishing: bool,
    closed: bool,
    /// Something has happened since the application was last run.
    stirred: bool,
}

impl SocketSide {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            application: socket.application,
            buffer: Buffer::new(socket.buffer),
            journal: Journal::default(),
            ends: Ends::default(),
            finishing: false,
            closed: false,
            stirred: false,
        }
    }
}

impl Side for SocketSide {
    fn source(&mut self) -> &mut dyn AduSource {
        &mut self.buffer
    }

    fn run(&mut self, now: Instant) -> bool {
        let due = self.application.poll_timeout().is_some_and(|at| at <= now);
        self.stirred |= std::mem::take(&mut self.buffer.freed);
        if self.closed || !(due || self.stirred) {
            return false;
        }
        self.stirred = false;
        let Self { application, buffer, journal, ends, finishing, .. } = self;
        let before = ends.end();
        application.run(now, &mut SocketOutlet { buffer, journal, ends, finishing });
        self.ends.end() > before
    }

    fn stir(&mut self) {
        self.stirred = true;
    }

    fn take_finish(&mut self) -> bool {
        !self.closed && std::mem::take(&mut self.finishing)
    }

    fn stop_polling(&mut self) -> bool {
        false
    }

    fn pass_expired(&mut self, _: Instant) {}

    /// The ends of its ADUs were noted when they were written.
    fn pulled(&mut self, _: &PulledAdu) {}

    fn bytes_left(&mut self, now: Instant, from: u64, to: u64) {
        for seq in self.ends.within(from, to) {
            self.journal.left(now, seq);
        }
    }

    fn adu_left(&mut self, now: Instant, seq: AduSeq) {
        self.journal.left(now, seq);
    }

    fn close(&mut self, _: Instant) {
        self.closed = true;
        self.buffer.close();
    }

    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        self.application.on_received(now, bytes);
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.closed { None } else { self.application.poll_timeout() }
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn application(&self) -> &dyn Any {
        &*self.application
    }
}

/// Sending interface of a socket: non-blocking `write`.
struct SocketOutlet<'a> {
    buffer: &'a mut Buffer,
    journal: &'a mut Journal,
    ends: &'a mut Ends,
    finishing: &'a mut bool,
}

impl Outlet for SocketOutlet<'_> {
    fn next_seq(&self) -> AduSeq {
        self.journal.next_seq()
    }

    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        if !self.buffer.has_room() {
            self.journal.refuse();
            return Err(Refused::Full);
        }
        if self.buffer.bytes.write(bytes) < bytes.len() {
            return Err(Refused::Closed);
        }
        let meta = AduMeta { seq: self.next_seq(), ..meta };
        self.journal.offered(meta, bytes.len());
        self.ends.push(bytes.len(), meta.seq);
        Ok(meta.seq)
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        None
    }

    fn finish(&mut self) {
        *self.finishing = true;
    }
}
