//! The handshake's bytes over datagrams: a small reliable stream in each direction, with a doubling timer.

use timeous_core::{Duration, Instant};

use crate::association::Secrets;
use crate::error::SealError;
use crate::session::{Agreement, Session};
use crate::wire::{HANDSHAKE_HEADER_LEN, HANDSHAKE_LEN, Handshake, TOKEN_LEN};

/// First retransmission. Chosen by us: longer than most round trips, so that few datagrams are repeated in vain.
const FIRST_INTERVAL: Duration = Duration::from_millis(300);
/// Longest time between retransmissions. Chosen by us: a path that comes back is noticed within it.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);
/// Bytes that an address gets for each that came from it, until it is validated (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;

/// One end of a handshake over datagrams.
#[derive(Debug)]
pub(crate) struct Exchange {
    session: Session,
    id: u32,
    peer_id: Option<u32>,
    is_caller: bool,
    /// TLS bytes made so far; those below `acknowledged` have arrived.
    made: Vec<u8>,
    acknowledged: usize,
    sent: usize,
    /// In-order bytes received.
    received: usize,
    owes_acknowledgement: bool,
    token: Option<[u8; TOKEN_LEN]>,
    interval: Duration,
    /// Next retransmission.
    due: Option<Instant>,
    /// The peer has answered from the address that we send to.
    is_validated: bool,
    /// The caller's address has changed: that it knows our identifier says nothing about the new one.
    has_moved: bool,
    bytes_received: usize,
    bytes_sent: usize,
}

impl Exchange {
    pub(crate) fn new(session: Session, id: u32, peer_id: Option<u32>, is_caller: bool) -> Self {
        let mut exchange = Self {
            session,
            id,
            peer_id,
            is_caller,
            made: Vec::new(),
            acknowledged: 0,
            sent: 0,
            received: 0,
            owes_acknowledgement: false,
            token: None,
            interval: FIRST_INTERVAL,
            due: None,
            is_validated: is_caller,
            has_moved: false,
            bytes_received: 0,
            bytes_sent: 0,
        };
        exchange.collect();
        exchange
    }

    /// Notes that the caller's address is validated, by a token.
    pub(crate) fn validate(&mut self) {
        self.is_validated = true;
    }

    /// Notes that the caller has another address, which may be forged: it gets as little as one that is not validated.
    pub(crate) fn move_caller(&mut self) {
        (self.is_validated, self.has_moved) = (false, true);
        (self.bytes_received, self.bytes_sent) = (0, 0);
    }

    pub(crate) fn peer_id(&self) -> Option<u32> {
        self.peer_id
    }

    /// Returns the number of bytes received in order.
    pub(crate) fn received(&self) -> u16 {
        self.received as u16
    }

    /// Returns whether the peer's last bytes have to be acknowledged.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.owes_acknowledgement
    }

    /// Returns whether everything was acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.acknowledged == self.made.len() && !self.owes_acknowledgement
    }

    /// Takes a listener's token: the first datagram goes out again with it. A later token, as the first one may be forged or stale,
    /// goes with the next repetition.
    pub(crate) fn retry(&mut self, token: [u8; TOKEN_LEN]) {
        if self.is_caller && self.received == 0 && self.token.replace(token).is_none() {
            self.sent = 0;
        }
    }

    /// Processes a datagram of `len` bytes.
    pub(crate) fn handle(&mut self, handshake: &Handshake<'_>, len: usize) -> Result<(), SealError> {
        self.bytes_received += len;
        if handshake.to == self.id && !self.has_moved {
            self.is_validated = true;
        }
        self.peer_id.get_or_insert(handshake.from);
        let acknowledged = usize::from(handshake.acknowledged);
        if acknowledged > self.acknowledged && acknowledged <= self.made.len() {
            self.acknowledged = acknowledged;
            self.sent = self.sent.max(acknowledged);
            self.interval = FIRST_INTERVAL;
            self.due = None;
        }
        let offset = usize::from(handshake.offset);
        if handshake.bytes.is_empty() {
            return Ok(());
        }
        // A repetition, or a later piece, is acknowledged at once: the peer lacks something.
        self.owes_acknowledgement = true;
        if self.session.is_over() {
            return Ok(());
        }
        let Some(new) = self.received.checked_sub(offset).and_then(|known| handshake.bytes.get(known..)) else {
            return Ok(());
        };
        if self.received + new.len() > usize::from(u16::MAX) {
            return Err(SealError::Protocol("a handshake that does not end".into()));
        }
        self.received += new.len();
        let read = self.session.read(new);
        self.collect();
        read.map(drop)
    }

    pub(crate) fn take_early_keys(&mut self) -> Option<Secrets> {
        self.session.take_early_keys()
    }

    pub(crate) fn take_agreement(&mut self) -> Option<Agreement> {
        self.session.take_agreement()
    }

    fn collect(&mut self) {
        self.session.write(&mut self.made);
    }

    /// Returns when the next datagram is to be repeated.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Repeats what was not acknowledged.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.sent = self.acknowledged;
            self.interval = (self.interval * 2).min(LONGEST_INTERVAL);
        }
    }

    /// Writes the next datagram into the empty `out`; `false`: there is none now.
    pub(crate) fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let has_bytes = self.sent < self.made.len();
        if !has_bytes && !self.owes_acknowledgement {
            return false;
        }
        let token = self.token.as_ref().filter(|_| self.received == 0).map_or(&[][..], |token| token);
        let room = HANDSHAKE_LEN - HANDSHAKE_HEADER_LEN - token.len();
        let end = self.made.len().min(self.sent + room);
        // A caller's datagrams are as long as the longest answer, until it is validated itself.
        let len = if self.is_caller && self.received == 0 { HANDSHAKE_LEN } else { 0 };
        let size = len.max(HANDSHAKE_HEADER_LEN + token.len() + end - self.sent);
        if !self.is_validated && self.bytes_sent + size > AMPLIFICATION * self.bytes_received {
            return false;
        }
        let handshake = Handshake {
            to: self.peer_id.unwrap_or(0),
            from: self.id,
            offset: self.sent as u16,
            acknowledged: self.received as u16,
            token,
            bytes: &self.made[self.sent..end],
        };
        handshake.write(len, out);
        self.bytes_sent += out.len();
        self.sent = end;
        self.owes_acknowledgement = false;
        if self.acknowledged < self.sent && self.due.is_none() {
            self.due = Some(now + self.interval);
        }
        true
    }
}
