//! MP4 recordings: checked by ffmpeg and by a parser of their boxes.

use proptest::prelude::*;
use timeous_core::{Duration, Instant};
use timeous_media::mp4::{Mp4Error, Mp4Writer};
use timeous_media::{FrameKind, FrameReader, Playout, PlayoutConfig, PlayoutFrame};

use crate::mp4_boxes::{Boxes, ValidFile};
use crate::support::{adus, drain, frame_of, frames, run_tool};

/// Frames that a receiver releases if the frames in `lost` are lost.
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
    let mut file = Vec::new();
    for frame in frames {
        writer.push(frame).unwrap();
        file.extend(writer.take());
    }
    assert_eq!(writer.frames(), frames.len() as u64);
    writer.finish();
    file.extend(writer.take());
    file
}

/// Frames of a test picture encoded by ffmpeg, as a receiver releases them.
fn encoded(test: &str, size: &str, options: &[&str], first_ticks: i64) -> Option<Vec<PlayoutFrame>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.h264");
    let source = format!("testsrc2=size={size}:rate=25:duration=2");
    let mut arguments = vec!["-v", "error", "-f", "lavfi", "-i", &source, "-c:v", "libx264", "-pix_fmt", "yuv420p"];
    arguments.extend(options);
    arguments.extend(["-g", "10", path.to_str().unwrap()]);
    run_tool(test, "ffmpeg", &arguments)?;
    let mut reader = FrameReader::new(None);
    reader.push(&std::fs::read(&path).unwrap()).unwrap();
    reader.finish().unwrap();
    let frames: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
    assert_eq!(frames.len(), 50);
    let mut decode: Vec<i64> = frames.iter().map(|frame| first_ticks + frame.rtp_ticks as i64).collect();
    decode.sort_unstable();
    let frame = |(frame, decode): (&timeous_media::Frame, i64)| PlayoutFrame {
        annexb: frame.annexb(),
        ticks: first_ticks + frame.rtp_ticks as i64,
        decode_ticks: decode,
        is_entry: frame.kind == FrameKind::Idr,
        kind: frame.kind,
        reference: frame.reference,
        ..received_frame()
    };
    Some(frames.iter().zip(decode).map(frame).collect())
}

/// Default values of a received frame.
fn received_frame() -> PlayoutFrame {
    PlayoutFrame {
        annexb: Vec::new(),
        rtp_timestamp: 0,
        ticks: 0,
        decode_ticks: 0,
        is_entry: false,
        kind: FrameKind::P,
        reference: true,
        captured_at: Instant::ZERO,
        presented_at: Instant::ZERO,
        arrived_at: Instant::ZERO,
        completed_at: Instant::ZERO,
        playout_at: Instant::ZERO,
    }
}

/// Number of pictures that ffmpeg decodes from a file; it must report no error.
fn decoded(test: &str, file: &[u8]) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.mp4");
    std::fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let (input, output) = (["-v", "error", "-xerror", "-i", path], ["-fps_mode", "passthrough", "-f", "framecrc", "-"]);
    let lines = run_tool(test, "ffmpeg", &[&input[..], &output].concat())?;
    Some(lines.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count())
}

/// Presentation time, decoding time (in ticks) and entry point flag of each frame, in decoding order.
fn packets_of(test: &str, file: &[u8]) -> Option<Vec<(i64, i64, bool)>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.mp4");
    std::fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let entries = "packet=pts,dts,flags:stream=codec_name,codec_tag_string,width,height,time_base";
    let lines = run_tool(test, "ffprobe", &["-v", "error", "-show_entries", entries, "-of", "compact=nk=1:p=0", path])?;
    assert!(lines.contains("h264|avc1|640|360|1/90000"), "{lines}");
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
    let sound = Boxes::walk(&file).sound();
    assert_eq!(sound.samples.len(), 540);
    for (sample, frame) in sound.samples.iter().zip(&frames) {
        assert_eq!((sample.shown, sample.decode), (frame.ticks, frame.decode_ticks));
        assert_eq!(sample.is_entry, frame.is_entry);
    }
    let Some(packets) = packets_of("the_whole_clip_plays", &file) else { return };
    let shown: Vec<i64> = packets.iter().map(|(pts, ..)| pts - packets[0].0).collect();
    assert_eq!(shown, frames.iter().map(|frame| frame.ticks).collect::<Vec<_>>());
    assert!(packets.iter().zip(&frames).all(|((.., key), frame)| *key == frame.is_entry));
    assert_eq!(decoded("the_whole_clip_plays", &file), Some(540));
}

