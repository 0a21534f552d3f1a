//! Measures of a stream: latency, jitter, throughput, data in time, and data sent in vain.

use timeous::core::{AduMeta, DropReason, Duration, Fate, FrameId, Instant};
use timeous_host::AduRecord;

use super::trial::Outcome;
use super::{PLAYOUT, RTT};
use crate::experiment::{Sorted, mean};

impl Outcome {
    /// Returns time and length of each offered datagram, in order.
    fn offered(&self) -> impl Iterator<Item = (Instant, usize)> + '_ {
        self.journal.adus().iter().map(|adu| (adu.meta.enqueued, adu.len)).chain(self.later.iter().copied())
    }

    /// Returns the number of datagrams that came.
    pub(crate) fn came(&self) -> usize {
        self.arrived.iter().flatten().count()
    }

    /// Returns the latencies of all received datagrams from hand-over to delivery, in milliseconds.
    fn latencies(&self) -> Vec<f64> {
        let each = self.offered().zip(&self.arrived);
        each.filter_map(|((at, _), arrived)| Some((*arrived)?.saturating_since(at).as_secs_f64() * 1e3)).collect()
    }

    /// Returns the mean latency of the received datagrams, in milliseconds.
    pub(crate) fn mean_latency(&self) -> f64 {
        mean(self.latencies())
    }

    /// Returns the latency that this percentage of the received datagrams do not exceed, in milliseconds.
    pub(crate) fn latency(&self, percent: f64) -> f64 {
        self.latencies().into_iter().collect::<Sorted>().percentile(percent)
    }

    /// Returns the mean latency difference between consecutive datagrams that arrived in time (RFC
    /// 3550 §6.4.1), in milliseconds.
    pub(crate) fn jitter(&self) -> f64 {
        let each = self.offered().zip(&self.arrived).filter_map(|((at, _), to)| Some(((*to)?, at)));
        let mut came: Vec<_> = each.filter(|&(to, at)| to <= at + self.playout).collect();
        came.sort_unstable();
        let transit = |&(to, at): &(Instant, Instant)| to.saturating_since(at).as_secs_f64() * 1e3;
        mean(came.windows(2).map(|two| (transit(&two[1]) - transit(&two[0])).abs()))
    }

    /// Returns the rate of received datagrams, in kbit/s.
    pub(crate) fn throughput(&self) -> f64 {
        self.kbps(|_| true)
    }

    /// Returns the rate at which the receiving host got bytes, with headers, framing and repeats, in kbit/s.
    pub(crate) fn carried_rate(&self) -> f64 {
        self.carried as f64 * 8.0 / 1e3 / self.lasted.as_secs_f64().max(1e-9)
    }

    /// Returns the rate of datagrams received in time for playout, in kbit/s, over the time in
    /// which they were offered.
    pub(crate) fn goodput(&self) -> f64 {
        let first = self.offered().next().map_or(Instant::ZERO, |(at, _)| at);
        let last = self.offered().last().map_or(first, |(at, _)| at);
        let bytes: usize = self.in_time().sum();
        bytes as f64 * 8.0 / 1e3 / (last - first).as_secs_f64().max(1e-9)
    }

    /// Returns the share of the offered bytes that arrived in time.
    pub(crate) fn in_time_share(&self) -> f64 {
        let offered: usize = self.offered().map(|(_, len)| len).sum();
        self.in_time().sum::<usize>() as f64 / offered.max(1) as f64
    }

    /// Returns the delivery times of the datagrams in time, in the order of the offers.
    pub(crate) fn arrived_in_time(&self) -> Vec<Option<Instant>> {
        let each = self.offered().zip(&self.arrived);
        each.map(|((at, _), arrived)| arrived.filter(|&to| to <= at + self.playout)).collect()
    }

    /// Returns the share of the received bytes that came late; zero if nothing was received.
    pub(crate) fn late_share(&self) -> f64 {
        let came = self.offered().zip(&self.arrived).filter(|(_, to)| to.is_some()).map(|((_, len), _)| len);
        let came = came.sum::<usize>().max(1) as f64;
        ((came - self.in_time().sum::<usize>() as f64) / came).max(0.0)
    }

    fn in_time(&self) -> impl Iterator<Item = usize> + '_ {
        let each = self.offered().zip(&self.arrived);
        each.filter(|((at, _), arrived)| arrived.is_some_and(|to| to <= *at + self.playout)).map(|((_, len), _)| len)
    }

    fn kbps(&self, counts: impl Fn(usize) -> bool) -> f64 {
        let each = self.offered().zip(&self.arrived).enumerate();
        let bytes: usize = each.filter(|(n, (_, to))| to.is_some() && counts(*n)).map(|(_, ((_, len), _))| len).sum();
        bytes as f64 * 8.0 / 1e3 / self.lasted.as_secs_f64().max(1e-9)
    }

    /// Returns the share of the sent bytes, retransmissions included, that were too late on
    /// departure even for an empty path; NaN if nothing was sent.
    pub(crate) fn expired_share(&self) -> f64 {
        let (mut expired, mut all) = (0, self.framing);
        for adu in self.journal.adus() {
            for &left in &adu.left {
                all += adu.len as u64;
                expired += if left + self.passage > adu.meta.enqueued + self.playout { adu.len as u64 } else { 0 };
            }
        }
        expired as f64 / all as f64
    }

    /// Returns the bytes sent per byte written to the stream, with retransmissions and bundling.
    pub(crate) fn sent_share(&self) -> f64 {
        let sent = &self.statistics;
        let again = sent.bytes_retransmitted + sent.bytes_bundled;
        1.0 + again as f64 / sent.bytes_sent.max(1) as f64
    }

    /// Returns the bytes sent, and the bytes among them of undecodable frames: a packet of the
    /// frame, or of one of its references, was not there in time.
    pub(crate) fn undecodable(&self) -> (u64, u64) {
        let whole = self.whole_frames();
        let (mut sent, mut useless) = (0, 0);
        for adu in self.journal.adus() {
            let bytes = (adu.len * adu.left.len()) as u64;
            sent += bytes;
            useless += if whole[adu.meta.frame.0 as usize] { 0 } else { bytes };
        }
        (sent, useless)
    }

    /// Returns the share of the offered bytes that belong to decodable frames.
    pub(crate) fn shown_share(&self) -> f64 {
        let whole = self.whole_frames();
        let (mut shown, mut all) = (0, 0);
        for adu in self.journal.adus() {
            all += adu.len;
            shown += if whole[adu.meta.frame.0 as usize] { adu.len } else { 0 };
        }
        shown as f64 / all.max(1) as f64
    }

    /// Returns the bytes of packets given up for a lost reference, although all of their references were decodable and the rest of
    /// their frame was in time.
    pub(crate) fn given_up_wrongly(&self) -> u64 {
        let whole = self.whole_frames();
        let mut torn = vec![false; whole.len()];
        for (adu, arrived) in self.journal.adus().iter().zip(&self.arrived) {
            let is_there = arrived.is_some_and(|to| to <= adu.meta.enqueued + self.playout);
            torn[adu.meta.frame.0 as usize] |= !is_there && !is_given_up(adu);
        }
        let of_use = |adu: &&AduRecord| {
            let FrameId(frame) = adu.meta.frame;
            is_given_up(adu)
                && !torn[frame as usize]
                && adu.meta.references.iter().all(|FrameId(other)| whole[other as usize])
        };
        self.journal.adus().iter().filter(of_use).map(|adu| adu.len as u64).sum()
    }

    /// Returns for each frame number whether the frame was decodable.
    fn whole_frames(&self) -> Vec<bool> {
        let is_there = |(adu, arrived): (&AduRecord, &Option<Instant>)| {
            (adu.meta, arrived.is_some_and(|to| to <= adu.meta.enqueued + self.playout))
        };
        whole_frames(&self.journal.adus().iter().zip(&self.arrived).map(is_there).collect::<Vec<_>>())
    }
}

