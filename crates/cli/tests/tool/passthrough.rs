//! RTP of any payload: as it was sent, from ffmpeg and GStreamer to players, and through links that lose packets.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use serde_json::json;
use timeous::clock;
use timeous::core::Duration;

use crate::pictures::nals;
use crate::statistics::tracks;
use crate::support::{
    Files, Running, command, decoder, emulate, free_port, is_free, is_installed, nap, side_by_side, size, skip,
    sleep_until, timeous, until,
};

/// Length of an RTP header (RFC 3550 §5.1).
const HEADER: usize = 12;

#[test]
fn rtp_of_a_static_payload_type_arrives_as_it_was_sent() {
    let (port, input) = (free_port(), free_port());
    let output = free_port();
    let [sink, reports] = [output, output + 1].map(|port| UdpSocket::bind(("127.0.0.1", port)).unwrap());
    sink.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    reports.set_nonblocking(true).unwrap();
    let to = format!("udp://127.0.0.1:{output}");
    let files = Files::new();
    let [sent, received] = ["sent", "received"].map(|name| files.path(name));
    let at = format!("timeous://:{port}?reconnect=off&latency=1s");
    let mut receiver = timeous(&["recv", "--stats", &received, &at, &to]);
    receiver.until_it_says("listening");
    let from = format!("udp://127.0.0.1:{input}");
    let mut sender = timeous(&["send", "--stats", &sent, &from, &format!("timeous://127.0.0.1:{port}")]);
    until("the sender listens", || !is_free(input));
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let began = clock::now();
    let packets: Vec<Vec<u8>> = (0..100u32)
        .map(|n| {
            let mut packet = vec![0x80, if n == 0 { 0x80 } else { 0 }];
            packet.extend((n as u16).to_be_bytes());
            packet.extend((160 * n).to_be_bytes());
            packet.extend(77u32.to_be_bytes());
            packet.resize(HEADER + 160, n as u8);
            packet
        })
        .collect();
    for (packet, n) in packets.iter().zip(0..) {
        sleep_until(began + Duration::from_millis(20) * n);
        source.send_to(packet, ("127.0.0.1", input)).unwrap();
    }
    let mut came: Vec<Vec<u8>> = Vec::new();
    while came.len() < packets.len() {
        let mut packet = vec![0; 2_000];
        let len = sink.recv(&mut packet).expect("a packet");
        packet.truncate(len);
        came.push(packet);
    }
    sender.stop();
    receiver.ends_with(0);
    assert!(sender.errors().contains("audio PCMU"), "{}", sender.errors());
    let without_number = |packet: &Vec<u8>| [&packet[..2], &packet[4..8], &packet[HEADER..]].concat();
    assert!(came.iter().map(without_number).eq(packets.iter().map(without_number)));
    let number = |packet: &[u8]| u16::from_be_bytes([packet[2], packet[3]]);
    assert!(came.windows(2).all(|pair| number(&pair[1]) == number(&pair[0]).wrapping_add(1)));
    assert!(came.iter().all(|packet| packet[8..12] == came[0][8..12]), "one source");
    let [track] = &tracks(&sent)[..] else { panic!("one stream") };
    assert_eq!((&track["id"], &track["kind"], &track["codec"]), (&json!(0), &json!("audio"), &json!("PCMU")));
    assert_eq!((&track["framesSent"], &track["pktAckedTotal"]), (&json!(100), &json!(100)), "{track:?}");
    let [track] = &tracks(&received)[..] else { panic!("one stream") };
    assert_eq!((&track["id"], &track["kind"], &track["codec"]), (&json!(0), &json!("audio"), &json!("PCMU")));
    assert_eq!((&track["framesDecodable"], &track["byteDecodable"]), (&json!(100), &json!(16_000)), "{track:?}");
    // Sender reports (RFC 3550 §6.4.1) of that source, with a timestamp that was sent.
    let mut told = 0;
    let mut report = [0; 2_000];
    while let Ok(len) = reports.recv(&mut report) {
        assert!(len > 28 && report[1] == 200 && report[4..8] == came[0][8..12], "{:?}", &report[..len]);
        assert!(came.iter().any(|packet| packet[4..8] == report[16..20]));
        told += 1;
    }
    assert!(told > 0, "no report");
}

