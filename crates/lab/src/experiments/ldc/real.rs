//! The same streams over the kernel's TCP, through the emulated link.

use std::sync::Arc;

use timeous::core::{AduMeta, Duration, FrameId, LateChoice, SubStream};
use timeous_choice::Layers;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_tcp::record;

use super::super::over_tcp::{self, Control, Log, Offer, Plan, SenderKind};
use super::super::tcp_kernel::network::Links;
use super::setup::{BYTES, DELAY, LAYERS, LOSS, PACKETS, QUEUE, RATES, SECONDS, SIZE, choices, first_way};
use super::trial::{Sender, Trial, ViewerOutcome};
use crate::experiment::{Choice, Findings, LabError, Run};

/// Senders compared with plain TCP.
const LATE: [SenderKind; 2] = [SenderKind::Ring, SenderKind::Late];
/// Slots of the ring, for a stream of twenty seconds.
const SLOTS: u32 = 4_096;
/// Bytes of IP's and TCP's headers with timestamps.
const HEADERS: usize = 52;
/// Bytes of a packet on the link.
const PACKET: usize = record::numbered_len(SIZE) + HEADERS;

/// Runs all streams; returns findings for each congestion control and kind of late choice, beside
/// plain TCP.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn run(
    run: &Run<'_>,
    start_ups: &[Duration],
    findings: impl Fn(&[ViewerOutcome]) -> Result<Findings, LabError>,
) -> Result<Findings, LabError> {
    let mut wishes = Vec::new();
    for seed in run.seeds() {
        for &start_up in start_ups {
            for rate in RATES {
                for control in Control::ALL {
                    for way in [SenderKind::Plain, SenderKind::Ring, SenderKind::Late] {
                        let sender = if way == SenderKind::Plain { Sender::Plain } else { Sender::LateChoice };
                        wishes.push((control, way, Trial { sender, rate, start_up, seed }));
                    }
                }
            }
        }
    }
    let plans: Vec<Plan> = wishes.iter().map(|(control, way, trial)| plan(*control, *way, trial)).collect();
    let logs = over_tcp::all(run, &plans)?;
    let viewed: Vec<(Control, SenderKind, ViewerOutcome)> =
        wishes.iter().zip(&logs).map(|((control, way, trial), log)| (*control, *way, view(trial, log))).collect();
    let mut all = Findings { setup: setup(), ..Findings::default() };
    let mut data = Vec::new();
    for control in Control::ALL {
        for late in LATE {
            let these =
                viewed.iter().filter(|(of, way, _)| *of == control && (*way == late || *way == SenderKind::Plain));
            let these: Vec<ViewerOutcome> = these.map(|(.., viewed)| viewed.clone()).collect();
            let name = format!("{}, {}", control.name(), late.name());
            let found = findings(&these)?;
            merge(&mut all, &name, found, &mut data);
        }
    }
    all.notes.push(reached(&wishes, &logs));
    all.data = data.into();
    Ok(all)
}

fn merge(all: &mut Findings, name: &str, found: Findings, data: &mut Vec<serde_json::Value>) {
    all.tables.extend(found.tables.into_iter().map(|mut table| {
        table.title = format!("{name}: {}", table.title);
        table
    }));
    all.claims.extend(found.claims.into_iter().map(|mut claim| {
        claim.what = format!("{name}: {}", claim.what);
        claim
    }));
    all.figures.extend(found.figures.into_iter().map(|mut figure| {
        figure.caption = format!("{name}. {}", figure.caption);
        figure
    }));
    data.push(serde_json::json!({ "sender": name, "found": found.data }));
}

