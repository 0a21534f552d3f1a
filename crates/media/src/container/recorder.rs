//! RTP of H.264, H.265, AAC and Opus as a transport stream, to record cameras' streams in files.

use rtp_types::RtpPacket;
use timeous_core::Duration;

use super::merge::{LIVE_SPAN, Merge, Read};
use super::mux::TsMuxer;
use super::sample::Sample;
use super::timeline::Timeline;
use super::track::{AUD_H264, AUD_H265, NalFormat, Track, TrackFormat};
use crate::aac::AacFormat;
use crate::h264::annexb::{START_CODE, unit_starts};
use crate::h265::nal::{self, NalHeader};
use crate::passthrough::{PassthroughRelease, StreamClock, append_h264, append_h265};
use crate::rtp::session::{MediaDescription, MediaKind};

/// Longest wait of the first frames for the clocks of all streams. Chosen by us: twice the interval at which a sender tells them; a
/// higher value delays what is written of a source with a stream that is silent.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// The same for a file. The first report comes after at most 3.1 s (RFC 3550 §6.2, §6.3.1: half of 5 s, by 1.5 / 1.22), as GStreamer's
/// does; what a killed receiver loses of the beginning is as long.
const FILE_WAIT: Duration = Duration::from_secs(4);
/// Length of the header of one access unit in AAC's mode `AAC-hbr` (RFC 3640 §3.3.6), in bits.
const AU_HEADER: usize = 16;
/// Types of NAL units of H.264 (table 7-1).
const IDR: u8 = 5;
const SPS: u8 = 7;
const AUD: u8 = 9;

/// Writes RTP of several streams as a transport stream.
///
/// Streams are in step by the clocks of the source, as far as they are told ([`set_clock`](Self::set_clock)), and by their arrival
/// before. The first frames wait for these clocks, up to a second, or longer [for a file](Self::for_file).
///
/// ```
/// use timeous_media::{MediaDescription, container::RtpToTs};
/// let stream = MediaDescription::parse("m=video 0 RTP/AVP 96\na=rtpmap:96 H265/90000").unwrap();
/// let recorder = RtpToTs::new(&[stream]);
/// assert!(recorder.has_tracks() && recorder.left_out().is_empty());
/// ```
#[derive(Debug)]
pub struct RtpToTs {
    streams: Vec<Option<Stream>>,
    merge: Merge,
    muxer: TsMuxer,
    left_out: Vec<String>,
    restarts: u32,
    timeline: Timeline,
    /// First frames, which wait for the clocks of all streams.
    waiting: Option<Vec<PassthroughRelease>>,
    most_wait: Duration,
}

/// Stream that becomes a track.
#[derive(Debug)]
struct Stream {
    track: usize,
    format: TrackFormat,
    /// Parameter sets of the session description, as a byte stream.
    sets: Vec<u8>,
}

impl RtpToTs {
    /// Creates a writer of these streams.
    pub fn new(streams: &[MediaDescription]) -> Self {
        let (mut tracks, mut left_out) = (Vec::new(), Vec::new());
        let timeline = Timeline::new(streams.iter().map(|of| (of.clock_rate, of.kind == MediaKind::Audio)));
        let streams = streams.iter().map(|stream| {
            let Some(format) = format_of(stream) else {
                left_out.push(format!("{stream}: files hold H.264, H.265, AAC and Opus"));
                return None;
            };
            tracks.push(Track { format: format.clone(), language: None });
            let sets = stream.parameter_sets().iter().flat_map(|set| [&START_CODE[..], set].concat()).collect();
            Some(Stream { track: tracks.len() - 1, format, sets })
        });
        Self {
            streams: streams.collect(),
            merge: Merge::new(&tracks, LIVE_SPAN),
            muxer: TsMuxer::new(tracks),
            left_out,
            restarts: 0,
            timeline,
            waiting: Some(Vec::new()),
            most_wait: MOST_WAIT,
        }
    }

