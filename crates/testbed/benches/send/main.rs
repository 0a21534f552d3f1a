//! Cost of a packet on each send path to the device, compared with `send()` of the same payload in the same run.
//!
//! The device takes packets and drops them: an `ifb` to which nothing is redirected, in a network namespace of the
//! benchmark's own, so that neither a receiver nor a link is measured.

#![allow(unsafe_code, reason = "a benchmark that asks the kernel for its usage, and moves to a namespace")]

mod paths;
mod usage;
mod zero_copy;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};
use timeous_core::Duration;

use paths::Path;
use usage::{Usage, cpu_time};

/// Duration of one turn of a path.
const SLICE: Duration = Duration::from_millis(60);
/// Number of rounds over all paths, so that a disturbance affects all of them.
const TURNS: usize = 12;

/// Source and destination of the packets.
#[derive(Clone, Copy)]
struct Ends {
    local: SocketAddr,
    remote: SocketAddr,
}

/// Creates the device; an error says why it cannot.
fn sink(mtu: usize) -> Result<Ends, String> {
    let alone = |flags| {
        // SAFETY: called before any thread is started; file descriptors stay shared.
        unsafe { unshare_unsafe(flags) }
    };
    alone(UnshareFlags::NEWNET)
        .or_else(|_| alone(UnshareFlags::NEWUSER | UnshareFlags::NEWNET))
        .map_err(|error| format!("no namespace: {error}"))?;
    for line in [
        "link add sink0 type ifb",
        // Before the device is up: then nothing is queued.
        "link set sink0 txqueuelen 0",
        &format!("link set sink0 mtu {mtu} up"),
        "addr add 192.0.2.1/24 dev sink0",
    ] {
        let run = Command::new("ip").args(line.split(' ')).stdin(Stdio::null()).output();
        let output = run.map_err(|error| format!("ip: {error}"))?;
        if !output.status.success() {
            return Err(format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(Ends { local: ([192, 0, 2, 1], 0).into(), remote: ([192, 0, 2, 2], 9).into() })
}

/// Accumulated cost of a path.
#[derive(Clone, Copy, Default)]
struct Cost {
    packets: u64,
    usage: Usage,
}

/// A path on a thread of its own, so that its CPU time is measured separately.
struct Lane {
    name: &'static str,
    turn: mpsc::Sender<()>,
    done: mpsc::Receiver<Cost>,
}

impl Lane {
    fn start(mut path: Box<dyn Path>) -> Self {
        let (turn, turns) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let name = path.name();
        thread::spawn(move || {
            let mut packets = 0;
            for () in turns {
                let start = cpu_time();
                while cpu_time().saturating_sub(start) < SLICE {
                    packets += path.batch();
                }
                let usage = Usage::of_this_thread().without_user(path.unmeasured());
                if tell.send(Cost { packets, usage }).is_err() {
                    break;
                }
            }
        });
        Self { name, turn, done }
    }

    fn go(&self) -> Cost {
        self.turn.send(()).expect("the thread waits for its turn");
        self.done.recv().expect("the thread lives")
    }
}

fn report(ends: Ends, payload: usize) {
    let lanes: Vec<_> = paths::all(ends, payload).into_iter().map(Lane::start).collect();
    let first: Vec<_> = lanes.iter().map(Lane::go).collect();
    let mut last = first.clone();
    for _ in 0..TURNS {
        last = lanes.iter().map(Lane::go).collect();
    }
    println!("\npayload of {payload} bytes; nanoseconds of processor time a packet");
    println!("{:<48}{:>8}{:>8}{:>8}{:>12}", "path", "user", "system", "both", "of send()");
    let mut of = None;
    for (lane, (first, last)) in lanes.iter().zip(first.iter().zip(&last)) {
        let packets = (last.packets - first.packets) as f64;
        let [user, system] = last.usage.since(first.usage).map(|time| time.as_nanos() as f64 / packets);
        let both = user + system;
        let send = *of.get_or_insert(both);
        println!("{:<48}{user:>8.0}{system:>8.0}{both:>8.0}{:>12.3}", lane.name, both / send);
    }
}

fn main() {
    let ends = sink(9000).unwrap_or_else(|why| {
        println!("({why}: a socket that nobody reads takes the device's place, and costs more)");
        let unread = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
        let remote = unread.local_addr().expect("it is bound");
        // Stays bound for the benchmark's lifetime.
        std::mem::forget(unread);
        Ends { local: ([127, 0, 0, 1], 0).into(), remote }
    });
    for payload in [64, 300, 1400, 4096, 8192] {
        report(ends, payload);
    }
}
