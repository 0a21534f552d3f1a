//! MPEG-TS with audio from ffmpeg, by file, pipe and UDP, and through links that lose packets or are too narrow.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use serde_json::Value;
use timeous_core::{Duration, Rng};
use timeous_media::container::{Sample, Track, TrackFormat, TsMuxer};

use crate::support::{
    Files, Running, command, decoder, emulate, free_port, is_free, is_installed, side_by_side, skip, sleep, timeous,
    until,
};

const PACKET: usize = 188;
/// PID of null packets.
const NULL: u16 = 0x1fff;

/// ffmpeg that writes a test picture with sound as MPEG-TS.
fn encoder(seconds: &str, codecs: &[&str], output: &[&str]) -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    // A file is encoded as fast as it can be.
    let pace: &[&str] = if output.contains(&"-y") { &[] } else { &["-re"] };
    ffmpeg.args(["-nostdin", "-v", "error"]).args(pace).args(["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25"]);
    ffmpeg
        .args(["-f", "lavfi", "-i", "sine=frequency=440", "-t", seconds, "-pix_fmt", "yuv420p", "-g", "25"])
        .args(codecs);
    ffmpeg.args(["-f", "mpegts"]).args(output).stdin(Stdio::null()).stdout(Stdio::null());
    ffmpeg
}

pub(crate) const H264_AAC: [&str; 8] = ["-c:v", "libx264", "-preset", "ultrafast", "-b:v", "600k", "-c:a", "aac"];
const H265_AAC: [&str; 8] =
    ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none", "-c:a", "aac"];
const MPEG2_MP2: [&str; 6] = ["-c:v", "mpeg2video", "-b:v", "900k", "-c:a", "mp2"];

pub(crate) fn encode(files: &Files, codecs: &[&str]) -> Option<String> {
    if !is_installed("ffmpeg") {
        return None;
    }
    let path = files.path("in.ts");
    Running::start(encoder("4", codecs, &["-y", &path])).ends_with(0);
    Some(path)
}

/// Packets of each PID with payload, after a check that their counters are continuous, and the longest time between two values of a
/// program clock in milliseconds.
fn check(path: &str) -> (BTreeMap<u16, usize>, u64) {
    let bytes = fs::read(path).unwrap();
    assert!(!bytes.is_empty() && bytes.len().is_multiple_of(PACKET), "{} bytes", bytes.len());
    let (mut counters, mut packets) = (BTreeMap::new(), BTreeMap::new());
    let (mut clock, mut longest) = (None, 0);
    for packet in bytes.chunks_exact(PACKET) {
        assert_eq!(packet[0], 0x47);
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        if packet[3] & 0x10 != 0 && pid != NULL {
            let before = counters.insert(pid, packet[3] & 0x0f);
            assert!(before.is_none_or(|before: u8| (before + 1) & 0x0f == packet[3] & 0x0f), "PID {pid}");
            *packets.entry(pid).or_default() += 1;
        }
        if packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0 {
            let ticks = u64::from(u32::from_be_bytes(packet[6..10].try_into().unwrap())) << 1;
            longest = longest.max(ticks - clock.replace(ticks).unwrap_or(ticks));
        }
    }
    (packets, longest / 90)
}

/// Number of packets of the video and of the audio, by ffprobe.
fn packets_of(path: &str) -> [u64; 2] {
    ["v:0", "a:0"].map(|stream| {
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-select_streams", stream, "-count_packets", "-show_entries"]);
        let told = probe.args(["stream=nb_read_packets", "-of", "default=nk=1:nw=1", path]).output().unwrap();
        let text = String::from_utf8(told.stdout).unwrap();
        text.lines().find_map(|line| line.trim().parse().ok()).unwrap_or(0)
    })
}

fn assert_decodes(path: &str) {
    Running::start(decoder(&["-i", path, "-map", "0", "-f", "null", "-"])).ends_with(0);
}

/// Sends a file through a link; returns the file that was received.
fn through(files: &Files, source: &str, latency: &str, link: &[&str]) -> String {
    let (near, far, out) = (free_port(), free_port(), files.path("out.ts"));
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency={latency}&reconnect=off"), &out]);
    receiver.until_it_says("listening");
    let mut link = emulate(near, far, link);
    let sent = timeous(&["send", source, &format!("timeous://127.0.0.1:{near}?latency={latency}")]).ends_with(0);
    let received = receiver.ends_with(0);
    link.kill();
    eprintln!("{sent}{received}{}", link.errors());
    out
}

