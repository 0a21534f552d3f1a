//! Streams to players that know nothing of Timeous: FLV by HTTP and over TCP, read by ffmpeg as it is.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::support::{Files, Running, command, decoder, encode, free_port, skip, sleep_until, timeous};

/// Pictures of the source, of 25 a second.
const PICTURES: usize = 200;
/// Rate of the source, in bits per second.
const RATE: u64 = 600_000;

/// Eight seconds of video with B frames, and a keyframe each second.
fn video() -> Option<Vec<u8>> {
    let rate = "bitrate=600:vbv-maxrate=600:vbv-bufsize=150:nal-hrd=cbr";
    encode("640x360", PICTURES, &format!("{rate}:keyint=25:min-keyint=25:scenecut=0:bframes=2:b-adapt=0"))
}

/// ffmpeg as a player of this input: it counts the pictures that it decodes, and says nothing but errors.
fn player(input: &[&str]) -> Running {
    let mut player = decoder(input);
    player.args(["-fps_mode", "passthrough", "-f", "framecrc", "-"]).stdout(Stdio::piped());
    Running::start(player)
}

/// Times in milliseconds of the pictures that a player has decoded, to its end.
fn decoded(player: &mut Running) -> Vec<u64> {
    let mut listed = String::new();
    player.read().read_to_string(&mut listed).unwrap();
    assert_eq!(player.ends_with(0), "", "the decoder has nothing to complain of");
    let base: Vec<u64> = listed
        .lines()
        .find_map(|line| line.strip_prefix("#tb 0: ")?.split('/').map(|part| part.parse().ok()).collect())
        .expect("a time base");
    let rows = listed.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split(',').nth(2).unwrap().trim().parse::<u64>().unwrap() * base[0] * 1_000 / base[1]).collect()
}

#[test]
fn a_player_reads_all_by_http_and_over_tcp_whoever_calls() {
    let (test, files) = ("a_player_reads_all_by_http_and_over_tcp_whoever_calls", Files::new());
    let Some(bytes) = video() else { return skip(test, "ffmpeg") };
    let source = files.write("clip.h264", &bytes);
    let [http, waits, calls] = [free_port(), free_port(), free_port()];
    let (mut by_http, mut by_tcp) = (
        timeous(&["send", &source, &format!("http://:{http}/?latency=3s&reconnect=off")]),
        timeous(&["send", &source, &format!("tcp://:{waits}?latency=3s&reconnect=off")]),
    );
    let mut called = player(&["-f", "flv", "-listen", "1", "-i", &format!("tcp://127.0.0.1:{calls}?listen=1")]);
    by_http.until_it_says(" at ");
    by_tcp.until_it_says(" at ");
    // No request: it is told so, and the next one is served.
    let mut stranger = TcpStream::connect(("127.0.0.1", http)).unwrap();
    stranger.write_all(b"DELETE / HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    stranger.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
    let mut asking = player(&["-i", &format!("http://127.0.0.1:{http}/live.flv")]);
    let mut reading = player(&["-f", "flv", "-i", &format!("tcp://127.0.0.1:{waits}")]);
    let mut calling = timeous(&["send", &source, &format!("tcp://127.0.0.1:{calls}?latency=3s")]);
    // The first is handed over before any other waits for a later one.
    let expected: Vec<u64> = (1..PICTURES as u64).map(|picture| picture * 40).collect();
    for (name, player, sender) in [
        ("by HTTP", &mut asking, &mut by_http),
        ("it calls", &mut reading, &mut by_tcp),
        ("it is called", &mut called, &mut calling),
    ] {
        let times = decoded(player);
        let second = times[1] - 40;
        assert_eq!(times[1..].iter().map(|time| time - second).collect::<Vec<_>>(), expected, "{name}");
        sender.ends_with(0);
    }
}

/// Reads `RATE / 2` of what comes in, and writes it to a player.
fn half(from: &TcpListener, mut to: impl Write) -> Instant {
    const STEP: Duration = Duration::from_millis(10);
    let (mut stream, _) = from.accept().unwrap();
    let mut buffer = vec![0; (RATE / 2 / 8 / 100) as usize];
    let mut next = clock::now();
    let mut last = next;
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return last,
            len => to.write_all(&buffer[..len]).unwrap(),
        }
        last = clock::now();
        next = next.max(last.saturating_sub(STEP)) + STEP;
        sleep_until(next);
    }
}

