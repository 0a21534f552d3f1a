//! Layered stream: a second of each layer at once, lowest first.

use std::collections::VecDeque;

use timeous::core::{AduMeta, Duration, FrameId, Instant, SubStream};
use timeous_host::{Application, Outlet, Refused};

use super::setup::{LAYERS, PACKETS, SECONDS, SIZE};

/// Live video source: packets that cannot be handed over wait here, as in a program blocked in a
/// write.
pub(super) struct LayeredSource {
    begin: Instant,
    /// Useful life of each second's data after it was made.
    latency: Duration,
    next: u64,
    waiting: VecDeque<AduMeta>,
}

impl LayeredSource {
    pub(super) fn new(begin: Instant, latency: Duration) -> Self {
        Self { begin, latency, next: 0, waiting: VecDeque::new() }
    }

    fn due(&self) -> Option<Instant> {
        (self.next < SECONDS).then(|| self.begin + Duration::from_secs(self.next))
    }
}

impl Application for LayeredSource {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        while let Some(at) = self.due().filter(|at| *at <= now) {
            for layer in 0..LAYERS {
                let meta = AduMeta {
                    deadline: Some(at + self.latency),
                    enqueued: at,
                    substream: SubStream(layer as u8),
                    frame: FrameId((self.next as usize * LAYERS + layer) as u32 + 1),
                    ..AduMeta::default()
                };
                self.waiting.extend([meta; PACKETS]);
            }
            self.next += 1;
        }
        while let Some(meta) = self.waiting.front() {
            match outlet.send(*meta, &[0; SIZE]) {
                Ok(_) => drop(self.waiting.pop_front()),
                Err(Refused::Full) => return,
                Err(_) => return self.waiting.clear(),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due()
    }
}
