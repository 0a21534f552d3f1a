//! Test encoder: writes pictures into a pipe at a given rate, with a pause.

use std::io::Write;
use std::process::ChildStdin;
use std::thread::{self, JoinHandle};

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::pictures::{Picture, annexb, first_slice};
use crate::support::sleep_until;

/// Picture that was sent, identified by its first slice, and its send time.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) slice: Vec<u8>,
    pub(crate) at: Instant,
}

/// Thread that feeds a pipe.
pub(crate) struct Feeder(JoinHandle<Vec<Sent>>);

impl Feeder {
    /// Feeds `count` pictures at `fps` and closes the pipe; pauses for `pause.1` before picture `pause.0`. The pictures
    /// are repeated cyclically.
    pub(crate) fn start(
        mut pipe: ChildStdin,
        pictures: Vec<Picture>,
        fps: f64,
        count: usize,
        pause: Option<(usize, Duration)>,
    ) -> Self {
        Self(thread::spawn(move || {
            let (began, mut sent) = (clock::now(), Vec::new());
            for (index, picture) in pictures.iter().cycle().take(count).enumerate() {
                let rest = pause.filter(|&(at, _)| index >= at).map_or(Duration::ZERO, |(_, rest)| rest);
                sleep_until(began + Duration::from_secs_f64(index as f64 / fps) + rest);
                sent.push(Sent { slice: first_slice(picture).to_vec(), at: clock::now() });
                // The reader may have been killed.
                if pipe.write_all(&annexb(picture)).is_err() {
                    break;
                }
            }
            sent
        }))
    }

    /// Waits for the end; returns the pictures fed.
    pub(crate) fn end(self) -> Vec<Sent> {
        self.0.join().unwrap()
    }
}