#[test]
fn through_half_of_the_rate_a_player_has_whole_pictures_and_no_delay_builds_up() {
    let test = "through_half_of_the_rate_a_player_has_whole_pictures_and_no_delay_builds_up";
    let Some(bytes) = video() else { return skip(test, "ffmpeg") };
    let link = TcpListener::bind("127.0.0.1:0").unwrap();
    // A queue of a path, not the megabytes of a host.
    set_socket_recv_buffer_size(&link, 16 * 1024).unwrap();
    let port = link.local_addr().unwrap().port();
    let mut playing = decoder(&["-f", "flv", "-i", "-", "-fps_mode", "passthrough", "-f", "framecrc", "-"]);
    playing.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut player = Running::start(playing);
    let input = player.write();
    let read = thread::spawn(move || half(&link, input));
    let mut sending = command(&["send", "-", &format!("tcp://127.0.0.1:{port}?latency=800ms&reconnect=off")]);
    sending.stdin(Stdio::piped());
    let mut sender = Running::start(sending);
    feed(&mut sender, &bytes);
    let fed = clock::now();
    let times = decoded(&mut player);
    let last = read.join().unwrap();
    sender.ends_with(0);
    let late = last.saturating_since(fed);
    assert!((40..=170).contains(&times.len()), "{} of {PICTURES}: {times:?}", times.len());
    assert!(times.last().unwrap() - times[0] > 7_000, "{times:?}");
    // Without choice, the second half of the stream would come up to eight seconds later.
    assert!(late < Duration::from_secs(4), "{late:?} after the source's end");
}

/// Writes the stream in real time, as an encoder does.
fn feed(sender: &mut Running, bytes: &[u8]) {
    let mut input = sender.write();
    let pictures = crate::pictures::pictures(bytes);
    let mut next = clock::now();
    for picture in &pictures {
        input.write_all(&crate::pictures::annexb(picture)).unwrap();
        next += Duration::from_millis(40);
        sleep_until(next);
    }
}

#[test]
fn what_a_player_cannot_have_is_refused() {
    let files = Files::new();
    let source = files.write("a.h264", &crate::support::clip(2));
    let said = |arguments: &[&str]| timeous(arguments).ends_with(2);
    assert!(said(&["send", &source, &format!("http://:{}/?as=ts", free_port())]).contains("raw H.264"));
    assert!(said(&["send", &source, "tcp://h:9?as=ogg"]).contains("as=flv"));
    assert!(said(&["send", &source, "http://camera.example"]).contains("http://:8080"));
    assert!(said(&["send", &source, "tcp://h?passphrase=file:a"]).ends_with("leave out passphrase\n"));
    assert!(said(&["send", "--journal", "j.csv", &source, "tcp://h"]).contains("--journal"));
    assert!(said(&["recv", "tcp://:7000", "out.mp4"]).contains("timeous://"));
}

/// Six seconds of video and sound in MPEG-TS.
fn with_sound(files: &Files) -> Option<String> {
    let source = files.path("av.ts");
    let mut ffmpeg = std::process::Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=6", "-f", "lavfi", "-i"]);
    ffmpeg.args([
        "sine=frequency=440:sample_rate=48000:duration=6",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "25",
    ]);
    ffmpeg.args(["-bf", "2", "-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mpegts", &source]).stdin(Stdio::null());
    ffmpeg.status().is_ok_and(|status| status.success()).then_some(source)
}

