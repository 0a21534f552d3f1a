//! Packet record in shared memory: encoding, decoding, and the version that shows changes.
//!
//! The version is odd while the record is being written: a reader that does not own the record gets a consistent copy
//! or none (sequence lock), and can tell later whether it is still the same packet.

use timeous_core::{AduMeta, AduSeq, DropReason, FrameId, Instant, Priority, References, SubStream};

use crate::sync::{AtomicU64, Ordering, fence};

const VERSION: usize = 0;
const USER_DEAD: usize = 1;
const USER_SEQ: usize = 2;
pub(crate) const PLACE: usize = 3;
const DEADLINE: usize = 4;
pub(crate) const ATTRIBUTES: usize = 5;
const ENQUEUED: usize = 6;
// Up to here one cache line, the only one transferred between processors for most packets. The next one is written by
// the consumer, and by the producer only for packets with references.
const KERN_ACKED: usize = 8;
const REFERENCES: [usize; 2] = [9, 10];
/// Size of a record in words.
pub(crate) const WORDS: usize = 11;

const HAS_DEADLINE: u64 = 1 << 24;
/// Lowest of the seven attribute bits that name the zone.
const ZONE: u32 = 25;
/// Highest number of a zone; 0 is the ring's own.
pub(crate) const LAST_ZONE: u8 = 0x7f;

/// Location of a payload: the number of its zone, and the bytes within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) zone: u8,
}

/// Private copy of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) version: u64,
    pub(crate) place: Place,
    pub(crate) meta: AduMeta,
}

/// Reason why a record could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It changed meanwhile.
    Torn,
    /// Its attributes are invalid.
    Bad(u64),
}

