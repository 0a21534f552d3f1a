//! Counts at a client process of each API, for each datagram: system calls, copies, and calls of the API (Andersen et al.
//! §4.2, table 1).

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use clap::ValueEnum as _;
use timeous_testbed::machine::machine;
use timeous_testbed::process::own_command;

use super::super::daemon::member::DaemonProcess;
use super::super::system_calls::{SystemCalls, count};
use super::alf::ApiCalls;
use super::client::{COMMAND, ClientKind};
use super::method::ManagerPlacement::{self, Daemon, InProcess};
use super::trial::{loopback_socket, receive_datagrams, receive_stream};
use crate::experiment::{Choice, Claim, Rows, Run, RunError, Table, most, sabotages, setup};

/// Packet size in bytes: the smallest of figure 6, where calls weigh most.
const SIZE: usize = 168;
/// Packets of each client. Chosen by us: the calls that open and close a flow are at most 0.03 for each.
const PACKETS: u64 = 2_000;
/// Runs of each client. Chosen by us: with one, a daemon that happens to be awake hides the worst case.
const ROUNDS: usize = 3;

sabotages! {
    pub(super) RETURNED = "returned", "the sender returns each second grant and requests another"
        => ["table 1: ALF: requests", "table 1: ALF: notifies"];
}

type Client = (ClientKind, ManagerPlacement);
const UDP: Client = (ClientKind::Udp, InProcess);
const TCP: Client = (ClientKind::Tcp, InProcess);
/// Clients of the Congestion Manager, in the order of the paper's overhead at each place.
const MANAGED: [Client; 6] = [
    (ClientKind::Buffered, InProcess),
    (ClientKind::Alf, InProcess),
    (ClientKind::NoConnect, InProcess),
    (ClientKind::Buffered, Daemon),
    (ClientKind::Alf, Daemon),
    (ClientKind::NoConnect, Daemon),
];

/// Counts of one client.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Counted {
    #[serde(skip)]
    client: Client,
    name: String,
    /// Packets that arrived.
    packets: u64,
    system: SystemCalls,
    api: ApiCalls,
}

impl Counted {
    /// Returns a count for each packet that arrived.
    fn each(&self, count: u64) -> f64 {
        count as f64 / self.packets as f64
    }

    /// Returns the system calls with these names for each packet.
    fn calls(&self, names: &[&str]) -> f64 {
        self.each(names.iter().filter_map(|name| self.system.calls.get(name)).sum())
    }

    fn all_calls(&self) -> f64 {
        self.each(self.system.calls.values().sum())
    }
}

/// Runs each client in every round; returns its counts in the round with the most system calls.
///
/// # Errors
/// A client fails, or this machine forbids to trace.
pub(super) fn measure(run: &Run<'_>) -> Result<Vec<Counted>, RunError> {
    let directory = tempfile::tempdir().map_err(RunError::system("make a directory"))?;
    let socket = directory.path().join("daemon.sock");
    let _served = DaemonProcess::start(&socket)?;
    let task = run.progress.task("system calls", (2 + MANAGED.len()) as u64);
    let start = |(kind, place): Client| -> Result<Counted, RunError> {
        let mut command = own_command(COMMAND)?;
        let kind_name = kind.to_possible_value().expect("all kinds have names").get_name().to_owned();
        command.args(["--size", &SIZE.to_string(), "--packets", &PACKETS.to_string()]);
        if place == Daemon {
            command.arg("--daemon").arg(&socket);
        }
        if run.breaks(RETURNED) {
            command.arg("--returns-grants");
        }
        let (packets, system, output) = serve(kind, command.arg(&kind_name))?;
        let name = if place == Daemon { format!("{kind_name}, daemon") } else { kind_name };
        let api = serde_json::from_str(&output).map_err(machine)?;
        Ok(Counted { client: (kind, place), name, packets, system, api })
    };
    let worst = |client: Client| {
        let rounds = (0..ROUNDS).map(|_| start(client)).collect::<Result<Vec<_>, RunError>>()?;
        task.step();
        Ok(rounds.into_iter().max_by(|a, b| a.all_calls().total_cmp(&b.all_calls())).expect("there are rounds"))
    };
    [UDP, TCP].into_iter().chain(MANAGED).map(worst).collect()
}

/// Counts a client whose last argument is the receiver's address, with a receiver in this process; returns the packets
/// that arrived, the counts and the output.
fn serve(kind: ClientKind, command: &mut Command) -> Result<(u64, SystemCalls, String), RunError> {
    let failed = RunError::system;
    if kind == ClientKind::Tcp {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("listen"))?;
        let receive = || receive_stream(&listener.accept()?.0).map(|bytes| bytes / SIZE as u64);
        return beside(command, listener.local_addr(), receive);
    }
    let socket = loopback_socket()?;
    beside(command, socket.local_addr(), || receive_datagrams(&socket, PACKETS))
}

fn beside(
    command: &mut Command,
    address: io::Result<SocketAddr>,
    receive: impl FnOnce() -> io::Result<u64> + Send,
) -> Result<(u64, SystemCalls, String), RunError> {
    command.arg(address.map_err(RunError::system("look at a socket"))?.to_string());
    thread::scope(|scope| {
        let receiver = scope.spawn(receive);
        // A thread of its own, which has no other children to wait for.
        let counted = scope.spawn(|| count(command)).join().expect("the counter does not panic");
        let came = receiver.join().expect("a receiver does not panic");
        let (system, output) = counted?;
        Ok((came.map_err(RunError::system("receive from a client"))?, system, output))
    })
}

