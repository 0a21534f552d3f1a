//! Writer thread of a sink: writes frames as raw H.264, MP4, RTP or MPEG-TS.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::container::RtpToTs;
use timeous_media::mp4::{Mp4Writer, TsMp4Writer};
use timeous_media::passthrough::PassthroughRelease;
use timeous_media::ts::{ConstantRate, ContinuousTimes, TsRelease};
use timeous_media::{MediaDescription, MediaKind};

use super::args::SinkArgs;
use super::error::WriteError;
use super::file::{SinkFile, Target};
use super::messages::SinkMessages;
use super::passthrough::free_ports;
use super::queue::{Queue, SinkItem};
use super::rtp::RtpWriter;
use crate::failure::Failure;
use crate::notice::tell;
use crate::place::Place;
use crate::track::TrackName;

/// First port of players on this host, by convention (RFC 3551 §8).
const FIRST_PORT: u16 = 5004;

/// Lag behind a constant bitrate that is reported. Chosen by us: more than a keyframe may take.
const MAX_LAG: Duration = Duration::from_secs(1);

/// Writer of a sink.
pub(super) struct Writer {
    format: Format,
    /// Times of a transport stream in a file.
    times: Option<ContinuousTimes>,
    /// Constant bitrate of a transport stream.
    constant: Option<ConstantRate>,
    /// Whether it was told that the stream has more.
    is_lag_told: bool,
    /// Whether the sink can hold a transport stream, or MP4, of RTP.
    is_recording: bool,
    /// Streams of RTP as a transport stream, and their descriptions.
    recorder: Option<(RtpToTs, Vec<MediaDescription>)>,
}

/// Writers of MP4 by the format of the stream, of which one is used.
#[derive(Default)]
struct Mp4Writers {
    frames: Mp4Writer,
    program: TsMp4Writer,
}

/// Sink by output format.
enum Format {
    /// An Annex B byte stream, or MPEG-TS.
    Bytes(SinkFile),
    /// A fragmented MP4 file, of raw H.264 or of a transport stream.
    Mp4(Box<Mp4Writers>, SinkFile),
    /// RTP packets.
    Rtp(Box<RtpWriter>),
}