#[test]
fn through_losses_all_of_a_transport_stream_arrives() {
    let test = "through_losses_all_of_a_transport_stream_arrives";
    for codecs in [&H264_AAC[..], &MPEG2_MP2] {
        let files = Files::new();
        let Some(source) = encode(&files, codecs) else { return skip(test, "ffmpeg") };
        let out = through(&files, &source, "1s", &["--delay", "10ms", "--back-delay", "10ms", "--loss", "2%"]);
        assert_decodes(&out);
        let ((sent, _), (came, _)) = (check(&source), check(&out));
        assert_eq!(sent, came, "packets of each PID");
    }
}

/// Damages one packet in `every` of the first three seconds of four, except for the first hundred, which name the streams.
fn damaged(source: &str, seed: u64, every: u64, mut damage: impl FnMut(&mut Rng, &[u8]) -> Vec<u8>) -> Vec<u8> {
    let bytes = fs::read(source).unwrap();
    let (mut rng, whole) = (Rng::from_seed(seed), bytes.len() / PACKET * 3 / 4);
    let packets = bytes.chunks_exact(PACKET).enumerate();
    packets
        .flat_map(|(n, packet)| {
            let is_damaged = (100..whole).contains(&n) && rng.below(every) == 0;
            if is_damaged { damage(&mut rng, packet) } else { packet.to_vec() }
        })
        .collect()
}

#[test]
fn a_damaged_transport_stream_passes_through_losses_to_its_end() {
    if !is_installed("ffmpeg") {
        return skip("a_damaged_transport_stream_passes_through_losses_to_its_end", "ffmpeg");
    }
    side_by_side(&[
        ("bytes changed", || {
            damaged_passes(1, 30, |rng, packet| {
                let mut packet = packet.to_vec();
                packet[rng.below(PACKET as u64) as usize] ^= 1 << rng.below(8);
                packet
            });
        }),
        ("packets missing", || damaged_passes(2, 50, |_, _| Vec::new())),
        ("packets twice", || damaged_passes(3, 20, |_, packet| [packet, packet].concat())),
        ("packets cut short", || {
            damaged_passes(4, 100, |rng, packet| packet[..1 + rng.below(PACKET as u64 - 1) as usize].to_vec());
        }),
        ("other bytes between packets", || {
            damaged_passes(5, 100, |rng, packet| {
                let other = (0..rng.below(400)).map(|_| rng.below(256) as u8);
                packet.iter().copied().chain(other).collect()
            });
        }),
        ("headers without meaning", || {
            damaged_passes(6, 50, |rng, packet| {
                let mut packet = packet.to_vec();
                rng.fill(&mut packet[1..6]);
                packet
            });
        }),
    ]);
}

/// Sends damaged streams through losses: what is whole at their end arrives, and before it nearly all.
fn damaged_passes(seed: u64, every: u64, damage: fn(&mut Rng, &[u8]) -> Vec<u8>) {
    let files = Files::new();
    let intact = encode(&files, &H264_AAC).unwrap();
    let source = files.write("damaged.ts", &damaged(&intact, seed, every, damage));
    let out = through(&files, &source, "1s", &["--delay", "10ms", "--back-delay", "10ms", "--loss", "2%"]);
    let bytes = fs::read(&out).unwrap();
    assert!(bytes.len().is_multiple_of(PACKET) && bytes.chunks_exact(PACKET).all(|packet| packet[0] == 0x47));
    // Parsers of sound differ in what they make of a damaged frame: bytes are counted.
    let [heard, found] = [&out, &intact].map(|path| payloads_of(path, 0x101).concat().len());
    let ([pictures, _], [of_source, _]) = (packets_of(&out), packets_of(&source));
    let told = format!("{pictures} of {of_source} pictures, {heard} of {found} bytes of sound");
    assert!(pictures * 10 > of_source * 9 && heard * 10 > found * 9, "{told}");
    // The last half second comes as it is.
    let last = |path: &str| {
        let sound = payloads_of(path, 0x101);
        sound[sound.len() - 10..].to_vec()
    };
    assert_eq!(last(&intact), last(&out), "the end of the sound");
}

