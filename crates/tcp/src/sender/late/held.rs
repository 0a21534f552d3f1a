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
        let mut payload = self.spare.pop().unwrap_or_default();
        let Some(mut adu) = source.pull(now, path, room, &mut payload) else {
            self.keep_spare(payload);
            return None;
        };
        adu.gather(source, &mut payload);
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.datagrams.insert(number, Datagram { token: adu.token, meta: adu.meta, payload, has_left: false });
        Some(number)
    }

    pub(super) fn get(&self, number: u32) -> Option<(&AduMeta, &[u8])> {
        self.datagrams.get(&number).map(|datagram| (&datagram.meta, &*datagram.payload))
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