/// Whether the sender gave the packet up for a lost reference.
fn is_given_up(adu: &AduRecord) -> bool {
    adu.fate == Some(Fate::Dropped(DropReason::ReferenceLost))
}

/// Returns for each frame number whether the frame was decodable: all of its datagrams were there
/// in time, and all of its references were decodable. References point backwards.
pub(crate) fn whole_frames(datagrams: &[(AduMeta, bool)]) -> Vec<bool> {
    let frames = datagrams.iter().map(|(meta, _)| meta.frame.0 as usize).max().unwrap_or(0) + 1;
    let mut whole = vec![true; frames];
    for (meta, is_there) in datagrams {
        whole[meta.frame.0 as usize] &= is_there;
    }
    for (meta, _) in datagrams {
        let FrameId(frame) = meta.frame;
        whole[frame as usize] &= meta.references.iter().all(|FrameId(other)| whole[other as usize]);
    }
    whole
}

/// Returns the share of all bytes that an omniscient sender could deliver in time over a link of
/// `rate` bit/s with an outage at the start of each period: each packet leaves in order, or not at
/// all if it would be late.
pub(crate) fn clairvoyant(offers: &[(Instant, usize)], rate: f64, still: Duration, period: Duration) -> f64 {
    let (mut free, mut there, mut all) = (0.0_f64, 0.0, 0.0);
    let (still, period) = (still.as_secs_f64(), period.as_secs_f64());
    for &(at, len) in offers {
        let at = (at - Instant::ZERO).as_secs_f64();
        all += len as f64;
        let begin = after_standstill(free.max(at), still, period);
        let work = (len as f64 + 40.0) * 8.0 / rate;
        // A transmission interrupted by an outage continues after it.
        let left = if period > 0.0 { period - begin % period } else { f64::INFINITY };
        let end = if work <= left { begin + work } else { begin + work + still };
        if end + (RTT / 2).as_secs_f64() <= at + PLAYOUT.as_secs_f64() {
            free = end;
            there += len as f64;
        }
    }
    there / f64::max(all, 1.0)
}

fn after_standstill(at: f64, still: f64, period: f64) -> f64 {
    if period <= 0.0 {
        return at;
    }
    let within = at % period;
    if within < still { at - within + still } else { at }
}
