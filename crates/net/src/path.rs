//! A full-duplex path between two ends.

use timeous_core::{Instant, Rng};

use crate::link::{Link, LinkConfig, Markable, Verdict};

/// A direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the first end to the second: from the clients to the target, or from left to right.
    Forward,
    /// From the second end to the first.
    Back,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Back];
}

/// A full-duplex path: two independent links, one per direction.
#[derive(Debug)]
pub struct Path<P> {
    /// Link from the first end to the second.
    pub forward: Link<P>,
    /// Link from the second end to the first.
    pub back: Link<P>,
}

impl<P: Markable + Clone + Send + 'static> Path<P> {
    /// Creates a path of two links, each with its own random generator.
    pub fn new(forward: LinkConfig, back: LinkConfig, rng: &mut Rng) -> Self {
        Self { forward: Link::new(forward, rng.fork()), back: Link::new(back, rng.fork()) }
    }
}

impl<P: Clone> Path<P> {
    /// Link of a direction.
    pub fn link(&self, direction: Direction) -> &Link<P> {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Back => &self.back,
        }
    }

    /// Takes a packet at one end; see [`Link::handle_packet`].
    pub fn handle_packet(&mut self, now: Instant, direction: Direction, len: usize, packet: P) -> Verdict {
        self.link_mut(direction).handle_packet(now, len, packet)
    }

    /// Earliest [`Link::poll_timeout`] of both links.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.forward.poll_timeout().into_iter().chain(self.back.poll_timeout()).min()
    }

    /// Returns the next packet that has arrived at either end by `now`, the earlier one first.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<(Direction, Instant, P)> {
        // With reordering the next event may be a departure: processed first, it is not mistaken for an arrival.
        self.forward.advance(now);
        self.back.advance(now);
        let due = |link: &Link<P>| link.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        let first = if due(&self.back) < due(&self.forward) { Direction::Back } else { Direction::Forward };
        let (arrival, packet) = self.link_mut(first).poll_deliver(now)?;
        Some((first, arrival, packet))
    }

    fn link_mut(&mut self, direction: Direction) -> &mut Link<P> {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Back => &mut self.back,
        }
    }
}
