//! Datagrams of an unmodified program beside a TCP connection of CUBIC, Linux's default, over the emulated link.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use timeous_core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::emulator::Namespace;
use timeous_net::link::Limit;

use crate::error::RunError;
use crate::machine::{Call, drain, machine, send_until, sleep};
use crate::network::{Links, TestNetwork};
use crate::process::ChildProcess;

/// Rate of the link, its queue, and the round trip without it.
pub const RATE: Rate = Rate::from_bps(10_000_000);
/// Time that a packet waits in a full queue.
pub const QUEUE: Duration = Duration::from_millis(60);
/// Round-trip time without the queue.
pub const RTT: Duration = Duration::from_millis(20);
/// Duration of the datagrams; TCP begins a second before.
pub const TIME: Duration = Duration::from_secs(9);
/// Time that TCP has the link to itself.
const ALONE: Duration = Duration::from_secs(1);
/// Time at the end in which TCP's share is measured, after the datagrams' flow has found its window.
pub const MEASURED: Duration = Duration::from_secs(5);

/// The receiver's address.
pub const RECEIVER: &str = "10.77.0.2";
/// `iperf3` at both ends, at five times the link's rate.
pub const IPERF: [&str; 2] = ["iperf3 -s", "iperf3 -u -b 50M -c 10.77.0.2 -t 9"];

/// Shares of the link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    /// Share that TCP had in the last seconds.
    pub tcp: f64,
    /// Share that the datagrams had at the link's end, over the whole time.
    pub datagrams: f64,
    /// Share of the packets that the link's queue dropped.
    pub dropped: f64,
}

/// Runs a receiving and a sending program, given as words, beside the connection. Either runs under `run`, the words before its
/// own, if there are any; `name` distinguishes the network from others of this process.
///
/// # Errors
/// What the machine lacks, such as a program.
pub fn beside_tcp(name: &str, [receiver, sender]: [(&[&str], &str); 2]) -> Result<Shares, RunError> {
    let link = LinkConfig::with_delay(RTT / 2);
    let links = Links { forward: link.clone().with_rate(RATE, Limit::Time(QUEUE)), back: link };
    let network = TestNetwork::make(name, &links, 1, None)?;
    let mut receiving = start(&network.right, receiver)?;
    let call = Call { congestion_control: "cubic", ..Call::default() };
    let address = format!("{RECEIVER}:0").parse().expect("an address and a port");
    let (near, far) = call.open(&network.left, &network.right, address)?;
    let (stop, came) = (AtomicBool::new(false), AtomicU64::new(0));
    let measured = thread::scope(|scope| {
        scope.spawn(|| drain(&far, &came));
        // Unsent data shows in the share.
        scope.spawn(|| drop(send_until(&near, &far, &stop)));
        let at = |time| {
            sleep(time);
            came.load(Ordering::Relaxed)
        };
        at(ALONE);
        let sending = start(&network.left, sender);
        let [begin, end] = [TIME.saturating_sub(MEASURED), MEASURED].map(at);
        stop.store(true, Ordering::Relaxed);
        sending.map(|sending| (begin, end, sending))
    });
    let (begin, end, sending) = measured?;
    let [forward, _] = network.end()?;
    if receiving.has_ended() {
        return Err(machine(format_args!("{} {} ended at once: what does it say?", receiver.0.join(" "), receiver.1)));
    }
    drop((sending, receiving));
    let share = |bytes: u64, time: Duration| bytes as f64 * 8.0 / RATE.as_bps() as f64 / time.as_secs_f64();
    Ok(Shares {
        tcp: share(end - begin, MEASURED),
        datagrams: share(forward.bytes_out.saturating_sub(end), TIME),
        dropped: forward.queue_drops as f64 / forward.packets_in as f64,
    })
}

/// Starts a program in a namespace, given as words, with other words before its own.
///
/// # Errors
/// It is not installed.
pub fn start(namespace: &Namespace, (before, words): (&[&str], &str)) -> Result<ChildProcess, RunError> {
    let mut words = before.iter().copied().chain(words.split_whitespace());
    let mut command = Command::new(words.next().expect("a program has a name"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = namespace.within(|| command.spawn()).map_err(machine)?;
    Ok(child.map_err(|error| machine(format_args!("{command:?}: {error} (install it: scripts/tools.sh)")))?.into())
}
