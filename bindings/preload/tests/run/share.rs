//! Share of a link beside a TCP connection: iperf3 and ffmpeg, as they are and under `timeous run`, over the emulated link.
//!
//! Each case has network namespaces of its own, and all run at the same time. The cases without `timeous run` show that the
//! claims can fall.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::geteuid;
use serde_json::Value;

use crate::support::{Running, is_installed, made, skip, sleep, tool};

/// Duration of the datagrams in seconds; TCP begins one second before.
const SECONDS: usize = 9;
/// Seconds at the end in which shares are measured, after the flow has found its window.
const MEASURED: usize = 5;
/// Link: rate, and queue in milliseconds, with 20 ms of round trip.
const RATE: f64 = 10e6;
const LINK: [&str; 8] = ["--rate", "10M", "--delay", "10ms", "--queue", "60ms", "--back-delay", "10ms"];

/// Two namespaces with the link between them.
struct Link {
    left: String,
    right: String,
    stats: PathBuf,
    emulator: Running,
}

/// Measured shares.
#[derive(Debug)]
struct Outcome {
    /// Share of the link that TCP had in the last seconds.
    tcp: f64,
    /// Share of the link that datagrams had at its end, over the whole time.
    datagrams: f64,
    /// Share of the packets that the link's queue dropped.
    dropped: f64,
    /// Mean time that a packet waited in the link's queue, at the ends of the last seconds, in milliseconds.
    queue_ms: f64,
}

/// Counters of the link towards the receiver.
struct LinkCounters {
    /// Packets that came to it.
    all: f64,
    /// Packets that its queue dropped.
    dropped: f64,
    /// Bits that it has carried.
    bits: f64,
    queue_ms: f64,
}

impl Link {
    fn open(name: &str) -> Self {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-run-{name}-{}{side}", std::process::id()));
        let stats = made().join(format!("share-{name}.json"));
        let mut command = Command::new(tool());
        command.args(["emulate", "--netns", &format!("{left},{right}")]).args(LINK);
        command.args(["--stats", "json"]).arg(&stats).stdout(Stdio::null()).stderr(Stdio::null());
        let emulator = Running::start(&mut command);
        let link = Self { left, right, stats, emulator };
        let is_there = |side: &str| {
            let show = Command::new("ip").args(["netns", "exec", side, "ip", "address", "show"]).output().unwrap();
            String::from_utf8_lossy(&show.stdout).contains("10.77.0.")
        };
        while ![&link.left, &link.right].iter().all(|side| is_there(side)) {
            sleep(20);
        }
        link
    }

