//! Setup of the runs: link, approaches, command-line arguments of each program.

use std::path::{Path, PathBuf};

use timeous::core::{Duration, Rate};

use super::capture::Wire;
use super::judge::Approach;
use crate::tool::time;

/// Settings of link and stream, the same for all runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// The video's file.
    pub(crate) clip: PathBuf,
    /// The link's rate.
    pub(crate) rate: Rate,
    /// Link delay, each way.
    pub(crate) delay: Duration,
    /// Link queue, as an emulator option.
    pub(crate) queue: String,
    /// Latency from capture to playout.
    pub(crate) latency: Duration,
    /// Seed of the link's randomness.
    pub(crate) seed: u64,
    /// Minimum number of packets of the whole video.
    pub(crate) packets: u64,
    /// Time limit of a run.
    pub(crate) limit: Duration,
}

/// Files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// Journal of the sender.
    pub(crate) journal: PathBuf,
    /// Frames of the receiver.
    pub(crate) frames: PathBuf,
    /// Received video, as H.264.
    pub(crate) video: PathBuf,
    /// Capture of the link.
    pub(crate) capture: PathBuf,
    logs: PathBuf,
    name: &'static str,
}

impl Files {
    /// Creates the paths of a run below `out`.
    pub(crate) fn new(out: &Path, approach: Approach) -> Self {
        let name = approach.name();
        let file = |what: &str| out.join(format!("{name}-{what}"));
        Self {
            journal: file("journal.csv"),
            frames: file("frames.csv"),
            video: file("received.h264"),
            capture: file("link.pcapng"),
            logs: logs(out),
            name,
        }
    }

    /// Log of one of its programs.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.logs.join(format!("{}-{program}.log", self.name))
    }

    /// Statistics of one of its programs.
    fn stats(&self, program: &str) -> PathBuf {
        self.logs.join(format!("{}-{program}-stats.json", self.name))
    }
}

/// Directory of the logs.
pub(crate) fn logs(out: &Path) -> PathBuf {
    out.join("logs")
}

/// Format of the payloads on the link.
pub(crate) fn wire(approach: Approach) -> Wire {
    match approach {
        Approach::Udp => Wire::Rtp,
        Approach::Fifo | Approach::Timeous => Wire::Dccp,
    }
}

/// Arguments of the emulator, which picks a port and forwards to `receiver`.
pub(crate) fn emulator(setting: &Setting, files: &Files, receiver: u16) -> Vec<String> {
    let delay = time(setting.delay);
    words(&[
        "emulate --listen 127.0.0.1:0",
        &format!("--to 127.0.0.1:{receiver}"),
        &format!("--rate {} --delay {delay} --back-delay {delay}", setting.rate.as_bps()),
        &format!("--queue {} --seed {}", setting.queue, setting.seed),
        // If this process is killed, the emulator ends soon after.
        &format!("--duration {}", time(setting.limit)),
    ])
    .chain(["--capture".to_owned(), text(&files.capture)])
    .chain(["--stats".to_owned(), "json".to_owned(), text(&files.stats("emulator"))])
    .collect()
}

/// Arguments of the receiver.
pub(crate) fn receiver(setting: &Setting, approach: Approach, files: &Files, port: u16) -> Vec<String> {
    let latency = time(setting.latency);
    let (uri, options) = match approach {
        Approach::Udp => (format!("udp://127.0.0.1:{port}"), format!("--latency {latency}")),
        Approach::Fifo | Approach::Timeous => {
            (format!("timeous://127.0.0.1:{port}?mode=listener&latency={latency}&reconnect=off"), String::new())
        }
    };
    words(&["recv", &uri])
        .chain([text(&files.video), "--frames".to_owned(), text(&files.frames)])
        .chain(["--stats".to_owned(), text(&files.stats("receiver")), "--quiet".to_owned()])
        .chain(words(&[&options]))
        .collect()
}

/// Arguments of the sender.
pub(crate) fn sender(setting: &Setting, approach: Approach, files: &Files, port: u16) -> Vec<String> {
    let latency = time(setting.latency);
    let uri = match approach {
        Approach::Udp => format!("udp://127.0.0.1:{port}"),
        // Room for the whole video: a camera does not wait for its queue.
        Approach::Fifo => {
            let slots = setting.packets.next_power_of_two().clamp(1 << 10, 1 << 16);
            format!("timeous://127.0.0.1:{port}?latency={latency}&reconnect=off&policy=fifo&slots={slots}")
        }
        // Every intra frame is promised: this policy keeps them as long as possible, unlike the one with the most
        // frames.
        Approach::Timeous => format!("timeous://127.0.0.1:{port}?latency={latency}&reconnect=off&policy=frames"),
    };
    ["send".to_owned(), text(&setting.clip), uri, "--journal".to_owned(), text(&files.journal)]
        .into_iter()
        .chain(["--stats".to_owned(), text(&files.stats("sender")), "--quiet".to_owned()])
        .collect()
}

fn words<'a>(parts: &'a [&str]) -> impl Iterator<Item = String> + use<'a> {
    parts.iter().flat_map(|part| part.split_whitespace()).map(str::to_owned)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            clip: "a clip.h264".into(),
            rate: Rate::from_kbps(1_140),
            delay: Duration::from_millis(40),
            queue: "100ms".to_owned(),
            latency: Duration::from_secs(1),
            seed: 7,
            packets: 3_000,
            limit: Duration::from_secs(90),
        }
    }

    #[test]
    fn runs_differ_in_what_they_are_to_show_and_in_nothing_else() {
        let files = Files::new(Path::new("some dir"), Approach::Fifo);
        let [udp, fifo, timeous] = Approach::ALL.map(|approach| sender(&setting(), approach, &files, 5)[2].clone());
        assert_eq!(udp, "udp://127.0.0.1:5");
        assert_eq!(timeous, "timeous://127.0.0.1:5?latency=1s&reconnect=off&policy=frames");
        assert_eq!(fifo, "timeous://127.0.0.1:5?latency=1s&reconnect=off&policy=fifo&slots=4096");
    }

    #[test]
    fn a_path_with_a_space_is_one_word() {
        let files = Files::new(Path::new("some dir"), Approach::Udp);
        let emulator = emulator(&setting(), &files, 9);
        assert!(emulator.contains(&"some dir/udp-link.pcapng".to_owned()), "{emulator:?}");
        let flags = "emulate --listen 127.0.0.1:0 --to 127.0.0.1:9 --rate 1140000 --delay 40ms --back-delay 40ms";
        assert!(emulator.join(" ").starts_with(flags), "{emulator:?}");
        assert_eq!(sender(&setting(), Approach::Udp, &files, 1)[1], "a clip.h264");
        assert_eq!(receiver(&setting(), Approach::Udp, &files, 1)[2], "some dir/udp-received.h264");
    }
}
