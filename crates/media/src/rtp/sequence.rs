//! RTP sequence numbers and timestamps: extension to 64 bits, duplicate and restart detection.

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant};

/// Largest reordering in packets, behind the newest, for which duplicates are recognised (`MAX_MISORDER`, RFC 3550
/// §A.1, which has 100). Chosen by us: a higher value takes more memory.
const MAX_MISORDER: u64 = 8192;
/// Largest gap ahead, in packets (`MAX_DROPOUT`, RFC 3550 §A.1, which has 3000). Chosen by us: senders that drop much
/// leave large gaps; numbers beyond it indicate a restart.
const MAX_AHEAD: u64 = 24_000;
/// Longest delay by which a packet of a source's network is late or repeated. Chosen by us: beyond the 450 ms between the paths of
/// a redundant stream (SMPTE ST 2022-7, class C); a higher value loses more of a source that restarts with lower numbers.
const MAX_LATE: Duration = Duration::from_millis(500);

/// Class of a packet by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// New packet; number extended to 64 bits, timestamp to signed 64.
    New { seq: u64, ticks: i64 },
    /// Received before.
    Duplicate,
    /// Far from all others, or too late to be of the same run of the source; to be ignored.
    Stray,
    /// Second consecutive packet of this kind: the sender has restarted (RFC 3550 §A.1).
    Restart,
}

/// Sequence number state of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    newest: Option<(u64, i64)>,
    /// Timestamp and first arrival of each packet.
    seen: BTreeMap<u64, (u32, Instant)>,
    probation: Option<u16>,
    /// Whether late packets are bounded by [`MAX_LATE`]. A connection that retransmits sends old ones much later.
    has_bounded_delay: bool,
}

impl Sequence {
    /// Sequence of a source on a network without retransmissions: packets too late for one are a restart.
    pub(crate) fn of_source() -> Self {
        Self { has_bounded_delay: true, ..Self::default() }
    }

    /// Classifies a packet.
    pub(crate) fn place(&mut self, now: Instant, number: u16, timestamp: u32) -> Place {
        let Some((highest, newest_ticks)) = self.newest else {
            // Offset from zero, so that packets before the first one still have numbers.
            let seq = (1 << 32) | u64::from(number);
            let ticks = i64::from(timestamp);
            self.newest = Some((seq, ticks));
            self.seen.insert(seq, (timestamp, now));
            return Place::New { seq, ticks };
        };
        let ahead = number.wrapping_sub(highest as u16);
        let behind = u64::from(ahead.wrapping_neg());
        let seq = if u64::from(ahead) <= MAX_AHEAD {
            Some(highest + u64::from(ahead))
        } else {
            (behind <= MAX_MISORDER).then(|| highest - behind)
        };
        let Some(seq) = seq.filter(|&seq| self.is_plausible(now, seq, timestamp)) else {
            let again = self.probation == Some(number);
            self.probation = Some(number.wrapping_add(1));
            return if again { Place::Restart } else { Place::Stray };
        };
        self.probation = None;
        if self.seen.contains_key(&seq) {
            return Place::Duplicate;
        }
        self.seen.insert(seq, (timestamp, now));
        let ticks = newest_ticks + i64::from(timestamp.wrapping_sub(newest_ticks as u32) as i32);
        if seq > highest {
            self.newest = Some((seq, ticks));
            let keep = seq - MAX_MISORDER;
            while self.seen.first_key_value().is_some_and(|(&first, _)| first < keep) {
                self.seen.pop_first();
            }
        }
        Place::New { seq, ticks }
    }

    /// Whether a packet may belong to the same run of the source: newer than all others, repeated with the same timestamp, or late
    /// behind the one after it.
    fn is_plausible(&self, now: Instant, seq: u64, timestamp: u32) -> bool {
        self.seen.range(seq..).next().is_none_or(|(&at, &(known, arrived))| {
            let is_other = at == seq && known != timestamp;
            !self.has_bounded_delay || !is_other && now.saturating_since(arrived) <= MAX_LATE
        })
    }

