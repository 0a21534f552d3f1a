//! Records that the kernel has: where each lies in the stream, whose datagram it carries, and when that goes stale.

use std::collections::VecDeque;

use timeous_core::{AduMeta, Instant, PulledAdu};

use super::bearing::Version;
use super::zone::Slot;

/// A record that the kernel has and the peer has not acknowledged.
#[derive(Debug)]
pub(super) struct Record {
    /// The datagram in it; `None`: what it carries is padding, or a copy of another one's.
    pub(super) token: Option<u64>,
    /// What is known of it, as long as it is worth a retransmission.
    pub(super) meta: Option<AduMeta>,
    /// The same, until it is known not to have been there by its deadline.
    open: Option<AduMeta>,
    /// When the kernel was given it.
    pub(super) given: Instant,
    /// Its bytes in the stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where it lies, if the kernel sends it from there, and the number of the send.
    pub(super) slot: Option<(u32, Slot)>,
    /// A copy of its datagram lies where something was sent, and may have left from there.
    copied: bool,
    /// The same, if more retransmissions have left than so many.
    lends: Option<u32>,
    version: Version,
    /// Its bytes were written over after it had left, when so many retransmissions had.
    overwritten: Option<u32>,
    /// In a vacant one: whose copy lies there.
    lent: Option<Guest>,
    /// Its datagram left from here only as a retransmission of another.
    boarded: bool,
}

/// A datagram of which a copy lies in another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guest {
    /// Its token.
    pub(super) of: u64,
    /// Its deadline.
    pub(super) until: Instant,
}

/// What lies in vacant records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    /// The datagram's token.
    pub(super) of: u64,
    /// Segments that had been sent again by then.
    pub(super) retransmitted: u32,
    /// Nothing was lost then.
    pub(super) unhurt: bool,
}

/// A record that the peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// The datagram in it, if there is one.
    pub(super) token: Option<u64>,
    /// If its bytes were written over, how many retransmissions had left by then: it arrived as it was if there was none since.
    pub(super) overwritten: Option<u32>,
    /// Its datagram left only as a retransmission of another.
    pub(super) boarded: bool,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn deadline(&self) -> Option<Instant> {
        let lent = self.lent.map(|guest| guest.until);
        self.meta.and_then(|meta| meta.deadline).into_iter().chain(lent).min()
    }

    /// It has left, what it was then is of no use any more, and what it is now nobody's loss.
    fn is_vacant(&self) -> bool {
        let left = matches!(self.version, Version::Changed { .. });
        left && self.meta.is_none() && !self.boarded && self.slot.is_some()
    }
}

/// All of them, in the order of the stream.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    records: VecDeque<Record>,
    /// Bytes given to the kernel, those of a record that it took in part counted as a whole.
    end: u64,
    /// No deadline passes before.
    next_deadline: Option<Instant>,
    /// None of what is open.
    next_open: Option<Instant>,
    /// Places that the kernel may still read from, of records that the peer has acknowledged.
    lingering: VecDeque<(u32, Slot)>,
}

impl UnderWay {
    /// The kernel was given a datagram, which may lie in another place as well.
    pub(super) fn push(
        &mut self,
        now: Instant,
        pulled: &PulledAdu,
        len: usize,
        slot: Option<(u32, Slot)>,
        copied: bool,
    ) {
        let start = self.end;
        self.end += len as u64;
        self.next_deadline = self.next_deadline.into_iter().chain(pulled.meta.deadline).min();
        self.next_open = self.next_open.into_iter().chain(pulled.meta.deadline).min();
        self.records.push_back(Record {
            token: Some(pulled.token),
            meta: Some(pulled.meta),
            open: Some(pulled.meta),
            given: now,
            start,
            end: self.end,
            slot,
            copied,
            lends: None,
            version: Version::First,
            overwritten: None,
            lent: None,
            boarded: false,
        });
    }

