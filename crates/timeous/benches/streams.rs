//! Many streams between two processes: cost of a packet, of an idle stream and of opening one, by the number of streams.
//!
//! `cargo bench -p timeous --bench streams` runs 10 to 10 000 streams at 10 000 packets a second in all;
//! `-- --load [seconds] [packets a second]` runs 10 000 streams at 10 packets a second each, for a minute. Both processes run on this machine, over
//! loopback.

mod support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::{Far, answer, processor_time, sleep};
use timeous::core::{Duration, Fate, Instant};
use timeous::{Arrival, Hints, Listener, ReadyList, Receiver, Sender, clock};

/// Payload of a packet in bytes: a position, an input, a reading.
const PAYLOAD: usize = 200;
/// Within this time after it was sent, a packet has to be acknowledged.
const IN_TIME: Duration = Duration::from_millis(100);
/// Interval at which the application hands over packets: a game server's tick is longer.
const TICK: Duration = Duration::from_millis(1);
/// Options of each stream.
const OPTIONS: &str = "latency=100ms&policy=deadline&slots=64";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.first().map(String::as_str) {
        Some("--receive") => receive(),
        Some("--load") => {
            head();
            let number = |at: usize, usual| arguments.get(at).and_then(|number| number.parse().ok()).unwrap_or(usual);
            run(10_000, number(2, 100_000), Duration::from_secs(number(1, 60)));
        }
        _ => {
            head();
            let counts: Vec<usize> = arguments.iter().filter_map(|count| count.parse().ok()).collect();
            let counts = if counts.is_empty() { vec![10, 100, 1_000, 10_000] } else { counts };
            for count in counts {
                run(count, 10_000, Duration::from_secs(5));
            }
        }
    }
}

fn head() {
    println!(
        "{:>7} {:>9} {:>8} {:>11} {:>11} {:>10} {:>10} {:>9} {:>9} {:>8}",
        "streams",
        "packets/s",
        "open, s",
        "send, kB",
        "recv, kB",
        "send, us",
        "recv, us",
        "acked, %",
        "in time",
        "expired"
    );
}

/// Opens `count` streams, sends `rate` packets a second over all of them for `time`, and prints a row.
fn run(count: usize, rate: u64, time: Duration) {
    let (mut far, ports) = Far::start(&["--receive"]);
    let (near_empty, (_, far_empty)) = (memory(), mark(&mut far));
    let uri = format!("timeous://127.0.0.1:{}?{OPTIONS}", ports[0]).parse().expect("a URI");
    let began = clock::now();
    let list = ReadyList::new().expect("a descriptor");
    let mut streams: Vec<Out> = (0..count)
        .map(|key| {
            let sender = Sender::open(&uri).unwrap_or_else(|error| panic!("stream {key}: {error}"));
            list.add(sender.waker(), key as u64);
            Out { sender, sent: VecDeque::new(), first: 0 }
        })
        .collect();
    let opened = clock::now() - began;
    sleep(Duration::from_millis(500));
    let idle = |now: u64, empty: u64| now.saturating_sub(empty) as f64 / count as f64 / 1e3;
    let (near_idle, far_idle) = (idle(memory(), near_empty), idle(mark(&mut far).1, far_empty));

    let (begin, near_before, (far_before, _)) = (clock::now(), processor_time(), mark(&mut far));
    let mut tally = Tally::default();
    let all = rate * time.as_millis() / 1_000;
    let mut next = 0;
    while next < all {
        let now = clock::now();
        let due = ((now - begin).as_nanos() as u128 * u128::from(rate) / 1_000_000_000) as u64;
        while next < due.min(all) {
            let out = &mut streams[next as usize % count];
            if out.sender.send(&[next as u8; PAYLOAD], Hints::default()).is_ok() {
                out.sent.push_back(now);
            } else {
                tally.refused += 1;
            }
            next += 1;
        }
        tally.collect(&list, &mut streams);
        sleep(TICK.saturating_sub(clock::now() - now));
    }
    let (near, (far_after, _)) = (processor_time() - near_before, mark(&mut far));
    let until = clock::now() + Duration::from_secs(1);
    while clock::now() < until {
        tally.collect(&list, &mut streams);
        sleep(TICK * 5);
    }
    let each = |time: Duration| time.as_nanos() as f64 / 1e3 / all as f64;
    let percent = |of: u64| of as f64 * 100.0 / all as f64;
    println!(
        "{count:>7} {rate:>9} {:>8.2} {near_idle:>11.1} {far_idle:>11.1} {:>10.2} {:>10.2} {:>9.2} {:>9.2} {:>8}",
        opened.as_secs_f64(),
        each(near),
        each(far_after - far_before),
        percent(tally.acked),
        percent(tally.in_time),
        tally.others + tally.refused,
    );
}

/// A stream, with the times of the packets that have no fate yet.
struct Out {
    sender: Sender,
    sent: VecDeque<Instant>,
    /// Number of the first of them.
    first: u64,
}

#[derive(Default)]
struct Tally {
    acked: u64,
    in_time: u64,
    others: u64,
    refused: u64,
}

impl Tally {
    /// Collects the fates of the streams that have some.
    fn collect(&mut self, list: &ReadyList, streams: &mut [Out]) {
        while let Some(key) = list.poll() {
            let Out { sender, sent, first } = &mut streams[key as usize];
            sender.waker().clear();
            let now = clock::now();
            while let Some(delivery) = sender.poll_delivery() {
                let at = sent.get((delivery.seq.0 - *first) as usize).copied();
                if delivery.fate == Fate::Acked {
                    self.acked += 1;
                    self.in_time += u64::from(at.is_some_and(|at| now - at <= IN_TIME));
                } else {
                    self.others += 1;
                }
            }
            // Packets older than the longest round trip.
            while sent.front().is_some_and(|&at| now - at > Duration::from_secs(2)) {
                sent.pop_front();
                *first += 1;
            }
        }
    }
}

/// Processor time and memory of the receiving process, in bytes.
fn mark(far: &mut Far) -> (Duration, u64) {
    let numbers = far.ask();
    (Duration::from_nanos(numbers[0]), numbers[1])
}

/// The receiving process: accepts all callers, and reads from those that have something.
fn receive() {
    const LISTENER: u64 = u64::MAX;
    let uri = format!("timeous://127.0.0.1:{}?mode=listener&{OPTIONS}", free_port()).parse().expect("a URI");
    let mut listener = Listener::open(&uri).expect("a port");
    println!("{}", listener.local_addr().port());
    let received = Arc::new(AtomicU64::new(0));
    let count = received.clone();
    answer(move || format!("{} {} {}", processor_time().as_nanos(), memory(), count.load(Ordering::Relaxed)));
    let list = ReadyList::new().expect("a descriptor");
    list.add(listener.waker(), LISTENER);
    let mut streams: Vec<(Sender, Receiver)> = Vec::new();
    loop {
        list.wait(None);
        while let Some(key) = list.poll() {
            if key == LISTENER {
                listener.waker().clear();
                while let Some(caller) = listener.poll_accept().expect("no error of the system") {
                    let (sender, receiver) = caller.accept();
                    list.add(receiver.waker(), streams.len() as u64);
                    streams.push((sender, receiver));
                }
                continue;
            }
            let receiver = &mut streams[key as usize].1;
            receiver.waker().clear();
            while let Ok(Some(Arrival::Data(_))) = receiver.poll_receive() {
                received.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("it is bound").port()
}

/// Resident memory of this process, in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
