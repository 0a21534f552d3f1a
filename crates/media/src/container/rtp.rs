//! RTP packets of samples whose codecs a transport stream cannot hold: VP8 (RFC 7741), VP9 (RFC 9628), AV1 (RTP Payload Format For AV1),
//! with Opus (RFC 7587) and AAC (RFC 3640).

use super::av1;
use super::sample::Sample;
use super::track::{Track, TrackFormat};
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::session::{MediaDescription, MediaKind, Session};

/// Bytes of a payload of video, at most; a frame of audio is one payload. Chosen by us: with all headers, encrypted, it fits a packet
/// of 1200 bytes, which every usual path carries.
const PAYLOAD: usize = 1_080;
/// Most bytes of a frame of audio: the size of AAC has 13 bits (RFC 3640 §3.3.6), and Opus is never as large.
const MAX_AUDIO: usize = (1 << 13) - 1;
/// Payload type of the first stream: the first dynamic one (RFC 3551 §6).
const FIRST_TYPE: u8 = 96;
/// Clock rate of Opus, whatever it was sampled at (RFC 7587 §4.1).
const OPUS_HZ: u32 = 48_000;
/// Marker bit of an RTP header's second byte.
const MARKER: u8 = 0x80;
/// Payload descriptor of VP8 (RFC 7741 §4.2): start of a partition.
const VP8_START: u8 = 0x10;
/// Payload descriptor of VP9 (RFC 9628 §4.2): predicted from other pictures, start and end of a frame.
const VP9_PREDICTED: u8 = 0x40;
const VP9_START: u8 = 0x08;
const VP9_END: u8 = 0x04;

/// RTP packets of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpSample {
    /// Index of its stream.
    pub stream: usize,
    /// Decoding time in ticks of 90 kHz.
    pub decode: i64,
    /// Packets, in order.
    pub packets: Vec<Vec<u8>>,
}

/// Writes samples as RTP streams.
#[derive(Debug)]
pub(super) struct RtpMuxer {
    tracks: Vec<Track>,
    /// Of each track: its stream, if RTP of it is written.
    streams: Vec<Option<RtpStream>>,
}

#[derive(Debug)]
struct RtpStream {
    description: MediaDescription,
    index: usize,
    sequence: u16,
}

impl RtpMuxer {
    /// Creates a multiplexer; returns reasons for the tracks that are left out, too.
    pub(super) fn new(tracks: Vec<Track>) -> (Self, Vec<String>) {
        let (mut streams, mut left_out, mut count) = (Vec::new(), Vec::new(), 0);
        for track in &tracks {
            let described = describe(&track.format, FIRST_TYPE + count as u8).filter(|_| count < Session::MAX_STREAMS);
            if described.is_none() {
                left_out.push(format!("{}: it is not sent beside video that goes as RTP", track.format.name()));
            }
            streams.push(described.map(|description| RtpStream { description, index: count, sequence: 0 }));
            count += usize::from(streams.last().is_some_and(Option::is_some));
        }
        (Self { tracks, streams }, left_out)
    }

    pub(super) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Descriptions of the streams.
    pub(super) fn descriptions(&self) -> Vec<MediaDescription> {
        self.streams.iter().flatten().map(|stream| stream.description.clone()).collect()
    }

    /// Packets of a sample as the container holds it; `None`: it is empty or too large, or its track is left out.
    pub(super) fn push(&mut self, sample: &Sample) -> Option<RtpSample> {
        let format = &self.tracks[sample.track].format;
        let stream = self.streams[sample.track].as_mut()?;
        let rate = i128::from(stream.description.clock_rate);
        let timestamp = (i128::from(sample.presented) * rate / i128::from(RTP_CLOCK_HZ)) as u32;
        let payloads = payloads(format, sample);
        if payloads.is_empty() {
            return None;
        }
        let count = payloads.len();
        let is_video = stream.description.kind == MediaKind::Video;
        let marker = |at: usize| if is_video && at + 1 == count { MARKER } else { 0 };
        let payload_type = stream.description.payload_types[0];
        let packets = payloads.into_iter().enumerate().map(|(at, payload)| {
            stream.sequence = stream.sequence.wrapping_add(1);
            let mut packet = vec![0x80, payload_type | marker(at)];
            packet.extend(stream.sequence.to_be_bytes());
            packet.extend(timestamp.to_be_bytes());
            packet.extend((stream.index as u32 + 1).to_be_bytes());
            packet.extend(payload);
            packet
        });
        let packets = packets.collect();
        Some(RtpSample { stream: stream.index, decode: sample.decode, packets })
    }
}

