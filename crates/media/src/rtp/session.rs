//! SDP (RFC 8866) of any media over RTP: the streams of a session, with their attributes as they are.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;

use super::sdp::{BASE64, SdpError};

/// Kind of media (RFC 8866 §8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MediaKind {
    /// Audio.
    Audio,
    /// Video.
    Video,
    /// Data, text, or not known.
    Other,
}

impl MediaKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Other => "application",
        }
    }
}

impl std::fmt::Display for MediaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Stream of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaDescription {
    /// Kind of media.
    pub kind: MediaKind,
    /// Destination address, unicast or multicast, of the stream or its session.
    pub address: Option<IpAddr>,
    /// Destination UDP port.
    pub port: u16,
    /// RTP payload types, the preferred one first.
    pub payload_types: Vec<u8>,
    /// Codec of the first payload type, as spelled in the SDP; empty if not known.
    pub codec: String,
    /// RTP clock rate of the first payload type, in ticks per second; zero if not known.
    pub clock_rate: u32,
    /// Attributes (`a=` lines without `a=`) that describe the formats.
    pub attributes: Vec<String>,
}

/// Attributes that describe formats, which a receiver needs. Others are of the sender's transport.
const KEPT: [&str; 6] = ["rtpmap", "fmtp", "ptime", "maxptime", "framerate", "extmap"];
/// Transports that are plain RTP.
const TRANSPORTS: [&str; 2] = ["RTP/AVP", "RTP/AVPF"];
/// Formats that need no `a=rtpmap` (RFC 3551 tables 4 and 5).
const STATIC: [(u8, MediaKind, &str, u32); 16] = [
    (0, MediaKind::Audio, "PCMU", 8_000),
    (3, MediaKind::Audio, "GSM", 8_000),
    (4, MediaKind::Audio, "G723", 8_000),
    (5, MediaKind::Audio, "DVI4", 8_000),
    (8, MediaKind::Audio, "PCMA", 8_000),
    (9, MediaKind::Audio, "G722", 8_000),
    (10, MediaKind::Audio, "L16", 44_100),
    (11, MediaKind::Audio, "L16", 44_100),
    (14, MediaKind::Audio, "MPA", 90_000),
    (15, MediaKind::Audio, "G728", 8_000),
    (18, MediaKind::Audio, "G729", 8_000),
    (26, MediaKind::Video, "JPEG", 90_000),
    (31, MediaKind::Video, "H261", 90_000),
    (32, MediaKind::Video, "MPV", 90_000),
    (33, MediaKind::Video, "MP2T", 90_000),
    (34, MediaKind::Video, "H263", 90_000),
];

impl MediaDescription {
    /// Describes a stream of which only a payload type is known.
    pub fn of_payload_type(payload_type: u8) -> Self {
        let known = STATIC.iter().find(|(number, ..)| *number == payload_type);
        let (kind, codec, clock_rate) =
            known.map_or((MediaKind::Other, "", 0), |&(_, kind, codec, rate)| (kind, codec, rate));
        Self {
            kind,
            address: None,
            port: 0,
            payload_types: vec![payload_type],
            codec: codec.to_owned(),
            clock_rate,
            attributes: Vec::new(),
        }
    }

    /// The same with a codec that was found out otherwise.
    #[must_use]
    pub fn with_codec(mut self, kind: MediaKind, codec: &str, clock_rate: u32) -> Self {
        (self.kind, self.clock_rate) = (kind, clock_rate);
        codec.clone_into(&mut self.codec);
        let payload_type = self.payload_types.first().copied().unwrap_or(0);
        self.attributes.push(format!("rtpmap:{payload_type} {codec}/{clock_rate}"));
        self
    }

    /// Whether a player knows what it is, by its description.
    pub fn is_known(&self) -> bool {
        !self.codec.is_empty()
    }

    /// Whether it is a transport stream (RFC 2250), with streams of its own.
    pub fn is_transport_stream(&self) -> bool {
        self.codec.eq_ignore_ascii_case("MP2T")
    }

    /// Parses the lines of a stream, as [`lines`](Self::lines) writes them.
    pub fn parse(lines: &str) -> Option<Self> {
        let mut lines = lines.lines().map(str::trim);
        let mut media = Self::parse_line(lines.next()?.strip_prefix("m=")?).ok()??;
        lines.for_each(|line| media.take(line));
        media.find_codec();
        Some(media)
    }

