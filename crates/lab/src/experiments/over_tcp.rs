//! Streams of datagrams over real TCP by any sender: through the emulated link, many at once.

mod capture;
mod encryption;
mod middlebox;
mod plain;
mod plan;
mod receiver;
mod ring;
mod userspace_tcp;

use std::thread;

use middlebox::MiddleboxThread;
use rustix::process::setpriority_process;
use tempfile::NamedTempFile;
use timeous::core::Instant;
use timeous_engine::clock;
use timeous_testbed::machine::machine;
use timeous_testbed::network::TestNetwork;

use crate::experiment::{Choice, Run, RunError, setup};

pub(crate) use capture::{CarriedBytes, StreamContent};
pub(crate) use plan::{Control, Offer, Plan, SenderKind, SenderStatus};

/// Concurrent streams: none shares a link, and together they are far below the machine's capacity.
const AT_ONCE: usize = 24;
/// Highest priority, as a `nice` value.
const MOST_FAVOURED: i32 = -20;

/// Log of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) begin: Instant,
    /// First arrival of each datagram.
    pub(crate) arrived: Vec<Option<Instant>>,
    /// Datagrams that arrived altered or twice.
    pub(crate) corrupt: u64,
    /// Stretches of data that arrived at the link, in order.
    pub(crate) wire: Vec<CarriedBytes>,
    pub(crate) status: SenderStatus,
}

/// Returns the choices common to all such streams.
pub(crate) fn choices() -> Vec<Choice> {
    setup! {
        ours "machines": "network namespaces of one" => "one clock for all, and no other traffic";
        ours "streams": "{AT_ONCE} at once, each over a link of its own" => "none can disturb another";
        ours "plain TCP": "`write()` into a send buffer as the kernel sizes it; the writer waits" => "any program's";
        ours "datagrams": "numbered records in the byte stream, for plain TCP, too"
            => "the capture then tells what each byte belongs to";
        ours "receiver": "a plain socket of the kernel's" => "nothing there is ours but the reader of records";
        ours "seeds": "choose what the link loses"
            => "which packet meets a loss depends on timing as well: real runs of one seed differ";
    }
}

/// Runs all streams, and returns their logs in order.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn all(run: &Run<'_>, plans: &[Plan]) -> Result<Vec<Log>, RunError> {
    let task = run.progress.task("streams", plans.len() as u64);
    let one = |index: usize, plan: &Plan| {
        // A thread's priority applies to it and to the threads it starts. Without it, other
        // programs interfere.
        let _ = setpriority_process(None, MOST_FAVOURED);
        let log = stream(&format!("ot{index}"), plan);
        task.step();
        log
    };
    let mut logs = Vec::new();
    for (batch, plans) in plans.chunks(AT_ONCE).enumerate() {
        let found: Result<Vec<Log>, RunError> = thread::scope(|scope| {
            let one = &one;
            let started = plans.iter().enumerate();
            let started = started.map(|(index, plan)| scope.spawn(move || one(batch * AT_ONCE + index, plan)));
            let started: Vec<_> = started.collect();
            started.into_iter().map(|stream| stream.join().expect("a stream does not panic")).collect()
        });
        logs.extend(found?);
    }
    Ok(logs)
}

/// Runs a stream over a link of its own. `name` distinguishes it from others of this process.
fn stream(name: &str, plan: &Plan) -> Result<Log, RunError> {
    let capture = NamedTempFile::new().map_err(RunError::system("make a file for a capture"))?;
    let network = TestNetwork::make(name, &plan.links, plan.seed, Some(capture.path()))?;
    // Set on the route: a namespace's default may only be a control that the machine allows to all
    // users.
    let route =
        ["route", "replace", "10.77.0.0/24", "dev", "timeous0", "src", "10.77.0.1", "congctl", plan.control.name()];
    network.left.ip(&route).map_err(machine)?;
    if let Some(mtu) = plan.mtu.or(plan.behaviour.map(|_| middlebox::WIDE)) {
        let mtu = mtu.to_string();
        for end in [&network.left, &network.right] {
            end.ip(&["link", "set", "dev", "timeous0", "mtu", &mtu]).map_err(machine)?;
        }
    }
    let listener = receiver::listen(&network)?;
    let middlebox = plan
        .behaviour
        .map(|behaviour| MiddleboxThread::lay(name, &network, plan.control.name(), behaviour))
        .transpose()?;
    let sender = middlebox.as_ref().map_or(&network.left, |middlebox| &middlebox.host);
    let (begin, status, (arrived, corrupt, framings)) = thread::scope(|scope| {
        let receiver = scope.spawn(|| receiver::receive(&listener, plan));
        let sent = match plan.way {
            SenderKind::Plain => plain::stream(sender, plan),
            SenderKind::Ring | SenderKind::Late => ring::stream(sender, plan),
            SenderKind::Own => userspace_tcp::stream(&network, plan),
        };
        let received = receiver.join().expect("the receiver does not panic");
        let (begin, status) = sent?;
        Ok::<_, RunError>((begin, status, received?))
    })?;
    middlebox.map_or(Ok(()), MiddleboxThread::end)?;
    network.end()?;
    let mut wire = capture::read(capture.path(), clock::unix_offset(), framings)?;
    // The handshake's bytes come before the stream.
    wire.retain(|one| !plan.encrypted || one.at >= begin);
    Ok(Log { begin, arrived, corrupt, wire, status })
}
