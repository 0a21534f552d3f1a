//! Share of a link beside a TCP connection: iperf3 and ffmpeg, as they are and under `timeous run`, over the emulated link.
//!
//! Each case has network namespaces of its own, and all run at the same time. The cases without `timeous run` show that the
//! claims can fall.

use std::thread;

use rustix::process::geteuid;
use timeous_testbed::programs::{IPERF, beside_tcp};

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
    let cases =
        [("iperf3", true, IPERF), ("ffmpeg", true, FFMPEG), ("iperf3", false, IPERF), ("ffmpeg", false, FFMPEG)];
    let run = [tool().to_str().expect("its path is UTF-8"), "run", "--"];
    let outcomes = thread::scope(|scope| {
        let start = |(name, is_controlled, programs): (&str, bool, [&'static str; 2])| {
            let name = format!("run{}{name}", u8::from(is_controlled));
            let run = if is_controlled { &run[..] } else { &[] };
            scope.spawn(move || beside_tcp(&name, programs.map(|words| (run, words))).unwrap())
        };
        cases.map(start).map(|case| case.join().unwrap())
    });
    for ((name, is_controlled, _), shares) in cases.iter().zip(&outcomes) {
        let how = if *is_controlled { "timeous run" } else { "as it is" };
        let (tcp, datagrams, dropped) = (shares.tcp, shares.datagrams, shares.dropped * 1e2);
        println!("{name}, {how}: TCP {tcp:.2}, datagrams {datagrams:.2}, dropped {dropped:.1} %");
    }
    for ((name, is_controlled, _), shares) in cases.iter().zip(&outcomes) {
        if *is_controlled {
            assert!(shares.tcp > LEAST, "{name} leaves TCP its share: {shares:?}");
            assert!(shares.datagrams > 0.1, "{name} has one, too: {shares:?}");
            assert!(shares.dropped < 0.05, "{name} does not overflow the link's queue: {shares:?}");
        } else {
            assert!(shares.tcp < LEAST && shares.dropped > 0.05, "{name} takes the link as it is: {shares:?}");
        }
    }
}