fn reached(wishes: &[(Control, SenderKind, Trial)], logs: &[Log]) -> String {
    let of = |counts: &dyn Fn(&Log) -> u64| -> u64 {
        let late = wishes.iter().zip(logs).filter(|((_, way, _), _)| *way == SenderKind::Late);
        late.map(|(_, log)| counts(log)).sum()
    };
    format!(
        "With late choice into retransmissions, {} records gave their place to a fresh datagram and {} made way for padding, in \
         all {} streams. What of them was lost is not received: it would have come late. Datagrams that came and were not as they \
         were offered, or came twice, of all streams: {}.",
        of(&|log| log.status.replaced),
        of(&|log| log.status.padded),
        of(&|_| 1),
        logs.iter().map(|log| log.corrupt).sum::<u64>()
    )
}

fn plan(control: Control, way: SenderKind, trial: &Trial) -> Plan {
    let forward = LinkConfig {
        capacity: Capacity::Fixed(trial.rate),
        queue: Limit::Packets(QUEUE),
        delay: DELAY,
        loss: Loss::Bernoulli { p: LOSS },
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: DELAY, ..LinkConfig::default() };
    Plan {
        way,
        control,
        links: Links { forward, back },
        mtu: Some(PACKET as u16),
        behaviour: None,
        seed: trial.seed ^ trial.rate.as_bps() << 20,
        offers: offers(trial.start_up + first_way(trial.rate, PACKET)),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> { Box::new(Layers::default()) }),
        lasting: Duration::from_secs(SECONDS) + trial.start_up,
    }
}

/// Returns the offered packets: each second a second of all layers at once, lowest first.
fn offers(latency: Duration) -> Arc<[Offer]> {
    let of_second = |second: u64| {
        (0..LAYERS).flat_map(move |layer| {
            let frame = FrameId((second as usize * LAYERS + layer) as u32 + 1);
            let meta = AduMeta { substream: SubStream(layer as u8), frame, ..AduMeta::default() };
            [Offer { at: Duration::from_secs(second), len: SIZE, latency, meta }; PACKETS]
        })
    };
    (0..SECONDS).flat_map(of_second).collect()
}

fn view(trial: &Trial, log: &Log) -> ViewerOutcome {
    let first = log.arrived.iter().flatten().min().copied().unwrap_or(log.begin);
    let end = log.begin + Duration::from_secs(SECONDS);
    let mut viewed = ViewerOutcome {
        sender: trial.sender,
        kbps: trial.rate.as_bps() / 1_000,
        start_up: trial.start_up.as_millis() / 1_000,
        seed: trial.seed,
        received: log.arrived.iter().flatten().filter(|at| **at < end).count() as u64 * SIZE as u64,
        arrived: 0,
        in_time: 0,
        layers: [0.0; LAYERS],
        lateness: Vec::new(),
    };
    for (index, at) in log.arrived.iter().enumerate().filter_map(|(index, at)| Some((index, (*at)?))) {
        let (second, layer) = (index / (LAYERS * PACKETS), index / PACKETS % LAYERS);
        let playout = first + trial.start_up + Duration::from_secs(second as u64);
        viewed.arrived += SIZE as u64;
        if at <= playout {
            viewed.in_time += SIZE as u64;
            viewed.layers[layer] += SIZE as f64 / (SECONDS * BYTES) as f64;
        }
        let late = at.saturating_since(playout).as_secs_f64() - playout.saturating_since(at).as_secs_f64();
        viewed.lateness.push((second as u64, late));
    }
    viewed
}

fn setup() -> Vec<Choice> {
    let kept =
        choices().into_iter().filter(|choice| !["transport", "send buffer of plain TCP"].contains(&&*choice.what));
    let own = [
        Choice::ours(
            "late choice, real",
            "the packet ring before the kernel's socket with `TCP_NOTSENT_LOWAT`; and that with late choice into retransmissions",
            "the first is what the paper's patch does, the second what it leaves open",
        ),
        Choice::ours(
            "congestion control",
            "the kernel's Reno and CUBIC, with SACK",
            "the paper has New Reno with DSACK",
        ),
        Choice::ours("a packet", "a record in a segment of its own, by the link's MTU", "as in virtual time"),
        Choice::ours("received", "payload of datagrams, without records' framing", "the same for both"),
    ];
    kept.chain(own).chain(over_tcp::choices()).collect()
}
