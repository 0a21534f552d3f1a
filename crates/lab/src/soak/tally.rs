//! Consistency check of datagrams sent, their fates, and datagrams received.

use serde::Serialize;
use timeous::core::Fate;

use super::content::DatagramId;

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

#[cfg(test)]
mod tests {
    use timeous::core::DropReason;

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
}
