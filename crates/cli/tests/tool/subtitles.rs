//! Subtitles in MPEG-TS: bitmaps of DVB that ffmpeg encodes, through a link that is too narrow for the video.

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
    timeous(&["send", "--stats", &sent, &source, &format!("timeous://127.0.0.1:{near}?latency=1s")]).ends_with(0);
    receiver.ends_with(0);
    let wanted = subtitles(&source);
    assert!(wanted.len() >= 4 && subtitles(&out) == wanted, "{wanted:?}");
    let told = tracks(&sent);
    let of = |kind: &str| told.iter().find(|track| track["kind"] == kind).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!((&of("subtitles")["codec"], &of("subtitles")["framesGivenUp"]), (&"DVB subtitles".into(), &0.into()));
    assert!(of("video")["framesGivenUp"].as_u64().unwrap() > 0, "{told:?}");
}
