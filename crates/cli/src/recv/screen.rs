//! Playout of a received stream: jitter buffer, sink, statistics and messages.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::passthrough::{PassthroughPlayout, StreamClock, is_passthrough, stream_of};
use timeous_media::ts::{TS_PAYLOAD_TYPE, TsPlayout};
use timeous_media::{
    Control, FrameFate, FrameKind, MediaDescription, Playout, PlayoutConfig, PlayoutEvent, Release, control,
};

use super::args::RecvArgs;
use super::late::LateWatch;
use super::told::{Frames, ToldFrames};
use super::tracks::{self, ReceivedTrack};
use crate::failure::Failure;
use crate::input::ClockChangeMessage;
use crate::interrupt::Interrupt;
use crate::journal::{FRAMES, Journal};
use crate::meter::{Fields, Meter, TRACKS, json, record};
use crate::notice::{RateLimitedMessages, tell};
use crate::output::Output;
use crate::track::TrackName;

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

/// Frame and packet counts, for statistics.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameCounts {
    /// Frames given out in time, with all frames that they refer to. Frames of MPEG-TS are PES packets, of video, audio and tables.
    frames_decodable: u64,
    /// I-frames among them.
    i_frames_decodable: u64,
    /// Frames of which packets never came.
    frames_incomplete: u64,
    /// Frames that were complete after their playout time.
    frames_late: u64,
    /// Frames complete in time that refer to a frame which was not.
    frames_reference_missing: u64,
    /// Complete frames that are not readable as H.264.
    frames_unreadable: u64,
    /// Frames of which nothing complete came, by gaps in the frame numbers: whole frames that the sender drops are
    /// counted here. Those after the last one that came are counted at the end, if the sender tells of them. With `--encodings` at the sender frames of the other encodings are included.
    frames_missing: u64,
    /// RTP packets no longer waited for: lost, or dropped by the sender.
    pkt_rcv_loss_total: u64,
    /// RTP packets that came after that.
    pkt_rcv_belated: u64,
    /// RTP packets that came twice.
    pkt_rcv_duplicate: u64,
    /// Packets that are not usable RTP.
    pkt_rcv_refused: u64,
    /// Streams received by this sink, one after another; all counts of frames continue over them.
    streams: u64,
    /// Latency in force, in milliseconds: the larger one of both ends.
    ms_latency: u64,
}

