//! Completion ring: reports the fate of each ADU from the transport to the application.
//!
//! Fates carry the application's sequence number (the paper's `user_seq`), even if the packet ring has wrapped since.
//! The consumer never waits for the application: fates that find the ring full are only counted.

use timeous_core::{AduSeq, Arrived, Fate, Instant};

use crate::error::{Broken, Violation};
use crate::layout::Shared;
use crate::record;
use crate::sync::Ordering;

const ACKED: u64 = 1 << 8;
const LOST: u64 = 2 << 8;
const DROPPED: u64 = 3 << 8;

/// Fate of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Sequence number set by the application.
    pub seq: AduSeq,
    /// Fate.
    pub fate: Fate,
    /// Predicted and actual arrival, if an acknowledgement told it.
    pub arrived: Option<Arrived>,
}

impl Completion {
    /// Returns a completion without a time of arrival.
    #[must_use]
    pub fn new(seq: AduSeq, fate: Fate) -> Self {
        Self { seq, fate, arrived: None }
    }
}

fn encode(fate: Fate) -> u64 {
    match fate {
        Fate::Acked => ACKED,
        Fate::Lost => LOST,
        Fate::Dropped(reason) => DROPPED | reason as u64,
    }
}

fn decode(word: u64) -> Option<Fate> {
    match word & !0xff {
        ACKED if word == ACKED => Some(Fate::Acked),
        LOST if word == LOST => Some(Fate::Lost),
        DROPPED => record::reason(word & 0xff).map(Fate::Dropped),
        _ => None,
    }
}

/// Consumer's end of the completion ring.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    written: u64,
    read: u64,
    lost: u64,
}

impl Writer {
    pub(crate) fn write(&mut self, shared: &Shared, done: Completion) -> Result<(), Violation> {
        let capacity = shared.geometry.completions();
        if self.written - self.read == capacity {
            self.see_read(shared)?;
        }
        if self.written - self.read == capacity {
            self.lost += 1;
            shared.completions_lost().store(self.lost, Ordering::Relaxed);
            return Ok(());
        }
        let words = shared.completion(self.written);
        words[0].store(done.seq.0, Ordering::Relaxed);
        words[1].store(encode(done.fate), Ordering::Relaxed);
        // The actual arrival is zero if it is unknown.
        let [predicted, actual] = done.arrived.map_or([0; 2], |at| [at.predicted, at.actual].map(Instant::as_nanos));
        words[2].store(predicted, Ordering::Relaxed);
        words[3].store(actual, Ordering::Relaxed);
        self.written += 1;
        shared.completions_written().store(self.written, Ordering::Release);
        Ok(())
    }

    fn see_read(&mut self, shared: &Shared) -> Result<(), Violation> {
        let found = shared.completions_read().load(Ordering::Acquire);
        if !(self.read..=self.written).contains(&found) {
            return Err(Violation::BadCompletionIndex { read: self.read, written: self.written, found });
        }
        self.read = found;
        Ok(())
    }
}

/// Producer's end of the completion ring.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    read: u64,
}

impl Reader {
    pub(crate) fn poll(&mut self, shared: &Shared) -> Result<Option<Completion>, Broken> {
        let written = shared.completions_written().load(Ordering::Acquire);
        if written == self.read {
            return Ok(None);
        }
        let broken = Broken::Completion { at: self.read };
        if written.wrapping_sub(self.read) > shared.geometry.completions() {
            return Err(broken);
        }
        let words = shared.completion(self.read);
        let seq = AduSeq(words[0].load(Ordering::Relaxed));
        let fate = decode(words[1].load(Ordering::Relaxed)).ok_or(broken)?;
        let [predicted, actual] = [2, 3].map(|word| Instant::from_nanos(words[word].load(Ordering::Relaxed)));
        let arrived = (actual != Instant::ZERO).then_some(Arrived { predicted, actual });
        self.read += 1;
        shared.completions_read().store(self.read, Ordering::Release);
        Ok(Some(Completion { seq, fate, arrived }))
    }

    pub(crate) fn lost(shared: &Shared) -> u64 {
        shared.completions_lost().load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::DropReason;

    use super::*;

    #[test]
    fn every_fate_survives_and_other_words_are_none() {
        let dropped = (1..=7).filter_map(record::reason).map(Fate::Dropped);
        for fate in dropped.chain([Fate::Acked, Fate::Lost]) {
            assert_eq!(decode(encode(fate)), Some(fate));
        }
        assert_eq!(decode(encode(Fate::Dropped(DropReason::Closed))), Some(Fate::Dropped(DropReason::Closed)));
        for word in [0, 1, ACKED | 1, LOST | 7, DROPPED, DROPPED | 8, 4 << 8, u64::MAX] {
            assert_eq!(decode(word), None, "{word:#x}");
        }
    }
}
