//! Subtitles in MPEG-TS: bitmaps of DVB that ffmpeg encodes, and teletext, through a link that is too narrow for the video.

use std::process::{Command, Stdio};

use crate::statistics::tracks;
use crate::support::{Files, Running, emulate, free_port, is_installed, size, skip, timeous};

/// Bitmaps as on Blu-ray discs (PGS), which ffmpeg reads: each a box in one colour, for less than half a second.
fn bitmaps() -> Vec<u8> {
    let segment = |kind: u8, pts: u32, data: &[u8]| {
        let (pts, len) = (pts.to_be_bytes(), (data.len() as u16).to_be_bytes());
        [b"PG", &pts[..], &[0; 4], &[kind], &len, data].concat()
    };
    // Picture of 160 by 120, number, new epoch or not, and the number of objects; an object at (10, 10).
    let composition = |number: u8, state: u8, object: &[u8]| {
        let count = u8::from(!object.is_empty());
        [&[0, 160, 0, 120, 0x10, 0, number, state, 0, 0, count], object].concat()
    };
    let window = [1, 0, 0, 10, 0, 10, 0, 32, 0, 16];
    let lines = [&[1; 32][..], &[0, 0]].concat().repeat(16);
    let len = (lines.len() as u32 + 4).to_be_bytes();
    let object = [&[0, 0, 0, 0xc0], &len[1..], &[0, 32, 0, 16], &lines].concat();
    let shown = |number: u8| {
        let pts = 45_000 + u32::from(number) * 67_500;
        let gone = pts + 40_000;
        [
            segment(0x16, pts, &composition(2 * number, 0x80, &[0, 0, 0, 0, 0, 10, 0, 10])),
            segment(0x17, pts, &window),
            segment(0x14, pts, &[0, 0, 1, 200, 128, 128, 255]),
            segment(0x15, pts, &object),
            segment(0x80, pts, &[]),
            segment(0x16, gone, &composition(2 * number + 1, 0, &[])),
            segment(0x17, gone, &window),
            segment(0x80, gone, &[]),
        ]
        .concat()
    };
    (0..4).flat_map(shown).collect()
}

/// Hashes of the packets of subtitles.
fn subtitles(path: &str) -> Vec<String> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-xerror", "-i", path, "-map", "0:s", "-c", "copy", "-f", "framemd5", "-"]);
    let told = String::from_utf8(ffmpeg.output().unwrap().stdout).unwrap();
    told.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit(',').next().unwrap().to_owned()).collect()
}

#[test]
fn subtitles_pass_whole_where_the_video_has_no_room() {
    if !is_installed("ffmpeg") {
        return skip("subtitles_pass_whole_where_the_video_has_no_room", "ffmpeg");
    }
    let files = Files::new();
    let (pictures, source, out) = (files.write("in.sup", &bitmaps()), files.path("in.ts"), files.path("out.ts"));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25", "-i", &pictures]);
    ffmpeg.args(["-map", "0:v", "-map", "1:s", "-t", "4", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25"]);
    ffmpeg.args(["-pix_fmt", "yuv420p", "-c:s", "dvbsub", "-f", "mpegts", &source]).stdin(Stdio::null());
    Running::start(ffmpeg).ends_with(0);
    let (near, far, sent) = (free_port(), free_port(), files.path("sent"));
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency=1s&reconnect=off"), &out]);
    receiver.until_it_says("listening");
    let rate = (size(&source) * 8 / 4 / 2).to_string();
    let _link = emulate(near, far, &["--rate", &rate, "--delay", "10ms", "--queue", "300ms"]);
    let mut sender = timeous(&["send", "--stats", &sent, &source, &format!("timeous://127.0.0.1:{near}?latency=1s")]);
    eprintln!("{}{}", sender.ends_with(0), receiver.ends_with(0));
    let wanted = subtitles(&source);
    assert!(wanted.len() >= 4, "{wanted:?}");
    assert_eq!(subtitles(&out), wanted);
    let told = tracks(&sent);
    let of = |kind: &str| told.iter().find(|track| track["kind"] == kind).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!((&of("subtitles")["codec"], &of("subtitles")["framesGivenUp"]), (&"DVB subtitles".into(), &0.into()));
    assert!(of("video")["framesGivenUp"].as_u64().unwrap() > 0, "{told:?}");
}

const PACKET: usize = 188;
/// PIDs of ffmpeg's map and video, and of the teletext.
const MAP: u16 = 0x1000;
const VIDEO: u16 = 0x100;
const TELETEXT: u16 = 0x200;

/// Checksum of a section (ISO/IEC 13818-1 annex A).
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 0 { 0 } else { 0x04c1_1db7 })
    })
}

/// Packet whose payload is filled up to its end.
fn packet(pid: u16, counter: u8, payload: &[u8], fill: u8) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut packet = vec![0x47, 0x40 | high, low, 0x10 | counter & 0x0f];
    packet.extend_from_slice(payload);
    assert!(packet.len() <= PACKET);
    packet.resize(PACKET, fill);
    packet
}

