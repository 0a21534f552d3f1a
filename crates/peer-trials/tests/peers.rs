//! Integration test of the comparison with other protocols: a short run with the peers available on every machine.

use std::process::Command;

/// Whether namespaces can be made here.
fn is_allowed() -> bool {
    let name = format!("timeous-peers-test-{}", std::process::id());
    let ip =
        |verb: &str| Command::new("ip").args(["netns", verb, &name]).output().is_ok_and(|out| out.status.success());
    ip("add") && ip("delete")
}

#[test]
fn one_judge_counts_for_udp_and_for_timeous() {
    if !is_allowed() {
        assert!(std::env::var_os("TIMEOUS_REQUIRE_ALL").is_none(), "needs root and iproute2");
        eprintln!("SKIPPED one_judge_counts_for_udp_and_for_timeous: needs root and iproute2");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/clip.h264");
    let words = "--json --seconds 2 --seeds 1 --links bloat --peers timeous,udp,sctp --programs /nowhere --clip";
    let output = Command::new(env!("CARGO_BIN_EXE_timeous-peer-trials"))
        .args(words.split(' '))
        .args([clip, "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = found["runs"].as_array().unwrap();
    let of = |peer: &str| runs.iter().find(|run| run["peer"] == peer).unwrap();
    let (timeous, udp) = (of("timeous"), of("udp"));
    assert_eq!((&timeous["frames"], &timeous["problem"]), (&60.into(), &serde_json::Value::Null));
    assert_eq!(timeous["left_late"], 0, "nothing of ours leaves after its deadline: {timeous}");
    assert!(timeous["wire_share"].as_f64().unwrap() < 0.9, "late choice kept something back: {timeous}");
    assert!(udp["wire_share"].as_f64().unwrap() > 1.0, "UDP keeps nothing back: {udp}");
    assert!(udp["delay_ms"][0].as_f64().unwrap() > 50.0, "twice the link's rate fills its queue: {udp}");
    assert!(of("sctp")["problem"].as_str().unwrap().starts_with("not installed"));
    let journeys = std::fs::read_to_string(out.path().join("raw/bloat-udp-1.csv")).unwrap();
    assert!(journeys.lines().count() > 60, "a line for each datagram");
}