/// Video and audio of four seconds by ffmpeg, sent by ffmpeg.
pub(crate) struct Film {
    pub(crate) files: Files,
    film: String,
    pub(crate) ports: [u16; 2],
}

/// Pictures of a film.
const PICTURES: usize = 100;

impl Film {
    fn new(codecs: &[&str]) -> Self {
        Self::of("testsrc2=size=320x240:rate=25", "sine=frequency=440:sample_rate=48000", codecs)
    }

    /// Creates a film of this video and this sound.
    pub(crate) fn of(video: &str, sound: &str, codecs: &[&str]) -> Self {
        let files = Files::new();
        let film = files.path("film.mkv");
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", video]);
        ffmpeg.args(["-f", "lavfi", "-i", sound, "-t", "4", "-pix_fmt", "yuv420p"]);
        ffmpeg.args(["-threads", "1", "-g", "25"]).args(codecs).args(["-y", &film]);
        Running::start(silent(ffmpeg)).ends_with(0);
        Self { files, film, ports: [free_port(), free_port()] }
    }

    /// ffmpeg that sends the film as RTP.
    pub(crate) fn encoder(&self, pace: &[&str]) -> Command {
        let [video, audio] = self.ports.map(|port| format!("rtp://127.0.0.1:{port}?pkt_size=1200"));
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error"]).args(pace).args(["-i", &self.film, "-c", "copy", "-strict", "-2"]);
        ffmpeg.args(["-map", "0:v", "-f", "rtp", &video, "-map", "0:a", "-c", "copy", "-f", "rtp", &audio]);
        ffmpeg.args(["-sdp_file", &self.files.path("in.sdp")]);
        silent(ffmpeg)
    }

    /// Session description of the source, and the same with other ports, for a player that is there first.
    pub(crate) fn sessions(&self, outputs: [u16; 2]) -> [String; 2] {
        Running::start(self.encoder(&["-t", "0.2"])).ends_with(0);
        let mut told = fs::read_to_string(self.files.path("in.sdp")).unwrap();
        for (from, to) in self.ports.iter().zip(outputs) {
            told = told.replace(&format!(" {from} RTP"), &format!(" {to} RTP"));
        }
        [self.files.path("in.sdp"), self.files.write("play.sdp", told.as_bytes())]
    }
}

/// First of two pairs of ports, one behind the other, that no other test takes.
fn neighbours() -> u16 {
    let mut first = free_port();
    loop {
        let second = free_port();
        if second == first + 2 {
            return first;
        }
        first = second;
    }
}