#[test]
fn through_half_of_its_rate_the_sound_of_a_transport_stream_has_no_gap() {
    let files = Files::new();
    let Some(source) = encode(&files, &H264_AAC) else {
        return skip("through_half_of_its_rate_the_sound_of_a_transport_stream_has_no_gap", "ffmpeg");
    };
    let rate = (fs::metadata(&source).unwrap().len() * 8 / 4 / 2).to_string();
    // Longer than a busy machine stands still.
    let out = through(&files, &source, "2s", &["--rate", &rate, "--delay", "10ms", "--queue", "300ms"]);
    assert_decodes(&out);
    let (_, longest) = check(&out);
    // A value comes each 90 ms; a busy machine stands still at times.
    assert!(longest <= 2_000, "{longest} ms without a clock value");
    let ([video, audio], [few, all]) = (packets_of(&source), packets_of(&out));
    assert_eq!(audio, all, "sound");
    assert!(few < video && few > video / 10, "{few} of {video} pictures");
}

#[test]
fn a_transport_stream_comes_by_pipe_and_by_udp_and_goes_to_udp() {
    if !is_installed("ffmpeg") {
        return skip("a_transport_stream_comes_by_pipe_and_by_udp_and_goes_to_udp", "ffmpeg");
    }
    let files = Files::new();
    let (port, input, output) = (free_port(), free_port(), free_port());
    let (at, to) = (format!("timeous://:{port}?reconnect=off"), format!("timeous://127.0.0.1:{port}"));
    // By pipe.
    let out = files.path("pipe.ts");
    let mut receiver = timeous(&["recv", &at, &out]);
    receiver.until_it_says("listening");
    let mut ffmpeg = encoder("3", &H264_AAC, &["-"]);
    ffmpeg.stdout(Stdio::piped());
    let mut ffmpeg = Running::start(ffmpeg);
    let mut send = command(&["send", "-", &to]);
    send.stdin(ffmpeg.output());
    let said = [Running::start(send).ends_with(0), receiver.ends_with(0)].concat();
    assert_decodes(&out);
    check(&out);
    let [video, audio] = packets_of(&out);
    assert!(video >= 70 && audio > 100, "{video} pictures, {audio} packets of sound: {said}");
    // By UDP, in datagrams of seven packets, and to UDP.
    let received = files.path("udp.ts");
    let mut player = Command::new("ffmpeg");
    player.args(["-nostdin", "-v", "error", "-i", &format!("udp://127.0.0.1:{output}?timeout=4000000"), "-c", "copy"]);
    player.args(["-f", "mpegts", &received]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut player = Running::start(player);
    until("ffmpeg listens", || !is_free(output));
    let mut receiver = timeous(&["recv", &at, &format!("udp://127.0.0.1:{output}")]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &format!("udp://127.0.0.1:{input}"), &to]);
    until("the sender listens", || !is_free(input));
    let to = format!("udp://127.0.0.1:{input}?pkt_size=1316");
    Running::start(encoder("4", &H264_AAC, &[&to])).ends_with(0);
    sender.stop();
    receiver.ends_with(0);
    player.end();
    let [video, audio] = packets_of(&received);
    assert!(video >= 60 && audio > 100, "{video} pictures, {audio} packets of sound");
}

/// Sends a file by RTP of a payload type, as SDP lines describe it, or without a description.
fn comes_by_rtp(payload_type: u8, lines: Option<&str>) {
    let files = Files::new();
    let Some(film) = encode(&files, &H264_AAC) else { return skip("comes_by_rtp", "ffmpeg") };
    let (port, input, out) = (free_port(), free_port(), files.path("out.ts"));
    let source = lines.map_or(format!("udp://:{input}"), |lines| {
        let sdp = format!("v=0\nc=IN IP4 127.0.0.1\nm=video {input} RTP/AVP {lines}\n");
        files.write("in.sdp", sdp.as_bytes())
    });
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=1s&reconnect=off"), &out]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=1s")]);
    until("the sender listens", || !is_free(input));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (sequence, packets) in (0u16..).zip(fs::read(&film).unwrap().chunks(7 * PACKET)) {
        let [high, low] = sequence.to_be_bytes();
        let header = [0x80, payload_type, high, low, 0, 0, 0, 0, 0, 0, 0, 7];
        socket.send_to(&[&header, packets].concat(), ("127.0.0.1", input)).unwrap();
        // 2 Mbit/s.
        sleep(Duration::from_millis(5));
    }
    sleep(Duration::from_millis(300));
    sender.stop();
    let said = receiver.ends_with(0);
    assert!(said.contains("the stream is MPEG-TS"), "{said}");
    assert_eq!(packets_of(&out), packets_of(&film), "{said}");
}

