//! Greedy application: sends all that it is granted.

use timeous::core::{Instant, PathState};

use super::packet::Packet;
use super::sender::{Application, Flow};

/// Endless packets of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greedy {
    pub(crate) len: usize,
}

impl Application for Greedy {
    fn run(&mut self, _: Instant, flow: &mut Flow<'_>) {
        if !flow.is_waiting() {
            flow.request();
        }
    }

    fn granted(&mut self, now: Instant, _: &PathState) -> Option<Packet> {
        Some(Packet { made: now, tag: 0, len: self.len })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
