//! Frames of H.264 whose references came, as ffmpeg decodes them: the same, bit by bit, whatever else was given up.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use timeous_core::Rng;
use timeous_media::{Frame, FrameReader, annexb};

/// Encoders: x264 with one and three reference frames, pyramids of B-pictures, weights, and several slices.
const ENCODERS: [&str; 4] = [
    "-preset veryfast -profile:v main -bf 2 -sc_threshold 0",
    "-preset medium -bf 3",
    "-preset slower -bf 5 -x264-params b-pyramid=strict:weightp=2",
    "-preset fast -bf 4 -refs 2 -slices 3",
];

fn ffmpeg(arguments: &str, input: &[u8]) -> Vec<u8> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error"]).args(arguments.split(' '));
    let mut child = ffmpeg.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || to.write_all(&input));
    let done = child.wait_with_output().unwrap();
    // ffmpeg may end before it has read everything.
    let _ = writer.join().unwrap();
    assert!(done.status.success());
    done.stdout
}

/// Hash of each picture that a decoder shows.
fn pictures(frames: &[&Frame]) -> Vec<String> {
    let mut stream = Vec::new();
    for frame in frames {
        annexb::write(frame.nals.iter().map(Vec::as_slice), &mut stream);
    }
    let told = ffmpeg("-f h264 -i pipe: -fps_mode passthrough -f framemd5 -", &stream);
    let told = String::from_utf8(told).unwrap();
    let lines = told.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit(',').next());
    lines.map(|hash| hash.trim().to_owned()).collect()
}

#[test]
fn what_has_its_references_is_shown_as_it_was() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("skipped what_has_its_references_is_shown_as_it_was: ffmpeg is not installed");
        return;
    }
    for encoder in ENCODERS {
        let source = format!(
            "-f lavfi -i testsrc2=size=160x96:rate=25,noise=alls=6:allf=t -t 3 -pix_fmt yuv420p -c:v libx264 {encoder} -b:v 200k -g 25 -f h264 -"
        );
        let mut reader = FrameReader::new(None);
        reader.push(&ffmpeg(&source, &[])).unwrap();
        reader.finish().unwrap();
        let frames: Vec<Frame> = std::iter::from_fn(|| reader.next_frame()).collect();
        let whole: BTreeSet<String> = pictures(&frames.iter().collect::<Vec<_>>()).into_iter().collect();
        assert!(frames.len() == 75 && whole.len() > 60, "{encoder}");
        let mut rng = Rng::from_seed(7);
        for _ in 0..12 {
            // One to three frames are given up, and all that refer to them.
            let mut given_up: BTreeSet<u32> = (0..1 + rng.below(3)).map(|_| 2 + rng.below(74) as u32).collect();
            for frame in &frames {
                if frame.references.iter().any(|id| given_up.contains(&id.0)) {
                    given_up.insert(frame.index + 1);
                }
            }
            let kept: Vec<&Frame> = frames.iter().filter(|frame| !given_up.contains(&(frame.index + 1))).collect();
            let shown = pictures(&kept);
            let damaged = shown.iter().filter(|picture| !whole.contains(*picture)).count();
            assert!(
                damaged == 0 && shown.len() == kept.len(),
                "{encoder}, without {given_up:?}: {damaged} damaged of {}",
                shown.len()
            );
        }
    }
}