/// Types 33 of an SDP and 96 of any were not taken as a transport stream, but as RTP that passes as it is.
#[test]
fn a_transport_stream_comes_by_rtp_of_any_payload_type() {
    side_by_side(&[
        ("the static type by SDP", || comes_by_rtp(33, Some("33"))),
        ("a dynamic type by SDP", || comes_by_rtp(96, Some("96\na=rtpmap:96 MP2T/90000"))),
        ("a dynamic type without SDP", || comes_by_rtp(96, None)),
    ]);
}

#[test]
fn mp4_with_sound_goes_in_and_comes_out() {
    if !is_installed("ffmpeg") {
        return skip("mp4_with_sound_goes_in_and_comes_out", "ffmpeg");
    }
    side_by_side(&[
        ("H.264", || mp4_goes_in_and_comes_out(&H264_AAC)),
        ("H.265", || mp4_goes_in_and_comes_out(&H265_AAC)),
    ]);
}

fn mp4_goes_in_and_comes_out(codecs: &[&str]) {
    let files = Files::new();
    let (source, out, port) = (files.path("in.mp4"), files.path("out.mp4"), free_port());
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-f", "lavfi"]);
    ffmpeg.args(["-i", "sine=frequency=440", "-t", "3", "-pix_fmt", "yuv420p", "-g", "25"]).args(codecs);
    ffmpeg.args(["-bf", "2", &source]).stdin(Stdio::null());
    Running::start(ffmpeg).ends_with(0);
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=1s&reconnect=off"), &out]);
    receiver.until_it_says("listening");
    timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
    receiver.ends_with(0);
    assert_decodes(&out);
    let ([pictures, sound], [came, heard]) = (packets_of(&source), packets_of(&out));
    assert!(came == pictures && heard + 8 > sound, "{came} of {pictures} pictures, {heard} of {sound} frames of sound");
}

#[test]
fn a_constant_bitrate_is_filled_and_its_clock_follows_the_place_in_the_stream() {
    let files = Files::new();
    let Some(source) = encode(&files, &H264_AAC) else {
        return skip("a_constant_bitrate_is_filled_and_its_clock_follows_the_place_in_the_stream", "ffmpeg");
    };
    let (port, out) = (free_port(), files.path("out.ts"));
    let at = format!("timeous://:{port}?latency=1s&reconnect=off");
    let mut receiver = timeous(&["recv", "--bitrate", "3M", &at, &out]);
    receiver.until_it_says("listening");
    timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
    receiver.ends_with(0);
    assert_decodes(&out);
    let (packets, _) = check(&out);
    assert_eq!(packets, check(&source).0, "packets of each PID");
    let bytes = fs::read(&out).unwrap();
    let nulls = bytes.chunks_exact(PACKET).filter(|packet| packet[1..3] == [0x1f, 0xff]).count();
    assert!(nulls * 2 > bytes.len() / PACKET, "{nulls} null packets");
    // Each value of the clock (27 MHz) is that of its place at 3 Mbit/s: 188 bytes take 13536 ticks.
    let clocks = (0u64..)
        .zip(bytes.chunks_exact(PACKET))
        .filter(|(_, packet)| packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0);
    let values: Vec<(u64, u64)> = clocks
        .map(|(place, packet)| {
            let base =
                u64::from(u32::from_be_bytes(packet[6..10].try_into().unwrap())) << 1 | u64::from(packet[10] >> 7);
            (place, base * 300 + (u64::from(packet[10] & 1) << 8 | u64::from(packet[11])))
        })
        .collect();
    assert!(values.len() > 30);
    for pair in values.windows(2) {
        let (packets, ticks) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        assert!(ticks.abs_diff(packets * 13_536) <= 1, "{packets} packets, {ticks} ticks");
    }
}

