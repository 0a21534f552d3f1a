//! Integration test of the comparison of Timeous and SRT with MPEG-TS, in its shortest form.

use std::process::Command;

#[test]
fn both_tools_bring_pictures_and_audio() {
    let out = tempfile::tempdir().unwrap();
    let directory = out.path().join("out dir");
    let demo = Command::new(env!("CARGO_BIN_EXE_timeous-demo"))
        .args(["ts", "--seconds", "2", "--links", "clean", "--json", "--codecs", "mpeg2+ac3", "--out"])
        .arg(&directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&demo.stderr);
    if demo.status.code() == Some(4) && said.contains("is not installed") {
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{said}");
        eprintln!("SKIPPED both_tools_bring_pictures_and_audio: {said}");
        return;
    }
    assert!(demo.status.success(), "{said}");
    let rows: serde_json::Value = serde_json::from_slice(&demo.stdout).unwrap();
    let tools: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["timeous", "srt"]);
    for row in rows.as_array().unwrap() {
        assert_eq!((&row["link"], &row["pictures"]), (&"clean".into(), &50.into()), "{row}");
        // A busy machine may take some; no tool gives a PES packet out before the latency is over.
        assert!(row["intact"].as_u64().unwrap() >= 15, "{row}");
        assert!(row["audio_missing"].as_u64() < row["audio_frames"].as_u64(), "{row}");
        assert!(row["p50_ms"].as_f64().unwrap() >= 290.0, "{row}");
    }
    let table = std::fs::read_to_string(directory.join("ts.md")).unwrap();
    assert!(table.lines().count() == 4 && table.contains("| SRT | "), "{table}");
    assert!(directory.join("raw/clean-1-timeous.ts").is_file(), "what came out can be looked at");
}
