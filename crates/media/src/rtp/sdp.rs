//! SDP (RFC 8866) for H.264 over RTP, with the parameters of RFC 6184 §8.2.1: reads and writes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sdp_types::attributes::{Fmtp, FmtpParam, RtpMap};
use sdp_types::{Connection, Media, MediaType, Origin, Session, TransportProto};

use super::RTP_CLOCK_HZ;
use crate::h264::parameters::{nal_type, type_of};

/// Parameter with SPS and PPS in base64 (RFC 6184 §8.1).
const SPROP: &str = "sprop-parameter-sets";

/// Base64 of RFC 6184; padding is optional, as some encoders leave it out.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reason for which an SDP cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SdpError {
    /// The text breaks the syntax.
    #[error("this is not an SDP: {0}")]
    Syntax(String),
    /// There is no `m=video` line.
    #[error("the SDP has no video (no line m=video)")]
    NoVideo,
    /// A line of a stream is wrong.
    #[error("line {number} of the SDP, '{line}': {why}")]
    Line {
        /// Number of the line in the text, from one.
        number: usize,
        /// The line.
        line: String,
        /// The fault, and what to write instead.
        why: &'static str,
    },
    /// There is no `m=` line at all.
    #[error(
        "the SDP has no line m=, which tells a stream's port and payload type (m=video 5004 RTP/AVP 96): take the whole \
         description that the source prints"
    )]
    NoMedia,
    /// No stream comes as plain RTP.
    #[error(
        "the SDP has no stream over RTP/AVP that is switched on (RTP/SAVP and WebRTC are encrypted, and not received)"
    )]
    NoStream,
    /// The port of the video is zero.
    #[error("the SDP's video is switched off (its port is 0)")]
    Disabled,
    /// The video is not carried as plain RTP.
    #[error("the SDP's video comes as {0}, which is not supported: use RTP/AVP")]
    Transport(String),
    /// The connection address is not an IP address.
    #[error("the SDP's connection address '{0}' is not an IP address")]
    Address(String),
    /// The codec is not H.264.
    #[error("codec {0} is not supported yet: use H264")]
    Codec(String),
    /// The payload type has no `a=rtpmap`.
    #[error("the SDP does not say which codec payload type {0} is (no line a=rtpmap:{0} …)")]
    UnknownPayloadType(String),
    /// The RTP clock rate is not 90 kHz.
    #[error("the SDP's RTP clock has {0} ticks a second, where H264 has 90000")]
    Clock(u32),
    /// The NAL units are interleaved (RFC 6184 §6.4).
    #[error("packetization-mode={0} is not supported: use 0 or 1")]
    PacketizationMode(String),
}

/// Description of an H.264 stream over RTP.
///
/// ```
/// use timeous_media::SessionDescription;
/// let sdp = "v=0\nc=IN IP4 239.1.2.3/16\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n";
/// let found = SessionDescription::parse(sdp)?;
/// assert_eq!((found.port, found.payload_type, found.ttl), (5004, 96, Some(16)));
/// assert_eq!(SessionDescription::parse(&found.write(0))?, found);
/// # Ok::<(), timeous_media::SdpError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    /// Destination address, unicast or multicast.
    pub address: Option<IpAddr>,
    /// Time to live of multicast packets (IPv4).
    pub ttl: Option<u8>,
    /// Destination UDP port.
    pub port: u16,
    /// RTP payload type.
    pub payload_type: u8,
    /// Codec name, as spelled in the SDP.
    pub codec: String,
    /// RTP clock rate, in ticks per second.
    pub clock_rate: u32,
    /// Codec parameters (`a=fmtp`) by lower-case name, without the parameter sets.
    pub parameters: BTreeMap<String, String>,
    /// SPS and PPS as NAL units, without start codes; empty if only the stream carries them.
    pub parameter_sets: Vec<Vec<u8>>,
}

impl SessionDescription {
    /// Describes a stream of [`Packetizer`](crate::Packetizer) to this address (packetization mode 1).
    pub fn h264(to: SocketAddr, payload_type: u8, parameter_sets: Vec<Vec<u8>>) -> Self {
        let mut parameters = BTreeMap::from([("packetization-mode".to_owned(), "1".to_owned())]);
        let sps = parameter_sets.iter().find(|nal| nal.first().is_some_and(|&first| type_of(first) == nal_type::SPS));
        if let Some([_, profile, constraints, level, ..]) = sps.map(Vec::as_slice) {
            parameters.insert("profile-level-id".to_owned(), format!("{profile:02x}{constraints:02x}{level:02x}"));
        }
        Self {
            address: Some(to.ip()),
            // Required for multicast over IPv4 (RFC 8866 §5.7); one hop is the default of sockets.
            ttl: (to.ip().is_ipv4() && to.ip().is_multicast()).then_some(1),
            port: to.port(),
            payload_type,
            codec: "H264".to_owned(),
            clock_rate: RTP_CLOCK_HZ,
            parameters,
            parameter_sets,
        }
    }

