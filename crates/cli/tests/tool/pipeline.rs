//! Streams between a real encoder and a real decoder, over a lossy link.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Files, Running, command, decoder, emulate, free_port, is_free, is_installed, skip, until};

const LINK: [&str; 13] = [
    "--rate",
    "1500k",
    "--delay",
    "20ms",
    "--back-delay",
    "20ms",
    "--queue",
    "300ms",
    "--loss",
    "3%",
    "--seed",
    "7",
    "--stats",
];

/// Real-time encoder of a test picture, to `output`.
fn encoder(seconds: &str, output: &[&str]) -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25"]);
    ffmpeg.args(["-t", seconds, "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"]);
    ffmpeg.args(["-pix_fmt", "yuv420p", "-b:v", "400k", "-g", "25"]).args(output);
    ffmpeg.stdin(Stdio::null()).stdout(Stdio::null());
    ffmpeg
}

/// Packets that the link lost in the forward direction.
fn losses(stats: &str) -> u64 {
    let samples: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(stats).unwrap()).unwrap();
    let forward = samples.iter().rfind(|sample| sample["direction"] == "forward").unwrap();
    forward["losses"].as_u64().unwrap()
}

/// Number of decodable frames and of all frames in a receiver's CSV file.
fn shown(list: &str) -> (usize, usize) {
    let list = std::fs::read_to_string(list).unwrap();
    let fates: Vec<&str> = list.lines().skip(1).map(|row| row.split(',').nth(2).unwrap()).collect();
    (fates.iter().filter(|&&fate| fate == "Decodable").count(), fates.len())
}

#[test]
fn an_encoder_s_pipe_reaches_a_decoder_s_pipe_over_a_lossy_link() {
    if !is_installed("ffmpeg") {
        return skip("an_encoder_s_pipe_reaches_a_decoder_s_pipe_over_a_lossy_link", "ffmpeg");
    }
    let files = Files::new();
    let (near, far) = (free_port(), free_port());
    let (stats, list) = (files.path("link.json"), files.path("frames.csv"));
    let mut link = emulate(near, far, &[&LINK[..], &["json", &stats]].concat());

    let from = format!("timeous://:{far}?latency=2s&reconnect=off");
    let mut receive = command(&["recv", &from, "-", "--frames", &list]);
    receive.stdout(Stdio::piped());
    let mut receiver = Running::start(receive);
    let mut decode = decoder(&["-f", "h264", "-i", "-", "-f", "null", "-"]);
    decode.stdin(receiver.output());
    let mut decode = Running::start(decode);

    let mut encode = encoder("4", &["-f", "h264", "-"]);
    encode.stdout(Stdio::piped());
    let mut encode = Running::start(encode);
    let mut send = command(&["send", "-", &format!("timeous://127.0.0.1:{near}?latency=2s&reconnect=off")]);
    send.stdin(encode.output());
    let mut sender = Running::start(send);

    assert_eq!(encode.ends_with(0), "");
    sender.ends_with(0);
    receiver.ends_with(0);
    assert_eq!(decode.ends_with(0), "", "ffmpeg has nothing to complain of");
    link.signal(rustix::process::Signal::INT);
    link.ends_with(0);
    assert!(losses(&stats) > 0, "the link lost nothing: the test shows nothing");
    let (decodable, all) = shown(&list);
    assert!(decodable >= 50, "{decodable} of {all} frames reached the decoder, of 100 that were sent");
}

#[test]
fn rtp_in_and_rtp_out_over_a_lossy_link() {
    const TEST: &str = "rtp_in_and_rtp_out_over_a_lossy_link";
    if !is_installed("ffmpeg") {
        return skip(TEST, "ffmpeg");
    }
    let files = Files::new();
    let [source, near, far, sink] = [free_port(), free_port(), free_port(), free_port()];
    let stats = files.path("link.json");
    let mut link = emulate(near, far, &[&LINK[..], &["json", &stats]].concat());
    let sdp = format!(
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=timeous\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {sink} RTP/AVP 96\n\
         a=rtpmap:96 H264/90000\na=fmtp:96 packetization-mode=1\n"
    );
    let sdp = files.write("stream.sdp", sdp.as_bytes());
    // It would read forever; with a frame limit it ends by itself.
    let input = [
        "-listen_timeout",
        "50",
        "-protocol_whitelist",
        "file,udp,rtp",
        "-i",
        &sdp,
        "-frames:v",
        "60",
        // Its guess of a frame rate from pictures with gaps may have two in one tick.
        "-enc_time_base",
        "-1",
        "-f",
        "null",
        "-",
    ];
    let mut player = Running::start(decoder(&input));
    until("the player listens", || !is_free(sink) || !player.is_alive());

    let (from, to) = (format!("timeous://:{far}?latency=1500ms"), format!("udp://127.0.0.1:{sink}"));
    let list = files.path("frames.csv");
    let mut receiver = Running::start(command(&["recv", &from, &to, "--frames", &list]));
    let (from, to) = (format!("udp://127.0.0.1:{source}"), format!("timeous://127.0.0.1:{near}?latency=1500ms"));
    let mut sender = Running::start(command(&["send", &from, &to]));
    until("the sender listens", || !is_free(source) || !sender.is_alive());
    let to = format!("rtp://127.0.0.1:{source}?pkt_size=1200");
    let mut encode = Running::start(encoder("8", &["-payload_type", "96", "-f", "rtp", &to]));

    let ended = player.end();
    let others = [&encode, &sender, &receiver, &link].map(Running::errors);
    assert!(ended.success(), "the player ended with {ended}: {}; the others say {others:?}", player.errors());
    assert_eq!(player.errors(), "", "ffmpeg has nothing to complain of");
    assert_eq!(encode.ends_with(0), "");
    // RTP has no end of stream: a silent source may come back, so that the user ends the stream.
    for end in [&mut sender, &mut receiver] {
        end.signal(rustix::process::Signal::INT);
        end.ends_with(0);
    }
    link.signal(rustix::process::Signal::INT);
    link.ends_with(0);
    assert!(losses(&stats) > 0, "the link lost nothing: the test shows nothing");
    let (decodable, all) = shown(&list);
    assert!(decodable >= 60, "{decodable} of {all} frames reached the player");
}
