//! The MP4 file of what was received: what ffprobe finds in it.

use timeous_core::{Duration, Instant};
use timeous_media::mp4::{Mp4Error, Mp4Writer};
use timeous_media::{FrameKind, Playout, PlayoutConfig, PlayoutFrame};

use crate::support::{adus, drain, frame_of, frames, run_tool};

/// What a receiver gives out of the clip if the frames in `lost` do not come.
fn received(lost: impl Fn(usize) -> bool) -> Vec<PlayoutFrame> {
    let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
    let mut out = Vec::new();
    for adu in adus(frames()).into_iter().filter(|adu| !lost(frame_of(adu))) {
        playout.handle_timeout(Instant::ZERO + adu.handover);
        playout.handle_packet(Instant::ZERO + adu.handover, &adu.rtp).unwrap();
        out.extend(drain(&mut playout));
    }
    playout.finish();
    out.extend(drain(&mut playout));
    out
}

fn file_of(frames: &[PlayoutFrame], origin: Option<i64>) -> Vec<u8> {
    let mut writer = origin.map_or_else(Mp4Writer::new, Mp4Writer::from_origin);
    for frame in frames {
        writer.push(frame).unwrap();
    }
    assert_eq!(writer.frames(), frames.len());
    writer.finish().unwrap()
}

/// Times on the screen in ticks, and flags, in decoding order.
fn packets_of(test: &str, file: &[u8]) -> Option<Vec<(i64, i64, bool)>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.mp4");
    std::fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let stderr_free = run_tool(test, "ffmpeg", &["-v", "error", "-xerror", "-i", path, "-f", "null", "-"])?;
    assert_eq!(stderr_free, "");
    let entries = "packet=pts,dts,flags:stream=codec_name,width,height,time_base";
    let lines = run_tool(test, "ffprobe", &["-v", "error", "-show_entries", entries, "-of", "compact=nk=1:p=0", path])?;
    assert!(lines.contains("h264|640|360|1/90000"), "{lines}");
    let packets = lines.lines().filter_map(|line| {
        let mut fields = line.split('|');
        let pts = fields.next()?.parse().ok()?;
        let dts = fields.next()?.parse().ok()?;
        Some((pts, dts, fields.next()?.starts_with('K')))
    });
    Some(packets.collect())
}

#[test]
fn the_whole_clip_plays() {
    let frames = received(|_| false);
    let file = file_of(&frames, None);
    let moov = file.windows(4).position(|window| window == b"moov").unwrap();
    let mdat = file.windows(4).position(|window| window == b"mdat").unwrap();
    assert!(moov < mdat, "a browser can begin before it has all");
    let Some(packets) = packets_of("the_whole_clip_plays", &file) else { return };
    assert_eq!(packets.len(), 540);
    let first = packets[0].0;
    for ((pts, dts, key), frame) in packets.iter().zip(&frames) {
        assert_eq!(pts - first, frame.ticks);
        assert!(dts <= pts);
        assert_eq!(*key, frame.kind == FrameKind::Idr);
    }
    assert!(packets.windows(2).all(|pair| pair[1].1 == pair[0].1 + 3_000));
}

#[test]
fn a_missing_frame_makes_the_one_before_it_last_longer() {
    let all = frames();
    let b = |i: usize| all[i].kind == FrameKind::B;
    let frames = received(|i| b(i) && i % 4 < 3 || (200..230).contains(&i));
    assert!(frames.len() < 400);
    let Some(packets) = packets_of("a_missing_frame_makes_the_one_before_it_last_longer", &file_of(&frames, None))
    else {
        return;
    };
    let first = packets[0].0;
    let shown: Vec<i64> = packets.iter().map(|(pts, ..)| pts - first).collect();
    let expected: Vec<i64> = frames.iter().map(|frame| frame.ticks).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_missing_beginning_is_filled_by_the_first_frame() {
    let frames = received(|i| i < 30);
    assert_eq!(frames[0].ticks, 60 * 3_000);
    let Some(packets) = packets_of("a_missing_beginning_is_filled_by_the_first_frame", &file_of(&frames, Some(0)))
    else {
        return;
    };
    let first = packets[0].0;
    assert_eq!(packets[1].0 - first, frames[1].ticks);
}

#[test]
fn what_cannot_be_a_file_is_refused() {
    assert!(matches!(Mp4Writer::new().finish(), Err(Mp4Error::Empty)));
    let mut writer = Mp4Writer::new();
    let slice_without_sets = [0, 0, 0, 1, 0x65, 0x88, 0x84, 0];
    assert!(matches!(writer.push_annexb(&slice_without_sets, 0, FrameKind::Idr), Err(Mp4Error::NoParameterSets)));
    assert!(matches!(writer.push_annexb(b"mp4!", 0, FrameKind::Idr), Err(Mp4Error::Frame(_))));
}
