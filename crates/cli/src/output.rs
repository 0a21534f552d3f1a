//! Video output: queues frames for a SINK, written by a thread of its own, so that a slow sink never blocks the stream.

mod args;
mod error;
mod file;
mod messages;
mod nals;
mod passthrough;
mod queue;
mod rtp;
mod writer;

use std::sync::Arc;
use std::thread;

use timeous::core::Duration;
use timeous_media::passthrough::{PassthroughRelease, StreamClock};
use timeous_media::ts::TsRelease;
use timeous_media::{MediaDescription, PlayoutFrame, annexb};

pub(crate) use self::args::SinkArgs;
use self::messages::SinkMessages;
use self::nals::{AUD, MAX_SETS, is_set, nals_of, type_of};
pub(crate) use self::queue::SinkStats;
use self::queue::{Queue, SinkItem};
use self::writer::Writer;
use crate::failure::Failure;
use crate::place::Place;

/// Longest time for a sink to take the queued frames at the end of the stream.
const LAST_FRAMES: Duration = Duration::from_secs(5);

/// Sink for received frames.
pub(crate) struct Output {
    queue: Arc<Queue>,
    name: String,
    /// Frames dropped since the sink was last fast enough.
    missed: u64,
    /// Parameter sets of the dropped frames, which may not be repeated.
    missed_sets: Vec<Vec<u8>>,
    messages: SinkMessages,
}

impl Output {
    /// Prepares a sink, so that errors show before a stream arrives. A file is created only with the first frame.
    pub(crate) fn open(place: &Place, args: &SinkArgs) -> Result<Self, Failure> {
        let writer = Writer::new(place, args)?;
        let queue = Arc::new(Queue::default());
        let name = writer.name();
        thread::spawn({
            let (queue, name) = (queue.clone(), name.clone());
            move || writer::run(writer, &queue, &name)
        });
        Ok(Self { queue, name, missed: 0, missed_sets: Vec::new(), messages: SinkMessages::default() })
    }

    /// Queues a frame for the sink without blocking. A slow sink gets no more frames until an entry point fits into the
    /// queue.
    ///
    /// # Errors
    /// [`Failure::Environment`] once, if the sink is gone. The stream may go on; later frames are only counted.
    /// [`Failure::Peer`] if the sink does not take this stream; it takes another.
    pub(crate) fn write(&mut self, frame: &PlayoutFrame) -> Result<(), Failure> {
        let goes_on = self.missed == 0 || frame.is_entry;
        if goes_on && self.offer(frame) {
            if self.missed > 0 {
                self.messages.recovery(&format!("{} keeps up again; {} frames were left out", self.name, self.missed));
                self.missed = 0;
                self.missed_sets.clear();
            }
        } else {
            self.miss(frame);
        }
        self.queue.take_failure().map_or(Ok(()), Err)
    }

