//! ADUs larger than a packet: cut at the instant of sending, with one fate for all parts.

use std::collections::BTreeMap;

use timeous_core::{AduMeta, AduSource, Arrived, Copied, DropReason, Instant, PathState, PulledAdu, Queue, RateRange};

/// Length of the largest ADU, in bytes: the header of a fragment names offset and length in 16 bits.
pub const MAX_ADU: usize = 65_535;
/// Length of a fragment's header, in bytes (docs/design/dccp.md): number of the ADU (4), offset (2), length of the ADU (2).
const HEADER_LEN: usize = 8;
/// Bytes of a packet's room that a fragment leaves free: its retransmission may have to travel with an acknowledgement and
/// all options, 64 bytes of headers where the first transmission has 20 (`HEADER_ROOM` of DCCP's settings).
const REPEAT_ROOM: usize = 44;
/// Bits of a token that number an ADU's fragments, from one; zero: the ADU is whole. The inner source's token is above.
const PART_BITS: u32 = 8;
/// Maximum number of fragments of an ADU: the largest, at the smallest packet size, has 169.
const MAX_PARTS: u64 = (1 << PART_BITS) - 1;

/// Source that cuts the ADUs of `inner` that do not fit, once the peer takes fragments. Each fragment has a token of its
/// own, so that it is repaired like any other packet.
#[derive(Debug)]
pub(crate) struct Fragments<S> {
    inner: S,
    is_allowed: bool,
    /// ADU being sent.
    cutting: Option<Cutting>,
    /// Cut ADUs with fragments in flight or under repair, by their token in `inner`.
    open: BTreeMap<u64, Open>,
    next_number: u32,
    /// Whether the last ADU was cut: a burst of packets is then no burst of ADUs.
    is_cutting: bool,
}

#[derive(Debug)]
struct Cutting {
    token: u64,
    number: u32,
    meta: AduMeta,
    payload: Vec<u8>,
    offset: usize,
}

#[derive(Debug, Default)]
struct Open {
    /// Number of fragments sent.
    sent: u64,
    /// Fragments whose fate is unknown.
    undecided: [u64; 4],
    /// Whether the ADU has its fate.
    is_decided: bool,
    /// Whether all fragments were sent.
    is_complete: bool,
    /// Latest arrival of a fragment.
    arrived_at: Instant,
}

impl Open {
    fn add(&mut self, part: u64) {
        self.sent += 1;
        self.undecided[part as usize / 64] |= 1 << (part % 64);
    }

    /// Notes a fragment's fate; `false` if it had one.
    fn decide(&mut self, part: u64) -> bool {
        let (word, bit) = (&mut self.undecided[part as usize / 64], 1 << (part % 64));
        let is_news = *word & bit != 0;
        *word &= !bit;
        is_news
    }

    fn is_over(&self) -> bool {
        self.undecided == [0; 4]
    }
}

/// Token of the inner source, and the number of the fragment.
fn split(token: u64) -> (u64, u64) {
    (token >> PART_BITS, token & MAX_PARTS)
}

/// Returns the token of a whole ADU.
pub(crate) fn whole(token: u64) -> u64 {
    token << PART_BITS
}

/// Returns the inner source's token.
pub(crate) fn inner(token: u64) -> u64 {
    token >> PART_BITS
}

impl<S: AduSource> Fragments<S> {
    /// Creates a source that cuts nothing until [`allow`](Self::allow).
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, is_allowed: false, cutting: None, open: BTreeMap::new(), next_number: 0, is_cutting: false }
    }

    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    pub(crate) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Allows fragments: the peer puts them together.
    pub(crate) fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Handles the loss of the connection with everything in flight: another carrier knows nothing of fragments.
    pub(crate) fn carrier_gone(&mut self) {
        self.is_allowed = false;
        self.cutting = None;
        for (token, open) in std::mem::take(&mut self.open) {
            if !open.is_decided {
                self.inner.lost(token);
            }
        }
    }

    /// Hands over a pulled ADU, or its first fragment.
    fn give(&mut self, pulled: PulledAdu, (room, start): (usize, usize), packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.is_cutting = pulled.len > room;
        if !self.is_cutting {
            return Some(PulledAdu { token: whole(pulled.token), ..pulled });
        }
        let mut payload = packet.split_off(start);
        if pulled.apart {
            self.inner.append(pulled.token, &mut payload);
        }
        // The copy frees its place in the queue.
        self.inner.sent(pulled.token);
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.open.insert(pulled.token, Open::default());
        self.cutting = Some(Cutting { token: pulled.token, number, meta: pulled.meta, payload, offset: 0 });
        self.next_fragment(room, packet)
    }

    /// Appends the next fragment of the ADU being sent.
    fn next_fragment(&mut self, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let cutting = self.cutting.as_mut()?;
        let (token, meta) = (cutting.token, cutting.meta);
        let open = self.open.entry(token).or_default();
        let part = open.sent + 1;
        let rest = &cutting.payload[cutting.offset..];
        let len = room.saturating_sub(PulledAdu::FRAGMENT_MARK + REPEAT_ROOM + HEADER_LEN).min(rest.len());
        if len == 0 || part > MAX_PARTS {
            self.lose(token, DropReason::TooLarge);
            return None;
        }
        packet.extend_from_slice(&cutting.number.to_be_bytes());
        packet.extend_from_slice(&(cutting.offset as u16).to_be_bytes());
        packet.extend_from_slice(&(cutting.payload.len() as u16).to_be_bytes());
        packet.extend_from_slice(&rest[..len]);
        cutting.offset += len;
        open.add(part);
        open.is_complete = cutting.offset == cutting.payload.len();
        if open.is_complete {
            self.cutting = None;
        }
        let (token, len) = (whole(token) | part, HEADER_LEN + len);
        Some(PulledAdu { token, len, meta, apart: false, copy: Copied::First, is_fragment: true })
    }

    /// Gives up the ADU being sent, if the rest of it is not worth sending any more.
    fn look_over(&mut self, now: Instant, path: &PathState) {
        let Some((token, meta)) = self.cutting.as_ref().map(|cutting| (cutting.token, cutting.meta)) else { return };
        let is_lost = self.open.get(&token).is_none_or(|open| open.is_decided);
        if is_lost || meta.is_expired(now) || !self.inner.is_worth_repeating(now, path, &meta) {
            self.lose(token, DropReason::Expired);
        }
    }

    /// Gives an ADU its fate, since a fragment of it does not arrive: lost, or dropped if none was sent.
    fn lose(&mut self, token: u64, reason: DropReason) {
        self.cutting.take_if(|cutting| cutting.token == token);
        let Some(open) = self.open.get_mut(&token) else { return };
        open.is_complete = true;
        let (is_news, was_sent) = (!std::mem::replace(&mut open.is_decided, true), open.sent > 0);
        if open.is_over() {
            self.open.remove(&token);
        }
        match (is_news, was_sent) {
            (true, true) => self.inner.lost(token),
            (true, false) => self.inner.dropped(token, reason),
            (false, _) => {}
        }
    }

    /// Notes that a fragment does not arrive.
    fn lost_part(&mut self, token: u64, part: u64, reason: DropReason) {
        let Some(open) = self.open.get_mut(&token) else { return };
        if open.decide(part) {
            self.lose(token, reason);
        }
    }
}

