//! Connection roles: sender and receiver may each be the caller or the listener.

use std::path::Path;

use crate::support::{Files, assert_is_beginning_of, clip, free_port, is_free, timeous, until};

fn a_sender_that_listens(listen: impl Fn(u16) -> String) {
    let files = Files::new();
    let sent = clip(40);
    let (source, sink, port) = (files.write("clip.h264", &sent), files.path("out.h264"), free_port());
    let mut sender = timeous(&["send", &source, &listen(port)]);
    until("the sender listens", || !is_free(port) || !sender.is_alive());
    let mut receiver = timeous(&["recv", &format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off"), &sink]);
    sender.ends_with(0);
    receiver.ends_with(0);
    assert_eq!(assert_is_beginning_of(Path::new(&sink), &sent), 40);
}

#[test]
fn a_sender_without_a_host_is_called_by_its_receiver() {
    a_sender_that_listens(|port| format!("timeous://:{port}?latency=3s&reconnect=off"));
}

#[test]
fn a_sender_in_listener_mode_is_called_at_its_address() {
    a_sender_that_listens(|port| format!("timeous://127.0.0.1:{port}?latency=3s&reconnect=off&mode=listener"));
}

#[test]
fn one_port_after_the_other_serves_one_caller_after_the_other() {
    let port = free_port();
    let sent = clip(20);
    for _ in 0..2 {
        let files = Files::new();
        let (source, sink) = (files.write("clip.h264", &sent), files.path("out.mp4"));
        let mut receiver = timeous(&["recv", &format!("timeous://:{port}?latency=3s&reconnect=off"), &sink]);
        receiver.until_it_says("listening at");
        timeous(&["send", &source, &format!("timeous://localhost:{port}?latency=3s&reconnect=off")]).ends_with(0);
        receiver.ends_with(0);
        let kept = std::fs::read(&sink).unwrap();
        assert_eq!(&kept[4..8], b"ftyp", "a sink that ends in .mp4 is one");
    }
}