    /// Sequence number after the newest.
    pub(crate) fn next(&self) -> u16 {
        self.newest.map_or(0, |(seq, _)| (seq as u16).wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_timestamps_go_on_over_their_end() {
        let mut sequence = Sequence::default();
        let Place::New { seq, ticks } = sequence.place(Instant::ZERO, 0xfffe, 0xffff_ff00) else { panic!() };
        assert_eq!(sequence.place(Instant::ZERO, 1, 0x100), Place::New { seq: seq + 3, ticks: ticks + 0x200 });
        assert_eq!(sequence.place(Instant::ZERO, 0xffff, 0xffff_ff00), Place::New { seq: seq + 1, ticks });
        assert_eq!(sequence.place(Instant::ZERO, 0xfffe, 0xffff_ff00), Place::Duplicate);
    }

    #[test]
    fn one_stray_packet_is_ignored_and_two_in_a_row_are_a_restart() {
        let mut sequence = Sequence::default();
        sequence.place(Instant::ZERO, 100, 0);
        assert_eq!(sequence.place(Instant::ZERO, 40_000, 0), Place::Stray);
        assert!(matches!(sequence.place(Instant::ZERO, 101, 0), Place::New { .. }));
        assert_eq!(sequence.place(Instant::ZERO, 40_001, 0), Place::Stray, "the one in between ended the probation");
        assert_eq!(sequence.place(Instant::ZERO, 40_002, 0), Place::Restart);
    }

    #[test]
    fn what_was_seen_is_forgotten_in_time() {
        let mut sequence = Sequence::default();
        for n in 0..200_000u32 {
            assert!(matches!(sequence.place(Instant::ZERO, n as u16, n), Place::New { .. }));
        }
        assert!(sequence.seen.len() as u64 <= MAX_MISORDER + 1);
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Sequence of a source that sent two hundred packets, one each 10 ms, from number 30 000 on.
    fn sent() -> Sequence {
        let mut sequence = Sequence::of_source();
        for n in 0..200 {
            assert!(matches!(sequence.place(ms(10 * n), 30_000 + n as u16, 900 * n as u32), Place::New { .. }));
        }
        sequence
    }

    /// All packets of a source that restarted with lower numbers were dropped as repeated or late ones, until it caught up.
    #[test]
    fn two_lower_numbers_that_are_neither_late_nor_repeated_are_a_restart() {
        // Times from the last packet, falls within the numbers before and below them; the last one begins with the same timestamps.
        for (pause, fall, timestamp) in [(10, 150, 5_000_000), (10, 2, 5_000_000), (10, 3_000, 0), (3_000, 200, 0)] {
            let mut sequence = sent();
            let (now, number) = (ms(1_990 + pause), 30_200 - fall);
            assert_eq!(sequence.place(now, number, timestamp), Place::Stray, "{fall}");
            assert_eq!(sequence.place(now, number + 1, timestamp), Place::Restart, "{fall}");
        }
    }

    #[test]
    fn late_and_repeated_packets_of_a_source_are_no_restart() {
        let mut sequence = sent();
        for n in 160..200 {
            assert_eq!(sequence.place(ms(2_000), 30_000 + n as u16, 900 * n), Place::Duplicate);
        }
        // A block of late packets, behind one that came before them.
        sequence.place(ms(2_000), 30_220, 220 * 900);
        for n in 200..220 {
            assert!(matches!(sequence.place(ms(2_400), 30_000 + n as u16, 900 * n), Place::New { .. }));
        }
        // One packet alone is ignored.
        assert_eq!(sequence.place(ms(3_000), 30_010, 9_000), Place::Stray);
        assert!(matches!(sequence.place(ms(3_000), 30_221, 221 * 900), Place::New { .. }));
    }

    /// A connection retransmits in order, as late as its latency allows.
    #[test]
    fn packets_that_are_retransmitted_much_later_are_no_restart() {
        let mut sequence = Sequence::default();
        sequence.place(ms(0), 100, 0);
        sequence.place(ms(10), 120, 0);
        for number in 101..120 {
            assert!(matches!(sequence.place(ms(5_000), number, 0), Place::New { .. }));
            assert_eq!(sequence.place(ms(9_000), number, 0), Place::Duplicate);
        }
    }
}