fn silent(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Sends a film to ffmpeg as a player, through a link if one is given; returns how many pictures and pieces of sound it has decoded, and what it
/// has complained of.
fn play(codecs: &[&str], link: Option<&[&str]>) -> ([usize; 2], String) {
    let film = Film::new(codecs);
    let first = neighbours();
    let [input, described] = film.sessions([first, first + 2]);
    let decoded = film.files.path("decoded");
    let mut player = Command::new("ffmpeg");
    player.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,udp,rtp", "-i", &described]);
    player.args(["-fps_mode", "passthrough", "-f", "framecrc", "-flush_packets", "1", "-y", &decoded]);
    let mut player = Running::start(silent(player));
    until("the player listens", || !is_free(first + 2));
    let (near, far) = (free_port(), free_port());
    let sink = format!("udp://127.0.0.1:{first}");
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?reconnect=off&latency=2s"), &sink]);
    receiver.until_it_says("listening");
    let mut link = link.map(|options| emulate(near, far, options));
    let to = format!("timeous://127.0.0.1:{}?latency=2s", if link.is_some() { near } else { far });
    let mut sender = timeous(&["send", &input, &to]);
    until("the sender listens", || !is_free(film.ports[1]));
    Running::start(film.encoder(&["-re"])).ends_with(0);
    sender.stop();
    receiver.ends_with(0);
    link.iter_mut().for_each(Running::kill);
    // Nothing more comes; it ends by itself, or is asked to.
    player.signal(rustix::process::Signal::TERM);
    player.end();
    let told = fs::read_to_string(&decoded).unwrap();
    let count = |stream: &str| told.lines().filter(|line| line.starts_with(stream)).count();
    (["0,", "1,"].map(count), player.errors())
}

const H264_OPUS: [&str; 6] = ["-c:v", "libx264", "-preset", "ultrafast", "-c:a", "libopus"];
const H265_AAC: [&str; 8] =
    ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:pools=1", "-c:a", "aac"];
const VP8_OPUS: [&str; 8] = ["-c:v", "libvpx", "-deadline", "realtime", "-b:v", "600k", "-c:a", "libopus"];
const VP9_AAC: [&str; 10] =
    ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "600k", "-c:a", "aac"];

/// Complaints of the player that are not about itself.
fn complaints(said: &str) -> Vec<&str> {
    let own = ["experimental", "Exiting normally", "Connection timed out", "Immediate exit"];
    said.lines().filter(|line| !own.iter().any(|own| line.contains(own)) && !line.trim().is_empty()).collect()
}

fn assert_plays(codecs: &[&str]) {
    let ([pictures, sound], said) = play(codecs, None);
    assert!(pictures + 5 >= PICTURES && sound > 150, "{pictures} pictures, {sound} of sound: {said}");
    assert_eq!(complaints(&said), [""; 0]);
}

#[test]
fn a_player_shows_all_of_ffmpegs_rtp_of_any_codec() {
    if !is_installed("ffmpeg") {
        return skip("a_player_shows_all_of_ffmpegs_rtp_of_any_codec", "ffmpeg");
    }
    side_by_side(&[("H.264", || assert_plays(&H264_OPUS)), ("H.265", || assert_plays(&H265_AAC))]);
    side_by_side(&[("VP8", || assert_plays(&VP8_OPUS)), ("VP9", || assert_plays(&VP9_AAC))]);
}

fn assert_plays_through_losses(codecs: &[&str]) {
    let link = ["--delay", "10ms", "--back-delay", "10ms", "--loss", "2%"];
    let ([pictures, sound], said) = play(codecs, Some(&link));
    assert!(pictures > PICTURES / 2 && sound > 100, "{pictures} pictures, {sound} of sound: {said}");
    assert_eq!(complaints(&said), [""; 0]);
}

#[test]
fn through_losses_a_decoder_has_nothing_to_complain_of() {
    if !is_installed("ffmpeg") {
        return skip("through_losses_a_decoder_has_nothing_to_complain_of", "ffmpeg");
    }
    side_by_side(&[
        ("H.265", || assert_plays_through_losses(&H265_AAC)),
        ("VP8", || assert_plays_through_losses(&VP8_OPUS)),
    ]);
}

/// Elements of GStreamer for a codec: encoding name, payloader, depayloader and decoder.
fn elements(codec: &str) -> (&'static str, &'static str, &'static str) {
    match codec {
        "libx264" => ("H264", "rtph264pay config-interval=1", "rtph264depay ! avdec_h264"),
        "libx265" => ("H265", "rtph265pay config-interval=1", "rtph265depay ! avdec_h265"),
        "libvpx" => ("VP8", "rtpvp8pay", "rtpvp8depay ! vp8dec"),
        "libvpx-vp9" => ("VP9", "rtpvp9pay", "rtpvp9depay ! vp9dec"),
        "libopus" => ("OPUS", "rtpopuspay", "rtpopusdepay ! opusdec"),
        _ => ("MPEG4-GENERIC", "rtpmp4gpay", "rtpmp4gdepay ! avdec_aac"),
    }
}

