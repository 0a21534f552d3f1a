//! ffmpeg: encoding and remultiplexing of sources.

use std::path::Path;
use std::process::Command;

use crate::error::DemoError;

/// Runs ffmpeg: encodes, or with an input copies, to `output`.
pub(crate) fn ffmpeg(words: &str, input: Option<&Path>, output: &Path) -> Result<(), DemoError> {
    let mut command = Command::new("ffmpeg");
    command.args(["-y", "-loglevel", "error"]).args(words.split_whitespace());
    if let Some(input) = input {
        command.arg("-i").arg(input).args(["-c", "copy", "-f", "mpegts"]);
    }
    let made = command.arg(output).output().map_err(|_| DemoError::NotInstalled("ffmpeg"))?;
    if made.status.success() {
        return Ok(());
    }
    Err(DemoError::record(output, format!("ffmpeg failed: {}", String::from_utf8_lossy(&made.stderr).trim())))
}
