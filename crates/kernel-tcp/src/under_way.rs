//! Records given to the kernel: position in the stream, datagram, deadline.

use std::collections::VecDeque;

use timeous_core::{AduMeta, Instant, PulledAdu};

use crate::path_evidence::Version;
use crate::zone::Slot;

/// A record given to the kernel and not acknowledged.
#[derive(Debug)]
pub(crate) struct Record {
    /// Datagram of the record; `None`: padding, or a copy of another record's datagram.
    pub(crate) token: Option<u64>,
    /// Metadata of the datagram, while it is worth a retransmission.
    pub(crate) meta: Option<AduMeta>,
    /// Metadata of the datagram, until it is known to have missed its deadline.
    open: Option<AduMeta>,
    /// Time at which it was given to the kernel.
    pub(crate) given: Instant,
    /// Byte range in the stream.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Send number and memory slot, if the kernel sends it from there.
    pub(crate) slot: Option<(u32, Slot)>,
    /// A copy of its datagram lies in a sent record, and may have been transmitted from there.
    copied: bool,
    /// As `copied`, if more segments were retransmitted since than this count.
    lends: Option<u32>,
    version: Version,
    /// Count of retransmitted segments when its bytes were overwritten after transmission.
    overwritten: Option<u32>,
    /// Guest: the datagram of another record whose copy lies in this vacant record.
    lent: Option<Guest>,
    /// Its datagram was transmitted from here only, as a retransmission of this record.
    boarded: bool,
}

/// A datagram with a copy in another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Its token.
    pub(crate) of: u64,
    /// Its deadline.
    pub(crate) until: Instant,
}

/// Copies of a datagram in vacant records, with the kernel's state at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopiedDatagram {
    /// Token of the datagram.
    pub(crate) of: u64,
    /// Count of retransmitted segments.
    pub(crate) retransmitted: u32,
    /// No segment was lost at that time.
    pub(crate) unhurt: bool,
}

/// An acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Its datagram, if it has one.
    pub(crate) token: Option<u64>,
    /// Its end in the stream.
    pub(crate) end: u64,
    /// Count of retransmitted segments when its bytes were overwritten: the first version arrived if none was retransmitted since.
    pub(crate) overwritten: Option<u32>,
    /// Its datagram was transmitted only as a retransmission of this record.
    pub(crate) boarded: bool,
}

impl Record {
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn deadline(&self) -> Option<Instant> {
        let lent = self.lent.map(|guest| guest.until);
        self.meta.and_then(|meta| meta.deadline).into_iter().chain(lent).min()
    }

    /// Returns whether the record was sent, its first version is stale, and it holds no datagram of its own now.
    fn is_vacant(&self) -> bool {
        let left = matches!(self.version, Version::Changed { .. });
        left && self.meta.is_none() && !self.boarded && self.slot.is_some()
    }
}

/// All unacknowledged records, in stream order.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    records: VecDeque<Record>,
    /// Bytes given to the kernel; a record that it took in part counts in full.
    end: u64,
    /// Earliest deadline of a record that may still be changed.
    next_deadline: Option<Instant>,
    /// Earliest deadline of a datagram that is not reported as overdue.
    next_open: Option<Instant>,
    /// Slots of acknowledged records from which the kernel may still read.
    lingering: VecDeque<(u32, Slot)>,
}