#[test]
fn sound_reaches_players_in_flv_and_a_transport_stream_as_it_is() {
    let (test, files) = ("sound_reaches_players_in_flv_and_a_transport_stream_as_it_is", Files::new());
    let Some(source) = with_sound(&files) else { return skip(test, "ffmpeg with libx264") };
    for (container, kind) in [("flv", "flv"), ("ts", "mpegts")] {
        let port = free_port();
        let uri = format!("http://:{port}/?as={container}&latency=3s&reconnect=off");
        let mut sender = timeous(&["send", &source, &uri]);
        sender.until_it_says(" at ");
        let address = format!("http://127.0.0.1:{port}/live");
        let mut asking = decoder(&["-f", kind, "-i", &address]);
        asking.args(["-map", "0:v:0", "-map", "0:a:0", "-fps_mode", "passthrough", "-f", "framecrc", "-"]);
        let mut player = Running::start({
            asking.stdout(Stdio::piped());
            asking
        });
        let mut listed = String::new();
        player.read().read_to_string(&mut listed).unwrap();
        assert_eq!(player.ends_with(0), "", "{container}: the decoder has nothing to complain of");
        sender.ends_with(0);
        let of = |stream: &str| listed.lines().filter(|line| line.starts_with(stream)).count();
        let (pictures, sounds) = (of("0,"), of("1,"));
        // Six seconds of 25 pictures, and of 1024 samples at 48 kHz.
        assert!(pictures >= 149 && sounds >= 278, "{container}: {pictures} pictures, {sounds} sounds");
    }
}

/// Found by a second player that came late: FLV began with pictures before the header of their codec, a transport stream with pictures of
/// which the keyframe had passed.
#[test]
fn a_player_that_comes_late_begins_with_a_keyframe() {
    let (test, files) = ("a_player_that_comes_late_begins_with_a_keyframe", Files::new());
    let Some(source) = with_sound(&files) else { return skip(test, "ffmpeg with libx264") };
    for (container, kind) in [("flv", "flv"), ("ts", "mpegts")] {
        let port = free_port();
        let mut sender = timeous(&["send", &source, &format!("http://:{port}/?as={container}&latency=3s")]);
        sender.until_it_says(" at ");
        let address = format!("http://127.0.0.1:{port}/live");
        let mut first = player(&["-f", kind, "-i", &address, "-map", "0:v:0"]);
        crate::support::sleep(Duration::from_millis(1_600));
        let mut late = player(&["-f", kind, "-i", &address, "-map", "0:v:0"]);
        assert!(decoded(&mut first).len() >= 149, "{container}");
        let pictures = decoded(&mut late).len();
        assert!((70..=125).contains(&pictures), "{container}: {pictures} pictures, from a keyframe on");
        sender.ends_with(0);
    }
}

#[test]
fn gstreamer_plays_the_flv_with_its_sound() {
    let (test, files) = ("gstreamer_plays_the_flv_with_its_sound", Files::new());
    let elements = ["flvdemux", "capssetter", "avdec_h264", "aacparse", "avdec_aac", "souphttpsrc"];
    let has = |element: &str| {
        let mut inspect = std::process::Command::new("gst-inspect-1.0");
        inspect.arg(element).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        inspect.status().is_ok_and(|status| status.success())
    };
    if !elements.iter().all(|element| has(element)) {
        return skip(test, &format!("GStreamer with {}", elements.join(", ")));
    }
    let Some(source) = with_sound(&files) else { return skip(test, "ffmpeg with libx264") };
    let port = free_port();
    let mut sender = timeous(&["send", &source, &format!("http://:{port}/?as=flv&latency=3s&reconnect=off")]);
    sender.until_it_says(" at ");
    let [pictures, sounds] = ["video.raw", "sound.raw"].map(|name| files.path(name));
    let mut play = std::process::Command::new("gst-launch-1.0");
    play.args(["-q", "souphttpsrc", &format!("location=http://127.0.0.1:{port}/"), "!", "flvdemux", "name=d"]);
    // A tag is a picture, which the demuxer does not tell.
    play.args(["d.video", "!", "queue", "!", "capssetter", "caps=video/x-h264,alignment=au", "!", "avdec_h264", "!"]);
    play.args(["video/x-raw,format=I420", "!", "filesink", &format!("location={pictures}")]);
    play.args(["d.audio", "!", "queue", "!", "aacparse", "!", "avdec_aac", "!", "filesink"]);
    play.arg(format!("location={sounds}")).stdin(Stdio::null());
    Running::start(play).ends_with(0);
    sender.ends_with(0);
    let picture = 320 * 180 * 3 / 2;
    assert!(crate::support::size(&pictures) >= 149 * picture, "{} bytes", crate::support::size(&pictures));
    // 48000 samples of 32 bits each second.
    assert!(crate::support::size(&sounds) >= 4 * 48_000 * 11 / 2, "{} bytes", crate::support::size(&sounds));
}
