//! What ffmpeg decodes of a transport stream.

use std::path::Path;
use std::process::Command;

use crate::error::DemoError;

/// What a decoder makes of a stream: pictures decoded, audio frames as they stand in the stream, each by its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) pictures: Vec<String>,
    pub(super) audio: Vec<String>,
    /// Lines of `ffmpeg -v error`.
    pub(super) errors: usize,
}

impl Decoded {
    /// Decodes a file.
    ///
    /// # Errors
    /// ffmpeg is not there. What it cannot decode is none.
    pub(super) fn by_ffmpeg(path: &Path) -> Result<Self, DemoError> {
        // Apart: of a video without a picture ffmpeg knows no format, and it would give up the sound, too.
        let [video, audio] = ["-map 0:v? -fps_mode passthrough", "-map 0:a? -c:a copy"].map(|streams| {
            let mut command = Command::new("ffmpeg");
            command.args(["-v", "error", "-threads", "1", "-copyts", "-i"]).arg(path);
            command.args(streams.split_whitespace()).args(["-f", "framehash", "-"]);
            command.output().map_err(|_| DemoError::NotInstalled("ffmpeg"))
        });
        let (video, audio) = (video?, audio?);
        let errors = String::from_utf8_lossy(&video.stderr).lines().count();
        let read = |bytes: &[u8]| Self::parse(&String::from_utf8_lossy(bytes));
        Ok(Self { pictures: read(&video.stdout).pictures, audio: read(&audio.stdout).audio, errors })
    }

    /// Reads ffmpeg's `framehash`: a line of stream, times, duration, size and hash for each frame.
    fn parse(text: &str) -> Self {
        let mut decoded = Self::default();
        let mut audio_stream = None;
        for line in text.lines() {
            if let Some((stream, "audio")) = line.strip_prefix("#media_type ").and_then(|rest| rest.split_once(": ")) {
                audio_stream = Some(stream.to_owned());
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            if let [stream, .., hash] = fields[..]
                && !line.starts_with('#')
            {
                let is_audio = audio_stream.as_deref() == Some(stream);
                if is_audio { &mut decoded.audio } else { &mut decoded.pictures }.push(hash.to_owned());
            }
        }
        decoded
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::ts) fn decoded(pictures: &[&str], audio: &[&str]) -> Decoded {
        let all = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Decoded { pictures: all(pictures), audio: all(audio), errors: 0 }
    }

    #[test]
    fn hashes_of_both_streams_are_read() {
        let text =
            "#media_type 0: video\n#media_type 1: audio\n0, 1, 1, 1, 9, aa\n1, 1, 1, 1, 9, bb\n0, 2, 2, 1, 9, cc\n";
        assert_eq!(Decoded::parse(text), decoded(&["aa", "cc"], &["bb"]));
    }
}