    /// Parses a description and returns its first video.
    ///
    /// # Errors
    /// [`SdpError`] if it has no video, or none that can be received.
    pub fn parse(text: &str) -> Result<Self, SdpError> {
        let session =
            Session::parse(relevant(text)?.as_bytes()).map_err(|error| SdpError::Syntax(error.to_string()))?;
        let media = session.medias.first().ok_or(SdpError::NoVideo)?;
        if media.port == 0 {
            return Err(SdpError::Disabled);
        }
        if !["RTP/AVP", "RTP/AVPF"].iter().any(|known| media.proto.eq_ignore_ascii_case(known)) {
            return Err(SdpError::Transport(media.proto.clone()));
        }
        let map = codec(media)?;
        let (address, ttl) = address(media.connections.first().or(session.connection.as_ref()))?;
        let (parameters, parameter_sets) = parameters(media, map.payload_type);
        if let Some(mode) = parameters.get("packetization-mode").filter(|mode| !["0", "1"].contains(&mode.as_str())) {
            return Err(SdpError::PacketizationMode(mode.clone()));
        }
        Ok(Self {
            address,
            ttl,
            port: media.port,
            payload_type: map.payload_type,
            codec: map.encoding_name,
            clock_rate: map.clock_rate,
            parameters,
            parameter_sets,
        })
    }

