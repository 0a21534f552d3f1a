//! Integration test of the demonstration, with the first seconds of the clip: real processes over an emulated link.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeous-demo")).args(arguments).output().unwrap()
}

/// The first two seconds of the clip.
fn beginning(directory: &Path) -> PathBuf {
    let clip = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/clip.h264")).unwrap();
    let mut reader = timeous_media::FrameReader::new(None);
    reader.push(&clip).unwrap();
    let frames = std::iter::from_fn(|| reader.next_frame()).take(60);
    let path = directory.join("a clip.h264");
    fs::write(&path, frames.flat_map(|frame| frame.annexb()).collect::<Vec<u8>>()).unwrap();
    path
}

#[test]
fn a_short_clip_is_judged_and_shown() {
    let tool = Path::new(env!("CARGO_BIN_EXE_timeous-demo")).with_file_name("timeous");
    assert!(tool.is_file(), "build the tool first, as `make unit` does: cargo build --workspace --bins");
    let directory = tempfile::tempdir().unwrap();
    let (clip, out) = (beginning(directory.path()), directory.path().join("out"));
    let output = demo(&["--json", "--clip", clip.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    // Two seconds are too few for all of the promises: 1 says that one of them does not hold.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");

    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = outcome["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["udp", "fifo", "timeous"]);
    for run in runs {
        let number = |name: &str| run[name].as_u64().unwrap();
        assert_eq!(number("frames"), 60, "{run}");
        assert!(number("decodable_in_time") <= number("frames_in_time") && number("frames_in_time") <= 60, "{run}");
        assert!(number("link_packets") > 100, "{run}");
    }
    assert_eq!(runs[2]["left_late"], 0, "the first promise holds at any length: {}", runs[2]);
    assert_eq!(output.status.success(), outcome["broken_promises"].as_array().unwrap().is_empty());

    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for video in page.split("<video src=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert_eq!(fs::read(out.join(video)).unwrap()[4..8], *b"ftyp", "{video}");
    }
    assert!(page.contains("original.mp4") && out.join("logs/timeous-sender.log").is_file());
}

#[test]
fn what_is_no_clip_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let clip = directory.path().join("text.h264");
    fs::write(&clip, "not a video").unwrap();
    let output = demo(&["--clip", clip.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("text.h264 cannot be streamed"), "{said}");
}
