//! Integration test of the soak test, in a short form. Needs root and iproute2.

use std::process::Command;

#[test]
fn five_seconds_over_a_bad_link_and_every_byte_is_as_it_was_offered() {
    let lab = Command::new(env!("CARGO_BIN_EXE_timeous-soak"))
        .args(["--for", "5s", "--loss", "4%", "--reorder", "10%", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&lab.stderr);
    if lab.status.code() == Some(4) {
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{said}");
        return eprintln!("SKIPPED five_seconds_over_a_bad_link: {said}");
    }
    let outcome: serde_json::Value = serde_json::from_slice(&lab.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert!(lab.status.success(), "{outcome:#}");
    let number = |at: &str| outcome.pointer(at).and_then(serde_json::Value::as_u64).unwrap();
    // Something was at stake: packets were lost, and late choice wrote over what was too late.
    assert!(number("/link_losses") > 5 && number("/link_reordered") > 5, "{outcome:#}");
    assert!(number("/counts/rewritten") > 10 && number("/counts/delivered") > 100, "{outcome:#}");
    assert!(number("/replaced") + number("/padded") > 0, "{outcome:#}");
    assert_eq!(outcome["into_retransmissions"], true, "{outcome:#}");
}
