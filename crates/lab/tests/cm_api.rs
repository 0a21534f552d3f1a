//! Tests of cm-api's counts: system calls by name at a client of each API, and a client that returns every
//! second grant.

use std::process::{Command, Output};

/// Runs the lab; `None`, with the reason, where this machine forbids to trace.
fn lab(arguments: &[&str]) -> Option<Output> {
    let output = Command::new(env!("CARGO_BIN_EXE_timeous-lab")).args(arguments).output().unwrap();
    if output.status.code() == Some(4) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "may not be skipped: {said}");
        eprintln!("SKIPPED: {said}");
        return None;
    }
    Some(output)
}

#[test]
fn a_datagram_has_its_system_calls_and_bytes() {
    let Some(output) = lab(&["cm-api", "--real", "--extent", "least", "--json"]) else { return };
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = found["data"]["counted"].as_array().unwrap();
    let of = |name: &str| counted.iter().find(|row| row["name"] == name).unwrap();
    let calls = |name: &str, call: &str| of(name)["system"]["calls"][call].as_u64().unwrap_or(0);
    let packets = of("udp")["packets"].as_u64().unwrap();
    assert!(packets > 0);
    // The others connect the socket and mark the end.
    assert_eq!(calls("udp", "sendto"), packets, "{found}");
    assert!((1..16).contains(&calls("udp", "other")), "{found}");
    assert_eq!(of("udp")["system"]["bytes_in"], 168 * packets);
    assert_eq!(of("udp")["system"]["bytes_out"], 0);
    for name in ["buffered", "alf", "no-connect", "buffered, daemon", "alf, daemon", "no-connect, daemon"] {
        assert!(calls(name, "sendto") >= packets, "{name}: {found}");
        assert!(calls(name, "recvfrom") > packets / 2, "{name}: {found}");
        // While the kernel corrects its clock, a look at it can be a call.
        assert!(calls(name, "clock_gettime") + calls(name, "gettimeofday") <= 5, "{name}: {found}");
    }
    assert!(of("alf")["api"]["requests"].as_u64().unwrap() >= packets, "{found}");
    assert_eq!(of("buffered")["api"]["requests"], 0, "the socket requests, not the application");
}

#[test]
fn a_client_that_returns_grants_is_found() {
    let Some(output) = lab(&["sabotages", "cm-api"]) else { return };
    let [proved, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(0), "{proved}{said}");
    assert!(proved.contains("fell: table 1: ALF: requests"), "{proved}");
}