/// Description of a stream as an SDP has it; `None`: RTP of it is not written.
fn describe(format: &TrackFormat, payload_type: u8) -> Option<MediaDescription> {
    let (kind, map, parameters) = match format {
        TrackFormat::Vp8 => ("video", "VP8/90000".to_owned(), None),
        TrackFormat::Vp9 => ("video", "VP9/90000".to_owned(), None),
        TrackFormat::Av1 { .. } => ("video", "AV1/90000".to_owned(), None),
        TrackFormat::Opus { .. } => ("audio", format!("opus/{OPUS_HZ}/2"), Some("sprop-stereo=1".to_owned())),
        TrackFormat::Aac(aac) => {
            let config: String = aac.config().iter().map(|byte| format!("{byte:02X}")).collect();
            let parameters = format!(
                "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;config={config}"
            );
            ("audio", format!("MPEG4-GENERIC/{}/{}", aac.hz(), aac.channels()), Some(parameters))
        }
        _ => return None,
    };
    let parameters = parameters.map(|text| format!("a=fmtp:{payload_type} {text}\r\n")).unwrap_or_default();
    MediaDescription::parse(&format!(
        "m={kind} 0 RTP/AVP {payload_type}\r\na=rtpmap:{payload_type} {map}\r\n{parameters}"
    ))
}

/// Payloads of a sample; none of audio that is too large.
fn payloads(format: &TrackFormat, sample: &Sample) -> Vec<Vec<u8>> {
    let data = sample.data.as_slice();
    let pieces = |header: &dyn Fn(usize, usize) -> u8| -> Vec<Vec<u8>> {
        let count = data.len().div_ceil(PAYLOAD);
        data.chunks(PAYLOAD).enumerate().map(|(at, piece)| [&[header(at, count)], piece].concat()).collect()
    };
    match format {
        TrackFormat::Vp8 => pieces(&|at, _| if at == 0 { VP8_START } else { 0 }),
        TrackFormat::Vp9 => pieces(&|at, count| {
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            flag(!sample.is_entry, VP9_PREDICTED) | flag(at == 0, VP9_START) | flag(at + 1 == count, VP9_END)
        }),
        TrackFormat::Av1 { header } => av1::payloads(data, header, sample.is_entry, PAYLOAD),
        _ if data.len() > MAX_AUDIO => Vec::new(),
        // Length of the headers in bits; one header: 13 bits of size, 3 of index (§3.3.6).
        TrackFormat::Aac(_) => {
            let size = (data.len() as u16) << 3;
            vec![[&[0, 16], &size.to_be_bytes()[..], data].concat()]
        }
        _ => vec![data.to_vec()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aac::AacFormat;

    #[test]
    fn audio_whose_size_does_not_fit_its_header_is_left_out() {
        let format = TrackFormat::Aac(AacFormat::read_config(&[0x12, 0x10]).unwrap());
        let of = |len: usize| Sample { track: 0, decode: 0, presented: 0, is_entry: true, data: vec![7; len] };
        assert_eq!(payloads(&format, &of(MAX_AUDIO))[0][..4], [0, 16, 0xff, 0xf8]);
        assert!(payloads(&format, &of(MAX_AUDIO + 1)).is_empty());
        let (mut muxer, _) = RtpMuxer::new(vec![Track { format, language: None }]);
        assert!(muxer.push(&of(MAX_AUDIO + 1)).is_none() && muxer.push(&of(1)).is_some());
    }
}