/// Writes a record; `version` is even and never reused.
pub(crate) fn write(words: &[AtomicU64], version: u64, meta: &AduMeta, place: Place, dead: Option<DropReason>) {
    words[VERSION].store(version | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    let put = |at: usize, word: u64| words[at].store(word, Ordering::Relaxed);
    put(USER_DEAD, dead.map_or(0, |reason| reason as u64));
    put(USER_SEQ, meta.seq.0);
    put(PLACE, u64::from(place.offset) << 32 | u64::from(place.len));
    put(DEADLINE, meta.deadline.map_or(0, Instant::as_nanos));
    let deadline = if meta.deadline.is_some() { HAS_DEADLINE } else { 0 };
    let attributes = u64::from(meta.priority.0)
        | u64::from(meta.substream.0) << 8
        | (meta.references.len() as u64) << 16
        | deadline
        | u64::from(place.zone & LAST_ZONE) << ZONE
        | u64::from(meta.frame.0) << 32;
    put(ATTRIBUTES, attributes);
    if !meta.references.is_empty() {
        let mut frames = [0; 4];
        for (frame, referred) in frames.iter_mut().zip(meta.references.iter()) {
            *frame = u64::from(referred.0);
        }
        put(REFERENCES[0], frames[0] << 32 | frames[1]);
        put(REFERENCES[1], frames[2] << 32 | frames[3]);
    }
    put(ENQUEUED, meta.enqueued.as_nanos());
    words[VERSION].store(version, Ordering::Release);
}

/// Reads only the version, to check whether a copy is still valid.
pub(crate) fn version(words: &[AtomicU64]) -> u64 {
    words[VERSION].load(Ordering::Acquire)
}

/// Copies a record, reading each word once.
pub(crate) fn read(words: &[AtomicU64]) -> Result<Record, Unreadable> {
    let version = version(words);
    if version & 1 == 1 || version == 0 {
        return Err(Unreadable::Torn);
    }
    let get = |at: usize| words[at].load(Ordering::Relaxed);
    let (seq, place, deadline) = (get(USER_SEQ), get(PLACE), get(DEADLINE));
    let (attributes, enqueued) = (get(ATTRIBUTES), get(ENQUEUED));
    let referred = (attributes >> 16) as u8;
    let packed = if referred == 0 { [0; 2] } else { REFERENCES.map(get) };
    fence(Ordering::Acquire);
    if get(VERSION) != version {
        return Err(Unreadable::Torn);
    }
    let meta = AduMeta {
        seq: AduSeq(seq),
        deadline: (attributes & HAS_DEADLINE != 0).then(|| Instant::from_nanos(deadline)),
        priority: Priority(attributes as u8),
        substream: SubStream((attributes >> 8) as u8),
        frame: FrameId((attributes >> 32) as u32),
        references: references(referred, packed).ok_or(Unreadable::Bad(attributes))?,
        enqueued: Instant::from_nanos(enqueued),
    };
    let zone = (attributes >> ZONE) as u8 & LAST_ZONE;
    Ok(Record { version, place: Place { offset: (place >> 32) as u32, len: place as u32, zone }, meta })
}

fn references(count: u8, packed: [u64; 2]) -> Option<References> {
    let [first, second] = packed;
    let frames = [first >> 32, first, second >> 32, second];
    let mut refs = References::NONE;
    for frame in frames.get(..usize::from(count))? {
        let _fits = refs.push(FrameId(*frame as u32));
    }
    Some(refs)
}

/// Sets `user_dead`, without moving an index.
pub(crate) fn mark_dead(words: &[AtomicU64], reason: DropReason) {
    words[USER_DEAD].store(reason as u64, Ordering::Relaxed);
}

/// The application's reason for withdrawing the packet, if it did. An invalid reason counts as withdrawn.
pub(crate) fn dead(words: &[AtomicU64]) -> Option<DropReason> {
    match words[USER_DEAD].load(Ordering::Relaxed) {
        0 => None,
        word => Some(reason(word).unwrap_or(DropReason::Withdrawn)),
    }
}

/// Decodes a drop reason.
pub(crate) fn reason(word: u64) -> Option<DropReason> {
    use DropReason::{Closed, Expired, Policy, ReferenceLost, TooLarge, TooLate, Withdrawn};
    [Withdrawn, Expired, TooLate, ReferenceLost, Policy, TooLarge, Closed].into_iter().find(|r| *r as u64 == word)
}

/// Sets `kern_acked` for the packet at `position`. The word contains the position, so that a later packet in the same
/// slot does not count as acknowledged.
pub(crate) fn mark_acked(words: &[AtomicU64], position: u64) {
    words[KERN_ACKED].store(position + 1, Ordering::Relaxed);
}

/// Whether `kern_acked` is set for the packet at `position`.
pub(crate) fn is_acked(words: &[AtomicU64], position: u64) -> bool {
    words[KERN_ACKED].load(Ordering::Relaxed) == position + 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn a_record_comes_out_as_it_went_in() {
        let (words, place) = (words(), Place { offset: u32::MAX, len: 1400, zone: LAST_ZONE });
        let mut meta = AduMeta {
            seq: AduSeq(u64::MAX),
            deadline: Some(Instant::FAR_FUTURE),
            priority: Priority::HIGHEST,
            substream: SubStream(255),
            frame: FrameId(u32::MAX),
            references: References::from([FrameId(1), FrameId(u32::MAX), FrameId(3), FrameId(4)]),
            enqueued: Instant::from_nanos(77),
        };
        for version in [2, 4] {
            write(&words, version, &meta, place, None);
            let record = read(&words).unwrap();
            assert_eq!((record.version, record.meta, record.place), (version, meta, place));
            meta = AduMeta::default();
        }
    }

    #[test]
    fn an_unwritten_or_half_written_record_is_torn_and_five_references_are_bad() {
        let words = words();
        assert_eq!(read(&words).unwrap_err(), Unreadable::Torn);
        write(&words, 2, &AduMeta::default(), Place::default(), None);
        words[ATTRIBUTES].store(5 << 16, Ordering::Relaxed);
        assert_eq!(read(&words).unwrap_err(), Unreadable::Bad(5 << 16));
        words[VERSION].store(3, Ordering::Relaxed);
        assert_eq!(read(&words).unwrap_err(), Unreadable::Torn);
    }

    #[test]
    fn reasons_survive_and_unknown_ones_mean_withdrawn() {
        let words = words();
        assert_eq!(dead(&words), None);
        mark_dead(&words, DropReason::Closed);
        assert_eq!(dead(&words), Some(DropReason::Closed));
        words[USER_DEAD].store(1 << 40, Ordering::Relaxed);
        assert_eq!(dead(&words), Some(DropReason::Withdrawn));
    }
}
