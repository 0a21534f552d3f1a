//! The application's own late choice (Lai & Kohler §4.2, §4.3): what it marks dead or takes out of its packet ring while it waits there.

use timeous::core::{AduMeta, AduSeq, Duration, Fate, Instant, Priority, Rate};
use timeous_host::sources::Cbr;
use timeous_host::{Application, Outlet, Refused};
use timeous_ring::{Index, Producer};

/// Rule by which an application decides what stays in its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnChoice {
    /// All packets stay.
    None,
    /// Packets older than this are marked dead (§4.2: `user_dead`).
    Stale(Duration),
    /// The oldest packet beyond this age is overwritten, where it waits, with the application's next packet (§3.1: a packet may be
    /// changed until it is sent).
    Overwritten(Duration),
    /// Beyond this number of packets, B- and P-frames are pulled back and withdrawn, the oldest first, then I-frames (§4.3).
    Frames(usize),
}

impl OwnChoice {
    /// Decides on the packets that wait in the ring.
    pub(crate) fn apply(self, now: Instant, ring: &mut Producer) {
        match self {
            Self::None | Self::Overwritten(_) => {}
            Self::Stale(age) => {
                for index in stale(now, age, ring) {
                    ring.mark_dead(index);
                }
            }
            Self::Frames(kept) => {
                if ring.queued_len() <= kept {
                    return;
                }
                let mut pulled = ring.pull_back_all().expect("an experiment's transport keeps the ring's protocol");
                let alive = |place: &usize| pulled.queued(*place).filter(|packet| packet.dead.is_none());
                let mut places: Vec<_> = (0..pulled.places()).collect();
                places.retain(|place| alive(place).is_some());
                let excess = places.len().saturating_sub(kept);
                // Stable: the oldest of each kind comes first.
                places
                    .sort_by_key(|place| alive(place).is_some_and(|packet| packet.meta.priority == Priority::HIGHEST));
                for place in places.into_iter().take(excess) {
                    pulled.withdraw(place);
                }
            }
        }
    }
}

impl OwnChoice {
    /// Returns the waiting packet that the application's next packet overwrites.
    pub(crate) fn overwrites(self, now: Instant, ring: &mut Producer) -> Option<Index> {
        let Self::Overwritten(age) = self else { return None };
        stale(now, age, ring).first().copied()
    }
}

/// Returns the packets that are older than `age`, the oldest first.
fn stale(now: Instant, age: Duration, ring: &mut Producer) -> Vec<Index> {
    let is_stale = |enqueued: Instant| now.saturating_since(enqueued) > age;
    let stale = ring.queued().filter(|packet| packet.dead.is_none() && is_stale(packet.meta.enqueued));
    stale.map(|packet| packet.index).collect()
}

/// Outlet that overwrites a waiting packet where its choice says so.
struct Overwriting<'a> {
    outlet: &'a mut dyn Outlet,
    now: Instant,
    choice: OwnChoice,
}

impl Outlet for Overwriting<'_> {
    fn next_seq(&self) -> AduSeq {
        self.outlet.next_seq()
    }

    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        let stale = self.outlet.ring().and_then(|ring| self.choice.overwrites(self.now, ring));
        if let Some(index) = stale
            && let Some(seq) = self.outlet.rewrite(index, meta, bytes)?
        {
            return Ok(seq);
        }
        self.outlet.send(meta, bytes)
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        self.outlet.ring()
    }

    fn set_rate(&mut self, rate: Rate) {
        self.outlet.set_rate(rate);
    }

    fn finish(&mut self) {
        self.outlet.finish();
    }
}

/// A source that decides by itself what stays in its ring.
pub(crate) struct Deciding {
    pub(crate) source: Cbr,
    pub(crate) choice: OwnChoice,
}

impl Application for Deciding {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        self.source.run(now, &mut Overwriting { outlet, now, choice: self.choice });
        if let Some(ring) = outlet.ring() {
            self.choice.apply(now, ring);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.source.poll_timeout()
    }

    fn on_fate(&mut self, now: Instant, seq: AduSeq, fate: Fate) {
        self.source.on_fate(now, seq, fate);
    }
}

#[cfg(test)]
mod tests {
    use timeous_ring::{Config, create};

    use super::*;

    /// Queues packets of one every 30 ms, those in `i_frames` being I-frames; returns those that stay after the choice at `at` ms.
    fn kept(choice: OwnChoice, at: u64, packets: u64, i_frames: &[u64]) -> Vec<u64> {
        let millis = |ms| Instant::ZERO + Duration::from_millis(ms);
        let (mut ring, _consumer) = create(&Config::new(16)).unwrap();
        for n in 0..packets {
            let priority = if i_frames.contains(&n) { Priority::HIGHEST } else { Priority::LOWEST };
            let meta = AduMeta { seq: AduSeq(n), priority, enqueued: millis(30 * n), ..AduMeta::default() };
            ring.enqueue(&meta, &[0]).unwrap();
        }
        choice.apply(millis(at), &mut ring);
        ring.queued().filter(|packet| packet.dead.is_none()).map(|packet| packet.meta.seq.0).collect()
    }

    #[test]
    fn stale_packets_are_dead_and_frames_of_least_worth_go_first() {
        assert_eq!(kept(OwnChoice::Stale(Duration::from_millis(90)), 150, 6, &[]), [2, 3, 4, 5]);
        assert_eq!(kept(OwnChoice::Frames(2), 0, 2, &[]), [0, 1]);
        assert_eq!(kept(OwnChoice::Frames(2), 0, 4, &[0]), [0, 3]);
        assert_eq!(kept(OwnChoice::Frames(2), 0, 4, &[0, 1, 3]), [1, 3], "I-frames, too, if nothing else is left");
        assert_eq!(kept(OwnChoice::None, 9_000, 3, &[]), [0, 1, 2]);
    }
}
