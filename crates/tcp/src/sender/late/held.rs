//! Datagrams that were pulled and have no fate yet, by their numbers.

use std::collections::BTreeMap;

use timeous_core::{AduMeta, AduSource, Copied, Instant, PathState, PulledAdu};

/// So many buffers are kept for later ones.
const MOST_SPARE: usize = 64;

#[derive(Debug)]
struct Datagram {
    token: u64,
    meta: AduMeta,
    payload: Vec<u8>,
    /// It has left once: its source knows.
    has_left: bool,
    /// It was not there by its deadline, which its source knows.
    is_missed: bool,
}

impl Datagram {
    /// It was not there at `at`: what is to be told of that.
    fn miss(&mut self, at: Instant) -> Option<AduMeta> {
        let is_news = self.has_left && self.meta.is_expired(at) && !std::mem::replace(&mut self.is_missed, true);
        is_news.then_some(self.meta)
    }
}

/// Datagrams that were pulled and have no fate yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    datagrams: BTreeMap<u32, Datagram>,
    next_number: u32,
    spare: Vec<Vec<u8>>,
}

impl Held {
    /// Takes the next one from the source and gives it its number.
    pub(super) fn pull(
        &mut self,
        now: Instant,
        path: &PathState,
        room: usize,
        source: &mut dyn AduSource,
    ) -> Option<u32> {
        self.take(source, |source, payload| source.pull(now, path, room, payload))
    }

    /// Takes the next one beside one that leaves in the same segment, if it is not longer than `room`.
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

    /// Whether it has no fate yet.
    pub(super) fn has(&self, number: u32) -> bool {
        self.datagrams.contains_key(&number)
    }

    /// How long its payload is.
    pub(super) fn len(&self, number: u32) -> usize {
        self.datagrams.get(&number).map_or(0, |datagram| datagram.payload.len())
    }

    /// Whether it has a deadline.
    pub(super) fn is_timed(&self, number: u32) -> bool {
        self.datagrams.get(&number).is_some_and(|datagram| datagram.meta.deadline.is_some())
    }

    /// Whether it has no fate yet and can still be of use.
    pub(super) fn is_worth_sending(
        &self,
        number: u32,
        now: Instant,
        path: &PathState,
        source: &mut dyn AduSource,
    ) -> bool {
        self.datagrams.get(&number).is_some_and(|datagram| source.is_worth_repeating(now, path, &datagram.meta))
    }

    /// It leaves: what its source is to be told, if that is the first time.
    pub(super) fn leave(&mut self, number: u32) -> Option<PulledAdu> {
        let datagram = self.datagrams.get_mut(&number)?;
        let Datagram { token, meta, ref payload, .. } = *datagram;
        let is_first = !std::mem::replace(&mut datagram.has_left, true);
        is_first.then_some(PulledAdu { token, len: payload.len(), meta, apart: false, copy: Copied::First })
    }

    /// It was not there before `at`: what its source is to be told, if that was too late.
    pub(super) fn miss(&mut self, number: u32, at: Instant) -> Option<AduMeta> {
        self.datagrams.get_mut(&number)?.miss(at)
    }

    /// It does not leave any more: what its source is to be told besides its fate.
    pub(super) fn give_up(&mut self, number: u32) -> Option<AduMeta> {
        let datagram = self.datagrams.get_mut(&number)?;
        (!std::mem::replace(&mut datagram.is_missed, true)).then_some(datagram.meta)
    }

    /// The same of all that have no fate. Of two, the one that left first has the earlier deadline, or nearly.
    pub(super) fn miss_before(&mut self, at: Instant, missed: &mut Vec<AduMeta>) {
        let due = |datagram: &&mut Datagram| datagram.meta.deadline.is_none_or(|deadline| deadline < at);
        missed.extend(self.datagrams.values_mut().take_while(due).filter_map(|datagram| datagram.miss(at)));
    }

    /// It has its fate, which its source is told of by the token.
    pub(super) fn forget(&mut self, number: u32) -> Option<u64> {
        let Datagram { token, payload, .. } = self.datagrams.remove(&number)?;
        self.keep_spare(payload);
        Some(token)
    }

    /// Nobody will hear of any of them.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.datagrams).into_values().map(|datagram| datagram.token)
    }

    fn keep_spare(&mut self, mut payload: Vec<u8>) {
        if self.spare.len() < MOST_SPARE {
            payload.clear();
            self.spare.push(payload);
        }
    }
}
