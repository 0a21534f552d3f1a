//! The same streams over the kernel's TCP, through the emulated link.

use std::sync::Arc;

use timeous::core::{AduMeta, Duration, FrameId, LateChoice, SubStream};
use timeous_choice::Layers;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_tcp::record;

use super::super::over_tcp;
use super::super::over_tcp::{Control, Log, Offer, Plan, SenderKind};
use super::super::tcp_kernel::network::Links;
use super::{
    Cell, DELAY, LAYERS, LOSS, PACKETS, QUEUE, RATES, SECONDS, SIZE, Sender, ViewerOutcome, Views, choices, first_way,
};
use crate::experiment::{Choice, Claim, Figure, Findings, Grid, LabError, Run, Table, cross, setup};

/// Senders compared with plain TCP.
const LATE: [SenderKind; 2] = [SenderKind::Ring, SenderKind::Late];
/// Slots of the ring, for a stream of twenty seconds.
const SLOTS: u32 = 4_096;
/// Bytes of IP's and TCP's headers with timestamps.
const HEADERS: usize = 52;
/// Bytes of a packet on the link.
const PACKET: usize = record::sealed_len(SIZE) + HEADERS;

/// Runs all streams; returns findings for each congestion control and kind of late choice, beside
/// plain TCP.
///
/// # Errors
/// Missing features of the machine.
pub(super) fn run(
    run: &Run<'_>,
    start_ups: &[Duration],
    findings: impl Fn(&Views) -> Result<Findings, LabError>,
) -> Result<Findings, LabError> {
    let ways = [
        (SenderKind::Plain, Sender::Plain),
        (SenderKind::Ring, Sender::LateChoice),
        (SenderKind::Late, Sender::LateChoice),
    ];
    let paths: Vec<_> =
        cross(start_ups.to_vec(), cross(RATES, cross(Control::ALL, ways).collect::<Vec<_>>()).collect::<Vec<_>>())
            .collect();
    let wish = |(seed, (start_up, (rate, (control, (way, sender)))))| Wish {
        control,
        way,
        cell: Cell { start_up, rate, sender },
        seed,
    };
    let wishes: Vec<Wish> = cross(run.seeds(), paths).map(wish).collect();
    let logs = over_tcp::all(run, &wishes.iter().map(plan).collect::<Vec<_>>())?;
    let mut all = Findings { setup: setup(), ..Findings::default() };
    let mut data = Vec::new();
    for (control, late) in cross(Control::ALL, LATE) {
        let these = wishes
            .iter()
            .zip(&logs)
            .filter(|(wish, _)| wish.control == control && (wish.way == late || wish.way == SenderKind::Plain));
        let these = these.map(|(wish, log)| (wish.cell, wish.seed, view(&wish.cell, log)));
        let name = format!("{}, {}", control.name(), late.name());
        merge(&mut all, &name, findings(&Grid::from_runs(these.collect()))?, &mut data);
    }
    all.notes.push(reached(&wishes, &logs));
    all.data = data.into();
    Ok(all)
}

/// Stream to measure.
struct Wish {
    control: Control,
    way: SenderKind,
    cell: Cell,
    seed: u64,
}

fn merge(all: &mut Findings, name: &str, found: Findings, data: &mut Vec<serde_json::Value>) {
    all.tables
        .extend(found.tables.into_iter().map(|table| Table { title: format!("{name}: {}", table.title), ..table }));
    all.claims.extend(found.claims.into_iter().map(|claim| Claim { what: format!("{name}: {}", claim.what), ..claim }));
    let figures = found.figures.into_iter();
    all.figures.extend(figures.map(|figure| Figure { caption: format!("{name}. {}", figure.caption), ..figure }));
    data.push(serde_json::json!({ "sender": name, "found": found.data }));
}

fn reached(wishes: &[Wish], logs: &[Log]) -> String {
    let of = |counts: &dyn Fn(&Log) -> u64| -> u64 {
        let late = wishes.iter().zip(logs).filter(|(wish, _)| wish.way == SenderKind::Late);
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

fn plan(&Wish { control, way, cell: ref trial, seed }: &Wish) -> Plan {
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
        seed: seed ^ trial.rate.as_bps() << 20,
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

fn view(trial: &Cell, log: &Log) -> ViewerOutcome {
    let first = log.arrived.iter().flatten().min().copied().unwrap_or(log.begin);
    let end = log.begin + Duration::from_secs(SECONDS);
    let received = log.arrived.iter().flatten().filter(|at| **at < end).count() as u64 * SIZE as u64;
    let mut viewed = ViewerOutcome::of(received);
    for (index, at) in log.arrived.iter().enumerate().filter_map(|(index, at)| Some((index, (*at)?))) {
        let (second, layer) = ((index / (LAYERS * PACKETS)) as u64, index / PACKETS % LAYERS);
        viewed.count(second, layer, at, first + trial.start_up + Duration::from_secs(second));
    }
    viewed
}

fn setup() -> Vec<Choice> {
    let kept =
        choices().into_iter().filter(|choice| !["transport", "send buffer of plain TCP"].contains(&&*choice.what));
    let own = setup! {
        ours "late choice, real": "the packet ring before the kernel's socket with `TCP_NOTSENT_LOWAT`; and that with \
            late choice into retransmissions"
            => "the first is what the paper's patch does, the second what it leaves open";
        ours "congestion control": "the kernel's Reno and CUBIC, with SACK" => "the paper has New Reno with DSACK";
        ours "a packet": "a record in a segment of its own, by the link's MTU" => "as in virtual time";
        ours "received": "payload of datagrams, without records' framing" => "the same for both";
    };
    kept.chain(own).chain(over_tcp::choices()).collect()
}
