//! Both experiments on this machine's kernel: network namespaces, the emulated link, kernel TCP and
//! UDP, and the engine.

mod capture;
mod network;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use capture::{CaptureFilter, StreamCapture};
use network::TestNetwork;
use streams::{Log, PORT, Plan};
use timeous::core::{Duration, Instant, LateChoice, Rng};
use timeous_choice::{Age, Frames, QueueLimit};
use timeous_engine::clock;
use timeous_testbed::machine::sleep_until;

use super::ages::{Flow, LinkPackets, PacketTimestamps};
use super::own_choice::OwnChoice;
use super::setup::{self, Transport, WARM_UP};
use super::shares::Share;
use crate::experiment::{Choice, Run, RunError, setup};

/// Duration of each flow of §4.2, as in virtual time: its queue oscillates over tens of seconds.
const AGES_LAST: Duration = Duration::from_secs(190);
/// Duration of each flow of §4.3.
const SHARES_LAST: Duration = Duration::from_secs(40);
/// Head start of the competing flow; the seed adds up to as much again.
const ALONE: Duration = Duration::from_secs(1);
/// Port of the competing flow.
const OTHER_PORT: u16 = 6_001;

/// Returns the choices that apply to real kernels only.
pub(crate) fn choices(lasting: Duration) -> Vec<Choice> {
    setup! {
        ours "machines": "network namespaces of one" => "one clock for all, and no other traffic";
        paper "congestion control": "Reno, as DCCP's"
            => "§4.2: exactly the same as TCP's; NewReno of ours, and the kernel's Reno";
        ours "send buffer of TCP": "the kernel's choice" => "as the paper's kernel chose it";
        ours "lasting": "{} s after the warm-up", (lasting - WARM_UP).as_secs_f64()
            => "hundreds of packets at the least";
        ours "all flows": "at once, each over a link of its own"
            => "none can disturb another, and it takes no longer than one";
    }
}

/// Returns the choices of §4.2 on real kernels.
pub(crate) fn ages_choices() -> Vec<Choice> {
    let by_seed = Choice::ours(
        "by seed",
        "when the flow begins, within a second, after the one beside it has been alone for a second",
        "the rest is not random but for what the machine does; seeds differ as much as such chances matter",
    );
    setup::shared_choices().into_iter().chain(choices(AGES_LAST)).chain([by_seed]).collect()
}

/// Returns the choices of §4.3 on real kernels.
pub(crate) fn shares_choices() -> Vec<Choice> {
    choices(SHARES_LAST)
}

/// Observations of one stream, and its start.
struct Trial {
    begin: Instant,
    log: Log,
    seen: StreamCapture,
}

/// Runs the flows of §4.2 for each seed: each transport beside one long TCP flow.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn ages(run: &Run<'_>) -> Result<Vec<Vec<Flow>>, RunError> {
    let choice = || Box::new(Age::new(setup::AGE)) as Box<dyn LateChoice>;
    let own = |transport| match transport {
        Transport::Overwritten => OwnChoice::Overwritten(setup::AGE),
        _ => OwnChoice::Stale(setup::AGE),
    };
    let plan = |own| Plan { interval: setup::INTERVAL, lasting: AGES_LAST, choice: Arc::new(choice), own };
    let of_seed = |seed| Transport::ALL.map(|transport| StreamRequest { seed, transport, plan: plan(own(transport)) });
    let wishes: Vec<_> = run.seeds().flat_map(of_seed).collect();
    let found = all(run, &wishes, true)?;
    let flows: Vec<_> = wishes.iter().zip(found).map(|(wish, trial)| flow(wish.transport, &trial)).collect();
    Ok(flows.chunks(Transport::ALL.len()).map(<[Flow]>::to_vec).collect())
}