    /// Lets the first frames wait for four seconds: a file is not watched live, and the first reports of many sources come so late.
    #[must_use]
    pub fn for_file(self) -> Self {
        Self { most_wait: FILE_WAIT, ..self }
    }

    /// Whether there is anything to write.
    pub fn has_tracks(&self) -> bool {
        !self.muxer.tracks().is_empty()
    }

    /// Whether there is video to write.
    pub fn has_video(&self) -> bool {
        self.muxer.tracks().iter().any(|track| track.format.is_video())
    }

    /// Streams that are not written, each with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Takes the clock of a stream, as the source's sender tells it: one after another, from the first stream on.
    pub fn set_clock(&mut self, stream: u8, clock: StreamClock) {
        self.timeline.set_clock(stream.into(), clock);
    }

    /// Takes the RTP packets of a frame; returns whole packets of the transport stream. Frames come out up to a second later, in order of
    /// their decoding times; the first ones after the wait for clocks, too.
    pub fn push(&mut self, release: &PassthroughRelease) -> Vec<u8> {
        if std::mem::replace(&mut self.restarts, release.restarts) != release.restarts {
            // The source began anew, and its timestamps, too.
            self.end_wait();
            self.timeline.begin_anew();
            self.waiting = Some(Vec::new());
        }
        let Some(waiting) = &mut self.waiting else {
            self.write(release);
            return self.take();
        };
        waiting.push(release.clone());
        let has_waited = release.playout_at.saturating_since(waiting[0].playout_at) > self.most_wait;
        if has_waited || self.are_clocks_known() {
            self.end_wait();
        }
        self.take()
    }

    /// Ends all streams; returns the last packets.
    pub fn finish(&mut self) -> Vec<u8> {
        self.end_wait();
        self.merge.finish();
        self.take()
    }

    /// Whether the streams that are written can be brought into step; a single one is.
    fn are_clocks_known(&self) -> bool {
        let written = self.streams.iter().enumerate().filter(|(_, stream)| stream.is_some()).map(|(number, _)| number);
        self.muxer.tracks().len() < 2 || self.timeline.are_known(written)
    }

    fn end_wait(&mut self) {
        self.waiting.take().into_iter().flatten().for_each(|release| self.write(&release));
    }

