//! Playout of a received stream: jitter buffer, sink, statistics and messages.

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::passthrough::{StreamClock, stream_of};
use timeous_media::{Control, FrameFate, FrameReport, MediaDescription, PlayoutEvent, Release, control};

use super::args::RecvArgs;
use super::counts::{FrameCounts, line};
use super::late::LateWatch;
use super::playouts::{Carried, Playouts};
use super::told::{Frames, ToldFrames};
use super::tracks::{self, ReceivedTrack};
use crate::failure::Failure;
use crate::input::ClockChangeMessage;
use crate::interrupt::Interrupt;
use crate::journal::{FRAMES, Journal};
use crate::meter::{Fields, Meter, TRACKS, json, record};
use crate::notice::{RateLimitedMessages, tell};
use crate::output::Output;

/// Longest wait between two checks.
const TICK: Duration = Duration::from_millis(100);
/// Interval at which the receiver's latency and delay are sent.
const REPORTS: Duration = Duration::from_millis(500);
/// Minimum interval of keyframe requests: a round trip plus the encoder's delay.
const KEYFRAMES: Duration = Duration::from_millis(500);
/// Most clocks that are kept until the first packet comes: of sixteen streams, and of the sender.
const MOST_EARLY_CLOCKS: usize = 17;
/// Time without a decodable frame that is reported.
const UNDECODABLE: Duration = Duration::from_secs(2);

/// Playout and its outputs.
pub(super) struct Screen {
    playouts: Playouts,
    /// Clocks of streams that came before the first packet.
    early_clocks: Vec<Control>,
    /// Streams of the sender, as far as they were described.
    streams: Vec<Option<MediaDescription>>,
    output: Output,
    frames: Journal,
    counts: FrameCounts,
    /// Latency that this end requests.
    latency: Duration,
    refused: RateLimitedMessages,
    next_report: Instant,
    next_keyframe: Instant,
    /// Start of the time without decodable frames, unless reported.
    waits: Option<Instant>,
    is_waiting: bool,
    late: LateWatch,
    /// Frames that the sender tells of at its end.
    told: ToldFrames,
    /// End of the current connection's stream, as its sender tells it.
    end: SenderEnd,
    /// Whether the stream has had a packet that is part of one.
    has_begun: bool,
}

/// End of a stream, as its sender tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SenderEnd {
    /// The sender promises no message of it: an application, or an older version.
    #[default]
    Unannounced,
    /// The message is promised, and has not come.
    Awaited,
    Told,
}

impl Screen {
    pub(super) fn new(args: &RecvArgs, latency: Duration, output: Output) -> Result<Self, Failure> {
        let release = if args.immediate { Release::Immediate } else { Release::Constant };
        Ok(Self {
            playouts: Playouts::new(latency, release, args.pt),
            early_clocks: Vec::new(),
            streams: Vec::new(),
            output,
            frames: Journal::new(args.frames.as_deref(), FRAMES)?,
            counts: FrameCounts::new(latency),
            latency,
            refused: RateLimitedMessages::default(),
            next_report: Instant::ZERO,
            next_keyframe: Instant::ZERO,
            waits: None,
            is_waiting: false,
            late: LateWatch::default(),
            told: ToldFrames::default(),
            end: SenderEnd::default(),
            has_begun: false,
        })
    }

    /// Begins a stream, or continues one after a reconnection.
    pub(super) fn begin_stream(&mut self) {
        self.counts.begin_stream();
        self.waits = None;
        self.next_report = Instant::ZERO;
        self.has_begun = false;
        let known = self.known();
        self.told.begin(known);
    }

    /// Frames that have come, or are missing by gaps, of each stream and of all.
    fn known(&mut self) -> Frames {
        self.count_packets();
        let all = self.counts.fates() - self.told.missing(None);
        let of_stream = |track: ReceivedTrack| (Some(track.name.number()), track.fates());
        self.tracks().into_iter().map(of_stream).chain([(None, all)]).collect()
    }

    /// Whether the stream has had anything that can be received: port scanners and strangers send nothing of the kind.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns what the sender told of the end of its stream, and forgets it for the next connection.
    pub(super) fn take_end(&mut self) -> SenderEnd {
        std::mem::take(&mut self.end)
    }

    /// Next instant at which a timer is due.
    pub(super) fn due(&self) -> Instant {
        let tick = clock::now() + TICK;
        self.playouts.poll_timeout().map_or(tick, |due| due.min(tick))
    }

