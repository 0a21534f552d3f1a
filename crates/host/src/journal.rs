//! What an agent writes down of each ADU: when it was offered, when each copy left, what arrived when.

use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant};

use crate::stamp;

/// The life of an ADU at its sender.
#[derive(Clone, Debug, PartialEq)]
pub struct AduRecord {
    /// What was known of it; [`AduMeta::enqueued`] is when it was offered.
    pub meta: AduMeta,
    /// Its length in bytes.
    pub len: usize,
    /// When it left the host: once for each copy. In a byte stream, when its last byte did.
    pub left: Vec<Instant>,
    /// What became of it, as far as the sender learnt.
    pub fate: Option<Fate>,
}

impl AduRecord {
    /// How long it was in the sender until it left first; `None` if it never did.
    pub fn in_sender(&self) -> Option<Duration> {
        self.left.first().map(|left| left.saturating_since(self.meta.enqueued))
    }

    /// How long it was in the sender until its last copy left.
    pub fn in_sender_to_last(&self) -> Option<Duration> {
        self.left.last().map(|left| left.saturating_since(self.meta.enqueued))
    }
}

/// The ADUs of a sender, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    adus: Vec<AduRecord>,
    refused: u64,
}

impl Journal {
    /// All of them, in the order of their numbers.
    pub fn adus(&self) -> &[AduRecord] {
        &self.adus
    }

    /// One of them.
    pub fn adu(&self, seq: AduSeq) -> Option<&AduRecord> {
        self.adus.get(usize::try_from(seq.0).ok()?)
    }

    /// How many were offered and not taken, because the queue was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many copies left.
    pub fn copies(&self) -> usize {
        self.adus.iter().map(|adu| adu.left.len()).sum()
    }

    /// How many had this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.adus.iter().filter(|adu| adu.fate == Some(fate)).count()
    }

    /// What left after its deadline: nothing ever may.
    pub fn late(&self) -> impl Iterator<Item = &AduRecord> {
        self.adus.iter().filter(|adu| adu.left.iter().any(|&left| adu.meta.is_expired(left)))
    }

    pub(crate) fn next_seq(&self) -> AduSeq {
        AduSeq(self.adus.len() as u64)
    }

    pub(crate) fn offered(&mut self, meta: AduMeta, len: usize) {
        self.adus.push(AduRecord { meta, len, left: Vec::new(), fate: None });
    }

    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    pub(crate) fn left(&mut self, now: Instant, seq: AduSeq) {
        if let Some(adu) = self.adu_mut(seq) {
            adu.left.push(now);
        }
    }

    pub(crate) fn settled(&mut self, seq: AduSeq, fate: Fate) {
        if let Some(adu) = self.adu_mut(seq) {
            adu.fate = Some(fate);
        }
    }

    fn adu_mut(&mut self, seq: AduSeq) -> Option<&mut AduRecord> {
        self.adus.get_mut(usize::try_from(seq.0).ok()?)
    }
}

/// A datagram, or in a byte stream what was read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it came to the application.
    pub at: Instant,
    /// Its length in bytes.
    pub len: usize,
    /// The number of the ADU, if its sender has [stamped](stamp) it.
    pub seq: Option<AduSeq>,
}

/// What came to a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    list: Vec<Arrival>,
    total: u64,
}

impl Arrivals {
    /// All of them, in their order.
    pub fn list(&self) -> &[Arrival] {
        &self.list
    }

    /// How many bytes came.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes came from `from` on and before `to`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        self.list.iter().filter(|arrival| (from..to).contains(&arrival.at)).map(|arrival| arrival.len as u64).sum()
    }

    /// When each ADU came first, by number: of stamped datagrams.
    pub fn first_by_seq(&self, adus: usize) -> Vec<Option<Instant>> {
        let mut first = vec![None; adus];
        for arrival in &self.list {
            let slot = arrival.seq.and_then(|seq| first.get_mut(usize::try_from(seq.0).ok()?));
            if let Some(slot @ None) = slot {
                *slot = Some(arrival.at);
            }
        }
        first
    }

    /// When each ADU came, in a byte stream into which the ADUs of `journal` were written one after the other: when its
    /// last byte could be read.
    pub fn of_stream(&self, journal: &Journal) -> Vec<Option<Instant>> {
        let mut arrivals = self.list.iter();
        let (mut come, mut at, mut end) = (0, None, 0);
        let mut when = |len: usize| {
            end += len as u64;
            while come < end {
                let arrival = arrivals.next()?;
                come += arrival.len as u64;
                at = Some(arrival.at);
            }
            at
        };
        journal.adus().iter().map(|adu| when(adu.len)).collect()
    }

    pub(crate) fn bytes(&mut self, at: Instant, len: usize) {
        self.total += len as u64;
        self.list.push(Arrival { at, len, seq: None });
    }

    pub(crate) fn datagram(&mut self, at: Instant, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.list.push(Arrival { at, len: bytes.len(), seq: stamp::read(bytes) });
    }
}