    /// Writes the description; `version` must grow with each change (RFC 8866 §5.2).
    pub fn write(&self, version: u64) -> String {
        let host: IpAddr = match self.address {
            Some(IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        let mut media = Media::new(MediaType::Video, self.port, TransportProto::RtpAvp, self.payload_type);
        media.add_attribute(RtpMap::new(self.payload_type, &self.codec, self.clock_rate));
        let mut fmtp = Fmtp::new(self.payload_type);
        for (name, value) in &self.parameters {
            fmtp.add_format_specific_param(FmtpParam::with_value(name, value));
        }
        if !self.parameter_sets.is_empty() {
            let sets: Vec<String> = self.parameter_sets.iter().map(|nal| BASE64.encode(nal)).collect();
            fmtp.add_format_specific_param(FmtpParam::with_value(SPROP, sets.join(",")));
        }
        if !fmtp.format_specific_params.is_empty() {
            media.add_attribute(fmtp);
        }
        let mut session = Session::new(Origin::with_ip_addr(0, version, host), "Timeous");
        if let Some(address) = self.address {
            session.set_connection(Connection::from_ip_addr_ttl(address, self.ttl));
        }
        session.add_media(media);
        session.to_string()
    }
}

/// Relevant lines of the session and its first video; all others are ignored, valid or not.
fn relevant(text: &str) -> Result<String, SdpError> {
    // ffmpeg prints a heading before the SDP.
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("v=")).peekable();
    if lines.peek().is_none() {
        return Err(SdpError::Syntax("it has no line v=0".to_owned()));
    }
    let mut out = String::new();
    let (mut section, mut videos) = (true, 0);
    for line in lines {
        if let Some(media) = line.strip_prefix("m=") {
            let is_video = media.split(' ').next().is_some_and(|kind| kind.eq_ignore_ascii_case("video"));
            videos += u32::from(is_video);
            section = is_video && videos == 1;
        }
        if section && ["v=", "c=", "m=", "a="].iter().any(|kind| line.starts_with(kind)) {
            out.push_str(line);
            out.push('\n');
        }
    }
    if videos == 0 { Err(SdpError::NoVideo) } else { Ok(out) }
}

/// First payload type that is H.264.
fn codec(media: &Media) -> Result<RtpMap, SdpError> {
    let mut refused = None;
    for format in media.fmt.split_whitespace() {
        let told = media.attributes_typed::<RtpMap>().flatten().find(|map| map.payload_type.to_string() == format);
        match told.or_else(|| static_payload_type(format)) {
            Some(map) if !map.encoding_name.eq_ignore_ascii_case("H264") => {
                refused.get_or_insert(SdpError::Codec(map.encoding_name));
            }
            Some(map) if map.clock_rate != RTP_CLOCK_HZ => {
                refused.get_or_insert(SdpError::Clock(map.clock_rate));
            }
            Some(map) => return Ok(map),
            None => {
                refused.get_or_insert(SdpError::UnknownPayloadType(format.to_owned()));
            }
        }
    }
    Err(refused.unwrap_or_else(|| SdpError::UnknownPayloadType(media.fmt.clone())))
}

/// Video formats that need no `a=rtpmap` (RFC 3551 table 5).
fn static_payload_type(format: &str) -> Option<RtpMap> {
    let (payload_type, name) = match format {
        "25" => (25, "CelB"),
        "26" => (26, "JPEG"),
        "28" => (28, "nv"),
        "31" => (31, "H261"),
        "32" => (32, "MPV"),
        "33" => (33, "MP2T"),
        "34" => (34, "H263"),
        _ => return None,
    };
    Some(RtpMap::new(payload_type, name, RTP_CLOCK_HZ))
}

/// Address and time to live.
fn address(connection: Option<&Connection>) -> Result<(Option<IpAddr>, Option<u8>), SdpError> {
    let Some(connection) = connection else { return Ok((None, None)) };
    match connection.try_address() {
        Ok(found) => Ok((Some(found.ip), found.ttl.filter(|_| found.ip.is_ipv4()))),
        Err(_) => Err(SdpError::Address(connection.connection_address.clone())),
    }
}

/// Codec parameters, and the parameter sets among them. Invalid base64 is skipped, as streams carry the sets, too.
fn parameters(media: &Media, payload_type: u8) -> (BTreeMap<String, String>, Vec<Vec<u8>>) {
    let (mut parameters, mut sets) = (BTreeMap::new(), Vec::new());
    for fmtp in media.attributes_typed::<Fmtp>().flatten().filter(|fmtp| fmtp.fmt == payload_type) {
        for FmtpParam { param, val } in fmtp.format_specific_params {
            let (name, value) = (param.trim().to_ascii_lowercase(), val.unwrap_or_default().trim().to_owned());
            if name == SPROP {
                let decoded = value.split(',').filter_map(|set| BASE64.decode(set.trim()).ok());
                sets.extend(decoded.filter(|nal| !nal.is_empty()));
            } else if !name.is_empty() {
                parameters.insert(name, value);
            }
        }
    }
    (parameters, sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SDP as ffmpeg prints it for `-f rtp`.
    const FFMPEG: &str = "SDP:\nv=0\no=- 0 0 IN IP4 127.0.0.1\ns=No Name\nc=IN IP4 127.0.0.1\nt=0 0\n\
        a=tool:libavformat 59.27.100\nm=video 5004 RTP/AVP 96\nb=AS:400\na=rtpmap:96 H264/90000\n\
        a=fmtp:96 packetization-mode=1; sprop-parameter-sets=Z0LAFdoFB+hAAAADAEAAAAyDxYuS,aM4PyA==; \
        profile-level-id=42C015\n";

    #[test]
    fn what_ffmpeg_writes_is_read() {
        let found = SessionDescription::parse(FFMPEG).unwrap();
        assert_eq!(found.address, Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!((found.port, found.payload_type, found.clock_rate), (5004, 96, 90_000));
        assert_eq!(found.codec, "H264");
        assert_eq!(found.parameters["profile-level-id"], "42C015");
        assert_eq!(found.parameters["packetization-mode"], "1");
        let types: Vec<u8> = found.parameter_sets.iter().map(|nal| type_of(nal[0])).collect();
        assert_eq!(types, [nal_type::SPS, nal_type::PPS]);
        assert_eq!(found.parameter_sets[1], [0x68, 0xce, 0x0f, 0xc8]);
    }

    #[test]
    fn other_media_and_lines_that_are_wrong_do_no_harm() {
        let sdp = "v=0\r\no=nonsense\r\nb=?\r\nz=\r\nx-unknown\r\nc=IN IP4 10.0.0.1\r\n\
            m=audio none RTP/AVP 0\r\nc=IN IP4 10.0.0.2\r\n\
            m=video 6000/2 rtp/avp 34 97\r\nc=IN IP6 ff15::1\r\na=rtpmap:97 h264/90000\r\n\
            a=fmtp:34 x=1\r\na=fmtp:97 sprop-parameter-sets=aM4PyA,!!\r\n\
            m=video 7000 RTP/AVP 96\r\n";
        let found = SessionDescription::parse(sdp).unwrap();
        assert_eq!((found.port, found.payload_type), (6000, 97));
        assert_eq!(
            found.address,
            Some("ff15::1".parse().unwrap()),
            "the media's own address goes before the session's"
        );
        assert_eq!(found.parameter_sets, [[0x68, 0xce, 0x0f, 0xc8]]);
        assert!(found.parameters.is_empty());
    }

    #[test]
    fn what_cannot_be_received_says_why() {
        let error = |sdp: &str| SessionDescription::parse(sdp).unwrap_err();
        let video = |rest: &str| error(&format!("v=0\nc=IN IP4 127.0.0.1\nm=video {rest}"));
        assert!(matches!(error("{\"json\": true}"), SdpError::Syntax(_)));
        assert!(matches!(error(""), SdpError::Syntax(_)));
        assert_eq!(error("v=0\nm=audio 5000 RTP/AVP 0\n").to_string(), "the SDP has no video (no line m=video)");
        assert_eq!(
            video("5000 RTP/AVP 96\na=rtpmap:96 H265/90000").to_string(),
            "codec H265 is not supported yet: use H264"
        );
        assert_eq!(video("5000 RTP/AVP 26"), SdpError::Codec("JPEG".to_owned()));
        assert_eq!(video("5000 RTP/AVP 96"), SdpError::UnknownPayloadType("96".to_owned()));
        assert_eq!(video("0 RTP/AVP 96\na=rtpmap:96 H264/90000"), SdpError::Disabled);
        assert_eq!(video("5000 RTP/SAVP 96\na=rtpmap:96 H264/90000"), SdpError::Transport("RTP/SAVP".to_owned()));
        assert_eq!(video("5000 RTP/AVP 96\na=rtpmap:96 H264/8000"), SdpError::Clock(8_000));
        let interleaved = "5000 RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=2";
        assert_eq!(video(interleaved), SdpError::PacketizationMode("2".to_owned()));
        assert!(matches!(video("far RTP/AVP 96"), SdpError::Syntax(_)));
        let named = "v=0\nc=IN IP4 camera.example\nm=video 5000 RTP/AVP 96\na=rtpmap:96 H264/90000";
        assert_eq!(error(named), SdpError::Address("camera.example".to_owned()));
    }

    #[test]
    fn a_description_is_written_as_rfc_6184_has_it() {
        let sets = vec![vec![0x67, 0x42, 0xc0, 0x1f, 1], vec![0x68, 0xce, 0x0f, 0xc8]];
        let to = "127.0.0.1:5004".parse().unwrap();
        let text = SessionDescription::h264(to, 96, sets).write(3);
        for line in [
            "v=0",
            "o=- 0 3 IN IP4 127.0.0.1",
            "c=IN IP4 127.0.0.1",
            "t=0 0",
            "m=video 5004 RTP/AVP 96",
            "a=rtpmap:96 H264/90000",
            "a=fmtp:96 packetization-mode=1;profile-level-id=42c01f;sprop-parameter-sets=Z0LAHwE=,aM4PyA==",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line} in\n{text}");
        }
        let group = SessionDescription::h264("239.1.1.1:5004".parse().unwrap(), 96, Vec::new()).write(0);
        assert!(group.contains("c=IN IP4 239.1.1.1/1\r\n"), "{group}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            address in any::<IpAddr>(),
            port in 1u16..,
            payload_type in 96u8..128,
            sets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..60), 0..4),
        ) {
            let written = SessionDescription::h264(SocketAddr::new(address, port), payload_type, sets);
            prop_assert_eq!(SessionDescription::parse(&written.write(1)), Ok(written));
        }

        #[test]
        fn no_text_makes_it_panic(
            text in ".{0,200}",
            lines in proptest::collection::vec((0usize..14, ".{0,30}"), 0..12),
        ) {
            let _ = SessionDescription::parse(&text);
            // Lines of a valid description, cut at random and followed by random text.
            let known: Vec<&str> = FFMPEG.lines().skip(1).collect();
            let line = |(at, tail): &(usize, String)| {
                let line = known[at % known.len()];
                format!("{}{tail}", &line[..line.len().saturating_sub(at % 7)])
            };
            let mixed: Vec<String> = ["v=0".to_owned()].into_iter().chain(lines.iter().map(line)).collect();
            let _ = SessionDescription::parse(&mixed.join("\n"));
        }
    }
}
