//! Records of each ADU: when it was offered, when each copy was sent, and when it arrived.

use timeous_core::{AduMeta, AduSeq, Duration, Fate, Instant};

use crate::stamp;

/// Record of an ADU at its sender.
#[derive(Clone, Debug, PartialEq)]
pub struct AduRecord {
    /// Metadata; [`AduMeta::enqueued`] is the time at which it was offered.
    pub meta: AduMeta,
    /// Its length in bytes.
    pub len: usize,
    /// Transmission times, one per copy. In a byte stream, those of its last byte.
    pub left: Vec<Instant>,
    /// Fate, as far as the sender learned it.
    pub fate: Option<Fate>,
}

impl AduRecord {
    /// Returns the delay in the sender until the first transmission; `None` if there was none.
    pub fn in_sender(&self) -> Option<Duration> {
        self.left.first().map(|left| left.saturating_since(self.meta.enqueued))
    }

    /// Returns the delay in the sender until the last transmission.
    pub fn in_sender_to_last(&self) -> Option<Duration> {
        self.left.last().map(|left| left.saturating_since(self.meta.enqueued))
    }
}

/// Records of a sender's ADUs, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    adus: Vec<AduRecord>,
    refused: u64,
}

impl Journal {
    /// Returns all records, in order of their numbers.
    pub fn adus(&self) -> &[AduRecord] {
        &self.adus
    }

    /// Returns the record of an ADU.
    pub fn adu(&self, seq: AduSeq) -> Option<&AduRecord> {
        self.adus.get(usize::try_from(seq.0).ok()?)
    }

    /// Returns the number of ADUs refused because the queue was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the number of transmitted copies.
    pub fn copies(&self) -> usize {
        self.adus.iter().map(|adu| adu.left.len()).sum()
    }

    /// Returns the number of ADUs with this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.adus.iter().filter(|adu| adu.fate == Some(fate)).count()
    }

    /// Returns the ADUs transmitted after their deadline; there must be none.
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

/// A received datagram, or in a byte stream the data of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Delivery time to the application.
    pub at: Instant,
    /// Its length in bytes.
    pub len: usize,
    /// ADU number, if the sender has [stamped](stamp) the payload.
    pub seq: Option<AduSeq>,
}

/// Records of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    list: Vec<Arrival>,
    total: u64,
}

impl Arrivals {
    /// Returns all records, in order.
    pub fn list(&self) -> &[Arrival] {
        &self.list
    }

    /// Returns the number of received bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes received from `from` on and before `to`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        self.list.iter().filter(|arrival| (from..to).contains(&arrival.at)).map(|arrival| arrival.len as u64).sum()
    }

    /// Returns the first arrival time of each ADU, by number, for stamped datagrams.
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

    /// Returns the arrival time of each ADU in a byte stream of the ADUs of `journal`: the time at which its last byte
    /// could be read.
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