impl Writer {
    /// Prepares a sink without creating or changing anything.
    pub(super) fn new(place: &Place, args: &SinkArgs) -> Result<Self, Failure> {
        if args.sdp.is_some() && !matches!(place, Place::Udp(_)) {
            return Err(Failure::Usage("--sdp describes RTP: it needs a SINK udp://host:port".to_owned()));
        }
        let is_stream = match place {
            Place::File(path) => !has_suffix(path, &[MP4]),
            Place::Sdp(_) => false,
            Place::Standard | Place::Udp(_) => true,
        };
        if args.bitrate.is_some() && !is_stream {
            return Err(Failure::Usage(
                "--bitrate is that of MPEG-TS: name a file .ts, '-' or udp://host:port".to_owned(),
            ));
        }
        let is_recording = match place {
            Place::Standard => true,
            Place::File(path) => has_suffix(path, &TRANSPORT_STREAMS) || has_suffix(path, &[MP4]),
            Place::Sdp(_) | Place::Udp(_) => false,
        };
        let format = match place {
            Place::Standard => Format::Bytes(SinkFile::standard_output()?),
            Place::File(path) => {
                let file = SinkFile::new(Target::new(path, args.overwrite)?);
                if has_suffix(path, &[MP4]) { Format::Mp4(Box::default(), file) } else { Format::Bytes(file) }
            }
            Place::Sdp(path) => {
                let to = free_ports(SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST_PORT)));
                Format::Rtp(Box::new(RtpWriter::new(to, Some(path), args.overwrite)?))
            }
            Place::Udp(to) => Format::Rtp(Box::new(RtpWriter::new(*to, args.sdp.as_deref(), args.overwrite)?)),
        };
        Ok(Self {
            format,
            times: matches!(place, Place::File(_)).then(ContinuousTimes::default),
            constant: args.bitrate.map(ConstantRate::new),
            is_lag_told: false,
            is_recording,
            recorder: None,
        })
    }

    /// Name of the sink.
    pub(super) fn name(&self) -> String {
        match &self.format {
            Format::Bytes(file) | Format::Mp4(_, file) => file.name(),
            Format::Rtp(rtp) => rtp.name(),
        }
    }

    /// Writes a frame; returns the bytes added.
    fn write(&mut self, item: &SinkItem) -> Result<usize, WriteError> {
        self.watch_lag();
        match (&self.format, item) {
            (Format::Bytes(_) | Format::Mp4(..), SinkItem::Streams(streams)) => self.describe(streams),
            (Format::Bytes(_) | Format::Mp4(..), SinkItem::Passthrough(release)) => self.record(release),
            (Format::Bytes(_) | Format::Mp4(..), SinkItem::Clock(stream, clock)) => {
                if let Some((recorder, _)) = &mut self.recorder {
                    recorder.set_clock(*stream, *clock);
                }
                Ok(0)
            }
            (_, SinkItem::Packets(release)) => {
                let continuous = self.times.as_mut().map(|times| SinkItem::Packets(times.push(release.clone())));
                self.write_in_format(continuous.as_ref().unwrap_or(item))
            }
            _ => self.write_in_format(item),
        }
    }

    /// Prepares to record streams of RTP, if a file can hold them.
    fn describe(&mut self, streams: &[MediaDescription]) -> Result<usize, WriteError> {
        if !self.is_recording || self.recorder.as_ref().is_some_and(|(_, known)| known == streams) {
            return Ok(0);
        }
        let written = self.finish_recorder()?;
        let recorder = RtpToTs::new(streams);
        // A pipe is read live, and a constant bitrate has no room for what waited.
        let is_file = self.times.is_some() && self.constant.is_none();
        let recorder = if is_file { recorder.for_file() } else { recorder };
        recorder
            .left_out()
            .iter()
            .for_each(|left_out| tell(format_args!("{}: left out: {left_out}: {PLAYERS}", self.name())));
        if !recorder.has_tracks() {
            return Err(self.no_file().into());
        }
        if matches!(self.format, Format::Mp4(..)) && !recorder.has_video() {
            return Err(self.no_mp4(streams).into());
        }
        self.recorder = Some((recorder, streams.to_vec()));
        Ok(written)
    }

    /// Records a frame of RTP.
    fn record(&mut self, release: &PassthroughRelease) -> Result<usize, WriteError> {
        let Some((recorder, _)) = &mut self.recorder else {
            return Err(if self.is_recording {
                WriteError::Frame("its stream is not described yet".to_owned())
            } else {
                self.no_file().into()
            });
        };
        let packets = recorder.push(release);
        self.write_recorded(packets, release.playout_at)
    }

    fn write_recorded(&mut self, packets: Vec<u8>, playout_at: Instant) -> Result<usize, WriteError> {
        if packets.is_empty() {
            Ok(0)
        } else {
            self.write_in_format(&SinkItem::Packets(TsRelease { packets, playout_at, restarts: 0, is_inserted: false }))
        }
    }

    fn finish_recorder(&mut self) -> Result<usize, WriteError> {
        let packets = self.recorder.take().map(|(mut recorder, _)| recorder.finish()).unwrap_or_default();
        self.write_recorded(packets, clock::now())
    }

    fn no_file(&self) -> Failure {
        Failure::Peer(format!(
            "{}: the sender's stream is RTP that passes as it is: name udp://host:port, or a file that ends with .sdp; '-', and a \
             file that ends with .ts or .mp4, hold H.264, H.265 and AAC",
            self.name()
        ))
    }

    /// Refuses RTP without video that MP4 holds.
    fn no_mp4(&self, streams: &[MediaDescription]) -> Failure {
        let has_video = streams.iter().any(|stream| stream.kind == MediaKind::Video);
        let advice = if has_video { PLAYERS } else { "name a file that ends with .ts" };
        let names: Vec<String> = streams.iter().map(MediaDescription::to_string).collect();
        let names = names.join(", ");
        Failure::Peer(format!(
            "{}: the sender's stream is RTP of {names}, and MP4 needs H.264 or H.265: {advice}",
            self.name()
        ))
    }

    /// Tells once that the stream has more than the constant bitrate.
    fn watch_lag(&mut self) {
        if self.constant.as_ref().is_some_and(|constant| constant.lag() > MAX_LAG) && !self.is_lag_told {
            self.is_lag_told = true;
            tell(format_args!(
                "{}: the stream has more than --bitrate, so that a decoder at that rate is late",
                self.name()
            ));
        }
    }

    fn write_in_format(&mut self, item: &SinkItem) -> Result<usize, WriteError> {
        let constant = self.constant.as_mut();
        match (&mut self.format, item) {
            (Format::Bytes(file), SinkItem::Frame(frame)) => {
                if has_suffix(&file.name(), &TRANSPORT_STREAMS) {
                    return Err(misnamed(&file.name(), "H.264", ".h264 or .mp4").into());
                }
                Ok(file.append(&frame.annexb)?)
            }
            (Format::Bytes(file), SinkItem::Packets(release)) => {
                if has_suffix(&file.name(), &RAW_VIDEO) {
                    return Err(misnamed(&file.name(), "MPEG-TS", ".ts").into());
                }
                Ok(file.append(&filled(release, constant))?)
            }
            (Format::Mp4(mp4, file), SinkItem::Frame(frame)) => {
                mp4.frames.push(frame).map_err(|error| WriteError::Frame(error.to_string()))?;
                Ok(file.append(&mp4.frames.take())?)
            }
            (Format::Mp4(mp4, file), SinkItem::Packets(release)) => {
                let pushed = mp4.program.push(&release.packets);
                if mp4.program.has_video() == Some(false) {
                    mp4.program = TsMp4Writer::default();
                    return Err(misnamed(&file.name(), "MPEG-TS without H.264 or H.265", ".ts").into());
                }
                for stream in mp4.program.take_left_out() {
                    let (name, stream) = (file.name(), TrackName::from(stream));
                    tell(format_args!(
                        "{name}: left out: {stream}: MP4 is written with the first H.264 or H.265 and the first AAC: \
                         name a file that ends with .ts"
                    ));
                }
                let added = file.append(&mp4.program.take())?;
                pushed.map_err(|error| WriteError::Frame(error.to_string()))?;
                if added == 0 && mp4.program.leaves_out(&release.packets) {
                    return Err(WriteError::LeftOut);
                }
                Ok(added)
            }
            (Format::Rtp(rtp), SinkItem::Frame(frame)) => rtp.write(frame),
            (Format::Rtp(rtp), SinkItem::Packets(release)) => rtp.write_packets(&filled(release, constant)),
            (Format::Rtp(rtp), SinkItem::Passthrough(release)) => rtp.write_passthrough(release),
            (Format::Rtp(rtp), SinkItem::Streams(streams)) => {
                rtp.describe(streams);
                Ok(0)
            }
            (Format::Rtp(rtp), SinkItem::Clock(stream, clock)) => {
                rtp.set_clock(*stream, *clock);
                Ok(0)
            }
            // Recorded as packets of a transport stream.
            (_, SinkItem::Streams(_) | SinkItem::Clock(..) | SinkItem::Passthrough(_)) => Ok(0),
        }
    }

    /// Completes the output; returns the bytes added.
    fn finish(&mut self) -> Result<usize, Failure> {
        let recorded = match self.finish_recorder() {
            Ok(bytes) => bytes,
            Err(WriteError::LeftOut) => 0,
            Err(WriteError::Gone(failure) | WriteError::Stream(failure)) => return Err(failure),
            Err(WriteError::Frame(why)) => {
                tell(format_args!("{}: a frame was left out: {why}", self.name()));
                0
            }
        };
        self.finish_format().map(|bytes| recorded + bytes)
    }

    fn finish_format(&mut self) -> Result<usize, Failure> {
        match &mut self.format {
            Format::Mp4(mp4, file) => {
                mp4.frames.finish();
                mp4.program.finish();
                let added = file.append(&[mp4.frames.take(), mp4.program.take()].concat())?;
                // An empty MP4 file is invalid, an empty byte stream is not.
                if file.is_missing() {
                    return Err(Failure::Peer(format!("{}{NOTHING}", file.name())));
                }
                Ok(added)
            }
            Format::Bytes(file) => {
                if file.is_missing() {
                    tell(format_args!("{}{NOTHING}", file.name()));
                }
                Ok(0)
            }
            Format::Rtp(_) => Ok(0),
        }
    }
}

