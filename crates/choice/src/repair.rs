//! Retransmission: lost packets that can still arrive in time compete with new ones for sending opportunities.

mod kept;
mod lost;
mod spares;

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::{
    AduMeta, AduSource, Arrived, Copied, DropReason, Instant, PathState, Priority, PulledAdu, Queue, RateRange,
};

use kept::Store;
use lost::Lost;

/// Source that keeps sent ADUs until their fate is known, and offers lost ones again.
///
/// The inner source's policy judges lost and queued ADUs alike: lost ones come first, as marked by [`Queue::was_sent`],
/// and the kept ones are sent in that order. ADUs dropped by the policy, or that cannot arrive before their deadline,
/// are lost for good. An ADU's last chance may be sent in several copies; additional copies are sent only when nothing
/// else is queued, or was not within the last round trip.
///
/// The receiver must be able to tell retransmissions from new ADUs: there are none until [`allow`](Self::allow). Only
/// ADUs of at least the given priority are kept; without one, none.
#[derive(Debug)]
pub struct Repair<S> {
    inner: S,
    least: Option<Priority>,
    is_allowed: bool,
    kept: Store,
    /// Tokens of ADUs to retransmit, oldest first.
    again: BTreeSet<u64>,
    /// Additional copies to send when there is room, by token.
    spare: BTreeMap<u64, u32>,
    /// Last time when no new ADU was queued.
    idle_at: Option<Instant>,
    view: Lost,
    repaired: u64,
}

impl<S: AduSource> Repair<S> {
    /// Creates a source that retransmits ADUs of `inner` with at least the priority `least`.
    pub fn new(inner: S, least: Option<Priority>) -> Self {
        Self {
            inner,
            least,
            is_allowed: false,
            kept: Store::default(),
            again: BTreeSet::new(),
            spare: BTreeMap::new(),
            idle_at: None,
            view: Lost::default(),
            repaired: 0,
        }
    }

    /// Inner source.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Inner source.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Allows retransmissions: the receiver can tell them from new ADUs.
    pub fn allow(&mut self) {
        self.is_allowed = true;
    }

    /// Whether retransmissions are allowed.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Handles the loss of the connection with everything in flight: kept ADUs are sent again over the next one; the
    /// inner source must treat others as lost.
    pub fn carrier_gone(&mut self) {
        self.is_allowed = false;
        // Another carrier knows nothing of the fragments that have arrived.
        let fragments: Vec<u64> = self.kept.fragments().collect();
        for token in fragments {
            self.forget(token);
            self.inner.lost(token);
        }
        self.again = self.kept.all_back();
        self.spare.clear();
    }

    /// Marks an ADU for early retransmission, because its acknowledgement is overdue though its loss is not certain.
    pub fn overdue(&mut self, token: u64) {
        if self.is_allowed && self.kept.has(token) {
            self.again.insert(token);
        }
    }

    /// Whether an ADU is kept until its fate is known.
    pub fn keeps(&self, token: u64) -> bool {
        self.kept.has(token)
    }

    /// Number of copies sent beyond the first.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    /// Drops ADUs that expired while nothing could be sent; returns whether there were any.
    pub fn pass_expired(&mut self, now: Instant) -> bool {
        let expired = |token: &u64| self.kept.get(*token).is_none_or(|kept| kept.meta.is_expired(now));
        let expired: Vec<u64> = self.again.iter().copied().filter(expired).collect();
        for &token in &expired {
            self.give_up(token);
        }
        !expired.is_empty()
    }

    /// Takes the next retransmission that the policy keeps, if any.
    fn pull_again(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.gather(now, path, room);
        let mut view = std::mem::take(&mut self.view);
        self.inner.choose(now, path, &mut view);
        for token in view.given_up() {
            self.give_up(token);
        }
        let first = view.first();
        self.view = view;
        let token = first?;
        self.again.remove(&token);
        let more = self.kept.get(token).map_or(0, |kept| spares::copies(now, path, &kept.meta) - 1);
        if more > 0 {
            self.spare.insert(token, more);
        }
        self.copy(token, packet)
    }

    /// Collects lost ADUs that can still arrive in time for the policy, and drops the others.
    fn gather(&mut self, now: Instant, path: &PathState, room: usize) {
        self.view.clear();
        let mut useless = Vec::new();
        for &token in &self.again {
            match self.kept.get(token) {
                Some(kept)
                    if !kept.meta.is_expired(now + path.shortest_way())
                        && kept.payload.len() <= room
                        && !(kept.is_fragment && self.inner.is_decided(token)) =>
                {
                    self.view.push(token, kept.meta, kept.payload.len());
                }
                _ => useless.push(token),
            }
        }
        for token in useless {
            self.give_up(token);
        }
    }

    /// Whether the path has spare capacity: no new ADU was queued at some time within the last round trip.
    fn has_room_to_spare(&self, now: Instant, path: &PathState) -> bool {
        !self.spare.is_empty() && self.idle_at.is_some_and(|at| path.srtt.is_some_and(|srtt| now <= at + srtt))
    }

    /// Takes an additional copy of an ADU's last chance.
    fn pull_spare(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        while let Some((token, more)) = self.spare.pop_first() {
            let Some(kept) = self.kept.get(token) else { continue };
            let is_useless = kept.is_fragment && self.inner.is_decided(token);
            if is_useless || kept.meta.is_expired(now + path.shortest_way()) || kept.payload.len() > room {
                continue;
            }
            if more > 1 {
                self.spare.insert(token, more - 1);
            }
            return self.copy(token, packet);
        }
        None
    }

