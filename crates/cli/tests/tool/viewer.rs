//! A viewer: reads what a receiver writes into its pipe, and notes when each picture came.

use std::io::Read;
use std::process::ChildStdout;
use std::thread::{self, JoinHandle};

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::feeder::Sent;
use crate::pictures::first_slices;

/// A thread that reads a pipe.
pub(crate) struct Viewer(JoinHandle<Seen>);

/// What a viewer saw.
pub(crate) struct Seen {
    /// All of it.
    pub(crate) stream: Vec<u8>,
    /// How long the stream was behind each piece, and when that came.
    pieces: Vec<(usize, Instant)>,
}

impl Viewer {
    pub(crate) fn start(mut pipe: ChildStdout) -> Self {
        Self(thread::spawn(move || {
            let mut seen = Seen { stream: Vec::new(), pieces: Vec::new() };
            let mut buffer = vec![0; 1 << 16];
            loop {
                let count = pipe.read(&mut buffer).unwrap();
                if count == 0 {
                    return seen;
                }
                seen.stream.extend_from_slice(&buffer[..count]);
                seen.pieces.push((seen.stream.len(), clock::now()));
            }
        }))
    }

    /// Waits for the end of the stream.
    pub(crate) fn end(self) -> Seen {
        self.0.join().unwrap()
    }
}

impl Seen {
    /// When each picture came, with its first slice.
    pub(crate) fn pictures(&self) -> Vec<Sent> {
        let at = |offset| self.pieces.iter().find(|(end, _)| *end > offset).expect("it came with a piece").1;
        first_slices(&self.stream)
            .into_iter()
            .map(|(offset, slice)| Sent { slice: slice.to_vec(), at: at(offset) })
            .collect()
    }

    /// Which pictures of those that were sent came, in the order of sending, and how long after.
    #[track_caller]
    pub(crate) fn delays(&self, sent: &[Sent]) -> Vec<(usize, Duration)> {
        let mut next = 0;
        let mut delays = Vec::new();
        for seen in self.pictures() {
            let skipped = sent[next..].iter().position(|sent| sent.slice == seen.slice);
            let index = next + skipped.unwrap_or_else(|| panic!("picture {} is none that was sent", delays.len()));
            delays.push((index, seen.at.saturating_since(sent[index].at)));
            next = index + 1;
        }
        delays
    }
}

/// The median of delays.
pub(crate) fn median(delays: &[(usize, Duration)]) -> Duration {
    let mut sorted: Vec<Duration> = delays.iter().map(|(_, delay)| *delay).collect();
    sorted.sort();
    sorted[sorted.len() / 2]
}
