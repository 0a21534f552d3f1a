//! H.264 from a file or a live pipe; in a pipe, a short pause ends a frame, which is then sent at once.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::{Cadence, Ending, FramePart, FrameRate, FrameReader};

use super::captured::{CapturedFrame, Frames, Timing};
use super::left_out::LeftOutWatch;
use super::media::MediaPart;
use super::silence::Silence;
use crate::failure::Failure;

const CHUNK: usize = 64 * 1024;
/// Pause after which a NAL unit counts as complete, if pauses are trusted: writers pass on whole NAL units.
const QUIET: Duration = Duration::from_millis(3);
/// Consecutive pauses between NAL units before pauses are trusted. Writers in blocks of a fixed size hardly reach it: their
/// pauses are anywhere.
const TRUSTED_FROM: u32 = 4;
/// Longer pause after which a NAL unit counts as complete while pauses are not trusted yet, as long as none was within a NAL
/// unit: a camera with less than seven frames a second would miss its deadlines otherwise.
const LONG_QUIET: Duration = Duration::from_millis(150);
/// Typical size of one write, such as ffmpeg's; after it, the next write may be delayed.
const PIECE: usize = 32 * 1024;
const HELD_UP: Duration = Duration::from_millis(8);

/// Whether a descriptor is live: a pipe, socket or terminal, not a file.
pub(super) fn is_live(from: &impl AsFd) -> bool {
    fstat(from).is_ok_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Reads all frames of a file, as fast as the queue takes them.
pub(super) fn read_file(
    mut from: impl Read,
    first: &[u8],
    rate: Option<FrameRate>,
    frames: &Frames,
) -> Result<Ending, Failure> {
    let mut reader = FrameReader::new(rate);
    let mut left_out = LeftOutWatch::default();
    let mut chunk = first.to_vec();
    let mut count = chunk.len();
    while count > 0 {
        let pushed = reader.push(&chunk[..count]);
        left_out.look(reader.left_out());
        give_paced(&mut reader, frames);
        pushed?;
        chunk.resize(CHUNK, 0);
        count = read(&mut from, &mut chunk)?;
    }
    let ending = reader.finish()?;
    give_paced(&mut reader, frames);
    Ok(ending)
}

fn give_paced(reader: &mut FrameReader, frames: &Frames) {
    while let Some(frame) = reader.next_frame() {
        let part = MediaPart::Video(FramePart { frame, first: true, last: true });
        if !frames.give(CapturedFrame { part, timing: Timing::Paced, encoding: frames.encoding }) {
            return;
        }
    }
}

/// Reads a live source: passes slices on as they arrive, with their arrival time; with `whole`, complete frames only.
pub(super) fn read_live(
    mut from: impl Read + AsFd,
    first: &[u8],
    rate: Option<FrameRate>,
    frames: &Frames,
    whole: bool,
) -> Result<Ending, Failure> {
    let mut reader = FrameReader::new(rate);
    let mut capture_times = CaptureTimes::default();
    let mut left_out = LeftOutWatch::default();
    let mut pause = PauseDetector::default();
    let mut chunk = first.to_vec();
    let mut is_read = !first.is_empty();
    loop {
        if !is_read && !pause.wait(&from, &mut reader)? {
            give_live(&mut reader, frames, &mut capture_times, (pause.silence.since(), whole));
            continue;
        }
        // A frame that this chunk ends arrived before it.
        let pending_since = pause.pending_since();
        let count = if std::mem::take(&mut is_read) {
            chunk.len()
        } else {
            chunk.resize(CHUNK, 0);
            read(&mut from, &mut chunk)?
        };
        if count == 0 {
            break;
        }
        pause.on_data(&chunk[..count]);
        let came_at = pending_since.unwrap_or(pause.silence.since());
        let pushed = reader.push(&chunk[..count]);
        left_out.look(reader.left_out());
        give_live(&mut reader, frames, &mut capture_times, (came_at, whole));
        pushed?;
    }
    let ending = reader.finish()?;
    give_live(&mut reader, frames, &mut capture_times, (pause.silence.since(), whole));
    Ok(ending)
}

pub(super) fn read(from: &mut impl Read, chunk: &mut [u8]) -> Result<usize, Failure> {
    loop {
        match from.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done.map_err(|error| Failure::file("the source", &error)),
        }
    }
}

