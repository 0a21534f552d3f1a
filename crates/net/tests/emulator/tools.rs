//! What the tests of the emulators share: loud skips, and tshark.

use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use timeous_core::Instant;
use timeous_net::emulator::{Emulator, Ended, Stop, Stopper};

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// The named fields of each packet of a capture that `filter` selects, checksums verified; `None` without tshark.
pub(crate) fn tshark(capture: &Path, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
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

/// What tshark finds wrong with the packets of a capture: bad checksums, malformed packets, any expert warning.
pub(crate) const COMPLAINTS: &str = "_ws.malformed || ip.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\" \
     || _ws.expert.severity >= \"Warning\"";

/// An emulator that runs in a thread of its own until it is dropped or taken back.
pub(crate) struct Running<E> {
    stopper: Stopper,
    thread: Option<JoinHandle<E>>,
}

impl<E: Emulator + Send + 'static> Running<E> {
    pub(crate) fn start(mut emulator: E) -> Self {
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let run = move || {
            assert_eq!(emulator.run_until(Instant::FAR_FUTURE, &stop).unwrap(), Ended::Stopped);
            emulator.flush().unwrap();
            emulator
        };
        Self { stopper, thread: Some(std::thread::spawn(run)) }
    }

    /// Stops it.
    pub(crate) fn stop(mut self) -> E {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Long enough for anything that is going to come; nothing waits for it but a test that fails.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
