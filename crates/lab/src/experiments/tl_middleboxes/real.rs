//! The experiment over the kernel's TCP: a middlebox between a sender's namespace and the emulated
//! link.

use std::sync::Arc;

use timeous::core::{AduMeta, Duration, LateChoice};
use timeous_choice::Deadlines;
use timeous_host::MiddleboxBehaviour;
use timeous_net::LinkConfig;
use timeous_net::link::Loss;

use super::super::over_tcp::{self, Control, Log, Offer, Plan, SenderKind};
use super::super::tcp_kernel::network::Links;
use super::super::tl::offers::{INTERVAL, SIZES};
use super::super::tl::trial::{Protocol, link};
use super::super::tl::{PLAYOUT, RTT};
use super::{BEHAVIOURS, Measured};
use crate::experiment::{Choice, Claim, Findings, Grid, LabError, Run, cross, setup};

/// Number of datagrams: one minute.
const COUNT: u64 = 3_000;
const LOSS: f64 = 0.08;
/// Time after the stream for its last data to arrive.
const REST: Duration = Duration::from_secs(5);
/// Slots of the ring: more packets than are useful at once.
const SLOTS: u32 = 256;
/// Ways to send, and the corresponding protocols of the paper.
const WAYS: [(SenderKind, Protocol); 3] =
    [(SenderKind::Ring, Protocol::ToTcp), (SenderKind::Plain, Protocol::Tcp), (SenderKind::Late, Protocol::ToTcpTimed)];

/// # Errors
/// Missing features of the machine.
pub(super) fn run(run: &Run<'_>) -> Result<Findings, LabError> {
    let ways = cross(BEHAVIOURS, WAYS);
    let wishes =
        cross(Control::ALL, cross(ways.collect::<Vec<_>>(), run.seeds().collect::<Vec<_>>()).collect::<Vec<_>>());
    let wishes: Vec<_> = wishes
        .map(|(control, ((behaviour, (way, protocol)), seed))| {
            (behaviour, protocol, plan(control, behaviour, way, seed))
        })
        .collect();
    let plans: Vec<Plan> = wishes.iter().map(|(.., plan)| plan.clone()).collect();
    let logs = over_tcp::all(run, &plans)?;
    let mut all = Findings::default();
    for control in Control::ALL {
        let these = wishes.iter().zip(&logs).filter(|((.., plan), _)| plan.control == control);
        let these = these.map(|((at, of, plan), log)| ((*at, *of), plan.seed, measure(plan, log)));
        let title = format!("{}: streams of {COUNT} datagrams at 8 % loss, the mean over the seeds", control.name());
        let streams = Grid::from_runs(these.collect());
        let found = super::findings(&streams, &WAYS.map(|(_, protocol)| protocol), &title, setup())?;
        all.setup = found.setup;
        all.notes = found.notes;
        all.tables.extend(found.tables);
        all.figures.extend(found.figures);
        let of_control = |claim: Claim| Claim { what: format!("{}: {}", control.name(), claim.what), ..claim };
        all.claims.extend(found.claims.into_iter().map(of_control));
        all.data[control.name()] = found.data;
    }
    Ok(all)
}

fn plan(control: Control, behaviour: MiddleboxBehaviour, way: SenderKind, seed: u64) -> Plan {
    let offer =
        |n: u64| Offer { at: INTERVAL * n, len: SIZES[(n % 2) as usize], latency: PLAYOUT, meta: AduMeta::default() };
    Plan {
        way,
        control,
        links: Links {
            forward: link(Loss::Bernoulli { p: LOSS }),
            back: LinkConfig { delay: RTT / 2, ..LinkConfig::default() },
        },
        mtu: None,
        behaviour: Some(behaviour),
        seed,
        offers: (0..COUNT).map(offer).collect(),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> { Box::new(Deadlines) }),
        lasting: INTERVAL * COUNT + REST,
    }
}

fn measure(plan: &Plan, log: &Log) -> Measured {
    let in_time = |(arrived, offer): (&Option<_>, &Offer)| arrived.is_some_and(|at| at <= offer.deadline(log.begin));
    let bytes = |counts: &dyn Fn((&Option<_>, &Offer)) -> bool| {
        let these = log.arrived.iter().zip(plan.offers.iter()).filter(|&each| counts(each));
        these.map(|(_, offer)| offer.len).sum::<usize>() as f64
    };
    let (came, last) = super::shares(&log.arrived);
    Measured {
        in_time: 100.0 * bytes(&in_time) / bytes(&|_| true).max(1.0),
        came,
        last,
        changed: log.status.replaced + log.status.padded,
        refused: log.status.refused,
        connections: 1 + u32::from(log.status.ended),
        corrupt: log.corrupt,
    }
}

fn setup() -> Vec<Choice> {
    let mut all = setup! {
        paper "middleboxes": "pass, cached original, silence, reset" => "§4.2";
        ours "besides": "cutting, joining (5 ms), other sequence numbers" => "Honda et al. saw those, too";
        ours "middlebox": "that of the virtual form, between two TUN devices" => "before the link that loses";
        ours "MTU": "1500 on the sender's side of the middlebox, 3000 behind it"
            => "one that joins two segments makes a longer one, which goes on as it is";
        ours "sent": "{COUNT} datagrams, one each 20 ms, of 550 and 650 bytes in turn; 8 % loss"
            => "a minute of the paper's stream";
        ours "senders": "the ring to the kernel's queue (C); plain TCP (A); the ring into retransmissions (C, \
            timelines)" => "to a plain receiver";
        ours "after a reset": "the program calls again, and nothing is changed when it is sent again"
            => "a connection cannot outlive a reset; the receiver takes the new call also where the reset was lost on \
            its way there, as any server would (at 8 % loss that is one in twelve; it waited for the old call's end \
            at first, and got nothing more)";
        ours "goes on where TCP would": "of the last tenth of the datagrams as many come as from the ring without \
            changes, within 5 %" => "plain TCP was the reference of a first run; it brings all, however late, so that \
            what was given up as late counted against the ring, which has nothing to do with middleboxes";
    };
    all.extend(over_tcp::choices());
    all
}
