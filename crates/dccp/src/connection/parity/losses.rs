//! Estimators of the loss rate and the mean burst length.

use timeous_cm::Loss;

use crate::ccid2::PacketFate;
use crate::seq::Seq;

/// Decay of the loss counts per packet: a window of about 500 packets (docs/design/repair.md). Chosen by us: a higher
/// value follows the path later.
const DECAY: f64 = 1.0 - 1.0 / 500.0;
/// Minimum number of packets for an estimate of the connection's own; below it the macroflow's counts too
/// (docs/design/repair.md). Chosen by us: a lower value sizes parity by few packets.
const MIN_PACKETS: f64 = 50.0;

/// Loss statistics of this connection's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Losses {
    packets: f64,
    lost: f64,
    /// Last lost packet, and length of its burst.
    newest: Option<Seq>,
    run: f64,
    mean_run: f64,
}

impl Default for Losses {
    fn default() -> Self {
        Self { packets: 0.0, lost: 0.0, newest: None, run: 0.0, mean_run: 1.0 }
    }
}

impl Losses {
    /// Notes a packet's fate. Losses declared by a timeout are often spurious and are not counted.
    pub(crate) fn note(&mut self, fate: &PacketFate, lost_by: Loss) {
        match *fate {
            PacketFate::Acked { .. } => self.note_arrived(),
            PacketFate::Lost { seq, .. } if lost_by != Loss::Persistent => self.note_lost(seq),
            PacketFate::Lost { .. } | PacketFate::Dropped { .. } => {}
        }
    }

    fn note_arrived(&mut self) {
        self.packets = self.packets * DECAY + 1.0;
        self.lost *= DECAY;
    }

    fn note_lost(&mut self, seq: Seq) {
        self.note_arrived();
        self.lost += 1.0;
        if self.newest.is_some_and(|newest| newest.next() == seq) {
            self.run += 1.0;
        } else {
            if self.run > 0.0 {
                self.mean_run += (self.run - self.mean_run) / 8.0;
            }
            self.run = 1.0;
        }
        self.newest = Some(seq);
    }

    /// Loss rate in parts per million; with few packets so far, at least `others`.
    pub(crate) fn ppm_or(&self, others: u32) -> u32 {
        if self.packets < MIN_PACKETS { self.ppm().max(others) } else { self.ppm() }
    }

    /// Loss rate in parts per million, with one standard deviation added.
    fn ppm(&self) -> u32 {
        if self.lost < 0.5 {
            return 0;
        }
        ((self.lost + self.lost.sqrt()) / self.packets.max(MIN_PACKETS) * 1e6).min(1e6) as u32
    }

    /// Mean number of consecutive losses.
    pub(crate) fn burst(&self) -> f64 {
        self.mean_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_runs_of_numbers() {
        let mut losses = Losses::default();
        for n in 0..100_u64 {
            (0..3).for_each(|k| losses.note_lost(Seq::new(n * 10 + k)));
        }
        assert!((losses.burst() - 3.0).abs() < 0.01, "{losses:?}");
    }

    /// Found by `timeous-lab bloat`: a timeout made a path that lost 5 % one that lost all, and half of what left was parity.
    #[test]
    fn what_a_timeout_takes_for_lost_tells_of_no_share() {
        let lost: Vec<PacketFate> =
            (0..200).map(|seq| PacketFate::Lost { token: None, seq: Seq::new(seq), bytes: 0 }).collect();
        let acked = |seq| PacketFate::Acked { token: None, seq: Seq::new(seq), marked: false, bytes: 0 };
        let mut losses = Losses::default();
        lost.iter().for_each(|fate| losses.note(fate, Loss::Persistent));
        assert_eq!([losses.ppm_or(0), losses.ppm_or(30_000)], [0, 30_000], "nothing is known yet");
        (0..60).for_each(|seq| losses.note(&acked(seq), Loss::Transient));
        assert_eq!(losses.ppm_or(900_000), 0, "that is for congestion control");
        lost[..5].iter().for_each(|fate| losses.note(fate, Loss::Transient));
        assert!(losses.ppm_or(0) > 100_000);
    }

    #[test]
    fn the_share_is_reckoned_with_care_and_forgotten() {
        let mut losses = Losses::default();
        assert_eq!(losses.ppm(), 0);
        losses.note_lost(Seq::new(0));
        assert_eq!(losses.ppm(), 40_000, "one, and one more, of fifty");
        for n in 0..5_000_u64 {
            if n.is_multiple_of(50) { losses.note_lost(Seq::new(n)) } else { losses.note_arrived() }
        }
        assert!((24_000..30_000).contains(&losses.ppm()), "{}", losses.ppm());
        (0..3_000).for_each(|_| losses.note_arrived());
        assert_eq!(losses.ppm(), 0);
    }
}
