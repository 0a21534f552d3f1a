//! Messages on standard error: each is written at once, so that the end of the process cuts none, and threads do not mix theirs.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use timeous::core::Duration;

use crate::support::{Files, clip, command, free_port, timeous};

/// Runs a command, and returns each piece that it writes to standard error.
#[track_caller]
fn pieces(mut command: Command) -> Vec<String> {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut child = command.stderr(OwnedFd::from(theirs)).spawn().unwrap();
    // The command has the other end, too.
    drop(command);
    ours.set_read_timeout(Some(Duration::from_millis(100).into())).unwrap();
    let (mut pieces, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let has_ended = child.try_wait().unwrap().is_some();
        match ours.recv(&mut buffer) {
            Ok(0) => return pieces,
            Ok(len) => pieces.push(String::from_utf8(buffer[..len].to_vec()).unwrap()),
            Err(_) if has_ended => return pieces,
            Err(_) => {}
        }
    }
}

/// Statistics came in one piece for each field, and messages in one for each value: the end of the process cut them.
#[test]
fn each_message_and_record_is_written_at_once() {
    let (files, port) = (Files::new(), free_port());
    let source = files.write("clip.h264", &clip(40));
    let sink = files.path("out.h264");
    let uri = |host: &str| format!("timeous://{host}:{port}?latency=300ms&reconnect=off");
    let mut receiver = timeous(&["recv", &uri(""), &sink]);
    receiver.until_it_says("listening at");
    let said = pieces(command(&["send", &source, &uri("127.0.0.1"), "--stats", "-", "--stats-interval", "50ms"]));
    receiver.ends_with(0);
    assert!(said.iter().filter(|piece| piece.starts_with('{')).count() > 10, "{said:?}");
    assert!(said.iter().any(|piece| piece.contains("40 frames")), "{said:?}");
    assert_whole(&said);

    let said = pieces(command(&["recv", "udp://127.0.0.1:0", &sink]));
    assert_whole(&said);
    let link = ["emulate", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "1500ms"];
    let said = pieces(command(&link));
    assert_eq!(said.len(), 2, "{said:?}");
    assert_whole(&said);
}

#[track_caller]
fn assert_whole(said: &[String]) {
    assert!(said.iter().all(|piece| piece.ends_with('\n') && piece.len() > 1), "{said:?}");
}