    /// Parses an `m=` line; `None` if it is not of media over plain RTP, and an error with the reason if it is wrong.
    fn parse_line(line: &str) -> Result<Option<Self>, &'static str> {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(port), Some(transport)) = (words.next(), words.next(), words.next()) else {
            return Err("it has a kind, a port, a transport and payload types, such as m=video 5004 RTP/AVP 96");
        };
        let kind = match kind.to_ascii_lowercase().as_str() {
            "audio" => MediaKind::Audio,
            "video" => MediaKind::Video,
            _ => MediaKind::Other,
        };
        if !TRANSPORTS.iter().any(|known| transport.eq_ignore_ascii_case(known)) {
            return Ok(None);
        }
        let port = port.split('/').next().and_then(|port| port.parse().ok());
        let port = port.ok_or("its port is not one from 1 to 65535: write the port that the source sends to")?;
        let payload_types: Vec<u8> =
            words.filter_map(|word| word.parse().ok()).filter(|number| *number < 128).collect();
        let first = payload_types.first();
        let first = *first.ok_or("it has no payload type from 0 to 127: write the one of the source's packets")?;
        Ok(Some(Self { kind, port, payload_types, ..Self::of_payload_type(first) }))
    }

    fn take(&mut self, line: &str) {
        if let Some(address) = line.strip_prefix("c=") {
            self.address = address_of(address).or(self.address);
        } else if let Some(attribute) = line.strip_prefix("a=")
            && KEPT.iter().any(|kept| attribute.split(':').next() == Some(kept))
        {
            self.attributes.push(attribute.to_owned());
        }
    }

    fn find_codec(&mut self) {
        let maps = self.attributes.iter().filter_map(|attribute| self.map_of(attribute));
        if let Some((codec, rate)) = maps.filter_map(Result::ok).next() {
            (self.codec, self.clock_rate) = (codec.to_owned(), rate);
        }
    }

    /// Codec and clock rate of an attribute `rtpmap` of the first payload type; an error with the reason if it is wrong.
    fn map_of<'a>(&self, attribute: &'a str) -> Option<Result<(&'a str, u32), &'static str>> {
        let rest = attribute.strip_prefix("rtpmap:")?;
        let (number, map) = rest.split_once(' ').unwrap_or((rest, ""));
        if number.parse().ok().as_ref() != self.payload_types.first() {
            return None;
        }
        let mut parts = map.trim().split('/');
        let (codec, rate) = (parts.next().unwrap_or_default(), parts.next().and_then(|rate| rate.parse().ok()));
        Some(match rate {
            _ if codec.is_empty() => Err("it names no codec: write codec and clock rate, such as 96 H264/90000"),
            None | Some(0) => Err("it has no clock rate: write that of the codec, such as H264/90000 or opus/48000/2"),
            Some(rate) => Ok((codec, rate)),
        })
    }

    /// Parameter sets among the format parameters (RFC 6184 §8.1, RFC 7798 §7.1), as NAL units. Invalid ones are skipped, as streams
    /// carry the sets, too.
    pub(crate) fn parameter_sets(&self) -> Vec<Vec<u8>> {
        const NAMES: [&str; 4] = ["sprop-vps", "sprop-sps", "sprop-pps", "sprop-parameter-sets"];
        let values = NAMES.iter().filter_map(|name| self.parameter(name));
        let sets = values.flat_map(|value| value.split(',')).filter_map(|set| BASE64.decode(set.trim()).ok());
        sets.filter(|nal| !nal.is_empty()).collect()
    }

    /// Format parameter (`a=fmtp`); names are not case-sensitive.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let formats = self.attributes.iter().filter_map(|attribute| attribute.strip_prefix("fmtp:"));
        let mut parameters = formats.filter_map(|format| format.split_once(' ')).flat_map(|(_, text)| text.split(';'));
        parameters
            .find_map(|one| one.trim().split_once('=').filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value)
    }

    /// Lines of the stream, with another port.
    pub fn lines(&self, port: u16) -> String {
        let types: Vec<String> = self.payload_types.iter().map(u8::to_string).collect();
        let mut text = format!("m={} {port} RTP/AVP {}\r\n", self.kind, types.join(" "));
        for attribute in &self.attributes {
            text.push_str(&format!("a={attribute}\r\n"));
        }
        text
    }
}

impl std::fmt::Display for MediaDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.is_known(), self.payload_types.first()) {
            (true, _) => write!(f, "{} {}", self.kind, self.codec),
            (false, Some(payload_type)) => write!(f, "payload type {payload_type}"),
            (false, None) => write!(f, "{}", self.kind),
        }
    }
}