/// Map of a program of H.264 and teletext.
fn map(counter: u8) -> Vec<u8> {
    let mut section = vec![2, 0xb0, 30, 0, 1, 0xc1, 0, 0, 0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0];
    section.extend([0x1b, 0xe0 | (VIDEO >> 8) as u8, VIDEO as u8, 0xf0, 0]);
    // Private PES packets with a teletext descriptor (EN 300 468 §6.2.43): German, initial page 100.
    section.extend([0x06, 0xe0 | (TELETEXT >> 8) as u8, TELETEXT as u8, 0xf0, 7]);
    section.extend([0x56, 5, b'd', b'e', b'u', 0x09, 0x00]);
    section.extend(crc(&section).to_be_bytes());
    packet(MAP, counter, &[&[0], &section[..]].concat(), 0xff)
}

/// PES packet of teletext (EN 300 472 §4): a header of 45 bytes with its time, and three data units of 46 bytes, which are 184 bytes.
fn teletext(number: u8, pts: u64) -> Vec<u8> {
    let time = [
        0x21 | (pts >> 29) as u8 & 0x0e,
        (pts >> 22) as u8,
        (pts >> 14) as u8 | 1,
        (pts >> 7) as u8,
        (pts << 1) as u8 | 1,
    ];
    let mut pes = vec![0, 0, 1, 0xbd, 0, 178, 0x84, 0x80, 36];
    pes.extend(time);
    pes.resize(45, 0xff);
    pes.push(0x10);
    for unit in 0..3 {
        pes.extend([0x02, 0x2c, 0xe0 | unit, 0xe4]);
        pes.extend([number.wrapping_add(unit); 42]);
    }
    pes
}

#[test]
fn teletext_passes_whole_where_the_video_has_no_room() {
    if !is_installed("ffmpeg") {
        return skip("teletext_passes_whole_where_the_video_has_no_room", "ffmpeg");
    }
    let files = Files::new();
    let [video, out, sent, received] = ["video.ts", "out.ts", "sent", "received"].map(|name| files.path(name));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "4"]);
    ffmpeg.args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-b:v", "600k", "-pix_fmt", "yuv420p"]);
    ffmpeg.args(["-f", "mpegts", &video]).stdin(Stdio::null());
    Running::start(ffmpeg).ends_with(0);
    // Another map, and a PES packet of teletext before each picture.
    let (mut source, mut maps, mut pages) = (Vec::new(), 0, 0);
    for bytes in std::fs::read(&video).unwrap().chunks_exact(PACKET) {
        let pid = u16::from_be_bytes([bytes[1] & 0x1f, bytes[2]]);
        if pid == MAP {
            source.extend(map(maps));
            maps = maps.wrapping_add(1);
            continue;
        }
        if pid == VIDEO && bytes[1] & 0x40 != 0 {
            source.extend(packet(TELETEXT, pages, &teletext(pages, 130_000 + 3_600 * u64::from(pages)), 0));
            pages += 1;
        }
        source.extend_from_slice(bytes);
    }
    let source = files.write("in.ts", &source);
    let (near, far) = (free_port(), free_port());
    let at = format!("timeous://:{far}?latency=1s&reconnect=off");
    let mut receiver = timeous(&["recv", "--stats", &received, &at, &out]);
    receiver.until_it_says("listening");
    let rate = (size(&source) * 8 / 4 / 2).to_string();
    let _link = emulate(near, far, &["--rate", &rate, "--delay", "10ms", "--queue", "300ms"]);
    timeous(&["send", "--stats", &sent, &source, &format!("timeous://127.0.0.1:{near}?latency=1s")]).ends_with(0);
    receiver.ends_with(0);
    let of_teletext = |path: &str| {
        let bytes = std::fs::read(path).unwrap();
        let packets = bytes.chunks_exact(PACKET).filter(|packet| packet[2] == 0 && packet[1] & 0x1f == 2);
        packets.map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let wanted = of_teletext(&source);
    let came = of_teletext(&out);
    let missing: Vec<_> = (0..)
        .zip(&wanted)
        .filter(|(_, page)| !came.iter().any(|of| of[4..] == page[4..]))
        .map(|(n, _)| n)
        .collect::<Vec<u32>>();
    assert!(
        wanted.len() == 100 && came == wanted,
        "{} of 100, without {missing:?}: {:?}, {:?}",
        came.len(),
        tracks(&sent),
        tracks(&received)
    );
    // ffmpeg knows the stream by the map that came out.
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-select_streams", "s", "-count_packets", "-show_entries"]);
    probe.args(["stream=codec_name,nb_read_packets", "-of", "csv=p=0", &out]);
    let told = String::from_utf8(probe.output().unwrap().stdout).unwrap();
    assert!(told.contains("dvb_teletext,100"), "{told}");
    let told = tracks(&sent);
    let of = |kind: &str| told.iter().find(|track| track["kind"] == kind).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!((&of("subtitles")["codec"], &of("subtitles")["framesGivenUp"]), (&"teletext".into(), &0.into()));
    assert!(of("video")["framesGivenUp"].as_u64().unwrap() > 0, "{told:?}");
}