#[test]
fn what_mp4_does_not_hold_of_a_transport_stream_is_told() {
    let test = "what_mp4_does_not_hold_of_a_transport_stream_is_told";
    let files = Files::new();
    let twice = [&["-map", "0:v", "-map", "1:a", "-map", "0:v", "-map", "1:a"][..], &H264_AAC].concat();
    let Some(source) = encode(&files, &twice) else { return skip(test, "ffmpeg") };
    let out = files.path("out.mp4");
    let (said, stats) = received(&files, &source, &out);
    assert_decodes(&out);
    for stream in ["video H.264 (258)", "audio AAC (259)"] {
        assert_eq!(said.matches(&format!("left out: {stream}")).count(), 1, "{said}");
    }
    assert_eq!(said.matches("left out").count(), 2, "{said}");
    // They were counted as written.
    let of = |id: u64| {
        let tracks = stats["tracks"].as_array().unwrap();
        tracks.iter().find(|track| track["id"] == id && track["kind"] != "clock").unwrap()["framesDecodable"].as_u64()
    };
    let left_out = of(258).unwrap() + of(259).unwrap();
    assert!(left_out > 100, "{stats}");
    assert_eq!(stats["framesNotWritten"], left_out, "{stats}");
    assert_eq!(
        stats["framesWritten"].as_u64().unwrap() + left_out,
        stats["framesDecodable"].as_u64().unwrap(),
        "{stats}"
    );
}

/// Receives a file without losses; returns the messages, and the last record of statistics.
fn received(files: &Files, source: &str, out: &str) -> (String, Value) {
    let (port, stats) = (free_port(), files.path("stats"));
    let mut receiver =
        timeous(&["recv", &format!("timeous://:{port}?latency=1s&reconnect=off"), out, "--stats", &stats]);
    receiver.until_it_says("listening");
    timeous(&["send", source, &format!("timeous://127.0.0.1:{port}?latency=1s")]).ends_with(0);
    let said = receiver.ends_with(0);
    let last = fs::read_to_string(stats).unwrap().lines().last().map(|line| serde_json::from_str(line).unwrap());
    (said, last.unwrap())
}

/// Clock values that are inserted between pictures far apart counted as frames.
#[test]
fn inserted_clock_values_are_no_frames_that_were_written() {
    let files = Files::new();
    let Some(source) = encode(&files, &[&H264_AAC[..], &["-r", "5"]].concat()) else {
        return skip("inserted_clock_values_are_no_frames_that_were_written", "ffmpeg");
    };
    let out = files.path("out.ts");
    let (_, stats) = received(&files, &source, &out);
    let packets = |path: &str| fs::metadata(path).unwrap().len() / PACKET as u64;
    assert!(packets(&out) > packets(&source), "no clock value is inserted: {stats}");
    assert_eq!(stats["framesWritten"], stats["framesDecodable"], "{stats}");
    assert_eq!(stats["byteWritten"], fs::metadata(&out).unwrap().len(), "{stats}");
}

/// Temporal units of AV1 that ffmpeg encodes.
fn av1(files: &Files) -> Vec<Vec<u8>> {
    let path = files.path("in.ivf");
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "4"]);
    ffmpeg.args(["-pix_fmt", "yuv420p", "-c:v", "libsvtav1", "-preset", "12", "-b:v", "600k", "-g", "25", &path]);
    ffmpeg.stdin(Stdio::null());
    Running::start(ffmpeg).ends_with(0);
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut units) = (&bytes[32..], Vec::new());
    while let Some((header, after)) = rest.split_first_chunk::<12>() {
        let (unit, after) = after.split_at(u32::from_le_bytes(*header.first_chunk().unwrap()) as usize);
        units.push(unit.to_vec());
        rest = after;
    }
    units
}

/// AV1 and Opus, which no program here writes or reads in a transport stream: packets are compared byte by byte.
fn av1_with_opus(files: &Files) -> String {
    let formats = [TrackFormat::Av1 { header: Vec::new() }, TrackFormat::Opus { channels: 2 }];
    let mut mux = TsMuxer::new(formats.map(|format| Track { format, language: None }).to_vec());
    let mut bytes = Vec::new();
    for (n, unit) in (0..).zip(av1(files)) {
        let sample = |track, time, is_entry, data| Sample { track, decode: time, presented: time, is_entry, data };
        bytes.extend(mux.push(&sample(0, 3_600 * n, n % 25 == 0, unit)));
        for half in 0..2 {
            // Control header (prefix, length of the packet), and 100 bytes of Opus.
            let opus = [&[0x7f, 0xe0, 100][..], &[n as u8; 100]].concat();
            bytes.extend(mux.push(&sample(1, 3_600 * n + 1_800 * half, true, opus)));
        }
    }
    files.write("in.ts", &bytes)
}

