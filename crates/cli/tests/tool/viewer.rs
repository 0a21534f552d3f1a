//! Test viewer: reads a receiver's output pipe, and records the arrival time of each picture.

use std::io::Read;
use std::process::ChildStdout;
use std::thread::{self, JoinHandle};

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::feeder::Sent;
use crate::pictures::first_slices;

/// Thread that reads a pipe.
pub(crate) struct Viewer(JoinHandle<ViewerOutput>);

/// Data that a viewer received.
pub(crate) struct ViewerOutput {
    /// The whole byte stream.
    pub(crate) stream: Vec<u8>,
    /// Offset of the stream after each read, and its time.
    pieces: Vec<(usize, Instant)>,
}

impl Viewer {
    pub(crate) fn start(mut pipe: ChildStdout) -> Self {
        Self(thread::spawn(move || {
            let mut seen = ViewerOutput { stream: Vec::new(), pieces: Vec::new() };
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
    pub(crate) fn end(self) -> ViewerOutput {
        self.0.join().unwrap()
    }
}

impl ViewerOutput {
    /// Pictures with their arrival times, identified by their first slices.
    pub(crate) fn pictures(&self) -> Vec<Sent> {
        let at = |offset| self.pieces.iter().find(|(end, _)| *end > offset).expect("it came with a piece").1;
        first_slices(&self.stream)
            .into_iter()
            .map(|(offset, slice)| Sent { slice: slice.to_vec(), at: at(offset) })
            .collect()
    }

    /// Indices of the sent pictures that arrived, in sending order, with their delays.
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

/// Median of the delays.
pub(crate) fn median(delays: &[(usize, Duration)]) -> Duration {
    let mut sorted: Vec<Duration> = delays.iter().map(|(_, delay)| *delay).collect();
    sorted.sort();
    sorted[sorted.len() / 2]
}
