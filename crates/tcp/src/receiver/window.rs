//! Receive window, with silly window avoidance (RFC 9293 §3.8.6, RFC 7323 §2).

/// Receive window: the announced edge, and the buffer that bounds it.
#[derive(Debug)]
pub(super) struct Window {
    /// Receive buffer in bytes: RCV.BUFF.
    buffer: u64,
    /// Rcv.Wind.Shift.
    shift: u8,
    /// Minimum step of the edge that is announced.
    step: u64,
    /// Farthest edge ever announced: "The receiver MUST honor, as in window, any segment that would have been in window
    /// for any <ACK> sent by the receiver" (RFC 7323 §2.4).
    promised: u64,
}

impl Window {
    /// Creates a window over `buffer` bytes; the handshake has announced as much as a SYN can.
    pub(super) fn new(buffer: usize, shift: u8, segment: u16) -> Self {
        let buffer = buffer as u64;
        let step = (buffer / 2).min(u64::from(segment)).max(1);
        Self { buffer, shift, step, promised: buffer.min(u64::from(u16::MAX)) }
    }

    /// Returns the edge up to which bytes are accepted.
    pub(super) const fn promised(&self) -> u64 {
        self.promised
    }

    /// Returns the window field for an acknowledgement of `next`, if everything before `freed` was read. On a SYN it is
    /// not scaled (RFC 7323 §2.2).
    pub(super) fn field(&self, next: u64, freed: u64, syn: bool) -> u16 {
        let shift = if syn { 0 } else { self.shift };
        // Rounded down: the announced edge may step back by less than a unit, but never exceeds the buffer.
        u16::try_from((self.edge(freed) - next) >> shift).unwrap_or(u16::MAX)
    }

    /// Notes that the field was sent.
    pub(super) fn told(&mut self, next: u64, field: u16, syn: bool) {
        let shift = if syn { 0 } else { self.shift };
        self.promised = self.promised.max(next + (u64::from(field) << shift));
    }

    /// Returns whether reading has opened the window enough for a pure window update: to twice its size, as in Linux.
    pub(super) fn is_news(&self, next: u64, freed: u64) -> bool {
        let (now, then) = (self.promised - next, self.reachable(next, freed) - next);
        then > now && then >= 2 * now
    }

    /// Returns the edge, which moves only by a worthwhile step (RFC 9293 §3.8.6.2.2).
    fn edge(&self, freed: u64) -> u64 {
        let limit = freed + self.buffer;
        if limit - self.promised >= self.step { limit } else { self.promised }
    }

    /// Returns the edge as the window field can express it, never before the announced one.
    fn reachable(&self, next: u64, freed: u64) -> u64 {
        (next + (u64::from(self.field(next, freed, false)) << self.shift)).max(self.promised)
    }
}
