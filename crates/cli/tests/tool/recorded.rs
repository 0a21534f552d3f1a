//! Checks of recordings with ffprobe and ffmpeg: presentation times and decodability.

use std::process::{Command, Stdio};

use crate::support::{Running, decoder};

/// A recording.
pub(crate) struct Recorded {
    /// Presentation times of the pictures in seconds, in decoding order.
    pub(crate) times: Vec<f64>,
}

impl Recorded {
    /// Reads an MP4 file, all of which must be decodable.
    #[track_caller]
    pub(crate) fn mp4(path: &str) -> Self {
        assert_decodes(path, &[]);
        let mut probe = Command::new("ffprobe");
        probe.args(["-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time", "-of", "csv=p=0", path]);
        let made = probe.stdin(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let text = String::from_utf8(made.stdout).unwrap();
        let times: Vec<f64> = text.lines().map(|line| line.trim_end_matches(',').parse().unwrap()).collect();
        assert!(times.is_sorted(), "pictures are not reordered here: {times:?}");
        Self { times }
    }

    /// Longest time between two pictures.
    pub(crate) fn longest_gap(&self) -> f64 {
        self.times.windows(2).map(|two| two[1] - two[0]).fold(0.0, f64::max)
    }

    /// Time from the first picture to the last.
    pub(crate) fn span(&self) -> f64 {
        self.times.last().unwrap() - self.times[0]
    }
}

/// Checks that ffmpeg decodes a file to its end without messages.
#[track_caller]
pub(crate) fn assert_decodes(path: &str, format: &[&str]) {
    // Times that deviate from a constant rate are no error.
    let output = ["-fps_mode", "passthrough", "-enc_time_base", "-1", "-f", "null", "-"];
    let input = [format, &["-i", path], &output].concat();
    assert_eq!(Running::start(decoder(&input)).ends_with(0), "", "{path}");
}
