//! Lip sync of recordings: flashes and beeps of a source at the same times, by ffmpeg at both ends.

use std::process::{Command, Stdio};

use crate::passthrough::Film;
use crate::support::{Running, free_port, is_free, is_installed, side_by_side, skip, timeous, until};

/// Largest error between sound and picture, in seconds; half the duration of a picture.
const MOST: f64 = 0.020;

/// A white picture, and a beep, at each full second.
const FLASHES: &str = "color=black:s=320x240:r=25,drawbox=c=white:t=fill:enable='lt(mod(t,1),0.079)'";
const BEEPS: &str = "aevalsrc='if(lt(mod(t,1),0.08),0.8*sin(2000*PI*t),0)':s=48000";

const H264_AAC: [&str; 8] = ["-c:v", "libx264", "-preset", "ultrafast", "-bf", "0", "-c:a", "aac"];

/// Ends of darkness and of silence in a file, in seconds.
fn flashes_and_beeps(path: &str) -> [Vec<f64>; 2] {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "info", "-i", path, "-vf", "blackdetect=d=0.3:pix_th=0.5"]);
    ffmpeg.args(["-af", "silencedetect=n=-20dB:d=0.3", "-f", "null", "-"]);
    ffmpeg.stdin(Stdio::null()).stdout(Stdio::null());
    let said = Running::start(ffmpeg).ends_with(0);
    ["black_end:", "silence_end:"].map(|name| {
        let values = said.split(name).skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
        values.collect()
    })
}

/// Records the film by RTP; returns how far each beep is from the flash of its time, in seconds.
fn errors_of(name: &str) -> Vec<f64> {
    let film = Film::of(FLASHES, BEEPS, &H264_AAC);
    let [input, _] = film.sessions([1, 3]);
    let (port, out) = (free_port(), film.files.path(name));
    let mut receiver = timeous(&["recv", &format!("timeous://:{port}?reconnect=off&latency=300ms"), &out]);
    receiver.until_it_says("listening");
    let mut sender = timeous(&["send", &input, &format!("timeous://127.0.0.1:{port}?latency=300ms")]);
    until("the sender listens", || !is_free(film.ports[0]) && !is_free(film.ports[1]));
    Running::start(film.encoder(&["-re"])).ends_with(0);
    sender.stop();
    receiver.ends_with(0);
    let [flashes, beeps] = flashes_and_beeps(&out);
    assert!(flashes.len() >= 3 && beeps.len() >= 3, "{name}: flashes at {flashes:?}, beeps at {beeps:?}");
    let error = |flash: &f64| {
        beeps.iter().map(|beep| beep - flash).min_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap()
    };
    flashes.iter().map(error).collect()
}

fn assert_in_step(name: &str) {
    let errors = errors_of(name);
    // The last beep may be in a packet that ffmpeg did not send.
    let errors = &errors[..errors.len() - 1];
    assert!(errors.iter().all(|error| error.abs() < MOST), "{name}: {errors:?}");
}

/// ffmpeg sends sound up to half a second after the pictures of its time, and tells the clocks of both.
#[test]
fn rtp_of_sound_and_picture_is_recorded_in_step() {
    if !is_installed("ffmpeg") {
        return skip("rtp_of_sound_and_picture_is_recorded_in_step", "ffmpeg");
    }
    side_by_side(&[("MPEG-TS", || assert_in_step("out.ts")), ("MP4", || assert_in_step("out.mp4"))]);
}