#[test]
fn a_missing_frame_makes_the_one_before_it_last_longer() {
    let all = frames();
    let b = |i: usize| all[i].kind == FrameKind::B;
    let frames = received(|i| b(i) && i % 4 < 3 || (200..230).contains(&i));
    assert!(frames.len() < 400);
    let file = file_of(&frames, None);
    let shown: Vec<i64> = Boxes::walk(&file).sound().samples.iter().map(|sample| sample.shown).collect();
    assert_eq!(shown, frames.iter().map(|frame| frame.ticks).collect::<Vec<_>>());
    let test = "a_missing_frame_makes_the_one_before_it_last_longer";
    assert!(decoded(test, &file).is_none_or(|count| count == frames.len()));
}

#[test]
fn a_missing_beginning_is_filled_by_the_first_frame() {
    let frames = received(|i| i < 30);
    assert_eq!(frames[0].ticks, 60 * 3_000);
    let sound = Boxes::walk(&file_of(&frames, Some(0))).sound();
    assert_eq!((sound.samples[0].shown, sound.samples[0].decode), (0, 0));
    assert_eq!(sound.samples[1].shown, frames[1].ticks);
}

#[test]
fn a_file_that_breaks_off_plays_to_within_a_second_of_media() {
    const TEST: &str = "a_file_that_breaks_off_plays_to_within_a_second_of_media";
    let mut frames = received(|_| false);
    // With a single entry point, fragments end by time.
    frames.iter_mut().skip(1).for_each(|frame| frame.is_entry = false);
    let mut writer = Mp4Writer::new();
    let mut file = Vec::new();
    for (count, frame) in frames.iter().enumerate() {
        writer.push(frame).unwrap();
        file.extend(writer.take());
        let sound = Boxes::walk(&file).sound();
        assert!(sound.incomplete == 0, "what is written is whole");
        let written = sound.samples.last().map_or(0, |sample| sample.decode);
        // B frames make decoding times jump by up to four frames.
        let behind = frame.decode_ticks - written;
        assert!(behind <= 90_000 + 4 * 3_000, "after {count} frames the file is {behind} ticks behind");
    }
    for cut in [file.len() / 3, file.len() / 2, file.len() - 1] {
        let whole = Boxes::walk(&file[..cut]).sound().samples.len();
        assert!(whole > 100);
        let Some(packets) = packets_of(TEST, &file[..cut]) else { return };
        assert!(packets.len() >= whole, "ffprobe finds {} of {whole}", packets.len());
    }
}

#[test]
fn at_most_a_megabyte_of_media_waits_in_memory() {
    let first = received(|i| i >= 10).remove(0);
    let mut writer = Mp4Writer::new();
    let (mut pushed, mut written) = (0, 0);
    for decode_ticks in 0..200 {
        writer.push(&PlayoutFrame { decode_ticks, is_entry: decode_ticks == 0, ..first.clone() }).unwrap();
        pushed += first.annexb.len();
        written += writer.take().len();
        assert!(pushed < written + (1 << 20) + first.annexb.len());
    }
    assert!(written > 1 << 20, "the test is large enough");
}

#[test]
fn a_pause_of_a_day_stays_a_pause() {
    const DAY: i64 = 90_000 * 86_400;
    let mut frames = received(|i| i >= 120);
    let half = frames.len() / 2;
    for frame in &mut frames[half..] {
        frame.ticks += DAY;
        frame.decode_ticks += DAY;
    }
    let file = file_of(&frames, None);
    let shown: Vec<i64> = Boxes::walk(&file).sound().samples.iter().map(|sample| sample.shown).collect();
    assert_eq!(shown, frames.iter().map(|frame| frame.ticks).collect::<Vec<_>>());
}