/// Capture times of a live source.
#[derive(Default)]
struct CaptureTimes {
    cadence: Cadence,
    captured: Instant,
}

/// Passes on complete parts. The first frame arrived at `came_at`, others now.
fn give_live(
    reader: &mut FrameReader,
    frames: &Frames,
    capture_times: &mut CaptureTimes,
    (mut came_at, whole): (Instant, bool),
) {
    let mut next = || match whole {
        true => reader.next_frame().map(|frame| FramePart { frame, first: true, last: true }),
        false => reader.next_part(),
    };
    while let Some(part) = next() {
        if part.first {
            capture_times.captured = capture_times.cadence.frame(came_at, part.frame.duration);
            came_at = clock::now();
        }
        let timing = Timing::Live { captured: capture_times.captured, presented: None };
        if !frames.give(CapturedFrame { part: MediaPart::Video(part), timing, encoding: frames.encoding }) {
            return;
        }
    }
}

/// Detects pauses of a source, which complete the current NAL unit.
struct PauseDetector {
    /// Bytes since the last pause.
    bytes: usize,
    /// Consecutive pauses between NAL units; then the number from which pauses are trusted.
    clean: u32,
    trusted_from: u32,
    /// Whether the last pause is still to be judged by the next bytes.
    has_paused: bool,
    is_flushed: bool,
    /// Whether all bytes received so far were passed on.
    is_taken: bool,
    silence: Silence,
}

impl Default for PauseDetector {
    fn default() -> Self {
        Self {
            bytes: 0,
            clean: 0,
            trusted_from: TRUSTED_FROM,
            has_paused: false,
            is_flushed: true,
            is_taken: true,
            silence: Silence::of_pipe(),
        }
    }
}

impl PauseDetector {
    /// Returns whether there are bytes to read, or the end; if not, the current NAL unit was flushed if pauses are
    /// trusted.
    fn wait(&mut self, from: &impl AsFd, reader: &mut FrameReader) -> Result<bool, Failure> {
        let waits_long = self.is_flushed && !self.is_taken && self.trusted_from == TRUSTED_FROM;
        let patience = match (self.is_flushed, self.bytes >= PIECE) {
            (true, _) if waits_long => LONG_QUIET,
            (true, _) => self.silence.after(),
            (false, true) => HELD_UP,
            (false, false) => QUIET,
        };
        if is_ready(from, patience)? {
            return Ok(true);
        }
        if waits_long {
            self.is_taken = true;
            reader.flush();
            return Ok(false);
        }
        if self.is_flushed {
            self.silence.look();
            return Ok(false);
        }
        self.is_flushed = true;
        self.has_paused = true;
        self.bytes = 0;
        self.is_taken = self.clean >= self.trusted_from;
        if self.is_taken {
            reader.flush();
        }
        Ok(false)
    }

    /// Arrival of the last bytes, unless all bytes were passed on.
    fn pending_since(&self) -> Option<Instant> {
        (!self.is_taken).then_some(self.silence.since())
    }

    fn on_data(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.has_paused) {
            self.assess_pause(bytes);
        }
        self.silence.end();
        self.bytes += bytes.len();
        (self.is_flushed, self.is_taken) = (false, false);
    }

    /// Judges a pause: good if a start code follows. One within a NAL unit makes pauses untrusted, longer each time.
    fn assess_pause(&mut self, next: &[u8]) {
        if next.starts_with(&[0, 0]) {
            self.clean = self.clean.saturating_add(1);
        } else {
            self.clean = 0;
            self.trusted_from = self.trusted_from.saturating_mul(8);
        }
    }
}

pub(super) fn is_ready(from: &impl AsFd, patience: Duration) -> Result<bool, Failure> {
    let nanos = patience.as_nanos();
    let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    match poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::file("the source", &error.into())),
    }
}