    fn write(&mut self, release: &PassthroughRelease) {
        let number = usize::from(release.stream);
        let Some(Some(stream)) = self.streams.get(number) else { return };
        let packets = release.packets.iter().filter_map(|packet| RtpPacket::parse(packet).ok());
        let packets: Vec<RtpPacket<'_>> = packets.collect();
        let Some(timestamp) = packets.first().map(RtpPacket::timestamp) else { return };
        let Some((is_entry, data)) = stream.unit(&packets) else { return };
        let Some(presented) = self.timeline.time(number, release.playout_at, timestamp) else { return };
        if !data.is_empty() {
            let track = stream.track;
            self.merge.push(Read::Presented(Sample { track, decode: presented, presented, is_entry, data }));
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(sample) = self.merge.next_sample() {
            out.extend(self.muxer.push(&sample));
        }
        out
    }
}

impl Stream {
    /// Access unit, or audio, of a frame's packets, and whether a decoder can start with it.
    fn unit(&self, packets: &[RtpPacket<'_>]) -> Option<(bool, Vec<u8>)> {
        let payloads = packets.iter().map(RtpPacket::payload);
        let mut annexb = Vec::new();
        Some(match &self.format {
            TrackFormat::H264(_) => {
                payloads.for_each(|payload| append_h264(&mut annexb, payload));
                strip_delimiter(&mut annexb, |nal| nal[0] & 0x1f == AUD);
                let has = |kind: u8| unit_starts(&annexb).any(|at| annexb[at] & 0x1f == kind);
                (has(IDR), self.access_unit(&AUD_H264, has(IDR) && !has(SPS), &annexb))
            }
            TrackFormat::H265(_) => {
                payloads.for_each(|payload| append_h265(&mut annexb, payload));
                strip_delimiter(&mut annexb, |nal| nal[0] >> 1 & 0x3f == nal::AUD);
                let headers = || unit_starts(&annexb).filter_map(|at| NalHeader::read(&annexb[at..]));
                let is_entry = headers().any(NalHeader::is_irap);
                let has_sets = headers().any(|header| header.kind == nal::SPS);
                (is_entry, self.access_unit(&AUD_H265, is_entry && !has_sets, &annexb))
            }
            TrackFormat::Aac(format) => {
                (true, payloads.filter_map(|payload| adts(*format, payload)).flatten().collect())
            }
            // One packet has one packet of Opus.
            _ => (true, self.format.elementary(payloads.flatten().copied().collect(), true)?),
        })
    }

    /// Picture as it stands in a transport stream: with a delimiter, and with parameter sets that it lacks.
    fn access_unit(&self, delimiter: &[u8], lacks_sets: bool, annexb: &[u8]) -> Vec<u8> {
        let sets: &[u8] = if lacks_sets { &self.sets } else { &[] };
        [&START_CODE[..], delimiter, sets, annexb].concat()
    }
}

/// Drops the delimiter that a picture begins with: it gets one of ours, before the parameter sets that it may lack.
fn strip_delimiter(annexb: &mut Vec<u8>, is_delimiter: impl Fn(&[u8]) -> bool) {
    let starts: Vec<usize> = unit_starts(annexb).take(2).collect();
    if starts.first().is_some_and(|at| is_delimiter(&annexb[*at..])) {
        annexb.drain(..starts.get(1).map_or(annexb.len(), |at| at - START_CODE.len()));
    }
}

/// Format of a stream; `None`: it is not written.
fn format_of(stream: &MediaDescription) -> Option<TrackFormat> {
    match stream.codec.to_ascii_uppercase().as_str() {
        "H264" => Some(TrackFormat::H264(NalFormat::default())),
        "H265" => Some(TrackFormat::H265(NalFormat::default())),
        "OPUS" => Some(TrackFormat::Opus { channels: 2 }),
        "MPEG4-GENERIC" => {
            let is_usual = stream.parameter("sizelength") == Some("13") && stream.parameter("indexlength") == Some("3");
            let config = stream.parameter("config").filter(|_| is_usual)?;
            let bytes = config.as_bytes().chunks(2).map_while(|pair| std::str::from_utf8(pair).ok());
            let bytes: Vec<u8> = bytes.map_while(|pair| u8::from_str_radix(pair, 16).ok()).collect();
            AacFormat::read_config(&bytes).map(TrackFormat::Aac)
        }
        _ => None,
    }
}

/// Frames of a packet of AAC, each with a header of ADTS.
fn adts(format: AacFormat, payload: &[u8]) -> Option<Vec<u8>> {
    let (bits, rest) = payload.split_first_chunk::<2>()?;
    let count = usize::from(u16::from_be_bytes(*bits)) / AU_HEADER;
    let (headers, mut data) = rest.split_at_checked(count * AU_HEADER / 8)?;
    let mut out = Vec::new();
    for header in headers.chunks_exact(AU_HEADER / 8) {
        let (frame, after) = data.split_at_checked(usize::from(u16::from_be_bytes([header[0], header[1]]) >> 3))?;
        data = after;
        out.extend(format.header(frame.len())?);
        out.extend_from_slice(frame);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ts::demux::{Demuxer, Elementary};

    #[test]
    fn parameter_sets_and_formats_of_a_description_are_read() {
        // Without the padding of base64, too.
        let stream = "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z0I=,aM4";
        let recorder = RtpToTs::new(&[MediaDescription::parse(stream).unwrap()]);
        let sets = &recorder.streams[0].as_ref().unwrap().sets;
        assert_eq!(*sets, [0, 0, 0, 1, 0x67, 0x42, 0, 0, 0, 1, 0x68, 0xce]);
        let aac = |more: &str| {
            let text =
                format!("m=audio 0 RTP/AVP 97\na=rtpmap:97 MPEG4-GENERIC/44100/2\na=fmtp:97 mode=AAC-hbr;{more}");
            format_of(&MediaDescription::parse(&text).unwrap())
        };
        let format = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        assert_eq!(aac("SizeLength=13;indexlength=3;config=1210"), Some(TrackFormat::Aac(format)));
        assert!(recorder.has_video() && !RtpToTs::new(&[]).has_video());
        assert_eq!([aac("sizelength=6;indexlength=2;config=1210"), aac("config=1210"), aac("")], [None, None, None]);
    }

    #[test]
    fn frames_of_a_packet_of_aac_get_headers() {
        let format = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        // Two headers of 16 bits: three bytes, and two.
        let frames = adts(format, &[0, 32, 0, 24, 0, 16, 1, 2, 3, 4, 5]).unwrap();
        let (_, first, rest) = AacFormat::read_frame(&frames).unwrap();
        assert_eq!((first, AacFormat::read_frame(rest).unwrap().1), (&[1, 2, 3][..], &[4, 5][..]));
        assert_eq!([adts(format, &[]), adts(format, &[0, 16, 0, 24, 1])], [None, None], "cut off");
    }

    const VIDEO: u8 = 0;
    const AUDIO: u8 = 1;

    /// Frames of two seconds, 25 pictures and 50 frames of sound a second, which comes 400 ms later: (stream, number, frame).
    fn source() -> Vec<(u8, u32, PassthroughRelease)> {
        let frame = |stream, number: u32| {
            let (at, timestamp) = match stream {
                VIDEO => (40 * number, 7_000 + 3_600 * number),
                _ => (400 + 20 * number, 9_000 + 960 * number),
            };
            let at = timeous_core::Instant::ZERO + Duration::from_millis(u64::from(100 + at));
            let payload = match stream {
                VIDEO => vec![if number == 0 { 0x65 } else { 0x41 }, number as u8],
                _ => vec![0, 16, 0, 8, number as u8],
            };
            (stream, number, PassthroughRelease::of_packet(stream, timestamp, at, &payload))
        };
        let mut all: Vec<_> = (0..50).map(|n| frame(VIDEO, n)).chain((0..100).map(|n| frame(AUDIO, n))).collect();
        all.sort_by_key(|(.., release)| release.playout_at);
        all
    }

    fn recorder() -> RtpToTs {
        let lines = [
            "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000",
            "m=audio 0 RTP/AVP 97\na=rtpmap:97 MPEG4-GENERIC/48000/2\n\
                a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;config=1190",
        ];
        RtpToTs::new(&lines.map(|lines| MediaDescription::parse(lines).unwrap()))
    }

    /// Clocks of its streams, by which their first frames are of one time.
    fn tell(recorder: &mut RtpToTs) {
        for (stream, timestamp) in [(VIDEO, 7_000), (AUDIO, 9_000)] {
            recorder.set_clock(stream, StreamClock { ntp: 1 << 40, timestamp });
        }
    }

    /// Times of the last byte of each picture, and of each frame of sound, after the time of the source, in ticks of 90 kHz.
    fn times(stream: &[u8]) -> [Vec<i64>; 2] {
        let mut times = [Vec::new(), Vec::new()];
        for pes in Demuxer::default().push(stream) {
            let (number, time) = (i64::from(*pes.data.last().unwrap()), pes.times.unwrap().presented as i64);
            match pes.of {
                Elementary::Audio => times[1].push(time - 1_800 * number),
                _ => times[0].push(time - 3_600 * number),
            }
        }
        times
    }

    #[test]
    fn first_frames_wait_for_the_clocks_of_all_streams_and_are_in_step() {
        let mut recorder = recorder();
        let mut out = Vec::new();
        for (stream, number, release) in source() {
            if (stream, number) == (AUDIO, 10) {
                assert!(out.is_empty());
                tell(&mut recorder);
            }
            out.extend(recorder.push(&release));
        }
        out.extend(recorder.finish());
        let [pictures, sound] = times(&out);
        assert_eq!((pictures.len(), sound.len()), (50, 100));
        assert!(pictures.iter().chain(&sound).all(|time| *time == pictures[0]), "{pictures:?} {sound:?}");
    }

    #[test]
    fn without_clocks_first_frames_wait_for_a_second_and_go_by_their_arrival() {
        let mut recorder = recorder();
        let mut out = Vec::new();
        for (_, _, release) in source() {
            out.extend(recorder.push(&release));
            assert!(recorder.waiting.is_some() == (release.playout_at.as_nanos() <= 1_100_000_000));
        }
        out.extend(recorder.finish());
        let [pictures, sound] = times(&out);
        assert_eq!((pictures.len(), sound.len()), (50, 100));
        assert!(sound.iter().all(|time| time - pictures[0] == 36_000));
    }

    /// Cameras send delimiters of their own, which stood in the file behind ours.
    #[test]
    fn a_picture_has_one_delimiter_also_where_the_source_sends_one() {
        let units = |lines: &str, packets: &[&[u8]]| {
            let description = MediaDescription::parse(lines).unwrap();
            let mut recorder = RtpToTs::new(std::slice::from_ref(&description));
            let at = timeous_core::Instant::ZERO;
            let mut release = PassthroughRelease::of_packet(0, 7_000, at, packets[0]);
            for packet in &packets[1..] {
                release.packets.extend(PassthroughRelease::of_packet(0, 7_000, at, packet).packets);
            }
            let stream = [recorder.push(&release), recorder.finish()].concat();
            let picture = Demuxer::default().push(&stream).pop().unwrap().data;
            unit_starts(&picture).map(|at| picture[at]).collect::<Vec<_>>()
        };
        let h264 = "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 sprop-parameter-sets=Z0I=,aM4=";
        let (aud, idr, slice): (&[u8], &[u8], &[u8]) = (&[9, 0x10], &[0x65, 7], &[0x41, 7]);
        assert_eq!(units(h264, &[aud, idr]), [9, 0x67, 0x68, 0x65]);
        assert_eq!(units(h264, &[idr]), [9, 0x67, 0x68, 0x65]);
        assert_eq!(units(h264, &[aud, slice]), [9, 0x41]);
        assert_eq!(units(h264, &[&[24, 0, 2, 9, 0x10, 0, 2, 0x41, 7]]), [9, 0x41], "STAP-A");
        let h265 = "m=video 0 RTP/AVP 96\na=rtpmap:96 H265/90000";
        let (aud, slice): (&[u8], &[u8]) = (&[35 << 1, 1, 0x10], &[2, 1, 7]);
        assert_eq!([units(h265, &[aud, slice]), units(h265, &[slice])], [[35 << 1, 2], [35 << 1, 2]]);
    }

    /// GStreamer's first reports come after up to three seconds: until then its sound and pictures were out of step.
    #[test]
    fn frames_of_a_file_wait_for_clocks_that_are_told_late() {
        let mut recorder = recorder().for_file();
        let source = source();
        for (.., release) in &source[..source.len() - 1] {
            assert!(recorder.push(release).is_empty());
        }
        tell(&mut recorder);
        let out = [recorder.push(&source[source.len() - 1].2), recorder.finish()].concat();
        let [pictures, sound] = times(&out);
        assert_eq!((pictures.len(), sound.len()), (50, 100));
        assert!(pictures.iter().chain(&sound).all(|time| *time == pictures[0]), "{pictures:?} {sound:?}");
    }

    #[test]
    fn a_short_stream_without_clocks_is_written_at_its_end() {
        let mut recorder = recorder();
        let first = &source()[0].2;
        assert!(recorder.push(first).is_empty());
        assert_eq!(times(&recorder.finish())[0].len(), 1);
    }
}