fn gstreamer(pipeline: &str) -> Command {
    let mut gstreamer = Command::new("gst-launch-1.0");
    gstreamer.arg("-q").args(pipeline.split_whitespace());
    silent(gstreamer)
}

/// Sends a film from GStreamer to GStreamer.
fn assert_passes_between_gstreamers(codecs: &[&str]) {
    let film = Film::new(codecs);
    let first = neighbours();
    let [input, described] = film.sessions([first, first + 2]);
    let [video, audio] = ["-c:v", "-c:a"].map(|option| {
        let at = codecs.iter().position(|argument| *argument == option).unwrap();
        elements(codecs[at + 1])
    });
    let described = fs::read_to_string(described).unwrap();
    let config = described.split("config=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let format = config.map_or_else(String::new, |config| {
        format!(",mode=AAC-hbr,config=(string){config},sizelength=(string)13,indexlength=(string)3,indexdeltalength=(string)3")
    });
    let sockets = [first, first + 2].map(|port| UdpSocket::bind(("127.0.0.1", port)).unwrap());
    let port = free_port();
    let sink = format!("udp://127.0.0.1:{first}");
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?reconnect=off&latency=2s"), &sink]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &input, &format!("timeous://127.0.0.1:{port}?latency=2s")]);
    until("the sender listens", || !is_free(film.ports[1]));
    let [to_video, to_audio] = film.ports;
    let mut source = Running::start(gstreamer(&format!(
        "filesrc location={} ! matroskademux name=film film.video_0 ! queue ! {} pt=96 mtu=1200 ! udpsink host=127.0.0.1 port={to_video} \
         film.audio_0 ! queue ! {} pt=97 ! udpsink host=127.0.0.1 port={to_audio}",
        film.film, video.1, audio.1
    )));
    // A busy player would lose packets that came: they are kept, and played afterwards.
    let mut streams = [Vec::new(), Vec::new()];
    let mut sender_ends = false;
    let mut keep = || {
        for (socket, stream) in sockets.iter().zip(&mut streams) {
            socket.set_nonblocking(true).unwrap();
            let mut packet = [0; 2_000];
            while let Ok(len) = socket.recv(&mut packet) {
                stream.extend((len as u16).to_be_bytes());
                stream.extend(&packet[..len]);
            }
        }
    };
    while receiver.is_alive() {
        keep();
        if !sender_ends && !source.is_alive() {
            sender.stop();
            sender_ends = true;
        }
        nap();
    }
    keep();
    source.ends_with(0);
    let said = receiver.ends_with(0);
    let [pictures, sound] = ["pictures", "sound"].map(|name| film.files.path(name));
    let [came, heard] =
        [("came", &streams[0]), ("heard", &streams[1])].map(|(name, stream)| film.files.write(name, stream));
    let stream = |file: &str, kind: &str, rest: &str| {
        format!("filesrc location={file} ! application/x-rtp-stream,media={kind},{rest} ! rtpstreamdepay ! ")
    };
    let (name, _, decoder) = video;
    let shows = stream(&came, "video", &format!("clock-rate=90000,encoding-name={name},payload=96"));
    let pictures_to = format!("{decoder} ! videoconvert ! video/x-raw,format=GRAY8 ! filesink location={pictures}");
    let (name, _, decoder) = audio;
    let plays = stream(&heard, "audio", &format!("clock-rate=48000,encoding-name={name},payload=97{format}"));
    let sound_to =
        format!("{decoder} ! audioconvert ! audio/x-raw,format=S16LE,channels=1 ! filesink location={sound}");
    Running::start(gstreamer(&format!("{shows}{pictures_to} {plays}{sound_to}"))).ends_with(0);
    let (shown, heard) = (size(&pictures) / (320 * 240), size(&sound) / (2 * 48_000 / 10));
    assert!(
        shown + 5 >= PICTURES as u64 && heard >= 38,
        "{shown} pictures, {heard} tenths of a second of sound: {said}"
    );
}