    /// Handles a packet.
    pub(super) fn take(&mut self, at: Instant, packet: &[u8]) -> Result<(), Failure> {
        if control::is_control(packet) {
            for message in Control::read(packet) {
                self.has_begun = true;
                self.on_control(message);
            }
            return Ok(());
        }
        let carried = Carried::of(packet);
        if self.playouts.begin(carried) {
            if carried == Carried::Ts {
                tell("the stream is MPEG-TS");
            }
            if self.frames.is_wanted() {
                tell("--frames lists frames of H.264 only");
            }
        }
        let handled = self.playouts.handle_packet(carried, at, packet);
        if carried == Carried::Passthrough {
            for clock in std::mem::take(&mut self.early_clocks) {
                self.on_control(clock);
            }
        }
        match handled {
            Ok(()) => self.has_begun = true,
            Err(error) => self.refused.tell_as(error.kind(), &format!("a packet is not used: {error}")),
        }
        self.show()
    }

    fn on_control(&mut self, message: Control) {
        if let Control::Stream { number, of, lines } = &message
            && let Some(stream) = MediaDescription::parse(lines)
        {
            self.streams.resize(usize::from(*of), None);
            let known = self.streams.get_mut(usize::from(*number));
            if known.is_some_and(|known| known.replace(stream.clone()) != Some(stream)) {
                self.tell_streams();
            }
        }
        if let Control::Frames { streams } = &message {
            match streams.as_slice() {
                [] if self.end == SenderEnd::Unannounced => self.end = SenderEnd::Awaited,
                [] => {}
                streams => {
                    self.told.tell(streams);
                    self.end = SenderEnd::Told;
                }
            }
        }
        if let Control::SenderClock { ssrc, ntp, timestamp } = message {
            match self.playouts.passthrough_ssrc() {
                Some(first) => {
                    if let Some(stream) = stream_of(first, ssrc) {
                        self.output.tell_clock(stream, StreamClock { ntp, timestamp });
                    }
                }
                None if self.early_clocks.len() < MOST_EARLY_CLOCKS => self.early_clocks.push(message.clone()),
                None => {}
            }
        }
        if let Control::Terms { latency, .. } = message {
            let agreed = latency.max(self.latency);
            if agreed != self.playouts.latency() {
                tell(format_args!("the sender asks for more time: latency is {} ms", agreed.as_millis()));
                self.playouts.set_latency(agreed);
                self.counts.set_latency(agreed);
            }
        }
    }

    /// Passes on the descriptions of the streams, once all are known.
    fn tell_streams(&mut self) {
        let Some(streams) = self.streams.iter().cloned().collect::<Option<Vec<_>>>() else { return };
        let names: Vec<String> = streams.iter().map(MediaDescription::to_string).collect();
        tell(format_args!("the stream is RTP: {}", names.join(", ")));
        self.output.describe(streams);
    }

    /// Returns control messages that are due.
    pub(super) fn control(&mut self) -> Vec<Control> {
        let now = clock::now();
        let mut messages = Vec::new();
        if now >= self.next_report {
            self.next_report = now + REPORTS;
            messages.push(Control::Terms { latency: self.latency, excess: self.playouts.excess(now) });
        }
        if let Some(ssrc) = self.playouts.wants_entry().filter(|_| now >= self.next_keyframe) {
            self.next_keyframe = now + KEYFRAMES;
            messages.push(Control::KeyframeWanted { ssrc });
        }
        messages
    }

    /// Advances time.
    pub(super) fn pass_time(&mut self) -> Result<(), Failure> {
        self.playouts.handle_timeout(clock::now());
        self.show()
    }

    fn show(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.playouts.poll_event() {
            match event {
                PlayoutEvent::Format(format) => tell(format_args!("pictures: {format}")),
                PlayoutEvent::Clock(change) => {
                    self.refused.tell_as("clock", &format!("the stream: {}", ClockChangeMessage(&change)));
                }
                PlayoutEvent::Restarted(_) => tell("the source begins anew"),
            }
        }
        while let Some(frame) = self.playouts.poll_frame() {
            if std::mem::take(&mut self.is_waiting) {
                tell("the picture is back");
            }
            let written = self.output.write(&frame);
            self.drop_refused(Carried::H264, &written);
            written?;
        }
        while let Some(report) = self.playouts.poll_report() {
            self.count(&report);
        }
        while let Some(change) = self.playouts.poll_change() {
            self.refused.tell_as("clock", &format!("the stream: {}", ClockChangeMessage(&change)));
        }
        while let Some(release) = self.playouts.poll_ts() {
            let written = self.output.write_packets(release);
            self.drop_refused(Carried::Ts, &written);
            written?;
        }
        while let Some(release) = self.playouts.poll_passthrough() {
            let written = self.output.write_passthrough(release);
            self.drop_refused(Carried::Passthrough, &written);
            written?;
        }
        self.watch();
        Ok(())
    }

