//! Verification of the peer's loss intervals against the packets sent (RFC 4342 §9.2).

use timeous_core::Duration;

use super::average::{Length, loss_event_rate};
use super::heard::Heard;
use super::history::KEPT_INTERVALS;
use super::plausible::Implausible;
use super::sent::SentLog;
use crate::ack_vector::{PacketState, Report};
use crate::seq::Seq;

/// Maximum Skip Length, in packets: NDUPACK (RFC 4342 §8.6.1).
const MAX_SKIP: u8 = 3;
/// Maximum length of a lossy part, in round trips: one by definition (RFC 5348 §5.2). Chosen by us: half of one more
/// for the counter's granularity and a shrinking RTT; a higher value counts fewer loss events.
const MAX_LOSSY_ROUND_TRIPS: f64 = 1.5;

/// Local knowledge that the intervals are checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalBounds<'a> {
    pub(super) ack: Seq,
    /// Initial sequence number of this end.
    pub(super) iss: Seq,
    pub(super) log: &'a SentLog,
    pub(super) rtt: Duration,
    /// Upper bound of the data length of the interval before the first loss.
    pub(super) longest_first: f64,
    /// Ranges missing in the acknowledgement's own Ack Vector: newest and oldest.
    pub(super) missing: &'a [(Seq, Seq)],
    /// Packets that a black hole took: first and last. They are one loss event.
    pub(super) swallowed: Option<(Seq, Seq)>,
}

/// Result of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LossEstimate {
    pub(super) p: f64,
    pub(super) new_loss_event: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    first: Seq,
    is_first: bool,
    length: Length,
    /// If our send times show several loss events in it: data packets of each but the last one.
    parts: Vec<f64>,
}

/// Intervals reported so far, newest first; the receiver need not repeat acknowledged ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported(Vec<Entry>);

impl Reported {
    /// Takes in the intervals of one acknowledgement. `small`: as in CCID 4.
    pub(super) fn take(
        &mut self,
        against: &LocalBounds<'_>,
        heard: &Heard,
        small: bool,
    ) -> Result<LossEstimate, Implausible> {
        let mut entries = self.read(against, heard)?;
        let newest_before = self.0.first().map(|entry| entry.first);
        if let Some(oldest) = entries.last().filter(|oldest| !oldest.is_first).map(|oldest| oldest.first) {
            entries.extend(self.0.iter().filter(|known| known.first.is_before(oldest)).cloned());
        }
        entries.truncate(KEPT_INTERVALS);
        self.0 = entries;
        let newest = self.0.first();
        let new_loss_event = newest
            .is_some_and(|newest| !newest.is_first && newest_before.is_none_or(|before| newest.first.is_after(before)));
        Ok(LossEstimate { p: self.loss_event_rate(small, against.swallowed), new_loss_event })
    }

    fn read(&self, against: &LocalBounds<'_>, heard: &Heard) -> Result<Vec<Entry>, Implausible> {
        if heard.skip > MAX_SKIP {
            return Err(Implausible::Skip(heard.skip));
        }
        let mut entries = Vec::with_capacity(heard.intervals.len());
        let mut last = against.ack - u64::from(heard.skip);
        let mut told = u64::from(heard.skip);
        for (place, interval) in heard.intervals.iter().enumerate() {
            let packets = interval.packets();
            told += packets;
            let room = u64::try_from(last.offset_from(against.iss) + 1).unwrap_or(0);
            if packets > room {
                let sent = u64::try_from(against.ack.offset_from(against.iss) + 1).unwrap_or(0);
                return Err(Implausible::BeforeTheFirst { packets: told, sent });
            }
            let is_first = interval.lossy == 0;
            if is_first && place + 1 < heard.intervals.len() {
                return Err(Implausible::NoLoss);
            }
            if !is_first && u64::from(interval.data) > packets {
                return Err(Implausible::DataLength { data: interval.data, packets });
            }
            if interval.nonce {
                return Err(Implausible::Nonce);
            }
            let first = last + 1 - packets;
            if interval.lossless > 0 {
                against.check_missing(last + 1 - u64::from(interval.lossless), last)?;
            }
            // Without a Drop Count the Loss Length stands for it, and bounds it (RFC 5622 §8.7).
            let lost = heard.lost.get(place).map_or(interval.lossy, |&lost| lost.min(interval.lossy));
            let data = if is_first {
                f64::from(interval.data).min(against.longest_first.max(packets as f64))
            } else {
                f64::from(interval.data)
            };
            let length = Length { data, lost, short: self.is_short(against, first, last) };
            let parts = self.parts(against, first, interval.lossy);
            entries.push(Entry { first, is_first, length, parts });
            last = first.prev();
        }
        Ok(entries)
    }

