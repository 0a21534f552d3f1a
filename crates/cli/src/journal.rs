//! CSV logs of single ADUs and frames, with wall clock times, for comparison with packet captures.

use std::fs::File;
use std::io::{BufWriter, Write};

use timeous::clock;
use timeous::core::{Arrived, DropReason, Duration, Fate, Instant};
use timeous_media::MediaAdu;

use crate::failure::Failure;
use crate::files::create_log;
use crate::notice::tell;
use crate::source::DueFrame;

/// CSV file, or none. If it cannot be written any more, the stream goes on: the error is reported at once, and returned
/// at the end.
pub(crate) struct Journal {
    out: Option<BufWriter<File>>,
    path: String,
    failed: Option<Failure>,
    unix_offset: Duration,
}

impl Journal {
    /// Creates a journal with these columns.
    pub(crate) fn new(path: Option<&str>, header: &str) -> Result<Self, Failure> {
        let mut journal = Self {
            out: None,
            path: path.unwrap_or_default().to_owned(),
            failed: None,
            unix_offset: clock::unix_offset(),
        };
        if let Some(path) = path {
            let file = create_log(path.as_ref()).map_err(|error| Failure::file(path, &error))?;
            journal.out = Some(BufWriter::new(file));
            journal.row(|_| header.to_owned());
        }
        Ok(journal)
    }

    /// Whether a journal was requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.out.is_some()
    }

    /// Describes a packet that was queued at `enqueued`.
    pub(crate) fn entry(&self, adu: &MediaAdu, due: &DueFrame, enqueued: Instant, deadline: Option<Instant>) -> Entry {
        Entry::new(adu, due, enqueued, deadline, &|at| (at + self.unix_offset).as_nanos())
    }

    /// Adds the row of a packet, with its fate, and with its arrival if that is known.
    pub(crate) fn settle(&mut self, entry: &Entry, fate: &str, arrived: Option<Arrived>) {
        self.row(|unix| {
            let [predicted, actual] =
                arrived.map_or_else(Default::default, |at| [at.predicted, at.actual].map(|at| unix(at).to_string()));
            format!("{},{fate},{predicted},{actual}", entry.row)
        });
    }

    /// Adds a row, built only if there is a journal; the callback converts instants to Unix nanoseconds.
    pub(crate) fn row(&mut self, make: impl FnOnce(&dyn Fn(Instant) -> u64) -> String) {
        let Some(out) = &mut self.out else { return };
        let offset = self.unix_offset;
        let row = make(&|at| (at + offset).as_nanos());
        let written = writeln!(out, "{row}");
        self.record_error(written);
    }

    /// Flushes the journal; fails if any row could not be written.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let written = self.out.as_mut().map_or(Ok(()), Write::flush);
        self.record_error(written);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn record_error(&mut self, written: std::io::Result<()>) {
        let Err(error) = written else { return };
        let failure = Failure::file(&self.path, &error);
        tell(format_args!("{failure}: nothing more is written there, and the stream goes on"));
        (self.out, self.failed) = (None, Some(failure));
    }
}

/// Columns of a receiver's list of frames.
pub(crate) const FRAMES: &str = "rtp_timestamp,kind,fate,completed,playout,packets,bytes";
/// Columns of a sender's journal.
pub(crate) const JOURNAL: &str =
    "rtp_timestamp,rtp_sequence,frame,kind,bytes,captured,enqueued,deadline,fate,predicted,arrived";

/// Journal entry of a packet, until its fate is known.
pub(crate) struct Entry {
    /// Row up to the fate.
    row: String,
}

impl Entry {
    /// Describes a packet that was queued at `enqueued`.
    fn new(
        adu: &MediaAdu,
        due: &DueFrame,
        enqueued: Instant,
        deadline: Option<Instant>,
        unix: &dyn Fn(Instant) -> u64,
    ) -> Self {
        let (sequence, timestamp) = rtp_numbers(&adu.rtp);
        let deadline = deadline.map(|at| unix(at).to_string()).unwrap_or_default();
        let (captured, enqueued) = (unix(due.captured), unix(enqueued));
        let (index, kind, bytes) = (due.part.number(), due.part.kind(), adu.rtp.len());
        Self { row: format!("{timestamp},{sequence},{index},{kind},{bytes},{captured},{enqueued},{deadline}") }
    }
}

/// Sequence number and timestamp of an RTP packet (RFC 3550 §5.1).
fn rtp_numbers(rtp: &[u8]) -> (u16, u32) {
    (u16::from_be_bytes([rtp[2], rtp[3]]), u32::from_be_bytes([rtp[4], rtp[5], rtp[6], rtp[7]]))
}

/// Name of a fate in a journal.
pub(crate) fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Acked => "acked",
        Fate::Lost => "lost",
        Fate::Dropped(DropReason::Expired) => "expired",
        Fate::Dropped(DropReason::TooLate) => "too_late",
        Fate::Dropped(DropReason::ReferenceLost) => "reference_lost",
        Fate::Dropped(DropReason::Policy) => "policy",
        Fate::Dropped(DropReason::Withdrawn) => "withdrawn",
        Fate::Dropped(DropReason::TooLarge) => "too_large",
        Fate::Dropped(DropReason::Closed) => "closed",
        Fate::Dropped(_) => "other",
    }
}