    /// Drops the frames of a stream that the sink does not take.
    fn drop_refused(&mut self, carried: Carried, written: &Result<(), Failure>) {
        if !matches!(written, Err(Failure::Peer(_))) {
            return;
        }
        self.playouts.drop_all(carried);
        if carried == Carried::Passthrough {
            self.streams.clear();
        }
    }

    fn count(&mut self, report: &FrameReport) {
        self.counts.count(report);
        match report.fate {
            FrameFate::Decodable => self.waits = None,
            FrameFate::ReferenceMissing => {
                self.waits.get_or_insert(clock::now());
            }
            FrameFate::Unreadable => {
                self.refused.tell("a picture cannot be read: is it H.264, and do its parameter sets come with it?");
            }
            FrameFate::Incomplete | FrameFate::Late => {}
        }
        let missing = self.playouts.packets().frames_missing;
        self.late.count(report.fate, missing, clock::now(), self.playouts.latency());
        let kind = report.kind.map(|kind| format!("{kind:?}")).unwrap_or_default();
        self.frames.row(|unix| {
            let completed = report.completed_at.map(|at| unix(at).to_string()).unwrap_or_default();
            let (timestamp, fate, playout) = (report.rtp_timestamp, report.fate, unix(report.playout_at));
            format!("{timestamp},{kind},{fate:?},{completed},{playout},{},{}", report.packets, report.bytes)
        });
    }

    /// Reports if nothing can be decoded for a while.
    fn watch(&mut self) {
        let now = clock::now();
        if self.waits.is_some_and(|since| now.saturating_since(since) > UNDECODABLE) && !self.is_waiting {
            self.is_waiting = true;
            tell("waiting for a keyframe: what comes refers to pictures that were lost, or were sent before");
        }
    }

    fn count_packets(&mut self) {
        self.counts.take(self.playouts.packets(), self.playouts.whole(), self.told.missing(None));
    }

    /// Returns a record of the stream and its frames, and the progress line.
    pub(super) fn record(&mut self, stream: &Fields) -> (Fields, String) {
        self.count_packets();
        let mut record = record(&[stream, &self.counts, &self.output.stats()]);
        record.insert(TRACKS.to_owned(), json(&self.tracks_with_told()));
        let line = line(&record);
        (record, line)
    }

    /// Statistics of each stream of the source, with the frames that the sender told of.
    fn tracks_with_told(&self) -> Vec<ReceivedTrack> {
        let mut tracks = self.tracks();
        // The only stream of raw H.264 has the counts of all.
        for track in tracks.iter_mut().filter(|_| self.playouts.whole().is_some()) {
            track.frames_missing += self.told.missing(Some(track.name.number()));
        }
        tracks
    }

    /// Statistics of each stream of the source.
    fn tracks(&self) -> Vec<ReceivedTrack> {
        self.playouts.tracks(&self.streams).unwrap_or_else(|| self.counts.video().into_iter().collect())
    }

    /// A line for each stream of the source, if there are several.
    pub(super) fn lines(&self) -> Vec<String> {
        tracks::lines(&self.tracks_with_told())
    }

    /// Whether frames wait for their playout time: the counts are not those of the whole stream yet.
    pub(super) fn holds_frames(&self) -> bool {
        self.playouts.holds_frames()
    }

    /// Counts the frames of which only the sender of an ended stream told.
    pub(super) fn settle(&mut self) {
        let known = self.known();
        self.told.settle(&known);
    }

    /// Waits until all frames in the playout are released, after the last stream has ended.
    pub(super) fn drain(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        while !interrupt.is_set() && self.holds_frames() {
            pause(self.due());
            self.pass_time()?;
        }
        Ok(())
    }

    /// Summary of all streams in a sentence.
    pub(super) fn summary(&mut self) -> String {
        self.count_packets();
        self.counts.summary()
    }

    /// Completes the sink and writes the last record; after an error, the remaining steps are still done.
    pub(super) fn finish(&mut self, stream: &Fields, meter: &mut Meter) -> Result<(), Failure> {
        self.playouts.finish();
        let shown = self.show();
        let journal = self.frames.finish();
        let sink = self.output.finish();
        self.settle();
        let (fields, line) = self.record(stream);
        let meter = meter.finish(&fields, &line);
        shown.and(journal).and(sink).and(meter)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the driver, and waits until a frame is due")]
fn pause(until: Instant) {
    std::thread::sleep(until.saturating_since(clock::now()).into());
}
