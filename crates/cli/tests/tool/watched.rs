//! Test setup: a stream from a sender to a receiver with a viewer.

use std::process::Stdio;

use serde_json::{Map, Value};
use timeous::clock;

use crate::feeder::Sent;
use crate::pictures::{Picture, first_slice};
use crate::support::{Files, Running, command, decoder, free_port, is_installed, skip};
use crate::viewer::{Viewer, ViewerOutput};

/// Latency in milliseconds that exceeds the stalls of a busy machine.
pub(crate) const LATENCY_MS: u64 = 1_000;

/// Receiver that listens for one stream, and its viewer.
pub(crate) struct WatchedReceiver {
    pub(crate) files: Files,
    pub(crate) port: u16,
    latency_ms: u64,
    pub(crate) receiver: Running,
    viewer: Viewer,
}

/// Results of a stream.
pub(crate) struct Outcome {
    pub(crate) files: Files,
    pub(crate) seen: ViewerOutput,
    /// Messages of the receiver.
    pub(crate) said: String,
    /// Last statistics of the receiver.
    pub(crate) stats: Map<String, Value>,
}

impl WatchedReceiver {
    pub(crate) fn start() -> Self {
        Self::start_at(free_port(), LATENCY_MS)
    }

    pub(crate) fn start_at(port: u16, latency_ms: u64) -> Self {
        let files = Files::new();
        let uri = format!("timeous://127.0.0.1:{port}?mode=listener&latency={latency_ms}ms&reconnect=off");
        let mut receive = command(&["recv", &uri, "-", "--stats", &files.path("stats.json")]);
        receive.args(["--frames", &files.path("frames.csv")]).stdout(Stdio::piped());
        let mut receiver = Running::start(receive);
        let viewer = Viewer::start(receiver.read());
        receiver.until_it_says("listening at");
        Self { files, port, latency_ms, receiver, viewer }
    }

    /// Starts a sender to its port.
    pub(crate) fn send(&self, source: &str, options: &[&str]) -> Running {
        send_to(self.port, self.latency_ms, source, options)
    }

    /// Starts a sender that reads RTP at a port; waits for its connection.
    pub(crate) fn send_rtp(&mut self, port: u16, options: &[&str]) -> Running {
        let sender = self.send(&format!("udp://127.0.0.1:{port}"), options);
        self.receiver.until_it_says("connected");
        sender
    }

    /// Starts a sender that reads a pipe, and may call another port; waits for its connection.
    pub(crate) fn send_pipe(&mut self, port: u16) -> Running {
        let sender = send_to(port, self.latency_ms, "-", &[]);
        self.receiver.until_it_says("connected");
        sender
    }

    /// Waits for the end of the stream.
    #[track_caller]
    pub(crate) fn end(mut self) -> Outcome {
        let said = self.receiver.ends_with(0);
        let stats = last_record(&self.files.path("stats.json"));
        Outcome { files: self.files, seen: self.viewer.end(), said, stats }
    }
}

/// Starts a sender that calls this port; its standard input is a pipe.
pub(crate) fn send_to(port: u16, latency_ms: u64, source: &str, options: &[&str]) -> Running {
    let uri = format!("timeous://127.0.0.1:{port}?latency={latency_ms}ms");
    let mut send = command(&[&["send", source, &uri], options].concat());
    send.stdin(Stdio::piped());
    Running::start(send)
}

/// Pictures of a file as if sent just now.
pub(crate) fn as_sent(pictures: &[Picture]) -> Vec<Sent> {
    let at = clock::now();
    pictures.iter().map(|picture| Sent { slice: first_slice(picture).to_vec(), at }).collect()
}

/// Last record of statistics in JSON.
pub(crate) fn last_record(path: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(text.lines().last().expect("there is a record")).unwrap()
}

impl Outcome {
    /// Checks that exactly the sent pictures arrived.
    #[track_caller]
    pub(crate) fn assert_whole(&self, sent: &[Sent]) {
        let seen: Vec<Vec<u8>> = self.seen.pictures().into_iter().map(|seen| seen.slice).collect();
        let sent: Vec<Vec<u8>> = sent.iter().map(|sent| sent.slice.clone()).collect();
        assert_eq!(seen.len(), sent.len(), "{} {:?}", self.said, self.stats);
        assert!(seen == sent, "the pictures came in another order");
        self.assert_counts(sent.len());
    }

    /// Checks that the receiver counts this many frames as shown, and none as late or missing.
    #[track_caller]
    pub(crate) fn assert_counts(&self, shown: usize) {
        let counts = ["framesDecodable", "framesLate", "framesIncomplete", "framesReferenceMissing"];
        let counts = counts.map(|name| self.stats[name].as_u64().unwrap());
        assert_eq!(counts, [shown as u64, 0, 0, 0], "shown, late, incomplete, without their reference: {}", self.said);
    }

    /// Checks that ffmpeg decodes the viewer's stream without errors.
    #[track_caller]
    pub(crate) fn assert_decodes(&self, test: &str) {
        let path = self.files.write("seen.h264", &self.seen.stream);
        if !is_installed("ffmpeg") {
            return skip(test, "ffmpeg");
        }
        let said = Running::start(decoder(&["-f", "h264", "-i", &path, "-f", "null", "-"])).ends_with(0);
        assert_eq!(said, "");
    }
}
