//! Statistics of a running stream: a line on the terminal, and JSON or CSV records in a file.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use timeous::clock;
use timeous::core::units::parse_duration_within;
use timeous::core::{Duration, Instant};

use crate::failure::Failure;
use crate::files::create_log;
use crate::notice::{put, tell};

/// Options for statistics.
#[derive(Args, Clone, Debug)]
pub(crate) struct MeterArgs {
    /// Write statistics to this file, a record per interval and one at the end; '-' is standard error
    #[arg(long, value_name = "FILE")]
    stats: Option<String>,
    /// Format of the statistics: JSON, one object per line, or CSV with a header
    #[arg(long, value_enum, default_value = "json", value_name = "FORMAT")]
    stats_format: Format,
    /// Interval of the statistics, from 10ms to 24h
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    stats_interval: Duration,
    /// Show no progress line on the terminal
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
}

/// Fields that a meter adds to each record, and their meaning.
pub(crate) const ADDED: [(&str, &str); 2] = [
    ("unixMs", "Wall-clock time of the record, in milliseconds since 1970: it relates the records of both ends"),
    ("peer", "Address of the other end, of whose connection the record is; null while no peer is connected"),
];

/// Field with a list of statistics, one object for each stream of the source; CSV has no column for it.
pub(crate) const TRACKS: &str = "tracks";

/// Interval at which the progress line is redrawn.
const REDRAW: Duration = Duration::from_millis(250);

/// Parses the interval of statistics.
fn interval(text: &str) -> Result<Duration, String> {
    parse_duration_within(text, "10ms", "24h")
}

/// Output of records. If it cannot be written any more, the stream goes on: the error is reported at once, and returned
/// at the end.
struct Records {
    out: Option<Box<dyn Write + Send>>,
    failed: Option<Failure>,
    header_written: bool,
}

/// Writer of statistics at their interval.
pub(crate) struct Meter {
    /// Shared by all meters of the process.
    out: Option<Arc<Mutex<Records>>>,
    /// Whether it was made by [`another`](Self::another); only the first meter returns write errors.
    is_another: bool,
    format: Format,
    interval: Duration,
    next_record: Instant,
    terminal: bool,
    next_line: Instant,
    line_width: usize,
}

impl MeterArgs {
    /// File of the statistics.
    pub(crate) fn file(&self) -> Option<&str> {
        self.stats.as_deref()
    }

    /// Whether messages beyond errors are shown.
    pub(crate) fn is_verbose(&self) -> bool {
        !self.quiet
    }
}

impl Meter {
    /// Creates a meter from the arguments.
    pub(crate) fn new(args: &MeterArgs) -> Result<Self, Failure> {
        let out: Option<Box<dyn Write + Send>> = match args.stats.as_deref() {
            None => None,
            Some("-") => Some(Box::new(io::stderr())),
            Some(path) => {
                let file = create_log(path.as_ref()).map_err(|error| Failure::file(path, &error))?;
                Some(Box::new(file))
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

    /// Creates a meter for another stream, with the same output for records but no progress line.
    pub(crate) fn another(&self) -> Self {
        Self { out: self.out.clone(), is_another: true, terminal: false, ..*self }
    }

    /// Writes due records and the progress line of several streams.
    pub(crate) fn write_all(&mut self, records: &[(Fields, String)]) {
        let now = clock::now();
        if self.out.is_some() && now >= self.next_record {
            self.next_record = now + self.interval;
            records.iter().for_each(|(record, _)| self.record(record));
        }
        if let (true, Some((_, line))) = (self.terminal && now >= self.next_line, records.first()) {
            self.next_line = now + REDRAW;
            self.draw(&with_others(line, records.len()), "");
        }
    }

    /// Writes the last records, and leaves the progress line on the terminal.
    pub(crate) fn finish_all(&mut self, records: &[(Fields, String)]) -> Result<(), Failure> {
        records.iter().for_each(|(record, _)| self.record(record));
        if let (true, Some((_, line))) = (self.terminal, records.first()) {
            self.draw(&with_others(line, records.len()), "\n");
        }
        self.failure()
    }

    /// Writes due records and the progress line.
    pub(crate) fn write(&mut self, record: &Fields, line: &str) {
        let now = clock::now();
        if self.out.is_some() && now >= self.next_record {
            self.next_record = now + self.interval;
            self.record(record);
        }
        if self.terminal && now >= self.next_line {
            self.next_line = now + REDRAW;
            self.draw(line, "");
        }
    }

    /// Writes the last record, and leaves the progress line on the terminal.
    pub(crate) fn finish(&mut self, record: &Fields, line: &str) -> Result<(), Failure> {
        self.record(record);
        if self.terminal {
            self.draw(line, "\n");
        }
        self.failure()
    }

    /// Returns the write error, once.
    pub(crate) fn failure(&self) -> Result<(), Failure> {
        if self.is_another {
            return Ok(());
        }
        let failed = self.out.as_ref().and_then(|out| out.lock().unwrap_or_else(PoisonError::into_inner).failed.take());
        failed.map_or(Ok(()), Err)
    }

    fn draw(&mut self, line: &str, end: &str) {
        let width = line.chars().count();
        put(format_args!("\r{line}{:pad$}{end}", "", pad = self.line_width.saturating_sub(width)));
        self.line_width = width;
    }

    /// Writes a record at once, whatever the interval.
    pub(crate) fn record(&mut self, record: &Fields) {
        let Some(out) = &self.out else { return };
        let mut records = out.lock().unwrap_or_else(PoisonError::into_inner);
        let Records { out: Some(out), header_written, .. } = &mut *records else { return };
        // Wall clock, so that records of both ends can be compared.
        let at = (clock::now() + clock::unix_offset()).as_nanos() / 1_000_000;
        let mut record = record.clone();
        record.insert("unixMs".to_owned(), at.into());
        // Ensure the column in every row, even while disconnected.
        record.entry("peer".to_owned()).or_insert(Value::Null);
        let text = match self.format {
            Format::Json => format!("{}\n", json(&record)),
            Format::Csv => {
                record.remove(TRACKS);
                let header =
                    (!*header_written).then(|| record.keys().map(String::as_str).collect::<Vec<_>>().join(","));
                *header_written = true;
                let row = record.values().map(field).collect::<Vec<_>>().join(",");
                header.into_iter().chain([row]).map(|line| line + "\n").collect()
            }
        };
        // At once, so that the end of the process cuts none.
        if let Err(error) = out.write_all(text.as_bytes()) {
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

/// Formats a value for CSV; empty if there is none.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// Fields of a record, in alphabetical order.
pub(crate) type Fields = BTreeMap<String, Value>;

/// Builds a record from several serialisable parts.
pub(crate) fn record(parts: &[&dyn erased::Record]) -> Fields {
    parts.iter().flat_map(|part| part.fields()).collect()
}

/// Value of a field with an inner structure.
pub(crate) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Serialisable structures as trait objects.
pub(crate) mod erased {
    use serde::Serialize;
    use serde_json::{Map, Value};

    /// Value with named fields.
    pub(crate) trait Record {
        /// Returns its fields.
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
