//! The two tools compared, with their command-line arguments.

use std::path::{Path, PathBuf};
use std::process::Command;

use timeous::core::Duration;
use timeous_testbed::values;

use crate::error::DemoError;

values! {
    /// Tool that carries the video.
    pub(crate) enum Tool {
        /// `timeous send` and `timeous recv`: H.264 into a pipe and out of one, or MPEG-TS in UDP in and out.
        Timeous = "timeous",
        /// `srt-live-transmit` on both ends: MPEG-TS in UDP in and out, as its manual shows.
        Srt = "srt",
    }
}

/// Program of SRT.
const SRT: &str = "srt-live-transmit";

/// Checks that SRT is installed.
pub(crate) fn check_installed() -> Result<(), DemoError> {
    Command::new(SRT).arg("-version").output().map_err(|_| DemoError::NotInstalled(SRT)).map(drop)
}

/// What goes into Timeous and comes out of it; SRT has MPEG-TS in UDP in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// H.264 in pipes.
    ByteStream,
    /// MPEG-TS in UDP.
    TransportStream,
}

/// Options of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolOptions {
    /// Latency of the receiver's buffer.
    pub(crate) latency: Duration,
    /// Whether frames are given out as soon as they can be decoded.
    pub(crate) is_immediate: bool,
    /// More for the URIs of Timeous: nothing, or keys that begin with `&`.
    pub(crate) keys: String,
    pub(crate) ends: Ends,
}

impl Tool {
    /// Its name in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Timeous => "Timeous",
            Self::Srt => "SRT",
        }
    }

    /// Its program; `timeous` is where that of Timeous is.
    pub(crate) fn program(self, timeous: &Path) -> PathBuf {
        match self {
            Self::Timeous => timeous.to_owned(),
            Self::Srt => SRT.into(),
        }
    }

    /// Words for the receiver, which listens at `port`; what comes goes to `out`, if that is UDP. `files` begins its files' names.
    pub(crate) fn receiver(self, terms: &ToolOptions, port: u16, out: u16, files: &str) -> Vec<String> {
        let (latency, keys) = (terms.latency.as_millis(), &terms.keys);
        let playout = if terms.is_immediate { "&playout=immediate" } else { "" };
        words(&match self {
            Self::Timeous => {
                let to = match terms.ends {
                    Ends::ByteStream => "-".to_owned(),
                    Ends::TransportStream => format!("udp://127.0.0.1:{out}"),
                };
                format!(
                "recv timeous://127.0.0.1:{port}?mode=listener&reconnect=off&latency={latency}{playout}{keys} {to} --quiet"
            )
            }
            Self::Srt => {
                format!("-loglevel:error srt://127.0.0.1:{port}?mode=listener&latency={latency} udp://127.0.0.1:{out}")
            }
        })
        .chain(self.records(&[("--frames", format!("{files}-frames.csv")), ("--stats", format!("{files}-recv.json"))]))
        .collect()
    }

    /// Words for the sender, which calls `port`; it takes what comes to `input`, if that is UDP.
    pub(crate) fn sender(self, terms: &ToolOptions, port: u16, input: u16, files: &str) -> Vec<String> {
        let (latency, keys) = (terms.latency.as_millis(), &terms.keys);
        words(&match self {
            Self::Timeous => {
                let from = match terms.ends {
                    Ends::ByteStream => "-".to_owned(),
                    Ends::TransportStream => format!("udp://127.0.0.1:{input}"),
                };
                format!("send {from} timeous://127.0.0.1:{port}?latency={latency}{keys} --quiet")
            }
            Self::Srt => {
                format!("-loglevel:error udp://127.0.0.1:{input} srt://127.0.0.1:{port}?mode=caller&latency={latency}")
            }
        })
        .chain(
            self.records(&[("--journal", format!("{files}-journal.csv")), ("--stats", format!("{files}-send.json"))]),
        )
        .collect()
    }

    /// Records that Timeous writes.
    fn records(self, options: &[(&str, String)]) -> Vec<String> {
        match self {
            Self::Timeous => options.iter().flat_map(|(option, file)| [(*option).to_owned(), file.clone()]).collect(),
            Self::Srt => Vec::new(),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms_reach_srt(terms: &ToolOptions) -> bool {
        Tool::Srt.sender(terms, 1, 2, "f").join(" ").contains("ccid")
    }

    #[test]
    fn both_tools_have_the_same_latency_at_both_ends() {
        let terms = ToolOptions {
            latency: Duration::from_millis(250),
            is_immediate: false,
            keys: String::new(),
            ends: Ends::ByteStream,
        };
        for tool in Tool::ALL {
            assert!(tool.receiver(&terms, 1, 2, "f").join(" ").contains("latency=250"), "{tool:?}");
            assert!(tool.sender(&terms, 1, 2, "f").join(" ").contains("latency=250"), "{tool:?}");
        }
        let terms = ToolOptions { is_immediate: true, keys: "&ccid=3".to_owned(), ..terms };
        assert!(Tool::Timeous.receiver(&terms, 1, 2, "f")[1].ends_with("&playout=immediate&ccid=3"));
        assert!(Tool::Timeous.sender(&terms, 1, 2, "f")[2].ends_with("&ccid=3") && !terms_reach_srt(&terms));
        let terms = ToolOptions { ends: Ends::TransportStream, ..terms };
        assert!(Tool::ALL.iter().all(|tool| tool.receiver(&terms, 1, 2, "f").contains(&"udp://127.0.0.1:2".into())));
    }
}