#[test]
fn parameter_sets_that_change_keep_playing() {
    const TEST: &str = "parameter_sets_that_change_keep_playing";
    let high = ["-profile:v", "high", "-bf", "2"];
    let baseline = ["-profile:v", "baseline"];
    let Some(first) = encoded(TEST, "320x240", &high, 0) else { return };
    let second = encoded(TEST, "640x360", &baseline, 180_000).unwrap();
    let third = encoded(TEST, "320x240", &high, 360_000).unwrap();
    let mut frames = [first, second, third].concat();
    // As from senders that send parameter sets once, the rest of each part has none.
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for frame in &mut frames {
        let nals = nals_of(&frame.annexb);
        let sets: Vec<_> = nals.iter().filter(|nal| matches!(nal[0] & 31, 7 | 8)).cloned().collect();
        if !sets.is_empty() && sets == seen {
            frame.annexb = annexb_of(nals.iter().filter(|nal| !sets.contains(nal)));
        } else if !sets.is_empty() {
            seen = sets;
        }
    }
    let file = file_of(&frames, None);
    let Some(pictures) = decoded(TEST, &file) else { return };
    assert_eq!(pictures, 150);
    assert_eq!(rewritten(TEST, &file), Some(150));
    // The second entry point of the second part has no sets of its own in the stream. After a seek to it, the decoder
    // has the sets of the sample entry, and needs the others from the sample.
    let sound = Boxes::walk(&file).sound();
    for (index, sample) in sound.samples.iter().enumerate().filter(|(_, sample)| sample.is_entry) {
        let in_band = sample.nal_types.starts_with(&[7, 8]);
        assert_eq!(in_band, index >= 50, "sample {index}: {:?}", sample.nal_types);
    }
}

/// Number of pictures in a file whose samples are converted to a byte stream before decoding, as in Chromium: each
/// entry point gets the sets of the sample entry unless it has its own.
fn rewritten(test: &str, file: &[u8]) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["in.mp4", "out.h264"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&from, file).unwrap();
    let copy = ["-v", "error", "-i", &from, "-c", "copy", "-bsf:v", "h264_mp4toannexb", "-f", "h264", &to];
    run_tool(test, "ffmpeg", &copy)?;
    decoded(test, &std::fs::read(&to).unwrap())
}

fn nals_of(annexb: &[u8]) -> Vec<Vec<u8>> {
    let mut splitter = timeous_media::annexb::NalSplitter::default();
    splitter.push(annexb).unwrap();
    splitter.finish().unwrap();
    std::iter::from_fn(|| splitter.next_nal()).collect()
}

fn annexb_of<'a>(nals: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    timeous_media::annexb::write(nals.map(Vec::as_slice), &mut out);
    out
}

#[test]
fn a_bad_picture_is_an_error_of_that_picture_only() {
    let frames = received(|i| i >= 60);
    let mut writer = Mp4Writer::new();
    assert_eq!(writer.push(&frames[1]), Err(Mp4Error::NoParameterSets), "before the first entry point");
    let without_sets = [0, 0, 0, 1, 0x65, 0x88, 0x84, 0];
    let bad = |annexb: &[u8]| PlayoutFrame { annexb: annexb.to_vec(), is_entry: true, ..received_frame() };
    assert_eq!(writer.push(&bad(&without_sets)), Err(Mp4Error::NoParameterSets));
    let mut file = Vec::new();
    for frame in &frames {
        assert!(matches!(writer.push(&bad(b"mp4!")), Err(Mp4Error::Frame(_))));
        writer.push(frame).unwrap();
        assert_eq!(writer.push(&bad(&[0, 0, 0, 1, 9, 0xf0])), Err(Mp4Error::NoPicture));
        for (ticks, decode_ticks) in [(1 << 50, 1 << 50), (i64::MAX, i64::MAX), (-5, i64::MAX), (i64::MAX, i64::MIN)] {
            let far = PlayoutFrame { ticks, decode_ticks, ..frame.clone() };
            assert_eq!(writer.push(&far), Err(Mp4Error::Time));
        }
        let early = PlayoutFrame { ticks: i64::MIN, ..frame.clone() };
        assert_eq!(writer.push(&early), Err(Mp4Error::Time));
        file.extend(writer.take());
    }
    writer.finish();
    file.extend(writer.take());
    assert_eq!(file, file_of(&frames, None), "bad pictures leave no trace");
}

