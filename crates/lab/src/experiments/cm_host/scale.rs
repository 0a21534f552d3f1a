//! A thousand flows in a hundred macroflows: processor time per grant, and memory per flow.

use std::net::SocketAddr;

use timeous::core::Duration;
use timeous_testbed::machine::sleep;

use super::super::daemon::false_feedback::FalseFeedback;
use super::super::daemon::feedback_receiver::FeedbackReceiver;
use super::super::daemon::host::{ClientProcess, DaemonHost};
use super::super::daemon::messages::{FinalReport, Work};
use crate::experiment::RunError;

pub(super) const FLOWS: usize = 1_000;
pub(super) const MACROFLOWS: usize = 100;
pub(super) const PROCESSES: usize = 8;
/// Packet interval of each flow.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// Packet size in bytes.
pub(super) const LEN: u64 = 200;
pub(super) const TIME: Duration = Duration::from_secs(8);

/// Cost of grants and flows.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Scale {
    pub(super) flows: usize,
    pub(super) macroflows: usize,
    pub(super) grants: u64,
    /// Processor time per grant, in microseconds: of the daemon, of its clients, and of clients
    /// that send as much without requests.
    pub(super) daemon_micros: f64,
    pub(super) client_micros: f64,
    pub(super) plain_micros: f64,
    /// Bytes per flow: in the daemon after opening, in the daemon after use, and in the client.
    pub(super) daemon_bytes: f64,
    pub(super) daemon_bytes_used: f64,
    pub(super) client_bytes: f64,
    pub(super) late: u64,
    pub(super) refused: u64,
}

/// Measures the cost.
///
/// # Errors
/// Missing features of the machine.
pub(super) fn measure(host: &DaemonHost) -> Result<Scale, RunError> {
    let far = FeedbackReceiver::start()?;
    let plain = unasked(&far)?;
    let (mut members, connected) = start(&far, Some(host))?;
    let before = host.resident()?;
    let opened = members.iter_mut().map(ClientProcess::open).collect::<Result<Vec<u64>, _>>()?;
    let after = host.resident()?;
    let begin = host.cpu()?;
    send(&mut members)?;
    let cpu = host.cpu()? - begin;
    let used = host.resident()?;
    let view = host.view()?;
    let done = members.into_iter().map(ClientProcess::end).collect::<Result<Vec<FinalReport>, _>>()?;
    let sum = |of: fn(&FinalReport) -> u64| done.iter().map(of).sum::<u64>();
    let grants = sum(|done| done.grants);
    let each = |later: u64, before: u64| later.saturating_sub(before) as f64 / FLOWS as f64;
    Ok(Scale {
        flows: view.macroflows.iter().map(|macroflow| macroflow.flows.len()).sum(),
        macroflows: view.macroflows.iter().filter(|macroflow| !macroflow.flows.is_empty()).count(),
        grants,
        daemon_micros: cpu.as_nanos() as f64 / 1e3 / grants as f64,
        client_micros: micros_each(&done),
        plain_micros: plain,
        daemon_bytes: each(after, before),
        daemon_bytes_used: each(used, before),
        client_bytes: each(opened.iter().sum(), connected.iter().sum()),
        late: sum(|done| done.late),
        refused: sum(|done| done.refused),
    })
}

/// Measures the processor time per packet of clients without a Congestion Manager.
fn unasked(far: &FeedbackReceiver) -> Result<f64, RunError> {
    let (mut members, _) = start(far, None)?;
    members.iter_mut().try_for_each(|member| member.open().map(drop))?;
    send(&mut members)?;
    Ok(micros_each(&members.into_iter().map(ClientProcess::end).collect::<Result<Vec<_>, _>>()?))
}

fn send(members: &mut [ClientProcess]) -> Result<(), RunError> {
    members.iter_mut().try_for_each(ClientProcess::go)?;
    sleep(TIME);
    Ok(())
}

fn micros_each(done: &[FinalReport]) -> f64 {
    let (nanos, sent) = done.iter().fold((0, 0), |sum, done| (sum.0 + done.cpu_nanos, sum.1 + done.sent));
    nanos as f64 / 1e3 / sent as f64
}

/// Starts and connects all processes; also returns the memory of each in bytes.
fn start(far: &FeedbackReceiver, host: Option<&DaemonHost>) -> Result<(Vec<ClientProcess>, Vec<u64>), RunError> {
    let mut members =
        (0..PROCESSES).map(|number| ClientProcess::start(&work(far, host, number))).collect::<Result<Vec<_>, _>>()?;
    let connected = members.iter_mut().map(ClientProcess::connected).collect::<Result<_, _>>()?;
    Ok((members, connected))
}

fn work(far: &FeedbackReceiver, host: Option<&DaemonHost>, number: usize) -> Work {
    let each = FLOWS / PROCESSES;
    let to = |flow: usize| {
        let macroflow = (number * each + flow) % MACROFLOWS;
        SocketAddr::from(([127, 0, 1, 1 + macroflow as u8], far.port()))
    };
    // Flow numbers differ from those of the earlier run.
    let first = if host.is_some() { 100_000 } else { 0 };
    Work {
        daemon: host.map(DaemonHost::socket),
        uid: None,
        first: first + (number * each) as u32,
        to: (0..each).map(to).collect(),
        len: LEN,
        every_micros: Some(EVERY.as_micros()),
        lie: FalseFeedback::None,
    }
}