    /// The kernel may still read from a place whose record is not to be written anew.
    pub(super) fn linger(&mut self, send: u32, slot: Slot) {
        self.lingering.push_back((send, slot));
    }

    /// Nothing is sent from where it lies any more.
    pub(super) fn forget_places(&mut self) {
        self.lingering.clear();
        for record in &mut self.records {
            record.slot = None;
        }
    }

    /// So many bytes of the stream are nobody's datagram.
    pub(super) fn skip(&mut self, len: usize) {
        self.end += len as u64;
    }

    /// The end of the stream so far.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The next record that ends where the peer has acknowledged everything, or before.
    pub(super) fn pop_acked(&mut self, up_to: u64) -> Option<Arrived> {
        self.records.front().filter(|record| record.end <= up_to)?;
        let mut record = self.records.pop_front()?;
        self.lingering.extend(record.slot.take());
        let Record { token, overwritten, boarded, .. } = record;
        Some(Arrived { token, overwritten, boarded })
    }

    /// The kernel has let go of the memory of these sends.
    pub(super) fn released(&mut self, first: u32, last: u32, mut free: impl FnMut(Slot)) {
        let among = |send: u32| send.wrapping_sub(first) <= last.wrapping_sub(first);
        let mut kept = VecDeque::with_capacity(self.lingering.len());
        for (send, slot) in self.lingering.drain(..) {
            if among(send) { free(slot) } else { kept.push_back((send, slot)) }
        }
        self.lingering = kept;
        for record in &mut self.records {
            if let Some((_, slot)) = record.slot.take_if(|(send, _)| among(*send)) {
                free(slot);
            }
        }
    }

    /// Whether a send is of a record that the peer has not acknowledged.
    pub(super) fn has_send(&self, number: u32) -> bool {
        self.records.iter().any(|record| record.slot.as_ref().is_some_and(|(send, _)| *send == number))
    }

    /// When the next deadline passes.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Its bytes are written over after it has left, when so many retransmissions have: what becomes of its datagram will be seen.
    pub(super) fn overwrite(&mut self, place: usize, retransmitted: u32) {
        let record = &mut self.records[place];
        record.copied = false;
        // What lay there since was a copy of another one's.
        record.overwritten.get_or_insert(retransmitted);
    }

    /// Whether its bytes were written over after it had left.
    pub(super) fn is_overwritten(&self, place: usize) -> bool {
        self.records[place].overwritten.is_some()
    }

    /// What of all that has no fate was to be there `before`: each once.
    pub(super) fn overdue(&mut self, before: Instant) -> Vec<AduMeta> {
        if self.next_open.is_none_or(|next| next >= before) {
            return Vec::new();
        }
        let is_overdue = |meta: &AduMeta| meta.deadline.is_some_and(|deadline| deadline < before);
        let overdue =
            self.records.iter_mut().filter_map(|record| record.open.take_if(|meta| is_overdue(meta))).collect();
        self.next_open = self.records.iter().filter_map(|record| record.open?.deadline).min();
        overdue
    }

    /// The records whose deadline is before `horizon`, that can be written anew and are not `worth` being left; and the
    /// number of those that cannot be. They are asked for no more.
    pub(super) fn take_useless(
        &mut self,
        horizon: Instant,
        mut worth: impl FnMut(&Record, &AduMeta) -> bool,
    ) -> (Vec<usize>, u64) {
        let (mut useless, mut fixed) = (Vec::new(), 0);
        self.next_deadline = None;
        for (place, record) in self.records.iter_mut().enumerate() {
            let Some((meta, deadline)) = record.meta.and_then(|meta| Some((meta, meta.deadline?))) else {
                self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
                continue;
            };
            if deadline >= horizon || worth(record, &meta) {
                self.next_deadline = self.next_deadline.into_iter().chain([deadline]).min();
                continue;
            }
            record.meta = None;
            if record.slot.is_some() {
                useless.push(place);
            } else {
                fixed += 1;
            }
        }
        (useless, fixed)
    }