/// Packets of a release, filled up to the constant bitrate if there is one.
fn filled<'a>(release: &'a TsRelease, constant: Option<&mut ConstantRate>) -> Cow<'a, [u8]> {
    match constant {
        Some(constant) => Cow::Owned(constant.push(&release.packets, release.playout_at)),
        None => Cow::Borrowed(&release.packets),
    }
}

/// Advice for RTP that no file holds.
const PLAYERS: &str = "name a file that ends with .sdp, for a player that takes RTP of it";

/// Suffixes of files of MPEG-TS, of MP4, and of raw video.
const TRANSPORT_STREAMS: [&str; 4] = [".ts", ".m2t", ".mts", ".m2ts"];
const MP4: &str = ".mp4";
const RAW_VIDEO: [&str; 4] = [".h264", ".264", ".avc", ".h265"];

fn has_suffix(name: &str, suffixes: &[&str]) -> bool {
    suffixes.iter().any(|suffix| name.to_ascii_lowercase().ends_with(suffix))
}

/// Refuses a stream that a file's name does not promise.
fn misnamed(name: &str, what: &str, suffix: &str) -> Failure {
    Failure::Peer(format!("{name}: the sender's stream is {what}: name a file that ends with {suffix}"))
}

const NOTHING: &str = ": no frame came that could be written, so that there is nothing to keep";

/// Writes frames from the queue until its end, or until the sink is gone. A stream that the sink does not take is refused.
pub(super) fn run(mut writer: Writer, queue: &Queue, name: &str) {
    let mut messages = SinkMessages::default();
    while let Some(frame) = queue.pop() {
        match writer.write(&frame) {
            Ok(bytes) if frame.is_frame() => queue.count(true, bytes),
            Ok(bytes) => queue.count_bytes(bytes),
            Err(WriteError::LeftOut) => queue.count(false, 0),
            Err(WriteError::Frame(why)) => {
                queue.count(false, 0);
                messages.trouble(&format!("{name}: a frame was left out: {why}"));
            }
            Err(WriteError::Stream(failure)) => {
                queue.count(false, 0);
                queue.refuse(failure);
            }
            Err(WriteError::Gone(failure)) => {
                queue.count(false, 0);
                return queue.end(Err(failure));
            }
        }
    }
    let finished = writer.finish();
    queue.end(finished.map(|bytes| queue.count_bytes(bytes)));
}
