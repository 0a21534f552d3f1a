//! System calls of the engine for a packet, counted in a process that sends by the library, beside one that calls `send()` (Lai & Kohler
//! §4.1).

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use timeous::core::{Duration, Instant};
use timeous::{Arrival, Hints, Listener, SendError, Sender, Uri};
use timeous_engine::clock;
use timeous_testbed::machine::{machine, sleep_until};
use timeous_testbed::process::own_command;

use super::super::system_calls::{SystemCalls, be_traced, count, mark};
use crate::experiment::{Choice, Claim, Rows, Run, RunError, Table, setup};

/// Hidden command that runs a client; it is no experiment.
pub(crate) const COMMAND: &str = "engine-client";

/// Packets of each client. Chosen by us: waking the engine's thread and the end of the stream are less than 0.01 for each.
const PACKETS: u64 = 20_000;
/// Packets of a client with pauses.
const PACED: u64 = 2_000;
/// Time between its packets, in which the engine's thread falls asleep.
const PAUSE: Duration = Duration::from_millis(1);
/// Payload in bytes.
const PAYLOAD: usize = 1_000;
/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sender of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
pub(crate) enum Way {
    /// `send()` on a UDP socket.
    Udp,
    /// The library at full speed.
    Engine,
    /// The library with a pause after each packet.
    Paced,
}

impl Way {
    const ALL: [Self; 3] = [Self::Udp, Self::Engine, Self::Paced];

    fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP send()",
            Self::Engine => "library, at full speed",
            Self::Paced => "library, a packet each ms",
        }
    }

    fn packets(self) -> u64 {
        if self == Self::Paced { PACED } else { PACKETS }
    }
}

/// Arguments of a client.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    way: Way,
    remote: SocketAddr,
}

/// Sends, with a mark before and after.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn client(args: &ClientArgs) -> Result<(), RunError> {
    be_traced()?;
    let packet = [0; PAYLOAD];
    if args.way == Way::Udp {
        let failed = RunError::system;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed("open a UDP socket"))?;
        socket.connect(args.remote).map_err(failed("connect a UDP socket"))?;
        mark()?;
        for _ in 0..PACKETS {
            socket.send(&packet).map_err(failed("send by UDP"))?;
        }
        return mark();
    }
    let uri: Uri = uri(args.remote).parse().map_err(machine)?;
    let mut sender = Sender::open(&uri).map_err(machine)?;
    let end = clock::now() + PATIENCE;
    while sender.peer().is_none() && clock::now() < end {
        sender.wait(Some(end));
    }
    mark()?;
    for _ in 0..args.way.packets() {
        if args.way == Way::Paced {
            sleep_until(clock::now() + PAUSE);
        }
        while let Err(error) = sender.send(&packet, Hints::default()) {
            let is_full = matches!(error, SendError::Full) && clock::now() < end;
            if !is_full || !sender.wait(Some(end)) {
                return Err(machine(error));
            }
            while sender.poll_delivery().is_some() {}
        }
    }
    mark()?;
    sender.finish().map(drop).map_err(machine)
}

/// Returns a stream whose packets neither expire nor are dropped.
fn uri(address: SocketAddr) -> String {
    format!("timeous://{address}?encryption=off&policy=fifo&latency=60000")
}

/// Counts of one client.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct EngineCalls {
    way: Way,
    system: SystemCalls,
}

impl EngineCalls {
    fn each(&self, names: &[&str]) -> f64 {
        let of = names.iter().filter_map(|name| self.system.calls.get(name)).sum::<u64>();
        of as f64 / self.way.packets() as f64
    }

    fn all(&self) -> f64 {
        self.system.calls.values().sum::<u64>() as f64 / self.way.packets() as f64
    }

    fn sending(&self) -> f64 {
        self.each(&["sendto", "sendmsg", "sendmmsg"])
    }
}

/// Runs each client once.
///
/// # Errors
/// A client fails, or this machine forbids to trace.
pub(crate) fn measure(run: &Run<'_>) -> Result<Vec<EngineCalls>, RunError> {
    let task = run.progress.task("system calls", Way::ALL.len() as u64);
    let one = |way: Way| {
        // Its datagrams are not read: only calls of the sender are counted.
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(RunError::system("open a UDP socket"))?;
        let remote = socket.local_addr().map_err(RunError::system("look at a socket"))?;
        let mut listener = if way == Way::Udp {
            None
        } else {
            // The listener takes its port.
            drop(socket);
            let uri: Uri = format!("{}&mode=listener", uri(remote)).parse().map_err(machine)?;
            Some(Listener::open(&uri).map_err(machine)?)
        };
        let name = clap::ValueEnum::to_possible_value(&way).expect("all ways have names").get_name().to_owned();
        let mut command = own_command(COMMAND)?;
        command.args([&name, &remote.to_string()]);
        let system = thread::scope(|scope| {
            // A thread of its own, which has no other children to wait for.
            let counted = scope.spawn(move || count(&mut command));
            if let Some(listener) = &mut listener {
                receive_all(listener);
            }
            counted.join().expect("the counter does not panic")
        });
        task.step();
        system.map(|(system, _)| EngineCalls { way, system })
    };
    Way::ALL.into_iter().map(one).collect()
}

/// Reads a caller's stream to its end.
fn receive_all(listener: &mut Listener) {
    let end: Instant = clock::now() + PATIENCE;
    let Ok(Some(incoming)) = listener.accept(Some(end)) else { return };
    let (_sender, mut receiver) = incoming.accept();
    while !matches!(receiver.receive(Some(end)), Ok(Arrival::End | Arrival::Nothing) | Err(_)) {}
}

/// Returns the table of the counts.
pub(crate) fn table(calls: &[EngineCalls]) -> Table {
    Rows::of(calls)
        .column("way", |row| row.way.name())
        .number("system calls", 3, |row| row.all())
        .number("send", 3, |row| row.sending())
        .number("receive", 3, |row| row.each(&["recvfrom", "recvmsg", "recvmmsg"]))
        .number("doorbells and their reads", 3, |row| row.each(&["write", "read"]))
        .number("waits", 3, |row| row.each(&["ppoll", "futex", "sched_yield"]))
        .number("others", 3, |row| row.each(&["other", "ioctl", "clock_gettime", "gettimeofday", "writev", "readv"]))
        .table(&format!("System calls for a packet of {PAYLOAD} bytes, of all threads of the sending process"))
}

/// Judges the counts.
pub(crate) fn claims(calls: &[EngineCalls]) -> Vec<Claim> {
    let of = |way| calls.iter().find(|row| row.way == way);
    let all = |way| of(way).map_or(f64::NAN, EngineCalls::all);
    let sending = of(Way::Engine).map_or(f64::NAN, EngineCalls::sending);
    vec![
        Claim::number("sending calls of the engine for a packet, at full speed", "fewer than 1", 3, sending)
            .pass(..=0.5),
        Claim::number("all system calls, at full speed, over UDP's", "fewer", 3, all(Way::Engine) / all(Way::Udp))
            .pass(..=1.0),
        Claim::number("all system calls, a packet each ms, over UDP's", "–", 3, all(Way::Paced) / all(Way::Udp)),
    ]
}

/// Returns the choices of the counts.
pub(crate) fn choices() -> Vec<Choice> {
    setup! {
        ours "system calls": "{PACKETS} packets of {PAYLOAD} bytes, {PACED} with pauses of 1 ms, over the loopback device"
            => "by PTRACE_SYSCALL, of all threads of a process that sends by the library: acknowledgements, timers and \
            wake-ups of the engine's thread count. A traced process is slower, so that more packets share a call";
    }
}