/// Streams of a session.
///
/// ```
/// use timeous_media::{MediaKind, Session};
/// let sdp = "v=0\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 VP8/90000\nm=audio 5006 RTP/AVP 0\n";
/// let session = Session::parse(sdp)?;
/// assert_eq!(session.streams[0].codec, "VP8");
/// assert_eq!((session.streams[1].kind, session.streams[1].clock_rate), (MediaKind::Audio, 8_000));
/// # Ok::<(), timeous_media::SdpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Session {
    /// Streams over RTP, in the order of the SDP, without those that are switched off.
    pub streams: Vec<MediaDescription>,
}

impl Session {
    /// Most streams of a session: their number has four bits on the wire.
    pub const MAX_STREAMS: usize = 16;

    /// Parses a description. Streams that are not plain RTP are left out.
    ///
    /// # Errors
    /// [`SdpError`] if it has none, a line of one is wrong, or it is no SDP.
    pub fn parse(text: &str) -> Result<Self, SdpError> {
        // ffmpeg prints a heading before the SDP.
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines.skip_while(|(_, line)| !line.starts_with("v=")).peekable();
        if lines.peek().is_none() {
            return Err(SdpError::Syntax("it has no line v=0".to_owned()));
        }
        let mut address = None;
        // Streams, and `None` for one that is left out.
        let mut streams: Vec<Option<MediaDescription>> = Vec::new();
        for (number, line) in lines {
            let wrong = |why| SdpError::Line { number, line: line.to_owned(), why };
            if let Some(media) = line.strip_prefix("m=") {
                let stream = MediaDescription::parse_line(media).map_err(wrong)?.filter(|stream| stream.port > 0);
                streams.push(stream.map(|stream| MediaDescription { address, ..stream }));
            } else if let Some(stream) = streams.last_mut() {
                if let Some(stream) = stream {
                    line.strip_prefix("a=").and_then(|map| stream.map_of(map)).transpose().map_err(wrong)?;
                    stream.take(line);
                }
            } else if let Some(of_all) = line.strip_prefix("c=") {
                address = address_of(of_all);
            }
        }
        if streams.is_empty() {
            return Err(SdpError::NoMedia);
        }
        let mut streams: Vec<MediaDescription> = streams.into_iter().flatten().take(Self::MAX_STREAMS).collect();
        streams.iter_mut().for_each(MediaDescription::find_codec);
        if streams.is_empty() { Err(SdpError::NoStream) } else { Ok(Self { streams }) }
    }

    /// Writes a description of these streams, each sent to the address with its number; `version` must grow with each change (RFC
    /// 8866 §5.2).
    pub fn write(&self, to: impl Fn(usize) -> SocketAddr, version: u64) -> String {
        let first = to(0).ip();
        let net = |ip: IpAddr| if ip.is_ipv4() { "IP4" } else { "IP6" };
        // Required for multicast over IPv4 (RFC 8866 §5.7); one hop is the default of sockets.
        let hops = if first.is_ipv4() && first.is_multicast() { "/1" } else { "" };
        let origin = if first.is_ipv4() { "IP4 127.0.0.1" } else { "IP6 ::1" };
        let mut text = format!(
            "v=0\r\no=- 0 {version} IN {origin}\r\ns=Timeous\r\nc=IN {} {first}{hops}\r\nt=0 0\r\n",
            net(first)
        );
        for (number, stream) in self.streams.iter().enumerate() {
            text.push_str(&stream.lines(to(number).port()));
        }
        text
    }
}