    /// Queues packets of a transport stream without blocking; those that a slow sink has no room for are left out.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn write_packets(&mut self, release: TsRelease) -> Result<(), Failure> {
        self.give(SinkItem::Packets(release))
    }

    /// Queues RTP packets of any payload, as [`write_packets`](Self::write_packets).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn write_passthrough(&mut self, release: PassthroughRelease) -> Result<(), Failure> {
        self.give(SinkItem::Passthrough(release))
    }

    /// Tells the sink what the streams of RTP are.
    pub(crate) fn describe(&self, streams: Vec<MediaDescription>) {
        // A sink that is too slow for it misses it until they change.
        let _ = self.queue.push(SinkItem::Streams(streams));
    }

    /// Tells the sink the clock of a stream of RTP.
    pub(crate) fn tell_clock(&self, stream: u8, clock: StreamClock) {
        // The next one follows.
        let _ = self.queue.push(SinkItem::Clock(stream, clock));
    }

    fn give(&mut self, item: SinkItem) -> Result<(), Failure> {
        let is_frame = item.is_frame();
        if self.queue.push(item) {
            if std::mem::take(&mut self.missed) > 0 {
                self.messages.recovery(&format!("{} keeps up again", self.name));
            }
        } else if is_frame {
            self.count_missed();
        }
        self.queue.take_failure().map_or(Ok(()), Err)
    }

    /// Queues a frame with the parameter sets that were dropped before; returns `false` if the queue is full.
    fn offer(&self, frame: &PlayoutFrame) -> bool {
        if self.missed_sets.is_empty() {
            return self.queue.push(SinkItem::Frame(frame.clone()));
        }
        let mut nals = nals_of(&frame.annexb);
        // An access unit delimiter stays first (H.264 §7.4.1.2.3).
        let at = usize::from(nals.first().is_some_and(|nal| type_of(nal) == AUD));
        nals.splice(at..at, self.missed_sets.iter().cloned());
        let mut annexb = Vec::with_capacity(frame.annexb.len());
        annexb::write(nals.iter().map(Vec::as_slice), &mut annexb);
        self.queue.push(SinkItem::Frame(PlayoutFrame { annexb, ..frame.clone() }))
    }

    fn miss(&mut self, frame: &PlayoutFrame) {
        self.count_missed();
        for set in nals_of(&frame.annexb).into_iter().filter(|nal| is_set(nal)) {
            self.missed_sets.retain(|known| *known != set);
            if self.missed_sets.len() < MAX_SETS {
                self.missed_sets.push(set);
            }
        }
    }

    fn count_missed(&mut self) {
        self.missed += 1;
        self.queue.count_missed();
        if self.missed == 1 && !self.queue.is_gone() {
            self.messages.trouble(&format!("{} is too slow: frames are left out until it keeps up", self.name));
        }
    }

    /// Statistics so far.
    pub(crate) fn stats(&self) -> SinkStats {
        self.queue.stats()
    }

    /// Completes the output, waiting for it a few seconds at most. Then the statistics are final.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the sink is too slow, or gone and [`write`](Self::write) has not said so;
    /// [`Failure::Peer`] if there is no MP4 file since no frame came.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.queue.finish(LAST_FRAMES, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use timeous::clock;
    use timeous::core::Instant;
    use timeous_media::FrameKind;

    use super::*;

    /// A NAL unit of one megabyte of this type, after the others.
    fn frame(before: &[&[u8]], kind: u8, is_entry: bool) -> PlayoutFrame {
        let mut last = vec![0xaa; 1 << 20];
        last[0] = kind;
        let mut annexb = Vec::new();
        annexb::write(before.iter().copied().chain([&last[..]]), &mut annexb);
        PlayoutFrame {
            annexb,
            rtp_timestamp: 0,
            ticks: 0,
            decode_ticks: 0,
            is_entry,
            kind: if is_entry { FrameKind::Idr } else { FrameKind::P },
            reference: true,
            captured_at: Instant::ZERO,
            presented_at: Instant::ZERO,
            arrived_at: Instant::ZERO,
            completed_at: Instant::ZERO,
            playout_at: Instant::ZERO,
        }
    }

    #[test]
    fn a_slow_sink_gets_frames_again_from_an_entry_point_on_with_the_sets_that_it_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo").to_str().unwrap().to_owned();
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut output = Output::open(&Place::File(path.clone()), &SinkArgs::default()).unwrap();
        let began = clock::now();
        // The FIFO has no reader yet: the thread takes at most one frame from the queue.
        for _ in 0..30 {
            output.write(&frame(&[], 0x41, false)).unwrap();
        }
        output.write(&frame(&[&[0x67, 1], &[0x68, 2]], 0x65, true)).unwrap();
        assert!(clock::now().saturating_since(began) < Duration::from_secs(2), "the stream was stalled");
        let missed = output.stats().frames_not_written;
        assert!((15..=16).contains(&missed), "{missed} were left out");

        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            File::open(path).unwrap().read_to_end(&mut all).unwrap();
            all
        });
        while output.stats().frames_written + missed < 31 {
            thread::yield_now();
        }
        output.write(&frame(&[], 0x41, false)).unwrap();
        output.write(&frame(&[&[0x09, 0xf0]], 0x65, true)).unwrap();
        output.write(&frame(&[], 0x41, false)).unwrap();
        output.finish().unwrap();
        let all = reader.join().unwrap();
        let types: Vec<u8> = nals_of(&all).iter().map(|nal| type_of(nal)).collect();
        let before = 31 - missed as usize;
        assert_eq!(types[..before], vec![1; before]);
        assert_eq!(types[before..], [9, 7, 8, 5, 1]);
        let stats = output.stats();
        assert_eq!((stats.frames_not_written, stats.frames_written), (missed + 1, before as u64 + 2));
        assert_eq!(stats.byte_written, all.len() as u64);
    }

    #[test]
    fn a_sink_that_is_gone_is_told_once_and_later_frames_are_counted() {
        let place = Place::File("/dev/full".to_owned());
        let mut output = Output::open(&place, &SinkArgs::default()).unwrap();
        let mut failures = Vec::new();
        while !output.queue.is_gone() || failures.is_empty() {
            failures.extend(output.write(&frame(&[], 0x65, true)).err());
        }
        for _ in 0..5 {
            failures.extend(output.write(&frame(&[], 0x65, true)).err());
        }
        let [Failure::Environment(told)] = &failures[..] else { panic!("{failures:?}") };
        assert!(told.contains("/dev/full") && told.contains("No space"), "{told}");
        assert!(output.stats().frames_not_written >= 6 && output.stats().frames_written == 0);
        output.finish().unwrap();
    }
}
