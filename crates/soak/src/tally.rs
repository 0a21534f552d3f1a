//! Consistency check of datagrams sent, their fates, and datagrams received.

use serde::Serialize;
use timeous_core::{Fate, Rng};

/// Record of the sender.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// For each datagram by number, its last version and its fate. Only the last version may be sent: a rewrite
    /// succeeds only while no part has been sent.
    each: Vec<(u32, Option<Fate>)>,
    /// Fates of unknown datagrams, or repeated ones.
    stray_fates: u64,
}

impl Offered {
    /// Number of the next datagram.
    pub(super) fn next(&self) -> u64 {
        self.each.len() as u64
    }

    pub(super) fn offer(&mut self) {
        self.each.push((0, None));
    }

    /// Version after the last one.
    pub(super) fn next_version(&self, seq: u64) -> u32 {
        self.each[seq as usize].0 + 1
    }

    pub(super) fn rewritten(&mut self, name: DatagramId) {
        self.each[name.seq as usize].0 = name.version;
    }

    pub(super) fn fate(&mut self, seq: u64, fate: Fate) {
        match self.each.get_mut(seq as usize) {
            Some((_, open @ None)) => *open = Some(fate),
            _ => self.stray_fates += 1,
        }
    }
}

/// Record of the receiver.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Datagrams received intact.
    pub(super) names: Vec<DatagramId>,
    /// Datagrams received with a wrong byte.
    pub(super) damaged: u64,
}

/// Counts of datagrams by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) offered: u64,
    pub(super) rewritten: u64,
    pub(super) delivered: u64,
    pub(super) acked: u64,
    pub(super) lost: u64,
    pub(super) dropped: u64,
}

/// Counts of violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Faults {
    /// Delivered with a wrong byte.
    pub(super) damaged: u64,
    /// Intact, but never sent, or in a version that must not be sent.
    pub(super) unknown: u64,
    /// Delivered twice.
    pub(super) twice: u64,
    /// Reported as acknowledged, but not delivered.
    pub(super) missing: u64,
    /// Reported as never sent, but delivered.
    pub(super) ghosts: u64,
    /// Without exactly one fate.
    pub(super) fates: u64,
}

impl Faults {
    pub(super) fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// Compares both records.
pub(super) fn judge(offered: &Offered, received: &Received) -> (Counts, Faults) {
    let mut came = vec![false; offered.each.len()];
    let mut faults = Faults { damaged: received.damaged, fates: offered.stray_fates, ..Faults::default() };
    for name in &received.names {
        match offered.each.get(name.seq as usize) {
            Some((version, _)) if *version == name.version => {
                faults.twice += u64::from(std::mem::replace(&mut came[name.seq as usize], true));
            }
            _ => faults.unknown += 1,
        }
    }
    let mut counts = Counts { offered: offered.each.len() as u64, ..Counts::default() };
    for ((version, fate), came) in offered.each.iter().zip(came) {
        counts.rewritten += u64::from(*version > 0);
        counts.delivered += u64::from(came);
        match fate {
            Some(Fate::Acked) => {
                counts.acked += 1;
                faults.missing += u64::from(!came);
            }
            Some(Fate::Lost) => counts.lost += 1,
            Some(Fate::Dropped(_)) => {
                counts.dropped += 1;
                faults.ghosts += u64::from(came);
            }
            None => faults.fates += 1,
        }
    }
    (counts, faults)
}

/// Minimum size: number and version.
pub(super) const LEAST: usize = 12;
/// Maximum size.
pub(super) const MOST: usize = 1_100;

/// Number and version of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DatagramId {
    pub(super) seq: u64,
    pub(super) version: u32,
}

/// Generates the bytes of a version, of random length, some with runs of zeros.
pub(super) fn of(name: DatagramId) -> Vec<u8> {
    let mut rng = Rng::from_seed(name.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(name.version));
    let mut bytes = vec![0; LEAST + rng.below((MOST - LEAST + 1) as u64) as usize];
    rng.fill(&mut bytes);
    if rng.chance(0.2) {
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0);
    }
    bytes[..8].copy_from_slice(&name.seq.to_be_bytes());
    bytes[8..LEAST].copy_from_slice(&name.version.to_be_bytes());
    bytes
}

/// Returns the name of a received datagram, if every byte is correct.
pub(super) fn check(bytes: &[u8]) -> Option<DatagramId> {
    let seq = u64::from_be_bytes(*bytes.first_chunk()?);
    let version = u32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
    let name = DatagramId { seq, version };
    (of(name) == bytes).then_some(name)
}

#[cfg(test)]
mod tests {
    use timeous_core::DropReason;

    use super::*;

    #[test]
    fn every_fault_is_told_apart() {
        let mut offered = Offered::default();
        (0..6).for_each(|_| offered.offer());
        offered.rewritten(DatagramId { seq: 1, version: 1 });
        let fates = [Fate::Acked, Fate::Acked, Fate::Lost, Fate::Dropped(DropReason::Expired), Fate::Acked];
        (0..).zip(fates).for_each(|(seq, fate)| offered.fate(seq, fate));
        offered.fate(0, Fate::Lost);
        let names = [(0, 0), (0, 0), (1, 0), (3, 0), (9, 0)];
        let names = names.map(|(seq, version)| DatagramId { seq, version }).to_vec();
        let (counts, faults) = judge(&offered, &Received { names, damaged: 1 });
        assert_eq!(faults, Faults { damaged: 1, unknown: 2, twice: 1, missing: 2, ghosts: 1, fates: 2 });
        assert_eq!(counts, Counts { offered: 6, rewritten: 1, delivered: 2, acked: 3, lost: 1, dropped: 1 });
    }

    #[test]
    fn what_goes_together_has_no_fault() {
        let mut offered = Offered::default();
        (0..2).for_each(|_| offered.offer());
        offered.fate(0, Fate::Acked);
        offered.fate(1, Fate::Lost);
        let names = (0..2).map(|seq| DatagramId { seq, version: 0 }).collect();
        assert!(!judge(&offered, &Received { names, damaged: 0 }).1.any());
    }

    #[test]
    fn one_byte_that_is_another_is_found_and_so_is_the_end_of_another_version() {
        let [one, other] = [0, 1].map(|version| of(DatagramId { seq: 7, version }));
        assert_eq!(check(&one), Some(DatagramId { seq: 7, version: 0 }));
        for at in 0..one.len() {
            let mut changed = one.clone();
            changed[at] ^= 1;
            assert_eq!(check(&changed), None, "byte {at}");
        }
        assert_eq!(check(&[&one[..LEAST], &other[LEAST..]].concat()), None);
        assert_eq!(check(&one[..one.len() - 1]), None);
        assert_eq!(check(&[]), None);
    }
}