/// Payloads of the packets of a PID, in order.
fn payloads_of(path: &str, pid: u16) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let of_pid = bytes
        .chunks_exact(PACKET)
        .filter(|packet| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == pid && packet[3] & 0x10 != 0);
    let payload = |packet: &[u8]| {
        let skipped = if packet[3] & 0x20 == 0 { 4 } else { 5 + usize::from(packet[4]) };
        packet[skipped..].to_vec()
    };
    of_pid.map(payload).collect()
}

#[test]
fn av1_with_opus_passes_through_losses_and_its_sound_through_half_of_its_rate() {
    let test = "av1_with_opus_passes_through_losses_and_its_sound_through_half_of_its_rate";
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let files = Files::new();
    let source = av1_with_opus(&files);
    let [video, audio] = [0x100, 0x101].map(|pid| payloads_of(&source, pid));
    let lossy = through(&files, &source, "1s", &["--delay", "10ms", "--back-delay", "10ms", "--loss", "2%"]);
    assert_eq!((check(&lossy).0, payloads_of(&lossy, 0x100)), (check(&source).0, video.clone()), "all arrives");
    let rate = (fs::metadata(&source).unwrap().len() * 8 / 4 / 2).to_string();
    let others = Files::new();
    let narrow = through(&others, &source, "1s", &["--rate", &rate, "--delay", "10ms", "--queue", "300ms"]);
    check(&narrow);
    assert_eq!(payloads_of(&narrow, 0x101), audio, "sound");
    let came = payloads_of(&narrow, 0x100);
    assert!(came.len() < video.len() && came.len() > video.len() / 10, "{} of {}", came.len(), video.len());
    // Whole PES packets, in order.
    let pes = |packets: &[Vec<u8>]| {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for packet in packets {
            match found.last_mut() {
                Some(last) if !packet.starts_with(&[0, 0, 1, 0xbd]) => last.extend_from_slice(packet),
                _ => found.push(packet.clone()),
            }
        }
        found
    };
    let mut sent = pes(&video).into_iter();
    assert!(pes(&came).iter().all(|of| sent.any(|sent| sent == *of)));
}

/// It was called MPEG-TS, with the advice of a `.ts` file, which has no video of it.
#[test]
fn mp4_of_webm_is_refused_with_what_it_is_and_a_sink_that_takes_it() {
    let test = "mp4_of_webm_is_refused_with_what_it_is_and_a_sink_that_takes_it";
    if !is_installed("ffmpeg") {
        return skip(test, "ffmpeg");
    }
    let (files, port) = (Files::new(), free_port());
    let source = files.path("in.webm");
    let mut ffmpeg = encoder("1", &["-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libopus"], &["-y"]);
    ffmpeg.args(["-f", "webm", &source]);
    Running::start(ffmpeg).ends_with(0);
    let uri = format!("timeous://:{port}?reconnect=off");
    for (name, code) in [("out.mp4", 5), ("out.sdp", 0)] {
        let mut receiver = timeous(&["recv", &uri, &files.path(name)]);
        receiver.until_it_says("listening");
        let mut sender = timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}?reconnect=off")]);
        let said = receiver.ends_with(code);
        let is_told = said.contains("is RTP of video VP8, audio opus") && said.contains(".sdp");
        assert_eq!(is_told, code > 0, "{said}");
        sender.end();
    }
    assert!(!fs::exists(files.path("out.mp4")).unwrap() && fs::exists(files.path("out.sdp")).unwrap());
}

#[test]
fn a_file_whose_name_promises_another_format_is_refused() {
    let files = Files::new();
    let Some(source) = encode(&files, &MPEG2_MP2) else {
        return skip("a_file_whose_name_promises_another_format_is_refused", "ffmpeg");
    };
    let port = free_port();
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?reconnect=off"), &files.path("out.mp4")]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &source, &format!("timeous://127.0.0.1:{port}")]);
    let said = receiver.ends_with(5);
    assert!(said.contains("the sender's stream is MPEG-TS") && said.contains(".ts"), "{said}");
    sender.kill();
}
