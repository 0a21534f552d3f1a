//! Share of a link beside a TCP connection: iperf3 and ffmpeg, as they are and under `timeous run`, over the emulated link.
//!
//! Each case has network namespaces of its own, and all run at the same time. The cases without `timeous run` show that the
//! claims can fall.

use std::thread;

use rustix::process::geteuid;
use timeous_testbed::programs::{IPERF, Shares, beside_tcp};

use crate::support::{is_installed, skip, tool};

/// Least share of the link that TCP has beside a controlled program: 33 to 66 % in twelve runs, and at most 10 % beside others.
const LEAST: f64 = 0.2;

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
    // A busy machine takes from both sides.
    let tries = (0..3).map(|_| outcomes());
    let failures: Vec<String> = tries.map(|outcomes| failure(&outcomes)).map_while(|failure| failure).collect();
    assert!(failures.len() < 3, "{failures:#?}");
}

/// Programs at the link, each with or without `timeous run`, and the shares that were measured.
type Outcome = (&'static str, bool, Shares);

fn outcomes() -> Vec<Outcome> {
    let cases =
        [("iperf3", true, IPERF), ("ffmpeg", true, FFMPEG), ("iperf3", false, IPERF), ("ffmpeg", false, FFMPEG)];
    let run = [tool().to_str().expect("its path is UTF-8"), "run", "--"];
    thread::scope(|scope| {
        let start = |(name, is_controlled, programs): (&'static str, bool, [&'static str; 2])| {
            let network = format!("run{}{name}", u8::from(is_controlled));
            let run = if is_controlled { &run[..] } else { &[] };
            let beside = move || beside_tcp(&network, programs.map(|words| (run, words))).unwrap();
            (name, is_controlled, scope.spawn(beside))
        };
        let running = cases.map(start);
        running.into_iter().map(|(name, is_controlled, case)| (name, is_controlled, case.join().unwrap())).collect()
    })
}

/// The first of the bounds that does not hold.
fn failure(outcomes: &[Outcome]) -> Option<String> {
    for (name, is_controlled, shares) in outcomes {
        let how = if *is_controlled { "timeous run" } else { "as it is" };
        let (tcp, datagrams, dropped) = (shares.tcp, shares.datagrams, shares.dropped * 1e2);
        println!("{name}, {how}: TCP {tcp:.2}, datagrams {datagrams:.2}, dropped {dropped:.1} %");
    }
    let broken = |(name, is_controlled, shares): &Outcome| {
        let (leaves, has, overflows) = (shares.tcp > LEAST, shares.datagrams > 0.1, shares.dropped > 0.05);
        match is_controlled {
            true if !leaves => Some(format!("{name} leaves TCP its share: {shares:?}")),
            true if !has => Some(format!("{name} has one, too: {shares:?}")),
            true if overflows => Some(format!("{name} does not overflow the link's queue: {shares:?}")),
            false if leaves || !overflows => Some(format!("{name} takes the link as it is: {shares:?}")),
            _ => None,
        }
    };
    outcomes.iter().find_map(broken)
}