impl UnderWay {
    /// Adds a record given to the kernel; `copied`: a copy of its datagram lies in another record as well.
    pub(crate) fn push(
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

    /// Keeps a slot from which the kernel may still read, of a record that is not to be changed.
    pub(crate) fn linger(&mut self, send: u32, slot: Slot) {
        self.lingering.push_back((send, slot));
    }

    /// Forgets all slots: the kernel does not send from our memory any more.
    pub(crate) fn forget_places(&mut self) {
        self.lingering.clear();
        for record in &mut self.records {
            record.slot = None;
        }
    }

    /// Skips stream bytes that belong to no datagram.
    pub(crate) fn skip(&mut self, len: usize) {
        self.end += len as u64;
    }

    /// Returns the end of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Removes and returns the next record that is acknowledged as a whole.
    pub(crate) fn pop_acked(&mut self, up_to: u64) -> Option<Arrived> {
        self.records.front().filter(|record| record.end <= up_to)?;
        let mut record = self.records.pop_front()?;
        self.lingering.extend(record.slot.take());
        let Record { token, end, overwritten, boarded, .. } = record;
        Some(Arrived { token, end, overwritten, boarded })
    }

    /// Frees the slots of sends whose memory the kernel has released.
    pub(crate) fn released(&mut self, first: u32, last: u32, mut free: impl FnMut(Slot)) {
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

    /// Returns whether a send belongs to an unacknowledged record.
    pub(crate) fn has_send(&self, number: u32) -> bool {
        self.records.iter().any(|record| record.slot.as_ref().is_some_and(|(send, _)| *send == number))
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Marks a record as overwritten after transmission, at this count of retransmitted segments: its acknowledgement will show the
    /// datagram's fate.
    pub(crate) fn overwrite(&mut self, place: usize, retransmitted: u32) {
        let record = &mut self.records[place];
        record.copied = false;
        // The bytes overwritten later were copies of other datagrams.
        record.overwritten.get_or_insert(retransmitted);
    }

    /// Returns whether a record was overwritten after transmission.
    pub(crate) fn is_overwritten(&self, place: usize) -> bool {
        self.records[place].overwritten.is_some()
    }

    /// Returns, once each, the datagrams without an acknowledgement whose deadline was before `before`.
    pub(crate) fn overdue(&mut self, before: Instant) -> Vec<AduMeta> {
        if self.next_open.is_none_or(|next| next >= before) {
            return Vec::new();
        }
        let is_overdue = |meta: &AduMeta| meta.deadline.is_some_and(|deadline| deadline < before);
        let overdue =
            self.records.iter_mut().filter_map(|record| record.open.take_if(|meta| is_overdue(meta))).collect();
        self.next_open = self.records.iter().filter_map(|record| record.open?.deadline).min();
        overdue
    }

    /// Returns the records with a deadline before `horizon` that are not worth sending and can be overwritten, and the number of those that
    /// cannot. Each is returned once.
    pub(crate) fn take_useless(
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

    /// Returns the slot, length and metadata of the first unsent datagram (beyond `sent`) of at most `room` bytes, and marks it as copied.
    /// Stale datagrams have been replaced by now.
    pub(crate) fn copy_first_fresh(&mut self, sent: u64, room: usize) -> Option<(&Slot, usize, Option<AduMeta>)> {
        let unsent = self.records.iter_mut().skip_while(|record| record.start < sent);
        let mut fitting = unsent.filter(|record| record.token.is_some() && record.len() <= room);
        let fresh = fitting.find(|record| record.slot.is_some())?;
        fresh.copied = true;
        fresh.slot.as_ref().map(|(_, slot)| (slot, (fresh.end - fresh.start) as usize, fresh.meta))
    }

    /// Returns the version of the first record, if it is acknowledged as a whole.
    pub(crate) fn next_version(&self, up_to: u64) -> Option<&Version> {
        self.records.front().filter(|record| record.end <= up_to).map(|record| &record.version)
    }

    /// Notes that a record's bytes are overwritten, after `first` was transmitted.
    pub(crate) fn change(&mut self, place: usize, first: Vec<u8>, telling_from: Option<Instant>, timeouts: u8) {
        let version = &mut self.records[place].version;
        // After an earlier change, `first` is not what was sent first.
        if !matches!(version, Version::Changed { .. }) {
            *version = Version::Changed { first, telling_from, timeouts };
        }
    }

    /// Returns the number of consecutive timeouts of the first segment since anything in it was changed.
    pub(crate) fn timeouts_since_change(&self, timeouts: u8, mss: usize) -> u8 {
        let changed = self.records.iter().take(self.beside_first(mss)).find_map(|record| match record.version {
            Version::Changed { timeouts, .. } => Some(timeouts),
            Version::First | Version::Restored { .. } => None,
        });
        // Fewer than at the change: there was progress meanwhile.
        changed.map_or(0, |before| timeouts.checked_sub(before).unwrap_or(timeouts))
    }

    /// Returns the number of records that may be in the first record's segment, itself included: they arrive or are lost together.
    pub(crate) fn beside_first(&self, mss: usize) -> usize {
        let end = self.first().map_or(0, |start| start + mss as u64);
        self.records.partition_point(|record| record.start < end)
    }

    /// Notes that a record holds a copy of another record's datagram, with its deadline.
    pub(crate) fn carries(&mut self, place: usize, meta: Option<AduMeta>) {
        let record = &mut self.records[place];
        (record.meta, record.lent) = (meta, None);
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
    }

    /// Returns the first `most` vacant records and all others with a guest, each with its guest.
    pub(crate) fn vacant(&self, most: usize) -> Vec<(usize, Option<Guest>)> {
        let vacant = self.records.iter().enumerate().filter(|(_, record)| record.is_vacant()).enumerate();
        let these = vacant.filter(|(nth, (_, record))| *nth < most || record.lent.is_some());
        these.map(|(_, (place, record))| (place, record.lent)).collect()
    }

    /// Returns the place of the first record beyond `sent`, if it holds a datagram with no copy elsewhere.
    pub(crate) fn first_fresh(&self, sent: u64) -> Option<usize> {
        let from = self.records.partition_point(|record| record.start < sent);
        let is_fresh = |record: &Record| record.token.is_some() && record.meta.is_some() && record.slot.is_some();
        self.records.get(from).filter(|record| is_fresh(record) && !record.copied).map(|_| from)
    }

    /// Returns the last record, if it is padding and never held a datagram.
    pub(crate) fn last_padding(&self) -> Option<usize> {
        let is_padding = |record: &Record| {
            record.token.is_none() && record.slot.is_some() && record.meta.is_none() && record.version == Version::First
        };
        self.records.back().filter(|record| is_padding(record)).map(|_| self.records.len() - 1)
    }

    /// Sets or clears the guest of a vacant record.
    pub(crate) fn lend(&mut self, place: usize, guest: Option<Guest>) {
        let record = &mut self.records[place];
        record.lent = guest;
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
    }

    /// Notes that copies of the datagram in `place` lie in vacant records, since this count of retransmitted segments.
    pub(crate) fn lends(&mut self, place: usize, retransmitted: u32) {
        self.records[place].lends.get_or_insert(retransmitted);
    }

    /// Returns the vacant records with a copy of the datagram in `place`.
    pub(crate) fn guests_of(&self, place: usize) -> Vec<usize> {
        let Some(token) = self.records[place].token.filter(|_| self.records[place].lends.is_some()) else {
            return Vec::new();
        };
        let those =
            self.records.iter().enumerate().filter(|(_, record)| record.lent.is_some_and(|guest| guest.of == token));
        those.map(|(place, _)| place).collect()
    }

    /// Notes that the peer does not wait for the first version any more: what arrives from `at` on is the changed one.
    pub(crate) fn tells_from(&mut self, place: usize, at: Instant) {
        if let Version::Changed { telling_from, .. } = &mut self.records[place].version {
            telling_from.get_or_insert(at);
        }
    }

    /// Moves the datagram at `from` to the vacant record at `to`, which was transmitted with a copy of it. The record at `from` is left
    /// without a datagram.
    pub(crate) fn board(&mut self, from: usize, to: usize) {
        let place = &mut self.records[from];
        let (token, meta, open) = (place.token.take(), place.meta.take(), place.open.take());
        let record = &mut self.records[to];
        (record.token, record.meta, record.open, record.boarded) = (token, meta, open, token.is_some());
        (record.lent, record.overwritten) = (None, None);
    }

    /// Returns whether its datagram was transmitted only as a retransmission of this record.
    pub(crate) fn is_boarded(&self, place: usize) -> bool {
        self.records[place].boarded
    }

    /// Restores a changed record at this count of retransmitted segments, and returns its first bytes.
    pub(crate) fn go_back(&mut self, place: usize, retransmitted: u32) -> Option<Vec<u8>> {
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

    /// Returns the start of the first record if the peer has only its front, and it was sent as one segment from our memory within `sent`.
    pub(crate) fn cut(&self, acked: u64, sent: u64, mss: usize) -> Option<u64> {
        let first = self.records.front()?;
        let is_whole = first.end <= sent && first.len() <= mss && first.slot.is_some();
        (is_whole && first.start < acked && acked < first.end).then_some(first.start)
    }

    /// Returns the start of the first record.
    pub(crate) fn first(&self) -> Option<u64> {
        self.records.front().map(|record| record.start)
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn record(&self, place: usize) -> &Record {
        &self.records[place]
    }

    /// Returns whether the datagram in `place` may have been transmitted from another record, at this count of retransmitted segments.
    pub(crate) fn is_copied(&self, place: usize, retransmitted: u32) -> bool {
        let record = &self.records[place];
        record.copied || record.lends.is_some_and(|before| before != retransmitted)
    }

    /// Replaces the datagram in `place` by another, or by none, and returns the old one.
    pub(crate) fn replace(&mut self, place: usize, by: Option<&PulledAdu>) -> Option<u64> {
        let record = &mut self.records[place];
        (record.copied, record.boarded, record.lends) = (false, false, None);
        record.meta = by.map(|pulled| pulled.meta);
        (record.open, record.overwritten) = (record.meta, None);
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
        self.next_open = self.next_open.into_iter().chain(record.open.and_then(|meta| meta.deadline)).min();
        std::mem::replace(&mut record.token, by.map(|pulled| pulled.token))
    }

    /// Removes all records, and returns the datagrams whose fate is not known.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.records.drain(..).filter_map(|record| record.token)
    }
}

#[cfg(test)]
mod tests;