    fn known(&self, first: Seq) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.first == first)
    }

    /// Whether an interval took at most two round trips, by our send times.
    fn is_short(&self, against: &LocalBounds<'_>, first: Seq, last: Seq) -> bool {
        match (against.log.get(first), against.log.get(last)) {
            (Some(start), Some(end)) => end.at.saturating_since(start.at) <= against.rtt * 2,
            // Its start is no longer in the log, so it was long ago.
            (None, Some(_)) => false,
            _ => self.known(first).is_none_or(|known| known.length.short),
        }
    }

    /// Splits losses between which the receiver saw no packet: "the sender can determine if these losses constitute a
    /// single loss event or several successive loss events" (RFC 4342 §9.2). A packet sent more than a round trip after
    /// the first of an event begins another (RFC 5348 §5.2); packets without data do not count.
    fn parts(&self, against: &LocalBounds<'_>, first: Seq, lossy: u32) -> Vec<f64> {
        let end = first + u64::from(lossy.max(1)) - 1;
        if against.swallowed.is_some_and(|(from, to)| first.is_in_window(from, to) && end.is_in_window(from, to)) {
            return Vec::new();
        }
        let (Some(start), Some(last)) = (against.log.get(first), against.log.get(end)) else {
            return self.known(first).map_or_else(Vec::new, |known| known.parts.clone());
        };
        let mut parts = Vec::new();
        let span = last.at.saturating_since(start.at).as_secs_f64();
        if span <= MAX_LOSSY_ROUND_TRIPS * against.rtt.as_secs_f64() {
            return parts;
        }
        let mut begun = *start;
        for sent in against.log.data_between(first.next(), end) {
            if sent.at.saturating_since(begun.at) > against.rtt {
                parts.push((sent.packets - begun.packets) as f64);
                begun = *sent;
            }
        }
        parts.split_off(parts.len().saturating_sub(KEPT_INTERVALS - 1))
    }

    /// Intervals, newest first, in which those that a black hole began are one.
    fn merged(&self, swallowed: Option<(Seq, Seq)>) -> Vec<Entry> {
        let is_swallowed =
            |entry: &Entry| !entry.is_first && swallowed.is_some_and(|(from, to)| entry.first.is_in_window(from, to));
        let mut merged: Vec<Entry> = Vec::with_capacity(self.0.len());
        for entry in &self.0 {
            match merged.last_mut() {
                // Small packets that passed have parted them.
                Some(newer) if is_swallowed(newer) && is_swallowed(entry) => {
                    let data = newer.length.data + entry.length.data;
                    *newer = Entry { length: Length { data, short: false, ..entry.length }, ..entry.clone() };
                }
                _ => merged.push(entry.clone()),
            }
        }
        merged
    }

    fn loss_event_rate(&self, small: bool, swallowed: Option<(Seq, Seq)>) -> f64 {
        let entries = self.merged(swallowed);
        let Some((newest, older)) = entries.split_first().filter(|(newest, _)| !newest.is_first) else { return 0.0 };
        let mut closed: Vec<Length> = older.iter().rev().flat_map(Entry::lengths).collect();
        let mut lengths: Vec<Length> = newest.lengths().collect();
        let current = lengths.pop().unwrap_or(newest.length);
        closed.extend(lengths);
        if closed.is_empty() {
            // No older interval was reported.
            closed.push(current);
        }
        loss_event_rate(closed, current, small)
    }
}

impl Entry {
    /// Lengths of its loss events, oldest first.
    fn lengths(&self) -> impl Iterator<Item = Length> + '_ {
        let lost = self.length.lost.div_ceil(self.parts.len() as u32 + 1);
        let rest = match self.parts.is_empty() {
            true => self.length.data,
            false => (self.length.data - self.parts.iter().sum::<f64>()).max(1.0),
        };
        self.parts.iter().copied().chain([rest]).map(move |data| Length { data, lost, ..self.length })
    }
}

impl LocalBounds<'_> {
    /// Checks that no data packet missing in the Ack Vector lies in a lossless part.
    fn check_missing(&self, first: Seq, last: Seq) -> Result<(), Implausible> {
        for &(newest, oldest) in self.missing {
            let (from, to) = (oldest.max(first), newest.min(last));
            if !from.is_after(to) && self.log.data_packets(from, to) > 0 {
                return Err(Implausible::Contradiction);
            }
        }
        Ok(())
    }
}

/// Packets known to have arrived from Loss Intervals alone: the lossless parts, newest first. Losses within a lossy
/// part are not identified.
pub(crate) fn covered(ack: Seq, heard: &Heard) -> Vec<Report> {
    let received = |newest, oldest| Report { newest, oldest, state: PacketState::Received };
    let mut reports = vec![received(ack, ack)];
    let mut last = ack - u64::from(heard.skip);
    for interval in &heard.intervals {
        if interval.lossless > 0 {
            reports.push(received(last, last + 1 - u64::from(interval.lossless)));
        }
        last = last - interval.packets();
    }
    reports
}

#[cfg(test)]
mod tests;
