//! Counters of an emulated link: shown each second and at the end, and written to a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;
use timeous_core::{Duration, Instant, Rate};
use timeous_net::Direction;
use timeous_net::emulator::{Emulator, Snapshot};

use crate::notice::{put, say};

/// Counters of one direction at one time, since the start.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    seconds: f64,
    direction: &'static str,
    packets_in: u64,
    bytes_in: u64,
    packets_out: u64,
    bytes_out: u64,
    queue_drops: u64,
    losses: u64,
    marks: u64,
    duplicates: u64,
    reordered: u64,
    queue_packets: usize,
    queue_bytes: u64,
    in_flight: usize,
    max_queue_packets: usize,
    max_queue_delay_ms: f64,
    /// Packets of both directions that no link took, or that could not be forwarded after it.
    strays: u64,
}

impl Sample {
    fn new(emulator: &dyn Emulator, direction: Direction) -> Self {
        let Snapshot { counters, queue_len, queue_bytes, in_flight } = emulator.snapshot(direction);
        Self {
            seconds: (emulator.now() - Instant::ZERO).as_secs_f64(),
            direction: match direction {
                Direction::Forward => "forward",
                Direction::Back => "back",
            },
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            queue_drops: counters.queue_drops,
            losses: counters.losses,
            marks: counters.marks,
            duplicates: counters.duplicates,
            reordered: counters.reordered,
            queue_packets: queue_len,
            queue_bytes,
            in_flight,
            max_queue_packets: counters.max_queue_len,
            max_queue_delay_ms: counters.max_queue_delay.as_secs_f64() * 1e3,
            strays: emulator.strays(),
        }
    }

    /// Packets that the link marked, duplicated or reordered, for the summary.
    fn oddities(&self) -> String {
        let all = [("marked", self.marks), ("duplicated", self.duplicates), ("reordered", self.reordered)];
        all.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!(", {count} {what}")).collect()
    }

    /// Mean rate since an earlier sample.
    fn rate_since(&self, earlier: Option<&Self>) -> Rate {
        let (bytes, seconds) = earlier.map_or((0, 0.0), |earlier| (earlier.bytes_out, earlier.seconds));
        Rate::from_bytes_in(self.bytes_out - bytes, Duration::from_secs_f64(self.seconds - seconds))
    }
}

/// Format of a statistics file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Csv,
}

/// Samples, one per direction and second: shown while running, kept for the statistics file.
pub(super) struct Report {
    samples: Vec<Sample>,
    in_place: bool,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { samples: Vec::new(), in_place: io::stderr().is_terminal() }
    }

    /// Adds a second, and shows it.
    pub(super) fn tick(&mut self, emulator: &dyn Emulator) {
        let mut lines = String::new();
        if self.in_place && !self.samples.is_empty() {
            // Move the cursor up over the previous two lines.
            lines.push_str("\x1b[2A");
        }
        let before = self.samples.len().checked_sub(2);
        for (index, direction) in Direction::ALL.into_iter().enumerate() {
            let sample = Sample::new(emulator, direction);
            let rate = sample.rate_since(before.map(|before| &self.samples[before + index]));
            let clear = if self.in_place { "\x1b[2K" } else { "" };
            lines += &format!(
                "{clear}{:>6.0}s {:>7} {:>13}  in {}  out {}  dropped {}  lost {}  queue {}\n",
                sample.seconds,
                sample.direction,
                rate.to_string(),
                sample.packets_in,
                sample.packets_out,
                sample.queue_drops,
                sample.losses,
                sample.queue_packets,
            );
            self.samples.push(sample);
        }
        put(lines);
    }

    /// Prints the summary to standard output.
    pub(super) fn finish(&mut self, emulator: &dyn Emulator) {
        for direction in Direction::ALL {
            let sample = Sample::new(emulator, direction);
            say(format_args!(
                "{:>7}: {} packets in ({} bytes), {} out ({} bytes), {} dropped, {} lost, {} left{}; \
                 mean {}, longest wait {:.1} ms",
                sample.direction,
                sample.packets_in,
                sample.bytes_in,
                sample.packets_out,
                sample.bytes_out,
                sample.queue_drops,
                sample.losses,
                sample.queue_packets + sample.in_flight,
                sample.oddities(),
                sample.rate_since(None),
                sample.max_queue_delay_ms,
            ));
            self.samples.push(sample);
        }
        if emulator.strays() > 0 {
            say(format_args!("{} packets could not be put on the link or passed on behind it", emulator.strays()));
        }
    }

    /// Writes all samples.
    pub(super) fn write(&self, file: File, form: Form) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        match form {
            Form::Json => {
                serde_json::to_writer_pretty(&mut file, &self.samples)?;
                writeln!(file)?;
            }
            Form::Csv => {
                let mut rows = csv::Writer::from_writer(&mut file);
                self.samples.iter().try_for_each(|sample| rows.serialize(sample))?;
                rows.flush()?;
            }
        }
        file.flush()
    }
}