#[test]
fn gstreamers_rtp_of_any_codec_passes_to_gstreamer() {
    if ["ffmpeg", "gst-launch-1.0"].iter().any(|program| !is_installed(program)) {
        return skip("gstreamers_rtp_of_any_codec_passes_to_gstreamer", "ffmpeg, gst-launch-1.0");
    }
    side_by_side(&[
        ("H.264", || assert_passes_between_gstreamers(&H264_OPUS)),
        ("H.265", || assert_passes_between_gstreamers(&H265_AAC)),
    ]);
    side_by_side(&[
        ("VP8", || assert_passes_between_gstreamers(&VP8_OPUS)),
        ("VP9", || assert_passes_between_gstreamers(&VP9_AAC)),
    ]);
}

/// A camera's RTP of H.265 or H.264 with sound, recorded as a file, or through a pipe; returns the messages of the receiver.
fn assert_is_recorded(codecs: &[&str], name: &str, entry: &str, has_sound: bool) -> String {
    let film = Film::new(codecs);
    let [input, _] = film.sessions([1, 3]);
    let (port, out) = (free_port(), film.files.path(name));
    let is_pipe = name.starts_with("pipe");
    let sink = if is_pipe { "-" } else { &out };
    let mut receiver = command(&["recv", &format!("timeous://:{port}?reconnect=off&latency=1s"), sink]);
    if is_pipe {
        receiver.stdout(fs::File::create(&out).unwrap());
    }
    let mut receiver = Running::start(receiver);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &input, &format!("timeous://127.0.0.1:{port}?latency=1s")]);
    until("the sender listens", || !is_free(film.ports[0]) && !is_free(film.ports[1]));
    Running::start(film.encoder(&["-re"])).ends_with(0);
    sender.stop();
    let told = receiver.ends_with(0);
    let said = Running::start(decoder(&["-i", &out, "-map", "0", "-f", "null", "-"])).ends_with(0);
    assert_eq!(said, "", "{name}");
    let count = |stream: &str, what: &str| {
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-select_streams", stream, "-count_packets", "-show_entries"]);
        let told = probe.args([&format!("stream={what}"), "-of", "default=nk=1:nw=1", &out]).output().unwrap();
        String::from_utf8(told.stdout).unwrap().lines().next().unwrap_or_default().trim().to_owned()
    };
    let pictures: usize = count("v:0", "nb_read_packets").parse().unwrap();
    assert!(pictures + 5 >= PICTURES, "{name}: {pictures} pictures");
    assert_eq!(count("v:0", "codec_tag_string"), entry, "{name}");
    let sound = count("a:0", "nb_read_packets").parse().unwrap_or(0);
    assert_eq!(sound > 150, has_sound, "{name}: {sound} frames of sound");
    told
}

#[test]
fn rtp_of_h265_and_h264_is_recorded_with_its_sound() {
    if !is_installed("ffmpeg") {
        return skip("rtp_of_h265_and_h264_is_recorded_with_its_sound", "ffmpeg");
    }
    side_by_side(&[
        ("H.265 in MP4", || drop(assert_is_recorded(&H265_AAC, "out.mp4", "hvc1", true))),
        ("H.264 in MPEG-TS", || drop(assert_is_recorded(&H264_OPUS, "out.ts", "[27][0][0][0]", true))),
    ]);
    side_by_side(&[
        ("H.264 in MP4", || {
            let told = assert_is_recorded(&H264_OPUS, "out.mp4", "avc1", false);
            assert!(told.contains("left out: audio Opus") && told.contains("the first AAC"), "{told}");
        }),
        ("H.265 through a pipe", || drop(assert_is_recorded(&H265_AAC, "pipe.ts", "HEVC", true))),
    ]);
}

