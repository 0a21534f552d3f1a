//! RTP of H.264, H.265, AAC and Opus as a transport stream, to record cameras' streams in files.

use rtp_types::RtpPacket;
use timeous_core::Instant;

use super::merge::{LIVE_SPAN, Merge, Read};
use super::mux::TsMuxer;
use super::read::HZ;
use super::sample::Sample;
use super::track::{AUD_H264, AUD_H265, NalFormat, Track, TrackFormat};
use crate::aac::AacFormat;
use crate::h264::annexb::{START_CODE, unit_starts};
use crate::h265::nal::{self, NalHeader};
use crate::passthrough::{PassthroughRelease, append_h264, append_h265};
use crate::rtp::session::MediaDescription;

/// Length of the header of one access unit in AAC's mode `AAC-hbr` (RFC 3640 §3.3.6), in bits.
const AU_HEADER: usize = 16;
/// Types of NAL units of H.264 (table 7-1).
const IDR: u8 = 5;
const SPS: u8 = 7;

/// Writes RTP of several streams as a transport stream.
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
}

/// Stream that becomes a track.
#[derive(Debug)]
struct Stream {
    track: usize,
    format: TrackFormat,
    clock_rate: u32,
    /// Parameter sets of the session description, as a byte stream.
    sets: Vec<u8>,
    clock: Option<StreamClock>,
}

/// Clock of a stream. The sum of the steps is converted as a whole: rounding each step would add up.
#[derive(Clone, Copy, Debug)]
struct StreamClock {
    /// Timestamp of the last frame.
    last: u32,
    /// Playout time of the first frame by the host's clock, in ticks of 90 kHz.
    begin: i128,
    /// Ticks of the stream's clock since the first frame.
    ticks: i128,
}

impl RtpToTs {
    /// Creates a writer of these streams.
    pub fn new(streams: &[MediaDescription]) -> Self {
        let (mut tracks, mut left_out) = (Vec::new(), Vec::new());
        let streams = streams.iter().map(|stream| {
            let Some(format) = format_of(stream) else {
                left_out.push(format!("{stream}: files hold H.264, H.265, AAC and Opus"));
                return None;
            };
            tracks.push(Track { format: format.clone(), language: None });
            let sets = stream.parameter_sets().iter().flat_map(|set| [&START_CODE[..], set].concat()).collect();
            Some(Stream { track: tracks.len() - 1, format, clock_rate: stream.clock_rate.max(1), sets, clock: None })
        });
        let streams = streams.collect();
        Self { streams, merge: Merge::new(&tracks, LIVE_SPAN), muxer: TsMuxer::new(tracks), left_out, restarts: 0 }
    }

    /// Whether there is anything to write.
    pub fn has_tracks(&self) -> bool {
        !self.muxer.tracks().is_empty()
    }

    /// Streams that are not written, each with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Takes the RTP packets of a frame; returns whole packets of the transport stream. Frames come out up to a second later, in order of
    /// their decoding times.
    pub fn push(&mut self, release: &PassthroughRelease) -> Vec<u8> {
        if std::mem::replace(&mut self.restarts, release.restarts) != release.restarts {
            // The source began anew, and its timestamps, too.
            self.streams.iter_mut().flatten().for_each(|stream| stream.clock = None);
        }
        if let Some(Some(stream)) = self.streams.get_mut(usize::from(release.stream))
            && let Some(sample) = stream.sample(release.playout_at, &release.packets)
        {
            self.merge.push(Read::Presented(sample));
        }
        self.take()
    }

    /// Ends all streams; returns the last packets.
    pub fn finish(&mut self) -> Vec<u8> {
        self.merge.finish();
        self.take()
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
    fn sample(&mut self, at: Instant, packets: &[Vec<u8>]) -> Option<Sample> {
        let packets: Vec<_> = packets.iter().filter_map(|packet| RtpPacket::parse(packet).ok()).collect();
        let timestamp = packets.first()?.timestamp();
        let payloads = packets.iter().map(RtpPacket::payload);
        let mut annexb = Vec::new();
        let (is_entry, data) = match &self.format {
            TrackFormat::H264(_) => {
                payloads.for_each(|payload| append_h264(&mut annexb, payload));
                let has = |kind: u8| unit_starts(&annexb).any(|at| annexb[at] & 0x1f == kind);
                (has(IDR), self.access_unit(&AUD_H264, has(IDR) && !has(SPS), &annexb))
            }
            TrackFormat::H265(_) => {
                payloads.for_each(|payload| append_h265(&mut annexb, payload));
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
        };
        let presented = self.time(at, timestamp);
        (!data.is_empty()).then_some(Sample { track: self.track, decode: presented, presented, is_entry, data })
    }

    /// Picture as it stands in a transport stream: with a delimiter, and with parameter sets that it lacks.
    fn access_unit(&self, delimiter: &[u8], lacks_sets: bool, annexb: &[u8]) -> Vec<u8> {
        let sets: &[u8] = if lacks_sets { &self.sets } else { &[] };
        [&START_CODE[..], delimiter, sets, annexb].concat()
    }

    /// Time of a timestamp: that of the playout for the first one, then by the clock of the stream.
    fn time(&mut self, at: Instant, timestamp: u32) -> i64 {
        let begin = i128::from(at.as_nanos()) * HZ / 1_000_000_000;
        let clock = self.clock.get_or_insert(StreamClock { last: timestamp, begin, ticks: 0 });
        clock.ticks += i128::from(timestamp.wrapping_sub(clock.last).cast_signed());
        clock.last = timestamp;
        i64::try_from(clock.begin + clock.ticks * HZ / i128::from(self.clock_rate)).unwrap_or(i64::MAX / 4)
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
        assert_eq!([aac("sizelength=6;indexlength=2;config=1210"), aac("config=1210"), aac("")], [None, None, None]);
    }

    #[test]
    fn times_of_aac_at_44_1_khz_do_not_drift() {
        let text = "m=audio 0 RTP/AVP 97\na=rtpmap:97 MPEG4-GENERIC/44100/2\n\
            a=fmtp:97 mode=AAC-hbr;sizelength=13;indexlength=3;config=1210";
        let mut recorder = RtpToTs::new(&[MediaDescription::parse(text).unwrap()]);
        let stream = recorder.streams[0].as_mut().unwrap();
        let begin = Instant::ZERO + timeous_core::Duration::from_secs(1);
        // Timestamps wrap on the way.
        let first = u32::MAX - 500_000;
        for frame in 0..1_000u32 {
            let time = stream.time(begin, first.wrapping_add(1_024 * frame));
            assert_eq!(time, 90_000 + i64::from(frame) * 1_024 * 90_000 / 44_100);
        }
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
}