/// Runs the flows of §4.3: each transport alone, at each interval.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn shares(run: &Run<'_>) -> Result<Vec<Share>, RunError> {
    let choice = || Box::new(Frames::new(QueueLimit::Packets(setup::KEPT))) as Box<dyn LateChoice>;
    let own = OwnChoice::Frames(setup::KEPT);
    let plan = |interval| Plan { interval, lasting: SHARES_LAST, choice: Arc::new(choice), own };
    let of =
        |interval| setup::OF_FRAMES.map(|transport| StreamRequest { seed: run.seed, transport, plan: plan(interval) });
    let wishes: Vec<_> = setup::FRAME_INTERVALS.into_iter().flat_map(of).collect();
    let found = all(run, &wishes, false)?;
    let share = |(wish, trial): (&StreamRequest, Trial)| share(wish.transport, wish.plan.interval, &trial);
    Ok(wishes.iter().zip(found).map(share).collect())
}

/// Stream to measure.
struct StreamRequest {
    seed: u64,
    transport: Transport,
    plan: Plan,
}

/// Runs all trials at the same time, each over a link of its own.
fn all(run: &Run<'_>, wishes: &[StreamRequest], beside_tcp: bool) -> Result<Vec<Trial>, RunError> {
    let lasting = wishes.iter().map(|wish| wish.plan.lasting).max().unwrap_or_default();
    let what = format!("{} flows at once, for {:.0} s", wishes.len(), lasting.as_secs_f64());
    let task = run.progress.task(&what, wishes.len() as u64);
    let one = |index: usize, wish: &StreamRequest| {
        let trial = trial(&format!("lai{index}"), wish, beside_tcp);
        task.step();
        trial
    };
    thread::scope(|scope| {
        let one = &one;
        let started = wishes.iter().enumerate().map(|(index, wish)| scope.spawn(move || one(index, wish)));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|trial| trial.join().expect("a trial does not panic")).collect()
    })
}

fn trial(name: &str, wish: &StreamRequest, beside_tcp: bool) -> Result<Trial, RunError> {
    let network = TestNetwork::make(name, wish.seed, beside_tcp)?;
    let stop = AtomicBool::new(false);
    let (begin, log) = thread::scope(|scope| {
        let other = beside_tcp.then(|| scope.spawn(|| network::long_flow(&network, OTHER_PORT, &stop)));
        if beside_tcp {
            let chance = Rng::from_seed(wish.seed).below(ALONE.as_nanos());
            sleep_until(clock::now() + ALONE + Duration::from_nanos(chance));
        }
        let begin = clock::now();
        let log = streams::stream(wish.transport, &network, &wish.plan);
        stop.store(true, Ordering::Relaxed);
        other.map_or(Ok(()), |other| other.join().expect("the long flow does not panic"))?;
        Ok::<_, RunError>((begin, log?))
    })?;
    let capture = network.end()?;
    let wanted =
        CaptureFilter { transport: wish.transport, port: PORT, ahead: clock::unix_offset(), from: begin + WARM_UP };
    Ok(Trial { begin, log, seen: capture::read(capture.path(), &wanted)? })
}

fn flow(transport: Transport, trial: &Trial) -> Flow {
    let since = |at: Instant| Instant::ZERO + at.saturating_since(trial.begin);
    let journey = |(index, &sent): (usize, &Instant)| {
        let index = index as u64;
        let of = |log: &std::collections::BTreeMap<u64, Instant>| log.get(&index).copied().map(since);
        PacketTimestamps { sent: since(sent), on_wire: of(&trial.seen.came), arrived: of(&trial.log.received) }
    };
    Flow { transport, journeys: trial.log.sent.iter().enumerate().map(journey).collect(), link: trial.seen.stream }
}

fn share(transport: Transport, interval: Duration, trial: &Trial) -> Share {
    let counted = || trial.log.received.iter().filter(|(_, at)| **at >= trial.begin + WARM_UP);
    let link: LinkPackets = trial.seen.stream;
    let i_received = counted().filter(|(index, _)| streams::is_i_frame(**index)).count() as u64;
    Share { transport, interval, received: counted().count() as u64, i_received, link }
}