/// ffmpeg tells the parameter sets of a film only in the session description.
#[test]
fn parameter_sets_of_a_session_description_come_with_each_keyframe() {
    if !is_installed("ffmpeg") {
        return skip("parameter_sets_of_a_session_description_come_with_each_keyframe", "ffmpeg");
    }
    let film = Film::new(&H264_OPUS);
    let (input, output, port) = (film.files.path("video.sdp"), film.files.path("out.h264"), free_port());
    let to = format!("rtp://127.0.0.1:{}?pkt_size=1200", film.ports[0]);
    let encoder = |pace: &[&str]| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error"]).args(pace).args(["-i", &film.film, "-map", "0:v", "-c", "copy"]);
        ffmpeg.args(["-f", "rtp", &to, "-sdp_file", &input]);
        silent(ffmpeg)
    };
    Running::start(encoder(&["-t", "0.2"])).ends_with(0);
    assert!(fs::read_to_string(&input).unwrap().contains("sprop-parameter-sets="));
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?reconnect=off&latency=1s"), &output]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &input, &format!("timeous://127.0.0.1:{port}?latency=1s")]);
    until("the sender listens", || !is_free(film.ports[0]));
    Running::start(encoder(&["-re"])).ends_with(0);
    sender.stop();
    receiver.ends_with(0);
    let bytes = fs::read(&output).unwrap();
    let types: Vec<u8> = nals(&bytes).iter().map(|(_, nal)| nal[0] & 0x1f).collect();
    let count = |kind: u8| types.iter().filter(|of| **of == kind).count();
    let slices = types.iter().filter(|of| matches!(**of, 1 | 5)).count();
    assert!(slices + 5 >= PICTURES && count(5) >= 3, "{types:?}");
    assert!(types.windows(3).filter(|three| *three == [7, 8, 5]).count() >= 3, "{types:?}");
    assert_eq!(Running::start(decoder(&["-f", "h264", "-i", &output, "-f", "null", "-"])).ends_with(0), "");
}

/// NAL unit type of a packet of H.265 (RFC 7798 §4.4), of a fragment that of its unit.
fn nal_type(packet: &[u8]) -> u8 {
    let kind = packet[HEADER] >> 1 & 0x3f;
    if kind == 49 { packet[HEADER + 2] & 0x3f } else { kind }
}

/// Pictures of each of two temporal layers, by their timestamps. No picture refers to those of the upper layer, which their types tell
/// (H.265 table 7-1); ffmpeg does not write temporal identifiers into fragments.
fn layers_of(packets: &[Vec<u8>]) -> [usize; 2] {
    let slices = packets.iter().filter(|packet| nal_type(packet) < 32);
    let pictures: BTreeMap<[u8; 4], bool> = slices
        .map(|packet| {
            (packet[4..8].try_into().unwrap(), matches!(nal_type(packet), 0..16) && nal_type(packet).is_multiple_of(2))
        })
        .collect();
    [false, true].map(|is_upper| pictures.values().filter(|of| **of == is_upper).count())
}

/// NAL units of packets of H.265 (RFC 7798 §4.4), with start codes.
fn annexb_of(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut annexb = Vec::new();
    let append =
        |annexb: &mut Vec<u8>, header: &[u8], rest: &[u8]| annexb.extend([&[0, 0, 0, 1], header, rest].concat());
    for payload in packets.iter().map(|packet| &packet[HEADER..]) {
        match (payload[0] >> 1 & 0x3f, payload) {
            (48, [_, _, rest @ ..]) => {
                let mut rest = rest;
                while let Some((len, after)) = rest.split_first_chunk::<2>() {
                    let (nal, after) = after.split_at(u16::from_be_bytes(*len).into());
                    append(&mut annexb, &[], nal);
                    rest = after;
                }
            }
            (49, [first, second, unit, data @ ..]) if unit & 0x80 != 0 => {
                append(&mut annexb, &[first & 0x81 | (unit & 0x3f) << 1, *second], data);
            }
            (49, [_, _, _, data @ ..]) => annexb.extend_from_slice(data),
            _ => append(&mut annexb, &[], payload),
        }
    }
    annexb
}