    /// Command in a namespace, under `timeous run` if it is `controlled`.
    fn command(side: &str, is_controlled: bool, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", side]);
        if is_controlled {
            command.arg(tool()).args(["run", "--"]);
        }
        command.args(words.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a sender of datagrams and its receiver beside a TCP connection of CUBIC, the default of Linux.
    fn measure(mut self, is_controlled: bool, receiver: &str, sender: &str) -> Outcome {
        let _receiver = Running::start(&mut Self::command(&self.right, is_controlled, receiver));
        let _server = Running::start(&mut Self::command(&self.right, false, "iperf3 -s -p 5202"));
        sleep(500);
        let client = format!("iperf3 --forceflush -f k -C cubic -c 10.77.0.2 -p 5202 -t {}", 2 * SECONDS);
        let mut client = Running::start(Self::command(&self.left, false, &client).stdout(Stdio::piped()));
        let lines = client.lines();
        let mut rates = lines.iter().filter_map(|line| rate(&line));
        // The first second is TCP's alone.
        let first = rates.next().expect("iperf3 connects");
        let sending = Running::start(&mut Self::command(&self.left, is_controlled, sender));
        let rates: Vec<f64> = rates.take(SECONDS).collect();
        // It would wait for its timer after the datagrams have starved it.
        drop((client, sending));
        assert_eq!(rates.len(), SECONDS);
        let tcp = rates[SECONDS - MEASURED..].iter().sum::<f64>() / MEASURED as f64 / RATE;
        let LinkCounters { all, dropped, bits, queue_ms } = self.end();
        let datagrams = (bits - first - rates.iter().sum::<f64>()) / (SECONDS as f64 * RATE);
        Outcome { tcp, datagrams, dropped: dropped / all, queue_ms }
    }

    /// Ends the emulation.
    fn end(&mut self) -> LinkCounters {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.emulator.0),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        self.emulator.0.wait().unwrap();
        let stats: Vec<Value> = serde_json::from_str(&fs::read_to_string(&self.stats).unwrap()).unwrap();
        let forward: Vec<&Value> = stats.iter().filter(|sample| sample["direction"] == "forward").collect();
        let [before @ .., last] = &forward[..] else { panic!("{stats:?}") };
        let number = |sample: &Value, name: &str| sample[name].as_f64().unwrap();
        let queues = before.iter().rev().take(MEASURED).map(|sample| number(sample, "queue_bytes") * 8.0 / RATE);
        LinkCounters {
            all: number(last, "packets_in"),
            dropped: number(last, "queue_drops"),
            bits: number(last, "bytes_out") * 8.0,
            queue_ms: queues.sum::<f64>() / MEASURED as f64 * 1e3,
        }
    }
}

/// Rate of a second that iperf3 prints, in bits per second.
fn rate(line: &str) -> Option<f64> {
    let before = line.split(" Kbits/sec").next().filter(|before| before.len() < line.len())?;
    Some(before.split_whitespace().next_back()?.parse::<f64>().ok()? * 1e3)
}

/// Least share of the link that TCP has beside a controlled program: 33 to 66 % in twelve runs, and at most 10 % beside others.
const LEAST: f64 = 0.2;

const IPERF: [&str; 2] = ["iperf3 -s", "iperf3 -u -b 50M -c 10.77.0.2 -t 9"];
const FFMPEG: [&str; 2] = [
    "ffmpeg -nostdin -v error -i udp://0.0.0.0:9000 -c copy -f null -",
    "ffmpeg -nostdin -v error -re -f lavfi -i testsrc2=s=640x360:r=25 -t 9 -c:v libx264 -preset ultrafast -b:v 20M \
     -minrate 20M -maxrate 20M -bufsize 2M -x264-params nal-hrd=cbr -f mpegts udp://10.77.0.2:9000?pkt_size=1316",
];

#[test]
fn programs_keep_to_their_share_beside_tcp_only_with_congestion_control() {
    let test = "programs_keep_to_their_share";
    if !geteuid().is_root() {
        return skip(test, "root");
    }
    if let Some(missing) = ["ip", "iperf3", "ffmpeg"].iter().find(|program| !is_installed(program)) {
        return skip(test, missing);
    }
    let cases =
        [("iperf3", true, IPERF), ("ffmpeg", true, FFMPEG), ("iperf3", false, IPERF), ("ffmpeg", false, FFMPEG)];
    tool();
    let start = |(name, is_controlled, [receiver, sender]): (&str, bool, [&'static str; 2])| {
        let name = format!("{name}{}", u8::from(is_controlled));
        thread::spawn(move || Link::open(&name).measure(is_controlled, receiver, sender))
    };
    let outcomes = cases.map(start).map(|case| case.join().unwrap());
    for ((name, is_controlled, _), outcome) in cases.iter().zip(&outcomes) {
        let Outcome { tcp, datagrams, dropped, queue_ms } = outcome;
        let how = if *is_controlled { "timeous run" } else { "as it is" };
        println!(
            "{name}, {how}: TCP {tcp:.2}, datagrams {datagrams:.2}, dropped {:.1} %, queue {queue_ms:.0} ms",
            dropped * 1e2
        );
    }
    for ((name, is_controlled, _), outcome) in cases.iter().zip(&outcomes) {
        if *is_controlled {
            assert!(outcome.tcp > LEAST, "{name} leaves TCP its share: {outcome:?}");
            assert!(outcome.datagrams > 0.1, "{name} has one, too: {outcome:?}");
            assert!(outcome.dropped < 0.05, "{name} does not overflow the link's queue: {outcome:?}");
        } else {
            assert!(outcome.tcp < LEAST && outcome.dropped > 0.05, "{name} takes the link as it is: {outcome:?}");
        }
    }
}
