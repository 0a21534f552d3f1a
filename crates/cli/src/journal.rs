//! Logs of single ADUs and frames, on the wall clock, to be held against a capture.

use std::fs::File;
use std::io::{BufWriter, Write};

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::failure::Failure;

/// A CSV file, or nothing where none was asked for.
pub struct Journal {
    out: Option<BufWriter<File>>,
    path: String,
    unix_offset: Duration,
}

impl Journal {
    /// Begins a journal with these columns.
    pub fn new(path: Option<&str>, header: &str) -> Result<Self, Failure> {
        let mut journal = Self { out: None, path: path.unwrap_or_default().to_owned(), unix_offset: clock::unix_offset() };
        if let Some(path) = path {
            let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
            journal.out = Some(BufWriter::new(file));
            journal.row(|_| header.to_owned())?;
        }
        Ok(journal)
    }

    /// Adds a row. It is made only if there is a journal; the function turns instants into Unix nanoseconds.
    pub fn row(&mut self, make: impl FnOnce(&dyn Fn(Instant) -> u64) -> String) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let offset = self.unix_offset;
        let row = make(&|at| (at + offset).as_nanos());
        writeln!(out, "{row}").map_err(|error| Failure::file(&self.path, &error))
    }

    /// Writes out what waits.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.flush().map_err(|error| Failure::file(&self.path, &error))
    }
}