#[test]
fn without_an_entry_point_there_is_no_file() {
    let mut writer = Mp4Writer::new();
    writer.finish();
    assert_eq!((writer.take(), writer.frames()), (Vec::new(), 0));
    let frames = received(|i| i >= 10);
    let first = PlayoutFrame { is_entry: false, ..frames[0].clone() };
    assert_eq!(writer.push(&first), Err(Mp4Error::NoEntry));
    writer.finish();
    assert_eq!((writer.take(), writer.frames()), (Vec::new(), 0));
}

/// Damage to a frame on its way to the writer.
#[derive(Clone, Debug)]
enum FrameDamage {
    None,
    Dropped,
    Times(i64, i64),
    Bytes(Vec<(prop::sample::Index, u8)>),
    Cut(prop::sample::Index),
    Entry,
}

fn mishap() -> impl Strategy<Value = FrameDamage> {
    let ticks = prop_oneof![-200_000i64..2_000_000, any::<i64>()];
    prop_oneof![
        6 => Just(FrameDamage::None),
        1 => Just(FrameDamage::Dropped),
        1 => (ticks.clone(), ticks).prop_map(|(shown, decode)| FrameDamage::Times(shown, decode)),
        2 => proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20).prop_map(FrameDamage::Bytes),
        1 => any::<prop::sample::Index>().prop_map(FrameDamage::Cut),
        1 => Just(FrameDamage::Entry),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_and_any_cut_at_a_box_leave_a_sound_file(
        mishaps in proptest::collection::vec(mishap(), 1..120),
        ends in any::<bool>(),
    ) {
        let mut writer = Mp4Writer::new();
        let mut file = Vec::new();
        for (frame, mishap) in clip_frames().iter().zip(&mishaps) {
            let mut frame = frame.clone();
            match mishap {
                FrameDamage::None => {}
                FrameDamage::Dropped => continue,
                FrameDamage::Times(shown, decode) => (frame.ticks, frame.decode_ticks) = (*shown, *decode),
                FrameDamage::Bytes(changes) => changes.iter().for_each(|(at, byte)| {
                    // Most headers are at the start.
                    let at = at.index(frame.annexb.len().min(60));
                    frame.annexb[at] = *byte;
                }),
                FrameDamage::Cut(at) => frame.annexb.truncate(at.index(frame.annexb.len())),
                FrameDamage::Entry => frame.is_entry = !frame.is_entry,
            }
            let _ = writer.push(&frame);
            file.extend(writer.take());
        }
        let taken = writer.frames();
        if ends {
            writer.finish();
            file.extend(writer.take());
        }
        let boxes = Boxes::walk(&file);
        for cut in boxes.boundaries() {
            let sound: ValidFile = Boxes::walk(&file[..cut]).sound();
            prop_assert!(sound.samples.windows(2).all(|pair| pair[0].decode < pair[1].decode));
            prop_assert!(sound.samples.first().is_none_or(|first| first.is_entry));
        }
        prop_assert!(!ends || boxes.sound().samples.len() as u64 == taken);
    }
}

fn clip_frames() -> &'static [PlayoutFrame] {
    static FRAMES: std::sync::OnceLock<Vec<PlayoutFrame>> = std::sync::OnceLock::new();
    FRAMES.get_or_init(|| received(|i| i >= 120))
}