/// Returns the table of all counts.
pub(super) fn table(counted: &[Counted]) -> Table {
    let names: BTreeSet<&str> = counted.iter().flat_map(|row| row.system.calls.keys().copied()).collect();
    // Rarer ones open and close the flow.
    let names = names.into_iter().filter(|name| counted.iter().any(|row| row.calls(&[name]) >= 0.005));
    Rows::of(counted)
        .column("client", |row| row.name.clone())
        .number("system calls", 2, |row| row.all_calls())
        .each(names, |name| (*name).to_owned(), |row, name| format!("{:.2}", row.calls(&[name])))
        .number("bytes into the kernel", 2, |row| row.each(row.system.bytes_in))
        .number("bytes out of it", 2, |row| row.each(row.system.bytes_out))
        .number("requests", 2, |row| row.each(row.api.requests))
        .number("notifies", 2, |row| row.each(row.api.notifies))
        .number("updates", 2, |row| row.each(row.api.updates))
        .table(&format!(
            "Counts for each datagram of {SIZE} bytes at the sender: system calls, copies, calls of the API"
        ))
}

/// Judges the overheads of table 1.
pub(super) fn claims(counted: &[Counted]) -> Vec<Claim> {
    let of = |client: Client| counted.iter().find(|row| row.client == client).expect("all clients are counted");
    let calls = |client: Client| of(client).all_calls();
    let managed = || MANAGED.into_iter().map(of);
    let callers = || managed().filter(|row| row.client.0 != ClientKind::Buffered);
    let furthest = |values: &mut dyn Iterator<Item = f64>| {
        values.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap_or(f64::NAN)
    };
    let claim = |what: &str, paper, value| Claim::number(format!("table 1: {what}"), paper, 2, value);
    let beyond = |what: &str, paper, over: Client, under: Client| claim(what, paper, calls(over) - calls(under));
    let [buffered, alf, no_connect, daemon_buffered, daemon_alf, daemon_no_connect] = MANAGED;
    let rings = managed().filter(|row| row.client.1 == Daemon && row.client.0 != ClientKind::Buffered);
    let rings =
        rings.map(|row| row.calls(&["write"]) / row.each(row.api.requests + row.api.notifies + row.api.updates));
    let least = managed().chain([of(TCP)]).map(Counted::all_calls).fold(f64::INFINITY, f64::min);
    let sends = furthest(&mut managed().map(|row| row.calls(&["sendto", "sendmsg", "sendmmsg"])));
    let receives = furthest(&mut managed().map(|row| row.calls(&["recvfrom"]) / row.each(row.api.updates)));
    let clocks = most(managed().map(|row| row.calls(&["gettimeofday", "clock_gettime"])));
    let copied = most(managed().map(|row| row.each(row.system.bytes_in) - SIZE as f64));
    let lost: u64 = counted.iter().map(|row| PACKETS.saturating_sub(row.packets)).sum();
    vec![
        claim("plain UDP's system calls over the fewest of the others", "", calls(UDP) / least).pass(..=0.75),
        claim("sending calls, furthest from 1", "1", sends).pass(0.99..=1.02),
        claim("receiving calls for each update, furthest from 1", "1", receives).pass(0.9..=1.2),
        claim("system calls for the time, at most", "2", clocks).aim(..=0.05),
        claim("ALF: requests, furthest from 1", "1", furthest(&mut callers().map(|row| row.each(row.api.requests))))
            .pass(0.99..=1.2),
        claim("ALF: notifies, furthest from 1", "1", furthest(&mut callers().map(|row| row.each(row.api.notifies))))
            .pass(0.99..=1.2),
        beyond("in process: buffered, system calls beyond TCP", "3", buffered, TCP).pass(..=1.0),
        beyond("in process: ALF, beyond buffered", "1, and select", alf, buffered).pass(..=0.5),
        beyond("in process: ALF/noconnect, beyond ALF", "1", no_connect, alf).pass(..=0.5),
        beyond("daemon: buffered, system calls beyond TCP", "3", daemon_buffered, TCP).pass(..=3.0),
        beyond("daemon: ALF, beyond buffered", "1, and select", daemon_alf, daemon_buffered).pass(0.5..),
        beyond("daemon: ALF/noconnect, beyond ALF", "1", daemon_no_connect, daemon_alf).aim(..=0.5),
        claim("daemon: ALF: doorbells for each call of the API, at most", "1", most(rings)).pass(..=1.01),
        claim("bytes into the kernel beyond the datagram, at most", "", copied).pass(..=26.0),
        Claim::count("table 1: packets lost", "0", lost).pass(..=0.0),
    ]
}

/// Returns the choices of the counts.
pub(super) fn choices() -> Vec<Choice> {
    setup! {
        ours "counted": "{PACKETS} packets of {SIZE} bytes by each client, {ROUNDS} times; the time with the most system \
            calls" => "the paper's is the worst case, too. Over the loopback device, by PTRACE_SYSCALL: of all threads of \
            the client's process, from before the flow is opened until after it is closed; not of the daemon";
        ours "copies": "results of write, send, read and recv calls" => "what these calls copied between the process and \
            the kernel: datagrams, acknowledgements, doorbells. Not counted: copies within the process, within the \
            kernel, and through memory shared with the daemon";
        ours "calls of the API": "counted by the client" => "in process they are calls of functions, through the daemon \
            messages in shared memory: a system call is only the write that wakes a daemon that sleeps";
    }
}
