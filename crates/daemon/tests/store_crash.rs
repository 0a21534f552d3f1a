//! Path memory of a process that is killed while it writes: confirmed data is on the disk, and nothing is damaged.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use timeous_cm::{Destination, Learnt};
use timeous_core::{Duration, Rate, Rng};
use timeous_daemon::store::Store;
use timeous_daemon::wall::WallTime;

/// Variable with the file's path, for the process to be killed.
const VICTIM: &str = "TIMEOUS_TEST_VICTIM";
/// Paths written together: each round writes all of them, with the round's number.
const PATHS: u32 = 40;

/// Returns a wall-clock time for a round; rounds are hours apart, so that nothing is merged.
fn time(round: u64) -> WallTime {
    WallTime::since_epoch(Duration::from_secs(1_700_000_000 + 2 * 3_600 * round))
}

fn host(n: u32) -> Destination {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)).into()
}

fn learnt(round: u64) -> Learnt {
    Learnt {
        window: round,
        ssthresh: Some(round),
        srtt: Duration::from_millis(40),
        rttvar: Duration::from_millis(4),
        min_rtt: Duration::from_millis(30),
        rate: Rate::from_kbps(1_000),
        loss_ppm: 0,
    }
}

/// Writes round after round until the process is killed, and prints each that is on the disk.
fn write_for_ever(path: &Path) -> ! {
    let first = std::env::var("TIMEOUS_TEST_ROUND").unwrap().parse::<u64>().unwrap();
    let (store, _) = Store::open(path, time(first)).unwrap();
    for round in first.. {
        (0..PATHS).for_each(|n| store.learn(host(n), learnt(round), time(round)));
        store.flush();
        println!("written {round}");
        std::io::stdout().flush().unwrap();
    }
    unreachable!("there are more rounds than time")
}

fn victim(path: &Path, first: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_killed_process_leaves_a_whole_memory", "--nocapture"]);
    command.env(VICTIM, path).env("TIMEOUS_TEST_ROUND", first.to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_killed_process_leaves_a_whole_memory() {
    if let Some(path) = std::env::var_os(VICTIM) {
        write_for_ever(Path::new(&path));
    }
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("paths.redb");
    let mut rng = Rng::from_seed(3_027);
    let mut next = 1;
    for life in 0..12 {
        let mut child = victim(&path, next);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some complete writes, and a part of another.
        let lives_for = 1 + rng.below(4);
        let mut told = next - 1;
        for line in lines.by_ref().map(Result::unwrap) {
            if let Some((_, round)) = line.split_once("written ") {
                told = round.parse().unwrap();
                if told >= next + lives_for {
                    break;
                }
            }
        }
        for n in 0..rng.below(2_000_000) {
            std::hint::black_box(n);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Remaining output from before its death.
        for line in lines.map_while(Result::ok) {
            told = line.split_once("written ").map_or(told, |(_, round)| round.parse().unwrap_or(told));
        }

        let (store, set_aside) = Store::open(&path, time(told)).unwrap();
        assert_eq!(set_aside, None, "life {life}: nothing is damaged");
        let rounds: Vec<_> = (0..PATHS).map(|n| store.recall(&host(n), time(told)).unwrap().0.window).collect();
        // The writer may have run in the middle of a round: the file holds at most two rounds, in order.
        let (oldest, newest) = (*rounds.iter().min().unwrap(), *rounds.iter().max().unwrap());
        assert!(oldest >= told, "life {life}: {told} was written, {oldest} is there");
        assert!(newest <= oldest + 1 && rounds.is_sorted_by(|a, b| a >= b), "life {life}: {rounds:?}");
        next = newest + 1;
    }
}

/// Variable with the file's path, for the process with a full disk.
const CROWDED: &str = "TIMEOUS_TEST_CROWDED";

/// Learns more than fits, gets write errors, and has space later.
fn live_with_a_full_disk(path: &Path) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (store, _) = Store::open(path, time(0)).unwrap();
    store.learn(host(0), learnt(7), time(0));
    store.flush();
    let size = std::fs::metadata(path).unwrap().len();
    let free = getrlimit(Resource::Fsize);
    // Limits files of this process to the present size.
    setrlimit(Resource::Fsize, Rlimit { current: Some(size), ..free }).unwrap();
    (1..4_000).for_each(|n| store.learn(host(n), learnt(7), time(0)));
    store.flush();
    assert!(store.failures() > 0, "the system refuses");
    assert_eq!(store.len(), 4_000, "what is not on the disk is in memory");
    setrlimit(Resource::Fsize, free).unwrap();
    let failures = store.failures();
    store.flush();
    assert_eq!(store.failures(), failures, "there is room again");
    println!("got over it");
}

#[test]
fn a_full_disk_is_got_over() {
    if let Some(path) = std::env::var_os(CROWDED) {
        return live_with_a_full_disk(Path::new(&path));
    }
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("paths.redb");
    // The shell ignores the signal for exceeded file sizes, so that the write fails instead.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "a_full_disk_is_got_over", "--nocapture"]).env(CROWDED, &path);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("got over it"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (store, set_aside) = Store::open(&path, time(0)).unwrap();
    assert_eq!((store.len(), set_aside), (4_000, None));
}