    /// Takes the next ADU; `is_chosen`: nothing has changed since the last choice.
    fn take(
        &mut self,
        (now, path, room): (Instant, &PathState, usize),
        packet: &mut Vec<u8>,
        is_chosen: bool,
    ) -> Option<PulledAdu> {
        let has_chosen = !self.again.is_empty();
        if has_chosen && let Some(again) = self.pull_again(now, path, room, packet) {
            return Some(again);
        }
        if self.has_room_to_spare(now, path)
            && let Some(again) = self.pull_spare(now, path, room, packet)
        {
            return Some(again);
        }
        let start = packet.len();
        let pulled = if has_chosen || is_chosen {
            self.inner.pull_chosen(now, path, room, packet)
        } else {
            self.inner.pull(now, path, room, packet)
        };
        let Some(pulled) = pulled else { return self.pull_spare(now, path, room, packet) };
        self.keep_if_wanted(now, &pulled, &packet[start..]);
        Some(pulled)
    }

    /// Appends a copy of a kept ADU.
    fn copy(&mut self, token: u64, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let kept = self.kept.get_mut(token)?;
        kept.under_way += 1;
        kept.is_repeated = true;
        packet.extend_from_slice(&kept.payload);
        self.repaired += 1;
        Some(PulledAdu {
            token,
            len: kept.payload.len(),
            meta: kept.meta,
            apart: false,
            copy: Copied::Again,
            is_fragment: kept.is_fragment,
        })
    }

    fn keep_if_wanted(&mut self, now: Instant, pulled: &PulledAdu, appended: &[u8]) {
        if self.least.is_some_and(|least| pulled.meta.priority >= least) {
            self.keep(now, pulled, appended);
        }
    }

    /// Copies an ADU for retransmission, as its place in the queue is freed when it is sent.
    fn keep(&mut self, now: Instant, pulled: &PulledAdu, appended: &[u8]) {
        let mut payload = self.kept.buffer();
        payload.extend_from_slice(appended);
        if pulled.apart {
            self.inner.append(pulled.token, &mut payload);
        }
        self.kept.keep(pulled.token, pulled.meta, payload, pulled.is_fragment);
        while let Some(token) = self.kept.oldest_useless(now) {
            let is_lost = self.kept.get(token).is_some_and(|kept| kept.under_way == 0);
            self.forget(token);
            if is_lost {
                self.inner.lost(token);
            }
        }
    }

    /// Forgets an ADU whose fate is known, or that is not kept any more.
    fn forget(&mut self, token: u64) {
        self.kept.forget(token);
        self.again.remove(&token);
        self.spare.remove(&token);
    }

    /// Drops an ADU from retransmission. The fate of copies in flight still decides.
    fn give_up(&mut self, token: u64) {
        let is_lost = self.kept.get(token).is_some_and(|kept| kept.under_way == 0);
        self.again.remove(&token);
        self.spare.remove(&token);
        if is_lost {
            self.kept.forget(token);
            self.inner.lost(token);
        }
    }
}

impl<S: AduSource> AduSource for Repair<S> {
    fn has_queued(&mut self, now: Instant) -> bool {
        let has_fresh = self.inner.has_queued(now);
        if !has_fresh {
            self.idle_at = Some(now);
        }
        has_fresh || !self.again.is_empty() || !self.spare.is_empty()
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.take((now, path, room), packet, false)
    }

    fn pull_chosen(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.take((now, path, room), packet, true)
    }

    fn choose(&mut self, now: Instant, path: &PathState, ahead: &mut dyn Queue) {
        self.inner.choose(now, path, ahead);
    }

    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        // Retransmissions go first, in packets of their own.
        if !self.again.is_empty() {
            return None;
        }
        let start = packet.len();
        let pulled = self.inner.pull_beside(now, path, room, packet)?;
        self.keep_if_wanted(now, &pulled, &packet[start..]);
        Some(pulled)
    }

    fn will_pull(&mut self, packets: u32) {
        // Retransmissions go first, and take the place of a new packet.
        if self.again.is_empty() {
            self.inner.will_pull(packets);
        }
    }

    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.inner.append(token, packet);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        self.inner.is_worth_repeating(now, path, meta)
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
        self.inner.sent(token);
    }

    fn acked(&mut self, token: u64) {
        self.forget(token);
        self.inner.acked(token);
    }

    fn arrived(&mut self, token: u64, at: Instant, exactly: Option<Arrived>) {
        self.forget(token);
        self.inner.arrived(token, at, exactly);
    }

    fn missed(&mut self, meta: &AduMeta) {
        self.inner.missed(meta);
    }

    fn lost(&mut self, token: u64) {
        let Some(kept) = self.kept.get_mut(token) else { return self.inner.lost(token) };
        kept.under_way = kept.under_way.saturating_sub(1);
        if kept.under_way > 0 {
            return;
        }
        if self.is_allowed {
            self.again.insert(token);
        } else {
            self.give_up(token);
        }
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        if let Some(kept) = self.kept.get_mut(token).filter(|kept| kept.is_repeated) {
            // Only this copy was not sent: one before it may still arrive.
            kept.under_way = kept.under_way.saturating_sub(1);
            return self.give_up(token);
        }
        self.forget(token);
        self.inner.dropped(token, reason);
    }

    fn close(&mut self) {
        let tokens: Vec<u64> = self.kept.tokens().collect();
        for token in tokens {
            self.forget(token);
            self.inner.lost(token);
        }
        self.again.clear();
        self.spare.clear();
        self.inner.close();
    }
}

#[cfg(test)]
mod tests;
