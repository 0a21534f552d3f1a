//! Clients that are killed while sending, and the effect on other clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous::core::{Duration, Rng};
use timeous_net::LinkConfig;
use timeous_testbed::machine::sleep;

use super::super::daemon::false_feedback::FalseFeedback;
use super::super::daemon::feedback_receiver::{FeedbackReceiver, FlowStats, Wire};
use super::super::daemon::host::{ClientProcess, DaemonHost};
use super::super::daemon::messages::Work;
use crate::experiment::{Run, RunError};

pub(super) const DEATHS: u64 = 100;
/// Clients killed before the first resource count, so that one-time allocations are not counted.
const BEFORE: u64 = 10;
pub(super) const OTHERS: u32 = 4;
pub(super) const EVERY: Duration = Duration::from_millis(5);
pub(super) const LEN: u64 = 1_000;
pub(super) const FLOWS: usize = 10;
pub(super) const EVERY_OF_THE_DYING: Duration = Duration::from_millis(10);
/// One-way delay.
pub(super) const DELAY: Duration = Duration::from_millis(10);
pub(super) const TIME: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(3);
const FIRST_OF_THE_DYING: u32 = 1_000;

/// Clients that live on in place of dying: half of those that a daemon takes.
const ALIVE: usize = 30;

/// Observations of one surviving flow.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct SurvivorStats {
    /// Whether it shares its macroflow with the killed clients.
    pub(super) beside: bool,
    /// Rate in kbit/s beside a client that lives, and while clients are killed.
    pub(super) alive: f64,
    pub(super) dying: f64,
    /// Longest time without a packet, in milliseconds, in both phases.
    pub(super) alive_gap: f64,
    pub(super) dying_gap: f64,
}

impl SurvivorStats {
    /// Returns the rate during the deaths divided by the rate before.
    pub(super) fn ratio(&self) -> f64 {
        self.dying / self.alive
    }
}

/// Results over all deaths.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Deaths {
    #[serde(rename = "felt")]
    pub(super) survivors: Vec<SurvivorStats>,
    /// Increase of flows, clients and descriptors.
    pub(super) flows: i64,
    pub(super) clients: i64,
    pub(super) descriptors: i64,
    /// Increase of the daemon's memory, in bytes.
    pub(super) bytes: i64,
    /// Time from the last death until the daemon has released everything, in milliseconds.
    pub(super) forgotten: f64,
}

/// Measures the effect of clients that are killed; with `alive` some live on until the end, and nothing is forgotten.
///
/// # Errors
/// Missing features of the machine.
pub(super) fn measure(host: &DaemonHost, run: &Run<'_>, alive: bool) -> Result<Deaths, RunError> {
    let far = FeedbackReceiver::start()?;
    let way = LinkConfig::with_delay(DELAY);
    let wire = Wire::start(&far, way.clone(), way, run.seed)?;
    let port = wire.port();
    let mut others =
        (0..OTHERS).map(|number| ClientProcess::opened(&other(host, port, number))).collect::<Result<Vec<_>, _>>()?;
    others.iter_mut().try_for_each(ClientProcess::go)?;

    let mut living = ClientProcess::opened(&dying(host, port, 0))?;
    living.go()?;
    sleep(WARM_UP);
    far.take();
    let begin = timeous::clock::now();
    sleep(TIME);
    let (undisturbed, time) = (far.take(), timeous::clock::now() - begin);
    living.end()?;

    let mut rng = Rng::from_seed(run.seed);
    for number in 1..=BEFORE {
        drop(run_for_a_while(&dying(host, port, number), &mut rng)?);
    }
    let clients = OTHERS as usize + 1;
    host.until("the first dead are forgotten", || Ok(host.view()?.clients.len() == clients))?;
    sleep(Duration::from_millis(500));
    let before = DaemonResources::of(host)?;
    far.take();
    let task = run.progress.task("deaths", DEATHS);
    let begin = timeous::clock::now();
    let mut living = Vec::new();
    for number in BEFORE + 1..=BEFORE + DEATHS {
        let member = run_for_a_while(&dying(host, port, number), &mut rng)?;
        if alive && living.len() < ALIVE {
            living.push(member);
        } else {
            drop(member);
        }
        task.step();
    }
    let (dead, time_of_death) = (far.take(), timeous::clock::now() - begin);
    let forgotten = || host.until("the dead are forgotten", || Ok(host.view()?.clients.len() <= clients));
    let forgotten = if alive { f64::INFINITY } else { millis(forgotten()?) };
    sleep(Duration::from_millis(500));
    let after = DaemonResources::of(host)?;
    others.into_iter().try_for_each(|other| other.end().map(drop))?;

    let kbps = |bytes: u64, time: Duration| bytes as f64 * 8e-3 / time.as_secs_f64();
    let survivors = (0..2 * OTHERS).map(|flow| {
        let of = |seen: &BTreeMap<u32, FlowStats>| seen.get(&flow).copied().unwrap_or_default();
        let (alive, dead) = (of(&undisturbed), of(&dead));
        SurvivorStats {
            beside: flow % 2 == 0,
            alive: kbps(alive.bytes, time),
            dying: kbps(dead.bytes, time_of_death),
            alive_gap: millis(alive.gap),
            dying_gap: millis(dead.gap),
        }
    });
    Ok(Deaths {
        survivors: survivors.collect(),
        flows: after.flows - before.flows,
        clients: after.clients - before.clients,
        descriptors: after.descriptors - before.descriptors,
        bytes: after.bytes - before.bytes,
        forgotten,
    })
}

/// Resources held by the daemon.
struct DaemonResources {
    flows: i64,
    clients: i64,
    descriptors: i64,
    bytes: i64,
}

impl DaemonResources {
    fn of(host: &DaemonHost) -> Result<Self, RunError> {
        let view = host.view()?;
        // The client that took the snapshot is gone by then, and its descriptors will be closed
        // soon.
        sleep(Duration::from_millis(100));
        Ok(Self {
            flows: view.macroflows.iter().map(|macroflow| macroflow.flows.len() as i64).sum(),
            clients: view.clients.len() as i64,
            descriptors: host.descriptors()? as i64,
            bytes: host.resident()? as i64,
        })
    }
}

/// Returns the work of a surviving client: a flow beside the killed clients, and one to another
/// host.
fn other(host: &DaemonHost, port: u16, number: u32) -> Work {
    Work {
        daemon: Some(host.socket()),
        uid: None,
        first: 2 * number,
        to: [1, 2].map(|last| SocketAddr::from(([127, 0, 2, last], port))).to_vec(),
        len: LEN,
        every_micros: Some(EVERY.as_micros()),
        lie: FalseFeedback::None,
    }
}

fn dying(host: &DaemonHost, port: u16, number: u64) -> Work {
    Work {
        first: FIRST_OF_THE_DYING + number as u32 * FLOWS as u32,
        to: vec![SocketAddr::from(([127, 0, 2, 1], port)); FLOWS],
        every_micros: Some(EVERY_OF_THE_DYING.as_micros()),
        ..other(host, port, 0)
    }
}

fn run_for_a_while(work: &Work, rng: &mut Rng) -> Result<ClientProcess, RunError> {
    let mut member = ClientProcess::opened(work)?;
    member.go()?;
    sleep(Duration::from_micros(20_000 + rng.below(60_000)));
    Ok(member)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
