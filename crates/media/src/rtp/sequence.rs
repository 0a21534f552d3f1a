//! RTP sequence numbers and timestamps: extension to 64 bits, duplicate and restart detection.

use std::collections::BTreeSet;

/// Largest reordering in packets, behind the newest, for which duplicates are recognised (`MAX_MISORDER`, RFC 3550
/// §A.1, which has 100). Chosen by us: a higher value takes more memory.
const MAX_MISORDER: u64 = 8192;
/// Largest gap ahead, in packets (`MAX_DROPOUT`, RFC 3550 §A.1, which has 3000). Chosen by us: senders that drop much
/// leave large gaps; numbers beyond it indicate a restart.
const MAX_AHEAD: u64 = 24_000;

/// Class of a packet by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// New packet; number extended to 64 bits, timestamp to signed 64.
    New { seq: u64, ticks: i64 },
    /// Received before.
    Duplicate,
    /// Far from all others; to be ignored.
    Stray,
    /// Second consecutive packet far from all others: the sender has restarted (RFC 3550 §A.1).
    Restart,
}

/// Sequence number state of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    newest: Option<(u64, i64)>,
    seen: BTreeSet<u64>,
    probation: Option<u16>,
}

impl Sequence {
    /// Classifies a packet.
    pub(crate) fn place(&mut self, number: u16, timestamp: u32) -> Place {
        let Some((highest, newest_ticks)) = self.newest else {
            // Offset from zero, so that packets before the first one still have numbers.
            let seq = (1 << 32) | u64::from(number);
            let ticks = i64::from(timestamp);
            self.newest = Some((seq, ticks));
            self.seen.insert(seq);
            return Place::New { seq, ticks };
        };
        let ahead = number.wrapping_sub(highest as u16);
        let behind = u64::from(ahead.wrapping_neg());
        let seq = if u64::from(ahead) <= MAX_AHEAD {
            highest + u64::from(ahead)
        } else if behind <= MAX_MISORDER {
            highest - behind
        } else {
            let again = self.probation == Some(number);
            self.probation = Some(number.wrapping_add(1));
            return if again { Place::Restart } else { Place::Stray };
        };
        self.probation = None;
        if !self.seen.insert(seq) {
            return Place::Duplicate;
        }
        let ticks = newest_ticks + i64::from(timestamp.wrapping_sub(newest_ticks as u32) as i32);
        if seq > highest {
            self.newest = Some((seq, ticks));
            let keep = seq - MAX_MISORDER;
            while self.seen.first().is_some_and(|&first| first < keep) {
                self.seen.pop_first();
            }
        }
        Place::New { seq, ticks }
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
        let Place::New { seq, ticks } = sequence.place(0xfffe, 0xffff_ff00) else { panic!() };
        assert_eq!(sequence.place(1, 0x100), Place::New { seq: seq + 3, ticks: ticks + 0x200 });
        assert_eq!(sequence.place(0xffff, 0xffff_ff00), Place::New { seq: seq + 1, ticks });
        assert_eq!(sequence.place(0xfffe, 0xffff_ff00), Place::Duplicate);
    }

    #[test]
    fn one_stray_packet_is_ignored_and_two_in_a_row_are_a_restart() {
        let mut sequence = Sequence::default();
        sequence.place(100, 0);
        assert_eq!(sequence.place(40_000, 0), Place::Stray);
        assert!(matches!(sequence.place(101, 0), Place::New { .. }));
        assert_eq!(sequence.place(40_001, 0), Place::Stray, "the one in between ended the probation");
        assert_eq!(sequence.place(40_002, 0), Place::Restart);
    }

    #[test]
    fn what_was_seen_is_forgotten_in_time() {
        let mut sequence = Sequence::default();
        for n in 0..200_000u32 {
            assert!(matches!(sequence.place(n as u16, n), Place::New { .. }));
        }
        assert!(sequence.seen.len() as u64 <= MAX_MISORDER + 1);
    }
}