    /// Where the first datagram lies that has not left, since it lies beyond `sent`, and takes at most `room` bytes; and how
    /// many it takes, and what is known of it. It is copied from there. What has gone stale has given up its place by now.
    pub(super) fn copy_first_fresh(&mut self, sent: u64, room: usize) -> Option<(&Slot, usize, Option<AduMeta>)> {
        let unsent = self.records.iter_mut().skip_while(|record| record.start < sent);
        let mut fitting = unsent.filter(|record| record.token.is_some() && record.len() <= room);
        let fresh = fitting.find(|record| record.slot.is_some())?;
        fresh.copied = true;
        fresh.slot.as_ref().map(|(_, slot)| (slot, (fresh.end - fresh.start) as usize, fresh.meta))
    }

    /// Whether the record that is acknowledged next is among what the peer has, and what became of its bytes.
    pub(super) fn next_version(&self, up_to: u64) -> Option<&Version> {
        self.records.front().filter(|record| record.end <= up_to).map(|record| &record.version)
    }

    /// The bytes of a record are written over, after they have left as these.
    pub(super) fn change(&mut self, place: usize, first: Vec<u8>, telling_from: Option<Instant>, timeouts: u8) {
        let version = &mut self.records[place].version;
        // What left first was something else, if this is not the first change.
        if !matches!(version, Version::Changed { .. }) {
            *version = Version::Changed { first, telling_from, timeouts };
        }
    }

    /// How many of so many timeouts in a row the first segment has been waited for since anything in it was changed.
    pub(super) fn timeouts_since_change(&self, timeouts: u8, mss: usize) -> u8 {
        let changed = self.records.iter().take(self.beside_first(mss)).find_map(|record| match record.version {
            Version::Changed { timeouts, .. } => Some(timeouts),
            Version::First | Version::Restored { .. } => None,
        });
        // Fewer than then: there was progress meanwhile.
        changed.map_or(0, |before| timeouts.checked_sub(before).unwrap_or(timeouts))
    }

    /// How many records may have left in the first one's segment, itself included: they arrive with it, or not at all.
    pub(super) fn beside_first(&self, mss: usize) -> usize {
        let end = self.first().map_or(0, |start| start + mss as u64);
        self.records.partition_point(|record| record.start < end)
    }

    /// A copy of another one's datagram lies in a record, and goes stale when that does.
    pub(super) fn carries(&mut self, place: usize, meta: Option<AduMeta>) {
        let record = &mut self.records[place];
        (record.meta, record.lent) = (meta, None);
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
    }

    /// The first vacant records, so many, and others that have a guest; and whom each has.
    pub(super) fn vacant(&self, most: usize) -> Vec<(usize, Option<Guest>)> {
        let vacant = self.records.iter().enumerate().filter(|(_, record)| record.is_vacant()).enumerate();
        let these = vacant.filter(|(nth, (_, record))| *nth < most || record.lent.is_some());
        these.map(|(_, (place, record))| (place, record.lent)).collect()
    }

    /// Where the first datagram lies that has not left, since it lies beyond `sent`, and may leave from nowhere else.
    pub(super) fn first_fresh(&self, sent: u64) -> Option<usize> {
        let from = self.records.partition_point(|record| record.start < sent);
        let is_fresh = |record: &Record| record.token.is_some() && record.meta.is_some() && record.slot.is_some();
        self.records.get(from).filter(|record| is_fresh(record) && !record.copied).map(|_| from)
    }

    /// The last record, if it is padding where nothing else ever was sent.
    pub(super) fn last_padding(&self) -> Option<usize> {
        let is_padding = |record: &Record| {
            record.token.is_none() && record.slot.is_some() && record.meta.is_none() && record.version == Version::First
        };
        self.records.back().filter(|record| is_padding(record)).map(|_| self.records.len() - 1)
    }

    /// A vacant record carries a copy of what lies elsewhere, or nothing.
    pub(super) fn lend(&mut self, place: usize, guest: Option<Guest>) {
        let record = &mut self.records[place];
        record.lent = guest;
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
    }

