//! tcp-expired: expired bytes on the wire, counted in the link's capture, with plain TCP, the ring,
//! and late choice.

mod judge;
mod path;

use std::sync::Arc;

use serde_json::json;
use timeous::core::{AduMeta, Duration, FrameId, LateChoice};
use timeous_choice::{Chain, Deadlines, Dependencies};

use super::over_tcp::{self, Control, Offer, Plan, SenderKind};
use super::tl::PLAYOUT;
use super::tl::offers::{PACKET, pictures};
use crate::experiment::{About, Choice, Experiment, Findings, Forms, LabError, Run};
use judge::Measured;
use path::Path;

/// Length of each stream.
const LASTING: Duration = Duration::from_secs(60);
/// Time after the stream for its last data to arrive.
const REST: Duration = Duration::from_secs(2);
/// Slots of the ring: more than the packets in 150 ms of the stream, which is all that is useful at
/// once.
const SLOTS: u32 = 256;

pub(crate) struct TcpExpired;

impl Experiment for TcpExpired {
    fn about(&self) -> About {
        About {
            name: "tcp-expired",
            title: "Expired bytes on the wire, and frames in time, over the kernel's TCP and our own",
            source: "McQuistin §4.3 (what a packet trace should show); Birkedal et al. §7 (late retransmissions)",
            paper: "nothing was counted on the wire; retransmissions that come too late are both papers' open end",
            forms: Forms::Real,
            seeds: 3,
            takes: "real 5 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        let mut plans = Vec::new();
        for path in Path::ALL {
            for control in Control::ALL {
                for way in SenderKind::ALL {
                    plans.extend(run.seeds().map(|seed| (path, plan(path, control, way, seed))));
                }
            }
        }
        let wishes: Vec<Plan> = plans.iter().map(|(_, plan)| plan.clone()).collect();
        let logs = over_tcp::all(run, &wishes)?;
        let measured: Vec<Measured> =
            plans.iter().zip(&logs).map(|((path, plan), log)| Measured::of(*path, plan, log)).collect();
        Ok(Findings {
            setup: setup(),
            tables: judge::tables(&measured),
            figures: judge::figures(&measured)?,
            claims: judge::claims(&measured),
            notes: judge::notes(&measured),
            data: json!({ "streams": measured }),
        })
    }
}

fn plan(path: Path, control: Control, way: SenderKind, seed: u64) -> Plan {
    Plan {
        way,
        control,
        links: path.links(),
        mtu: None,
        behaviour: None,
        seed,
        offers: offers(seed),
        slots: SLOTS,
        choice: Arc::new(|| -> Box<dyn LateChoice> {
            Box::new(Chain::default().then(Deadlines).then(Dependencies::default()))
        }),
        lasting: LASTING + REST,
    }
}

/// Returns groups of pictures, as several packets per frame.
fn offers(seed: u64) -> Arc<[Offer]> {
    let frames = pictures(seed, LASTING);
    let packets = frames.iter().zip(1..).flat_map(|(frame, number)| {
        let meta = AduMeta { frame: FrameId(number), ..frame.meta };
        let offer = Offer { at: frame.at, len: PACKET, latency: PLAYOUT, meta };
        std::iter::repeat_n(offer, frame.bytes / PACKET)
    });
    packets.collect()
}

fn setup() -> Vec<Choice> {
    let mut all = vec![
        Choice::ours(
            "stream",
            "groups of 12 to 60 pictures, 25 a second; an I-frame has 10 packets, a P-frame 2, of 1100 bytes; 60 s",
            "that of tl-dependencies: frames that refer to others, and come in bursts",
        ),
        Choice::ours("playout", "150 ms after a frame was handed over", "a conversation's, as in all tl experiments"),
        Choice::ours("ring", "gives up what is too late or refers to what is lost", "`Deadlines`, `Dependencies`"),
        Choice::ours(
            "expired",
            "a byte comes to the link so late that it would miss its playout if nothing waited there",
            "the least that can be said against sending it; what the link's queue adds is not counted",
        ),
        Choice::ours(
            "at most",
            "what a sender could have had shown that knows every rate in advance; losses cost it nothing",
            "the clairvoyant bound of `bloat`, frames in full segments; of the places that standstills may have in the stream, 100 ms apart, the best",
        ),
        Choice::ours(
            "bound",
            "1 % expired, with late choice into retransmissions and with our own TCP",
            "tl-timelines'; set before the first run",
        ),
    ];
    all.extend(Path::ALL.map(|path| Choice::ours(path.name(), path.what(), "as in tl-timelines and tl-dependencies")));
    all.extend(over_tcp::choices());
    all
}
