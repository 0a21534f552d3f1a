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
    /// When the kernel was given it.
    pub(super) given: Instant,
    /// Its bytes in the stream.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where it lies, if the kernel sends it from there, and the number of the send.
    pub(super) slot: Option<(u32, Slot)>,
    /// A copy of its datagram lies where something was sent, and may have left from there.
    copied: bool,
    version: Version,
    /// Its bytes were written over after it had left, when so many retransmissions had.
    overwritten: Option<u32>,
}

/// A record that the peer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// The datagram in it, if there is one.
    pub(super) token: Option<u64>,
    /// If its bytes were written over, how many retransmissions had left by then: it arrived as it was if there was none since.
    pub(super) overwritten: Option<u32>,
}

impl Record {
    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn deadline(&self) -> Option<Instant> {
        self.meta.and_then(|meta| meta.deadline)
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
        self.records.push_back(Record {
            token: Some(pulled.token),
            meta: Some(pulled.meta),
            given: now,
            start,
            end: self.end,
            slot,
            copied,
            version: Version::First,
            overwritten: None,
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
        Some(Arrived { token: record.token, overwritten: record.overwritten })
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
        record.overwritten = Some(retransmitted);
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
            let Some((meta, deadline)) = record.meta.and_then(|meta| Some((meta, meta.deadline?))) else { continue };
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
    pub(super) fn change(&mut self, place: usize, first: Vec<u8>, telling_from: Option<Instant>) {
        let version = &mut self.records[place].version;
        // What left first was something else, if this is not the first change.
        if !matches!(version, Version::Changed { .. }) {
            *version = Version::Changed { first, telling_from };
        }
    }

    /// A copy of another one's datagram lies in a record, and goes stale when that does.
    pub(super) fn carries(&mut self, place: usize, meta: Option<AduMeta>) {
        let record = &mut self.records[place];
        record.meta = meta;
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
    }

    /// The bytes that a record had when it left first, if others took their place: it has them again.
    pub(super) fn go_back(&mut self, place: usize) -> Option<Vec<u8>> {
        let record = self.records.get_mut(place)?;
        let version = &mut record.version;
        match std::mem::take(version) {
            Version::Changed { first, .. } => {
                *version = Version::Restored;
                record.meta = None;
                Some(first)
            }
            other => {
                *version = other;
                None
            }
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn record(&self, place: usize) -> &Record {
        &self.records[place]
    }

    /// Whether the datagram that is there may have left from another place.
    pub(super) fn is_copied(&self, place: usize) -> bool {
        self.records[place].copied
    }

    /// Another datagram, or none, takes the place of the one that was there.
    pub(super) fn replace(&mut self, place: usize, by: Option<&PulledAdu>) -> Option<u64> {
        let record = &mut self.records[place];
        record.copied = false;
        record.meta = by.map(|pulled| pulled.meta);
        self.next_deadline = self.next_deadline.into_iter().chain(record.deadline()).min();
        std::mem::replace(&mut record.token, by.map(|pulled| pulled.token))
    }

    /// Everything that has no fate yet.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.records.drain(..).filter_map(|record| record.token)
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::{AduMeta, Copied, Duration};

    use super::super::zone::Zone;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn pulled(token: u64, deadline: u64) -> PulledAdu {
        let meta = AduMeta { deadline: Some(at(deadline)), ..AduMeta::default() };
        PulledAdu { token, len: 0, meta, apart: false, copy: Copied::First }
    }

    #[test]
    fn what_lies_below_the_acknowledgement_is_acked_whole_records_only() {
        let mut records = UnderWay::default();
        for token in 0..3 {
            records.push(at(0), &pulled(token, 0), 100, None, false);
        }
        assert_eq!(records.pop_acked(199).unwrap().token, Some(0));
        assert_eq!(records.pop_acked(199), None);
        assert_eq!(records.pop_acked(300).unwrap().token, Some(1));
        assert_eq!(records.drain().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_place_is_free_when_the_kernel_says_so_acknowledged_or_not() {
        let mut zone = Zone::new(100).unwrap();
        let mut records = UnderWay::default();
        for send in 0..3 {
            records.push(at(0), &pulled(send.into(), 0), 100, zone.take().map(|slot| (send, slot)), false);
        }
        records.pop_acked(100);
        let mut free = 0;
        records.released(0, 1, |_| free += 1);
        assert_eq!(free, 2);
        assert!(records.has_send(2) && !records.has_send(1));
        records.released(u32::MAX, 1, |_| free += 1);
        assert_eq!(free, 2);
    }

    #[test]
    fn each_deadline_passes_once_and_the_next_one_is_known() {
        let mut zone = Zone::new(100).unwrap();
        let mut records = UnderWay::default();
        for (token, deadline) in [(0, 30), (1, 10), (2, 20)] {
            records.push(at(0), &pulled(token, deadline), 100, zone.take().map(|slot| (token as u32, slot)), false);
        }
        assert_eq!(records.next_deadline(), Some(at(10)));
        assert_eq!(records.take_useless(at(20), |_, _| false), (vec![1], 0));
        assert_eq!(records.next_deadline(), Some(at(20)));
        assert_eq!(records.take_useless(at(20), |_, _| false), (vec![], 0));
        assert_eq!(records.replace(1, Some(&pulled(7, 40))), Some(1));
        assert_eq!(records.take_useless(at(90), |_, meta| meta.deadline == Some(at(40))), (vec![0, 2], 0));
        assert_eq!(records.next_deadline(), Some(at(40)), "it is still of use, and asked for again");
        assert_eq!(records.take_useless(at(90), |_, _| false), (vec![1], 0));
        assert_eq!(records.next_deadline(), None);
    }

    /// Found by `tcp-expired`: on a path that had stood still each datagram was told of as lost as soon as it had left, and
    /// all that refers to it was given up.
    #[test]
    fn what_was_written_over_while_it_may_arrive_is_no_loss_yet() {
        let mut zone = Zone::new(100).unwrap();
        let mut records = UnderWay::default();
        records.push(at(0), &pulled(7, 10), 100, zone.take().map(|slot| (0, slot)), false);
        let young = |record: &Record, _: &AduMeta| at(5) < record.given + Duration::from_millis(10);
        assert_eq!(records.take_useless(at(20), young), (vec![], 0));
        assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
        records.overwrite(0, 3);
        assert_eq!(records.pop_acked(100), Some(Arrived { token: Some(7), overwritten: Some(3) }));
    }

    #[test]
    fn what_cannot_be_written_anew_is_counted_when_its_deadline_passes() {
        let mut records = UnderWay::default();
        records.push(at(0), &pulled(0, 10), 100, None, false);
        assert_eq!(records.next_deadline(), Some(at(10)));
        assert_eq!(records.take_useless(at(11), |_, _| false), (vec![], 1));
        assert_eq!(records.take_useless(at(12), |_, _| false), (vec![], 0));
    }

    #[test]
    fn a_copy_goes_stale_where_it_lies_and_what_left_first_there_is_still_known() {
        let mut zone = Zone::new(100).unwrap();
        let mut records = UnderWay::default();
        records.push(at(0), &pulled(0, 10), 100, zone.take().map(|slot| (0, slot)), false);
        assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
        records.change(0, vec![1], None);
        records.replace(0, None);
        records.carries(0, Some(pulled(1, 30).meta));
        assert_eq!(records.take_useless(at(40), |_, _| false), (vec![0], 0));
        records.change(0, vec![2], None);
        assert_eq!(records.go_back(0), Some(vec![1]));
    }

    /// Found by `timeous-lab soak`: such a one was told of as dropped when it went stale.
    #[test]
    fn what_lies_in_another_place_as_well_may_have_left_from_there_until_another_takes_its_own() {
        let mut zone = Zone::new(100).unwrap();
        let mut records = UnderWay::default();
        records.push(at(0), &pulled(0, 0), 100, None, true);
        records.push(at(0), &pulled(1, 0), 100, zone.take().map(|slot| (0, slot)), false);
        records.push(at(0), &pulled(2, 0), 100, zone.take().map(|slot| (1, slot)), false);
        assert!(records.copy_first_fresh(100, 100).is_some());
        assert_eq!([0, 1, 2].map(|place| records.is_copied(place)), [true, true, false]);
        records.replace(1, Some(&pulled(3, 0)));
        assert!(!records.is_copied(1));
    }
}
