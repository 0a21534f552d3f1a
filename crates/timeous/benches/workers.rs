//! Throughput of two workers beside one: streams over TCP to two hosts, whose data the kernel discards.
//!
//! `cargo bench -p timeous --bench workers` alternates between one worker and two, three times each. The sinks discard
//! what they receive without copying it, so that both processors are left to the workers.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::net::{RecvFlags, recv};
use rustix::time::{ClockId, clock_gettime};
use timeous::core::Duration;
use timeous::{Hints, ReadyList, Sender, clock, set_workers};

/// Payload of a packet in bytes.
const PAYLOAD: usize = 1_000;
/// Streams to each of the two hosts.
const STREAMS: usize = 8;
const TIME: Duration = Duration::from_secs(3);
/// Runs of each kind.
const RUNS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, count] = &arguments[..]
        && flag == "--run"
    {
        return run(count.parse().expect("a number of workers"));
    }
    let mut rates = [Vec::new(), Vec::new()];
    println!("{:>7} {:>10} {:>8} {:>9} {:>10}", "workers", "packets/s", "Mbit/s", "CPU, us", "sinks, %");
    for _ in 0..RUNS {
        for count in [1, 2] {
            let program = std::env::current_exe().expect("this program");
            let output = Command::new(program)
                .args(["--run", &count.to_string()])
                .stderr(Stdio::inherit())
                .output()
                .expect("itself");
            let line = String::from_utf8(output.stdout).expect("text");
            print!("{count:>7} {line}");
            rates[count - 1].push(line.split_whitespace().next().and_then(|rate| rate.parse().ok()).unwrap_or(0.0));
        }
    }
    let [one, two] = rates.map(median);
    println!("two workers carry {:.2} times one (medians)", two / one);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn run(workers: usize) {
    set_workers(NonZeroUsize::new(workers).expect("at least one")).expect("no stream is open");
    let (received, sinking) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let list = ReadyList::new().expect("a descriptor");
    let mut senders = Vec::new();
    let mut ends = Vec::new();
    for stream in 0..2 * STREAMS {
        let listener = TcpListener::bind((["127.0.0.1", "127.0.0.2"][stream % 2], 0)).expect("a port");
        let local = listener.local_addr().expect("it is bound");
        let uri = format!("timeous://{local}?transport=tcp&policy=fifo&slots=256").parse().expect("a URI");
        let accepted = std::thread::spawn(move || listener.accept().expect("the caller").0);
        let sender = Sender::open(&uri).expect("a connection");
        list.add(sender.waker(), stream as u64);
        ends.push(accepted.join().expect("a connection"));
        senders.push(sender);
    }
    let sink = {
        let (received, sinking, is_over) = (received.clone(), sinking.clone(), is_over.clone());
        std::thread::spawn(move || discard(&ends, &received, &sinking, &is_over))
    };
    let (begin, before) = (clock::now(), processor_time(ClockId::ProcessCPUTime));
    let mut count = 0u64;
    (0..senders.len()).for_each(|at| count += fill(&mut senders[at]));
    while clock::now() - begin < TIME {
        list.wait(Some(begin + TIME));
        while let Some(key) = list.poll() {
            let sender = &mut senders[key as usize];
            sender.waker().clear();
            while sender.poll_delivery().is_some() {}
            count += fill(sender);
        }
    }
    let time = (clock::now() - begin).as_secs_f64();
    let processor = processor_time(ClockId::ProcessCPUTime) - before;
    let bytes = received.load(Ordering::Relaxed) as f64;
    let packets = count as f64;
    is_over.store(true, Ordering::Relaxed);
    println!(
        "{:>10.0} {:>8.0} {:>9.2} {:>10.1}",
        packets / time,
        bytes * 8.0 / time / 1e6,
        processor.as_nanos() as f64 / 1e3 / packets,
        sinking.load(Ordering::Relaxed) as f64 * 100.0 / processor.as_nanos() as f64
    );
    drop(sink);
    std::process::exit(0);
}

/// Fills the queue; returns the number of packets.
fn fill(sender: &mut Sender) -> u64 {
    let mut count = 0;
    while sender.send(&[count as u8; PAYLOAD], Hints::default()).is_ok() {
        count += 1;
    }
    count
}

/// Discards what was received on these connections, in the kernel.
#[expect(clippy::disallowed_methods, reason = "a benchmark's sink looks once a millisecond")]
fn discard(ends: &[TcpStream], received: &AtomicU64, sinking: &AtomicU64, is_over: &AtomicBool) {
    /// Largest amount discarded at once, in bytes.
    const CHUNK: usize = 1 << 20;
    let mut unused = vec![0u8; CHUNK];
    while !is_over.load(Ordering::Relaxed) {
        for end in ends {
            match recv(end, &mut unused[..], RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
                Ok((_, len)) => {
                    received.fetch_add(len as u64, Ordering::Relaxed);
                }
                Err(error) if io::Error::from(error).kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        sinking.store(processor_time(ClockId::ThreadCPUTime).as_nanos(), Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