/// Address of a `c=` line; a name, which only the sender may know, is not one.
fn address_of(line: &str) -> Option<IpAddr> {
    line.split_whitespace().nth(2)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SDP as ffmpeg prints it for two outputs of `-f rtp`.
    const FFMPEG: &str = "SDP:\nv=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\n\
        a=tool:libavformat 59.27.100\nm=video 5004 RTP/AVP 96\nb=AS:400\na=rtpmap:96 H265/90000\n\
        a=fmtp:96 sprop-vps=QAE=; sprop-sps=QgE=; sprop-pps=RAE=\nm=audio 5006 RTP/AVP 97\nb=AS:96\n\
        a=rtpmap:97 opus/48000/2\na=fmtp:97 sprop-stereo=1\n";

    #[test]
    fn streams_keep_what_describes_their_formats() {
        let session = Session::parse(FFMPEG).unwrap();
        let [video, audio] = &session.streams[..] else { panic!("{session:?}") };
        assert_eq!(
            (video.kind, video.port, video.codec.as_str(), video.clock_rate),
            (MediaKind::Video, 5004, "H265", 90_000)
        );
        assert_eq!(
            (audio.kind, audio.port, audio.codec.as_str(), audio.clock_rate),
            (MediaKind::Audio, 5006, "opus", 48_000)
        );
        assert_eq!(audio.attributes, ["rtpmap:97 opus/48000/2", "fmtp:97 sprop-stereo=1"]);
        assert_eq!(video.parameter_sets(), [[0x40, 1], [0x42, 1], [0x44, 1]]);
        assert_eq!(video.address, Some([127, 0, 0, 1].into()));
        let written = session.write(|number| SocketAddr::from(([127, 0, 0, 1], 7000 + 2 * number as u16)), 2);
        assert!(written.contains("m=audio 7002 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\n"), "{written}");
        assert_eq!(MediaDescription::parse(&audio.lines(9)).unwrap().codec, "opus");
    }

    #[test]
    fn streams_that_cannot_be_received_are_left_out() {
        let sdp = "v=0\nm=video 0 RTP/AVP 96\na=rtpmap:96 VP8/90000\nm=audio 5000 RTP/SAVP 0\nm=audio 5002 RTP/AVP 8\n\
            c=IN IP6 ff15::1\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\n";
        let session = Session::parse(sdp).unwrap();
        let [audio] = &session.streams[..] else { panic!("{session:?}") };
        assert_eq!((audio.codec.as_str(), audio.address), ("PCMA", Some("ff15::1".parse().unwrap())));
        assert_eq!(Session::parse("v=0\nm=video 0 RTP/AVP 96\n"), Err(SdpError::NoStream));
        assert!(matches!(Session::parse("nothing"), Err(SdpError::Syntax(_))));
    }

    /// A port or clock rate that is none counted as a stream that is encrypted or switched off, or of an unknown codec.
    #[test]
    fn a_line_that_is_wrong_is_named() {
        let error = |lines: &str| Session::parse(&format!("SDP:\nv=0\n{lines}")).unwrap_err().to_string();
        let rtp = "m=video 5004 RTP/AVP 96\n";
        let cases = [
            ("m=video 70000 RTP/AVP 96", "line 3 of the SDP, 'm=video 70000 RTP/AVP 96': its port is not one from 1"),
            ("m=video 5004", "line 3 of the SDP, 'm=video 5004': it has a kind"),
            ("m=video 5004 RTP/AVP 200", "it has no payload type from 0 to 127"),
            (&format!("{rtp}a=rtpmap:96 H264/0"), "line 4 of the SDP, 'a=rtpmap:96 H264/0': it has no clock rate"),
            (&format!("{rtp}a=rtpmap:96 VP8"), "it has no clock rate"),
            (&format!("{rtp}a=rtpmap:96"), "it names no codec"),
            (&format!("{rtp}m=audio 5006a RTP/AVP 97"), "line 4"),
            ("c=IN IP4 127.0.0.1", "no line m="),
        ];
        for (lines, expected) in cases {
            assert!(error(lines).contains(expected), "{lines}: {}", error(lines));
        }
        // Lines of other payload types, and of streams that are left out, do not matter.
        for harmless in ["a=rtpmap:97 H264/0", "m=audio 70000 RTP/SAVP 0\na=rtpmap:0 PCMU/0"] {
            assert_eq!(Session::parse(&format!("v=0\n{rtp}{harmless}")).unwrap().streams.len(), 1, "{harmless}");
        }
    }

    #[test]
    fn a_transport_stream_has_a_static_or_a_dynamic_payload_type() {
        for media in ["m=video 5000 RTP/AVP 33\n", "m=video 5000 RTP/AVP 96\na=rtpmap:96 mp2t/90000\n"] {
            assert!(Session::parse(&format!("v=0\n{media}")).unwrap().streams[0].is_transport_stream(), "{media}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(lines in proptest::collection::vec((0usize..14, ".{0,30}"), 0..12)) {
            let known: Vec<&str> = FFMPEG.lines().skip(1).collect();
            let line = |(at, tail): &(usize, String)| {
                let line = known[at % known.len()];
                format!("{}{tail}", &line[..line.len().saturating_sub(at % 7)])
            };
            let mixed: Vec<String> = ["v=0".to_owned()].into_iter().chain(lines.iter().map(line)).collect();
            if let Ok(session) = Session::parse(&mixed.join("\n")) {
                let written = session.write(|_| SocketAddr::from(([127, 0, 0, 1], 5004)), 0);
                let again = Session::parse(&written).unwrap();
                prop_assert_eq!(session.streams.len(), again.streams.len());
            }
        }
    }
}