#[test]
fn over_a_link_for_two_thirds_of_temporal_layers_the_base_is_complete() {
    let test = "over_a_link_for_two_thirds_of_temporal_layers_the_base_is_complete";
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let files = Files::new();
    let film = files.path("layers.mkv");
    // Noise, so that pictures of both layers are of one size; every second one is of the upper layer.
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=160x96:r=25,noise=alls=100:allf=t"]);
    ffmpeg.args(["-t", "8", "-pix_fmt", "yuv420p", "-threads", "1", "-c:v", "libx265", "-preset", "ultrafast"]);
    let layers = "log-level=error:pools=1:temporal-layers=1:bframes=1:b-adapt=0:b-pyramid=0:scenecut=0:keyint=25:repeat-headers=1:qp=38:pbratio=1:ipratio=1";
    ffmpeg.args(["-x265-params", layers, "-y", &film]);
    Running::start(silent(ffmpeg)).ends_with(0);
    let input = free_port();
    let session = files.path("layers.sdp");
    let encoder = |options: &[&str]| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error"]).args(options).args(["-i", &film, "-c", "copy", "-f", "rtp"]);
        ffmpeg.args([&format!("rtp://127.0.0.1:{input}?pkt_size=1200"), "-sdp_file", &session]);
        silent(ffmpeg)
    };
    Running::start(encoder(&["-t", "0.2"])).ends_with(0);
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    let (near, far) = (free_port(), free_port());
    let to = format!("udp://{}", sink.local_addr().unwrap());
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?reconnect=off&latency=1s"), &to]);
    receiver.until_it_says("listening");
    let rate = (size(&film) * 8 / 8 * 2 / 3).to_string();
    let mut link =
        emulate(near, far, &["--rate", &rate, "--delay", "10ms", "--back-delay", "10ms", "--queue", "300ms"]);
    let mut sender = timeous(&["send", &session, &format!("timeous://127.0.0.1:{near}?latency=1s&policy=layers")]);
    until("the sender listens", || !is_free(input));
    let collector = std::thread::spawn(move || {
        let mut came: Vec<Vec<u8>> = Vec::new();
        let mut silent = 0;
        // The stream begins within a few seconds, and has ended after one without a packet.
        while silent < if came.is_empty() { 150 } else { 10 } {
            let mut packet = vec![0; 2_000];
            match sink.recv(&mut packet) {
                Ok(len) => {
                    packet.truncate(len);
                    came.push(packet);
                    silent = 0;
                }
                Err(_) => silent += 1,
            }
        }
        came
    });
    Running::start(encoder(&["-re"])).ends_with(0);
    let came = collector.join().unwrap();
    sender.stop();
    let said = receiver.ends_with(0);
    link.kill();
    let [base, upper] = layers_of(&came);
    println!("{base} of 104 pictures of the base, {upper} of 96 above it");
    let output = files.write("came.h265", &annexb_of(&came));
    let mut decoder = Command::new("ffmpeg");
    decoder.args(["-nostdin", "-v", "error", "-xerror", "-i", &output, "-f", "null", "-"]);
    let mut decoder = Running::start(silent(decoder));
    decoder.ends_with(0);
    assert_eq!(decoder.errors(), "", "what came can be decoded");
    assert!(base >= 100, "{base} of 104 pictures of the base, {upper} of 96 above it: {said}");
    assert!((1..90).contains(&upper), "{upper} of 96 pictures above the base");
}