impl<S: AduSource> AduSource for Fragments<S> {
    fn has_queued(&mut self, now: Instant) -> bool {
        self.inner.has_queued(now) || self.cutting.is_some()
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.cutting.is_some() {
            self.look_over(now, path);
            if let Some(fragment) = self.next_fragment(room, packet) {
                return Some(fragment);
            }
        }
        let (start, most) = (packet.len(), if self.is_allowed { MAX_ADU } else { room });
        let pulled = self.inner.pull(now, path, most, packet)?;
        self.give(pulled, (room, start), packet)
    }

    fn choose(&mut self, now: Instant, path: &PathState, ahead: &mut dyn Queue) {
        self.inner.choose(now, path, ahead);
    }

    fn pull_chosen(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.cutting.is_some() {
            return self.pull(now, path, room, packet);
        }
        let (start, most) = (packet.len(), if self.is_allowed { MAX_ADU } else { room });
        let pulled = self.inner.pull_chosen(now, path, most, packet)?;
        self.give(pulled, (room, start), packet)
    }

    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let pulled = self.inner.pull_beside(now, path, room, packet)?;
        Some(PulledAdu { token: whole(pulled.token), ..pulled })
    }

    fn waiting_bytes(&self) -> Option<u64> {
        self.inner.waiting_bytes()
    }

    fn will_pull(&mut self, packets: u32) {
        if !self.is_cutting {
            self.inner.will_pull(packets);
        }
    }

    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.inner.append(inner(token), packet);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        self.inner.is_worth_repeating(now, path, meta)
    }

    fn is_decided(&self, token: u64) -> bool {
        let (token, part) = split(token);
        part > 0 && self.open.get(&token).is_none_or(|open| open.is_decided)
    }

    fn why_not(&self, meta: &AduMeta) -> DropReason {
        self.inner.why_not(meta)
    }

    fn is_punctual(&self) -> bool {
        self.inner.is_punctual()
    }

    fn rate_range(&mut self) -> Option<RateRange> {
        self.inner.rate_range()
    }

    fn sent(&mut self, token: u64) {
        if let (token, 0) = split(token) {
            self.inner.sent(token);
        }
    }

    fn acked(&mut self, token: u64) {
        self.arrived(token, Instant::ZERO, None);
    }

    fn arrived(&mut self, token: u64, at: Instant, exactly: Option<Arrived>) {
        let (token, part) = split(token);
        if part == 0 {
            return self.inner.arrived(token, at, exactly);
        }
        let Some(open) = self.open.get_mut(&token) else { return };
        if !open.decide(part) {
            return;
        }
        open.arrived_at = open.arrived_at.max(at);
        if !(open.is_complete && open.is_over()) {
            return;
        }
        let (is_decided, at) = (open.is_decided, open.arrived_at);
        self.open.remove(&token);
        if !is_decided {
            // The arrival of the part that completes the ADU is the ADU's.
            self.inner.arrived(token, at, exactly);
        }
    }

    fn missed(&mut self, meta: &AduMeta) {
        self.inner.missed(meta);
    }

    fn lost(&mut self, token: u64) {
        match split(token) {
            (token, 0) => self.inner.lost(token),
            (token, part) => self.lost_part(token, part, DropReason::TooLate),
        }
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        match split(token) {
            (token, 0) => self.inner.dropped(token, reason),
            (token, part) => {
                // The only fragment so far did not leave.
                if let Some(open) = self.open.get_mut(&token).filter(|open| open.sent == 1) {
                    open.sent = 0;
                }
                self.lost_part(token, part, reason);
            }
        }
    }

    fn close(&mut self) {
        self.cutting = None;
        self.open.clear();
        self.inner.close();
    }
}

#[cfg(test)]
mod tests;
