//! Statistics while a stream runs: a line on a terminal, and JSON or CSV in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde_json::Value;
use timeous::clock;
use timeous::core::units::parse_duration;
use timeous::core::{Duration, Instant};

use crate::failure::Failure;
use crate::notice::tell;

/// What is written about a stream, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct MeterArgs {
    /// Write statistics to this file, a record each interval and one at the end; '-' is standard error
    #[arg(long, value_name = "FILE")]
    stats: Option<String>,
    /// How they are written: JSON, a line each, or CSV with a header
    #[arg(long, value_enum, default_value = "json", value_name = "FORMAT")]
    stats_format: Format,
    /// How often
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    stats_interval: Duration,
    /// No line of progress on the terminal
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
}

/// How often the line on the terminal is drawn anew.
const REDRAW: Duration = Duration::from_millis(250);

/// How often statistics are written.
fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(time) if time.is_zero() => Err("must be more than nothing".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// Where records go. A file that cannot be written any more does not end the stream: that is told at once, and is an error at the end.
struct Records {
    out: Option<Box<dyn Write + Send>>,
    failed: Option<Failure>,
    header_written: bool,
}

/// Writes statistics when they are due.
pub(crate) struct Meter {
    /// Shared by the meters of one process.
    out: Option<Arc<Mutex<Records>>>,
    /// Made by [`another`](Self::another): the first one says what could not be written.
    is_another: bool,
    format: Format,
    interval: Duration,
    next_record: Instant,
    terminal: bool,
    next_line: Instant,
    line_width: usize,
}

impl MeterArgs {
    /// Whether people want to hear of more than what goes wrong.
    pub(crate) fn is_verbose(&self) -> bool {
        !self.quiet
    }
}

impl Meter {
    /// A meter as the arguments say.
    pub(crate) fn new(args: &MeterArgs) -> Result<Self, Failure> {
        let out: Option<Box<dyn Write + Send>> = match args.stats.as_deref() {
            None => None,
            Some("-") => Some(Box::new(io::stderr())),
            Some(path) => {
                let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
                Some(Box::new(BufWriter::new(file)))
            }
        };
        let terminal = !args.quiet && io::stderr().is_terminal() && args.stats.as_deref() != Some("-");
        let now = clock::now();
        Ok(Self {
            out: out.map(|out| Arc::new(Mutex::new(Records { out: Some(out), failed: None, header_written: false }))),
            is_another: false,
            format: args.stats_format,
            interval: args.stats_interval,
            next_record: now + args.stats_interval,
            terminal,
            next_line: now,
            line_width: 0,
        })
    }

    /// Whether [`write`](Self::write) would write anything now.
    pub(crate) fn is_due(&self) -> bool {
        let now = clock::now();
        (self.out.is_some() && now >= self.next_record) || (self.terminal && now >= self.next_line)
    }

    /// One for another stream, whose records go to the same place; the terminal's line is not its own.
    pub(crate) fn another(&self) -> Self {
        Self { out: self.out.clone(), is_another: true, terminal: false, ..*self }
    }

    /// Writes what is due of several streams.
    pub(crate) fn write_all(&mut self, records: &[(Fields, String)]) {
        let now = clock::now();
        if self.out.is_some() && now >= self.next_record {
            self.next_record = now + self.interval;
            records.iter().for_each(|(record, _)| self.record(record));
        }
        if let (true, Some((_, line))) = (self.terminal && now >= self.next_line, records.first()) {
            self.next_line = now + REDRAW;
            self.draw(&with_others(line, records.len()));
        }
    }

    /// Writes the last records and leaves the last line standing.
    pub(crate) fn finish_all(&mut self, records: &[(Fields, String)]) -> Result<(), Failure> {
        records.iter().for_each(|(record, _)| self.record(record));
        if let (true, Some((_, line))) = (self.terminal, records.first()) {
            self.draw(&with_others(line, records.len()));
            eprintln!();
        }
        self.failure()
    }

    /// Writes what is due.
    pub(crate) fn write(&mut self, record: &Fields, line: &str) {
        let now = clock::now();
        if self.out.is_some() && now >= self.next_record {
            self.next_record = now + self.interval;
            self.record(record);
        }
        if self.terminal && now >= self.next_line {
            self.next_line = now + REDRAW;
            self.draw(line);
        }
    }

    /// Writes the last record and leaves the last line standing.
    pub(crate) fn finish(&mut self, record: &Fields, line: &str) -> Result<(), Failure> {
        self.record(record);
        if self.terminal {
            self.draw(line);
            eprintln!();
        }
        self.failure()
    }

    /// Why records could not be written, once.
    pub(crate) fn failure(&self) -> Result<(), Failure> {
        if self.is_another {
            return Ok(());
        }
        let failed = self.out.as_ref().and_then(|out| out.lock().unwrap_or_else(PoisonError::into_inner).failed.take());
        failed.map_or(Ok(()), Err)
    }

    fn draw(&mut self, line: &str) {
        let width = line.chars().count();
        eprint!("\r{line}{:pad$}", "", pad = self.line_width.saturating_sub(width));
        self.line_width = width;
    }

    fn record(&mut self, record: &Fields) {
        let Some(out) = &self.out else { return };
        let mut records = out.lock().unwrap_or_else(PoisonError::into_inner);
        let Records { out: Some(out), header_written, .. } = &mut *records else { return };
        // So that records of both ends can be laid side by side.
        let at = (clock::now() + clock::unix_offset()).as_nanos() / 1_000_000;
        let mut record = record.clone();
        record.insert("unixMs".to_owned(), at.into());
        // A column in every row, even of times at which nobody is connected.
        record.entry("peer".to_owned()).or_insert(Value::Null);
        let written = match self.format {
            Format::Json => {
                serde_json::to_writer(&mut *out, &record).map_err(io::Error::from).and_then(|()| writeln!(out))
            }
            Format::Csv => {
                let header =
                    (!*header_written).then(|| record.keys().map(String::as_str).collect::<Vec<_>>().join(","));
                *header_written = true;
                let row = record.values().map(field).collect::<Vec<_>>().join(",");
                header.map_or(Ok(()), |header| writeln!(out, "{header}")).and_then(|()| writeln!(out, "{row}"))
            }
        };
        if let Err(error) = written.and_then(|()| out.flush()) {
            let failure = Failure::file("statistics", &error);
            tell(format_args!("{failure}: nothing more is written there, and the stream goes on"));
            (records.out, records.failed) = (None, Some(failure));
        }
    }
}

fn with_others(line: &str, streams: usize) -> String {
    match streams {
        0 | 1 => line.to_owned(),
        _ => format!("{line}  (and {} more)", streams - 1),
    }
}

/// A value in a row of CSV: empty where there is none.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// What a record says, in alphabetical order.
pub(crate) type Fields = BTreeMap<String, Value>;

/// A record out of several serialisable parts.
pub(crate) fn record(parts: &[&dyn erased::Record]) -> Fields {
    parts.iter().flat_map(|part| part.fields()).collect()
}

/// Serialisable structures behind one type.
pub(crate) mod erased {
    use serde::Serialize;
    use serde_json::{Map, Value};

    /// Something with named fields.
    pub(crate) trait Record {
        /// Its fields.
        fn fields(&self) -> Map<String, Value>;
    }

    impl<T: Serialize> Record for T {
        fn fields(&self) -> Map<String, Value> {
            match serde_json::to_value(self) {
                Ok(Value::Object(fields)) => fields,
                _ => Map::new(),
            }
        }
    }
}
