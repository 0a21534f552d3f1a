//! Pulled datagrams whose fate is not known yet, by number.

use std::collections::BTreeMap;

use timeous_core::{AduMeta, AduSource, Copied, Instant, PathState, PulledAdu};

/// Maximum number of spare buffers. Chosen by us: a higher value takes more memory and allocates less often.
const MAX_SPARE: usize = 64;

#[derive(Debug)]
struct Datagram {
    token: u64,
    meta: AduMeta,
    payload: Vec<u8>,
    /// Sent at least once: its source knows.
    has_left: bool,
    /// Missed its deadline, which its source knows.
    is_missed: bool,
}

impl Datagram {
    /// Notes that the datagram had not arrived at `at`, and returns the report for the source, if any.
    fn miss(&mut self, at: Instant) -> Option<AduMeta> {
        let is_news = self.has_left && self.meta.is_expired(at) && !std::mem::replace(&mut self.is_missed, true);
        is_news.then_some(self.meta)
    }
}

/// Pulled datagrams whose fate is not known yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    datagrams: BTreeMap<u32, Datagram>,
    next_number: u32,
    spare: Vec<Vec<u8>>,
}

impl Held {
    /// Pulls the next datagram from the source and numbers it.
    pub(super) fn pull(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
    ) -> Option<u32> {
        self.take(source, |source, payload| source.pull(now, path, room, payload))
    }

    /// Pulls a datagram for the same segment as another one, if it is not longer than `room`.
    pub(super) fn pull_beside(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
    ) -> Option<u32> {
        self.take(source, |source, payload| source.pull_beside(now, path, room, payload))
    }

    fn take(
        &mut self,
        source: &mut dyn AduSource,
        pull: impl FnOnce(&mut dyn AduSource, &mut Vec<u8>) -> Option<PulledAdu>,
    ) -> Option<u32> {
        let mut payload = self.spare.pop().unwrap_or_default();
        let Some(mut adu) = pull(source, &mut payload) else {
            self.keep_spare(payload);
            return None;
        };
        adu.gather(source, &mut payload);
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.datagrams
            .insert(number, Datagram { token: adu.token, meta: adu.meta, payload, has_left: false, is_missed: false });
        Some(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<(&AduMeta, &[u8])> {
        self.datagrams.get(&number).map(|datagram| (&datagram.meta, &*datagram.payload))
    }

    /// Returns whether the datagram's fate is not known yet.
    pub(super) fn has(&self, number: u32) -> bool {
        self.datagrams.contains_key(&number)
    }

    /// Returns whether it was sent at least once.
    pub(super) fn has_left(&self, number: u32) -> bool {
        self.datagrams.get(&number).is_some_and(|datagram| datagram.has_left)
    }

    /// Returns the payload length.
    pub(super) fn len(&self, number: u32) -> usize {
        self.datagrams.get(&number).map_or(0, |datagram| datagram.payload.len())
    }

    /// Returns whether it has a deadline.
    pub(super) fn is_timed(&self, number: u32) -> bool {
        self.datagrams.get(&number).is_some_and(|datagram| datagram.meta.deadline.is_some())
    }

    /// Returns whether the datagram's fate is not known yet and it can still be of use.
    pub(super) fn is_worth_sending(
        &self,
        number: u32,
        now: Instant,
        path: &PathState,
        source: &mut dyn AduSource,
    ) -> bool {
        self.datagrams.get(&number).is_some_and(|datagram| source.is_worth_repeating(now, path, &datagram.meta))
    }

    /// Notes a transmission, and returns the report for the source if it is the first.
    pub(super) fn leave(&mut self, number: u32) -> Option<PulledAdu> {
        let datagram = self.datagrams.get_mut(&number)?;
        let Datagram { token, meta, ref payload, .. } = *datagram;
        let is_first = !std::mem::replace(&mut datagram.has_left, true);
        is_first.then_some(PulledAdu {
            token,
            len: payload.len(),
            meta,
            apart: false,
            copy: Copied::First,
            is_fragment: false,
        })
    }

    /// Notes that it had not arrived before `at`, and returns the report for the source, if that was too late.
    pub(super) fn miss(&mut self, number: u32, at: Instant) -> Option<AduMeta> {
        self.datagrams.get_mut(&number)?.miss(at)
    }

    /// Notes that it is not sent any more, and returns the report for the source besides its fate.
    pub(super) fn give_up(&mut self, number: u32) -> Option<AduMeta> {
        let datagram = self.datagrams.get_mut(&number)?;
        (!std::mem::replace(&mut datagram.is_missed, true)).then_some(datagram.meta)
    }

    /// Applies [`miss`](Self::miss) to all datagrams. Of two, the one sent first has the earlier deadline, or nearly.
    pub(super) fn miss_before(&mut self, at: Instant, missed: &mut Vec<AduMeta>) {
        let due = |datagram: &&mut Datagram| datagram.meta.deadline.is_none_or(|deadline| deadline < at);
        missed.extend(self.datagrams.values_mut().take_while(due).filter_map(|datagram| datagram.miss(at)));
    }

    /// Removes a settled datagram, and returns the token to report to its source.
    pub(super) fn forget(&mut self, number: u32) -> Option<u64> {
        let Datagram { token, payload, .. } = self.datagrams.remove(&number)?;
        self.keep_spare(payload);
        Some(token)
    }

    /// Removes all datagrams: their fate will never be known.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.datagrams).into_values().map(|datagram| datagram.token)
    }

    fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            payload.clear();
            self.spare.push(payload);
        }
    }
}
