//! Test support: checks captures by tshark, and reports a skip if tshark is missing.

use std::path::Path;
use std::process::Command;

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// The named fields of each packet of a capture that `filter` selects, checksums verified; `None` without tshark.
pub(crate) fn tshark(capture: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    command.args(["-o", "tcp.check_checksum:TRUE"]);
    // Whatever ports the system gave out, the payload is no protocol that tshark knows.
    command.args(["-d", "udp.port==1-65535,data"]);
    command.args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.expect("tshark starts"),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark speaks UTF-8");
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// Asserts that tshark finds nothing wrong with a capture.
pub(crate) fn assert_no_complaint(capture: &Path) {
    let fields = ["frame.number", "_ws.expert.message", "ip.checksum.status", "udp.checksum.status"];
    let complaints = tshark(capture, COMPLAINTS, &fields).expect("tshark is there");
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// tshark filter for defects in a capture: bad checksums, malformed packets, expert warnings.
pub(crate) const COMPLAINTS: &str = "_ws.malformed || ip.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\" \
     || tcp.checksum.status == \"Bad\" || _ws.expert.severity >= \"Warning\"";