/// Playout and its outputs.
pub(super) struct Screen {
    config: PlayoutConfig,
    playout: Playout,
    /// Playout of a transport stream, once one has come.
    ts: Option<TsPlayout>,
    /// Playout of RTP of any payload, once some has come.
    passthrough: Option<PassthroughPlayout>,
    /// Clocks of streams that came before the first packet.
    early_clocks: Vec<Control>,
    /// Streams of the sender, as far as they were described.
    streams: Vec<Option<MediaDescription>>,
    release: Release,
    output: Output,
    frames: Journal,
    counts: FrameCounts,
    /// Bytes of frames of raw H.264 that were given out.
    bytes: u64,
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

impl FrameCounts {
    /// Frames that are known: each has one fate.
    fn fates(&self) -> u64 {
        self.frames_decodable
            + self.frames_incomplete
            + self.frames_late
            + self.frames_reference_missing
            + self.frames_unreadable
            + self.frames_missing
    }
}

impl Screen {
    pub(super) fn new(args: &RecvArgs, latency: Duration, output: Output) -> Result<Self, Failure> {
        let release = if args.immediate { Release::Immediate } else { Release::Constant };
        let config = PlayoutConfig { payload_type: args.pt, ..PlayoutConfig::new(latency).released(release) };
        Ok(Self {
            config,
            playout: Playout::new(config),
            ts: None,
            passthrough: None,
            early_clocks: Vec::new(),
            streams: Vec::new(),
            release,
            output,
            frames: Journal::new(args.frames.as_deref(), FRAMES)?,
            counts: FrameCounts { ms_latency: latency.as_millis(), ..FrameCounts::default() },
            bytes: 0,
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
        self.counts.streams += 1;
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
        let ts = self.ts.as_ref().and_then(TsPlayout::poll_timeout);
        let passthrough = self.passthrough.as_ref().and_then(PassthroughPlayout::poll_timeout);
        self.playout.poll_timeout().into_iter().chain(ts).chain(passthrough).fold(tick, |least, due| least.min(due))
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
        let handled = if is_passthrough(packet) {
            let passthrough = self.passthrough.get_or_insert_with(|| {
                if self.frames.is_wanted() {
                    tell("--frames lists frames of H.264 only");
                }
                PassthroughPlayout::new(self.playout.latency(), self.release)
            });
            let handled = passthrough.handle_packet(at, packet);
            for clock in std::mem::take(&mut self.early_clocks) {
                self.on_control(clock);
            }
            handled
        } else if is_ts(packet) {
            let ts = self.ts.get_or_insert_with(|| {
                tell("the stream is MPEG-TS");
                if self.frames.is_wanted() {
                    tell("--frames lists frames of H.264 only");
                }
                TsPlayout::new(self.playout.latency(), self.release)
            });
            ts.handle_packet(at, packet)
        } else {
            self.playout.handle_packet(at, packet).map(drop)
        };
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
            match self.passthrough.as_ref().and_then(PassthroughPlayout::ssrc) {
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
            if agreed != self.playout.latency() {
                tell(format_args!("the sender asks for more time: latency is {} ms", agreed.as_millis()));
                self.playout.set_latency(agreed);
                if let Some(ts) = &mut self.ts {
                    ts.set_latency(agreed);
                }
                if let Some(passthrough) = &mut self.passthrough {
                    passthrough.set_latency(agreed);
                }
                self.counts.ms_latency = agreed.as_millis();
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
            let excess = self.playout.excess(now).or_else(|| self.ts.as_ref()?.excess(now));
            let excess = excess.or_else(|| self.passthrough.as_ref()?.excess(now));
            messages.push(Control::Terms { latency: self.latency, excess });
        }
        if let Some(ssrc) = self.playout.ssrc().filter(|_| self.playout.wants_entry() && now >= self.next_keyframe) {
            self.next_keyframe = now + KEYFRAMES;
            messages.push(Control::KeyframeWanted { ssrc });
        }
        messages
    }

    /// Advances time.
    pub(super) fn pass_time(&mut self) -> Result<(), Failure> {
        self.playout.handle_timeout(clock::now());
        if let Some(ts) = &mut self.ts {
            ts.handle_timeout(clock::now());
        }
        if let Some(passthrough) = &mut self.passthrough {
            passthrough.handle_timeout(clock::now());
        }
        self.show()
    }

    fn show(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.playout.poll_event() {
            match event {
                PlayoutEvent::Format(format) => tell(format_args!("pictures: {format}")),
                PlayoutEvent::Clock(change) => {
                    self.refused.tell_as("clock", &format!("the stream: {}", ClockChangeMessage(&change)));
                }
                PlayoutEvent::Restarted(_) => tell("the source begins anew"),
            }
        }
        while let Some(frame) = self.playout.poll_frame() {
            if std::mem::take(&mut self.is_waiting) {
                tell("the picture is back");
            }
            let written = self.output.write(&frame);
            // The sink does not take this stream: drop its other frames, so that none is written before those of the next stream.
            if matches!(written, Err(Failure::Peer(_))) {
                self.playout = Playout::new(self.config);
            }
            written?;
        }
        while let Some(report) = self.playout.poll_report() {
            self.count(&report);
        }
        while let Some(change) = self.ts.as_mut().and_then(TsPlayout::poll_change) {
            self.refused.tell_as("clock", &format!("the stream: {}", ClockChangeMessage(&change)));
        }
        while let Some(release) = self.ts.as_mut().and_then(TsPlayout::poll_release) {
            let written = self.output.write_packets(release);
            self.ts.take_if(|_| matches!(written, Err(Failure::Peer(_))));
            written?;
        }
        while let Some(change) = self.passthrough.as_mut().and_then(PassthroughPlayout::poll_change) {
            self.refused.tell_as("clock", &format!("the stream: {}", ClockChangeMessage(&change)));
        }
        while let Some(release) = self.passthrough.as_mut().and_then(PassthroughPlayout::poll_release) {
            let written = self.output.write_passthrough(release);
            if matches!(written, Err(Failure::Peer(_))) {
                self.passthrough = None;
                self.streams.clear();
            }
            written?;
        }
        self.watch();
        Ok(())
    }

    fn count(&mut self, report: &timeous_media::FrameReport) {
        let counts = &mut self.counts;
        match report.fate {
            FrameFate::Decodable => {
                self.waits = None;
                self.bytes += report.bytes as u64;
                counts.frames_decodable += 1;
                let intra = matches!(report.kind, Some(FrameKind::Idr | FrameKind::I));
                counts.i_frames_decodable += u64::from(intra);
            }
            FrameFate::Incomplete => counts.frames_incomplete += 1,
            FrameFate::Late => counts.frames_late += 1,
            FrameFate::ReferenceMissing => {
                self.waits.get_or_insert(clock::now());
                counts.frames_reference_missing += 1;
            }
            FrameFate::Unreadable => {
                counts.frames_unreadable += 1;
                self.refused.tell("a picture cannot be read: is it H.264, and do its parameter sets come with it?");
            }
        }
        let missing = self.playout.stats().frames_missing;
        self.late.count(report.fate, missing, clock::now(), self.playout.latency());
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
        let stats = self.playout.stats();
        self.counts.frames_missing = stats.frames_missing;
        self.counts.pkt_rcv_loss_total = stats.lost;
        self.counts.pkt_rcv_belated = stats.late;
        self.counts.pkt_rcv_duplicate = stats.duplicate;
        self.counts.pkt_rcv_refused = stats.refused;
        let whole = self.ts.as_ref().map(TsPlayout::stats).or_else(|| Some(self.passthrough.as_ref()?.stats()));
        if let Some(stats) = whole {
            let counts = &mut self.counts;
            counts.frames_decodable = stats.released;
            counts.i_frames_decodable = stats.entries;
            counts.frames_incomplete = stats.incomplete;
            counts.frames_late = stats.late;
            counts.frames_reference_missing = stats.reference_missing;
            counts.frames_missing = stats.missing;
            counts.pkt_rcv_duplicate = stats.duplicate;
            counts.pkt_rcv_refused += stats.refused;
        }
        self.counts.frames_missing += self.told.missing(None);
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
        for track in tracks.iter_mut().filter(|_| self.ts.is_some() || self.passthrough.is_some()) {
            track.frames_missing += self.told.missing(Some(track.name.number()));
        }
        tracks
    }

    /// Statistics of each stream of the source.
    fn tracks(&self) -> Vec<ReceivedTrack> {
        if let Some(ts) = &self.ts {
            return ts.streams().map(|(stream, counts)| ReceivedTrack::new(stream.into(), &counts)).collect();
        }
        if let Some(passthrough) = &self.passthrough {
            let name = |id: u16| match self.streams.get(usize::from(id)) {
                Some(Some(stream)) => TrackName::described(id, stream),
                _ => TrackName { id, ..TrackName::default() },
            };
            return passthrough.streams().map(|(id, counts)| ReceivedTrack::new(name(id), &counts)).collect();
        }
        let counts = &self.counts;
        let video = ReceivedTrack {
            name: TrackName::h264(0),
            frames_decodable: counts.frames_decodable,
            i_frames_decodable: counts.i_frames_decodable,
            frames_incomplete: counts.frames_incomplete,
            frames_late: counts.frames_late,
            frames_reference_missing: counts.frames_reference_missing,
            frames_missing: counts.frames_missing,
            byte_decodable: self.bytes,
        };
        let all = [
            counts.frames_decodable,
            counts.frames_incomplete,
            counts.frames_late,
            counts.frames_reference_missing,
            counts.frames_missing,
        ];
        // Counts of zero: no frame of a known kind has arrived.
        if all.iter().all(|count| *count == 0) { Vec::new() } else { vec![video] }
    }

    /// A line for each stream of the source, if there are several.
    pub(super) fn lines(&self) -> Vec<String> {
        tracks::lines(&self.tracks_with_told())
    }

    /// Whether frames wait for their playout time: the counts are not those of the whole stream yet.
    pub(super) fn holds_frames(&self) -> bool {
        self.playout.holds_frames()
            || self.ts.as_ref().is_some_and(TsPlayout::holds_packets)
            || self.passthrough.as_ref().is_some_and(PassthroughPlayout::holds_packets)
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
        let counts = &self.counts;
        format!(
            "{} frames: {} in time, {} late, {} missing, {} incomplete, {} without what they refer to{}",
            counts.fates(),
            counts.frames_decodable,
            counts.frames_late,
            counts.frames_missing,
            counts.frames_incomplete,
            counts.frames_reference_missing,
            if counts.frames_unreadable > 0 {
                format!(", {} unreadable", counts.frames_unreadable)
            } else {
                String::new()
            }
        )
    }

    /// Completes the sink and writes the last record; after an error, the remaining steps are still done.
    pub(super) fn finish(&mut self, stream: &Fields, meter: &mut Meter) -> Result<(), Failure> {
        self.playout.finish();
        if let Some(ts) = &mut self.ts {
            ts.finish();
        }
        if let Some(passthrough) = &mut self.passthrough {
            passthrough.finish();
        }
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

/// Whether a packet is RTP of a transport stream.
fn is_ts(packet: &[u8]) -> bool {
    matches!(packet, [version, payload_type, ..] if version >> 6 == 2 && payload_type & 0x7f == TS_PAYLOAD_TYPE)
}

fn line(record: &Fields) -> String {
    let number = |name: &str| record.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    format!(
        "{:6.1} s  {:7.0} kbit/s  {:7} packets  frames in time {} (I {})  incomplete {}  late {}  undecodable {}",
        number("msTimeStamp") / 1e3,
        number("mbpsRecvRate") * 1e3,
        number("pktRecvTotal"),
        number("framesDecodable"),
        number("iFramesDecodable"),
        number("framesIncomplete"),
        number("framesLate"),
        number("framesReferenceMissing"),
    )
}
