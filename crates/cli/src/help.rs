//! Closing text of `--help`: URI keys, policies, controllers, exit codes, examples.

use timeous::PolicyName;
use timeous::cm::Kind;
use timeous::uri::KEYS;

use crate::failure::exit_codes;

/// Text after the options.
pub(crate) fn uri_and_exit_codes() -> String {
    let keys: String =
        KEYS.iter().map(|key| row(key.name, &format!("{}. Default: {}", key.meaning, key.default))).collect();
    let policies: String = PolicyName::ALL.map(|policy| row(policy.as_str(), policy.drops())).concat();
    let controllers: String = Kind::ALL.map(|kind| row(kind.name(), kind.description()[0])).concat();
    format!(
        "timeous://host:port?key=value&…\n  With a host it calls, without one it listens. Keys:\n{keys}\n\
         Policies, by what they drop:\n{policies}\n\
         Controllers:\n{controllers}\n\
         {}\n\n\
         Examples:\n  \
         timeous passphrase --out pass      # then copy it to the other host\n  \
         timeous recv 'timeous://:6511?latency=500ms&passphrase=file:pass' clip.h264\n  \
         timeous send clip.h264 'timeous://receiver.example:6511?latency=500ms&passphrase=file:pass'\n  \
         ffmpeg -i CAMERA -c:v libx264 -tune zerolatency -f h264 - | timeous send - timeous://127.0.0.1\n  \
         timeous recv timeous:// - | ffplay -probesize 32 -flags low_delay -",
        exit_codes()
    )
}

fn row(name: &str, meaning: &str) -> String {
    format!("  {name:11} {}\n", without_markup(meaning))
}

/// Removes Markdown's code marks and link targets.
fn without_markup(text: &str) -> String {
    let mut plain = String::new();
    for part in text.replace('`', "").split('[') {
        match part.split_once("](") {
            Some((words, rest)) => {
                plain.push_str(words);
                plain.push_str(rest.split_once(')').map_or("", |(_, rest)| rest));
            }
            None => plain.push_str(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::without_markup;

    #[test]
    fn markup_is_left_out() {
        assert_eq!(without_markup("see [policies](#policies); `a` or `b`"), "see policies; a or b");
    }
}