    /// Copies of the datagram that is there lie in vacant records, since so many retransmissions had left.
    pub(super) fn lends(&mut self, place: usize, retransmitted: u32) {
        self.records[place].lends.get_or_insert(retransmitted);
    }

    /// The vacant records with a copy of the datagram that is there.
    pub(super) fn guests_of(&self, place: usize) -> Vec<usize> {
        let Some(token) = self.records[place].token.filter(|_| self.records[place].lends.is_some()) else {
            return Vec::new();
        };
        let those =
            self.records.iter().enumerate().filter(|(_, record)| record.lent.is_some_and(|guest| guest.of == token));
        those.map(|(place, _)| place).collect()
    }

    /// If the peer does not wait for the original any more, what arrives from this instant on is what was written over it.
    pub(super) fn tells_from(&mut self, place: usize, at: Instant) {
        if let Version::Changed { telling_from, .. } = &mut self.records[place].version {
            telling_from.get_or_insert(at);
        }
    }

    /// The datagram at `from`, a copy of which has left in the vacant record at `to`, is that one's from now on. The record at
    /// `from` is nobody's.
    pub(super) fn board(&mut self, from: usize, to: usize) {
        let place = &mut self.records[from];
        let (token, meta, open) = (place.token.take(), place.meta.take(), place.open.take());
        let record = &mut self.records[to];
        (record.token, record.meta, record.open, record.boarded) = (token, meta, open, token.is_some());
        (record.lent, record.overwritten) = (None, None);
    }

    /// Whether its datagram left only as a retransmission of another.
    pub(super) fn is_boarded(&self, place: usize) -> bool {
        self.records[place].boarded
    }

    /// The bytes that a record had when it left first, if others took their place: it has them again, since so many segments had been
    /// sent again.
    pub(super) fn go_back(&mut self, place: usize, retransmitted: u32) -> Option<Vec<u8>> {
        let record = self.records.get_mut(place)?;
        let version = &mut record.version;
        match std::mem::take(version) {
            Version::Changed { first, .. } => {
                *version = Version::Restored { awaited: (place == 0).then_some(retransmitted) };
                (record.meta, record.lent) = (None, None);
                Some(first)
            }
            other => {
                *version = other;
                None
            }
        }
    }

    /// Where the record begins of which the peer has the front alone, if it was sent from our memory, and within `sent`.
    pub(super) fn cut(&self, acked: u64, sent: u64, mss: usize) -> Option<u64> {
        let first = self.records.front()?;
        let is_whole = first.end <= sent && first.len() <= mss && first.slot.is_some();
        (is_whole && first.start < acked && acked < first.end).then_some(first.start)
    }

    /// Where the first begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.records.front().map(|record| record.start)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn record(&self, place: usize) -> &Record {
        &self.records[place]
    }

    /// Whether the datagram that is there may have left from another place.
    /// When so many retransmissions have left.
    pub(super) fn is_copied(&self, place: usize, retransmitted: u32) -> bool {
        let record = &self.records[place];
        record.copied || record.lends.is_some_and(|before| before != retransmitted)
    }

    /// Another datagram, or none, takes the place of the one that was there.
    pub(super) fn replace(&mut self, place: usize, by: Option<&PulledAdu>) -> Option<u64> {
        let record = &mut self.records[place];
        (record.copied, record.boarded, record.lends) = (false, false, None);
        record.meta = by.map(|pulled| pulled.meta);
        (record.open, record.overwritten) = (record.meta, None);
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
        self.next_open = self.next_open.into_iter().chain(record.open.and_then(|meta| meta.deadline)).min();
        std::mem::replace(&mut record.token, by.map(|pulled| pulled.token))
    }

    /// Everything that has no fate yet.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.records.drain(..).filter_map(|record| record.token)
    }
}

#[cfg(test)]
mod tests;
