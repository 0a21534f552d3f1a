//! The window: how much the peer may send, told in steps that are worth a segment (RFC 9293 §3.8.6, RFC 7323 §2).

/// What was promised to the peer, and what could be.
#[derive(Debug)]
pub(super) struct Window {
    /// The room for bytes in all: RCV.BUFF.
    buffer: u64,
    /// Rcv.Wind.Shift.
    shift: u8,
    /// A step of the edge that is worth telling.
    step: u64,
    /// The edge that was ever told, the farthest: "The receiver MUST honor, as in window, any segment that would have
    /// been in window for any <ACK> sent by the receiver" (RFC 7323 §2.4).
    promised: u64,
}

impl Window {
    /// A window over `buffer` bytes, of which the handshake has promised as much as a SYN can.
    pub(super) fn new(buffer: usize, shift: u8, segment: u16) -> Self {
        let buffer = buffer as u64;
        let step = (buffer / 2).min(u64::from(segment)).max(1);
        Self { buffer, shift, step, promised: buffer.min(u64::from(u16::MAX)) }
    }

    /// The edge up to which bytes are taken.
    pub(super) const fn promised(&self) -> u64 {
        self.promised
    }

    /// The window field that says what may come after `next`, if everything before `freed` is read. On a SYN it is
    /// not scaled (RFC 7323 §2.2).
    pub(super) fn field(&self, next: u64, freed: u64, syn: bool) -> u16 {
        let shift = if syn { 0 } else { self.shift };
        // Rounded down: the edge that is told may step back by less than a unit, but never over the buffer's.
        u16::try_from((self.edge(freed) - next) >> shift).unwrap_or(u16::MAX)
    }

    /// That field has been sent.
    pub(super) fn told(&mut self, next: u64, field: u16, syn: bool) {
        let shift = if syn { 0 } else { self.shift };
        self.promised = self.promised.max(next + (u64::from(field) << shift));
    }

    /// Whether so much has been read that the peer should hear of it although nothing is to be acknowledged: the
    /// window would be twice what it is, as Linux has it.
    pub(super) fn is_news(&self, next: u64, freed: u64) -> bool {
        let (now, then) = (self.promised - next, self.reachable(next, freed) - next);
        then > now && then >= 2 * now
    }

    /// The edge, kept where it is until the step is worth it (RFC 9293 §3.8.6.2.2).
    fn edge(&self, freed: u64) -> u64 {
        let limit = freed + self.buffer;
        if limit - self.promised >= self.step { limit } else { self.promised }
    }

    /// The edge as the field can express it, never before the promised one.
    fn reachable(&self, next: u64, freed: u64) -> u64 {
        (next + (u64::from(self.field(next, freed, false)) << self.shift)).max(self.promised)
    }
}
