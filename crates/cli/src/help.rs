//! Closing text of `--help`: URI keys, exit codes, examples.

use timeous::uri::KEYS;

use crate::failure::EXIT_CODES;

/// Text after the options.
pub(crate) fn uri_and_exit_codes() -> String {
    let keys: String = KEYS.iter().map(|(key, meaning)| format!("  {key:8} {meaning}\n")).collect();
    format!(
        "timeous://host:port?key=value&…\n  With a host it calls, without one it listens. Keys:\n{keys}\n{EXIT_CODES}\n\n\
         Examples:\n  \
         timeous recv 'timeous://:6511?latency=500ms' clip.h264\n  \
         timeous send clip.h264 'timeous://receiver.example:6511?latency=500ms'\n  \
         ffmpeg -i CAMERA -c:v libx264 -tune zerolatency -f h264 - | timeous send - timeous://receiver.example\n  \
         timeous recv timeous:// - | ffplay -"
    )
}
