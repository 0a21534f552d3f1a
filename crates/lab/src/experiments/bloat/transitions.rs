//! Two changes during a stream: capacity that returns, and an application-limited minute.

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_host::sources::{Frame, Frames};
use timeous_testbed::bound::Rates;

use super::setup::{Cell, DEADLINE, LossModel, PACKET, RateProfile};
use super::stream::{ReferencePattern, SenderKind, stream};
use super::trial::{BEGIN, Topology};

/// Link rate, and the rate to which it drops for [`AWAY`], in kbit/s.
const KBPS: u64 = 1_000;
const FALLEN: u64 = 300;
const BEFORE: Duration = Duration::from_secs(15);
const AWAY: Duration = Duration::from_secs(10);
/// Duration and rate (kbit/s) of the application-limited phase.
const LIMITED: Duration = Duration::from_secs(60);
const LITTLE: u64 = 200;
/// Offered rate otherwise, in kbit/s.
const OFFERED: u64 = 2_000;
/// Sampling interval, samples per mean, and the share of the link's rate in that mean that counts
/// as using it.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: usize = 5;
const USED: f64 = 0.9;

fn cell() -> Cell {
    Cell {
        course: RateProfile::Steady,
        kbps: KBPS,
        offered: OFFERED,
        queue: DEADLINE,
        losses: LossModel::None,
        rtt: DEADLINE / 5,
        shape: ReferencePattern::Gop(10),
        deadline: DEADLINE,
    }
}

/// Measures the time from the return of the capacity until nine tenths of it are used; the rest of
/// the run if never.
pub(super) fn until_used(way: SenderKind, seed: u64) -> Duration {
    let cell = cell();
    let back = BEGIN + BEFORE + AWAY;
    let rates = Rates::steps(&[
        (Duration::ZERO, Rate::from_kbps(KBPS)),
        (BEGIN + BEFORE, Rate::from_kbps(FALLEN)),
        (back, Rate::from_kbps(KBPS)),
    ]);
    let frames = stream(ReferencePattern::Layers, OFFERED, BEFORE + AWAY * 2, &mut Rng::from_seed(seed));
    let source = Frames::new(frames, PACKET).with_latency(cell.deadline);
    let mut topology = Topology::new(&cell, seed, way, rates.capacity(), source);
    topology.network.sample_link(topology.link, LOOK);
    topology.network.run_until(Instant::ZERO + back + AWAY);
    let after: Vec<f64> = topology
        .network
        .samples(topology.link)
        .iter()
        .filter(|sample| sample.at > Instant::ZERO + back)
        .map(|sample| sample.rate.as_bps() as f64 / (KBPS * 1_000) as f64)
        .collect();
    let used = after.windows(LOOKS).position(|looks| looks.iter().sum::<f64>() / LOOKS as f64 >= USED);
    used.map_or(AWAY, |looks| LOOK * looks as u64)
}

/// Measures the bytes of the first round trip after an application-limited minute, in multiples of
/// what the link carries in a round trip.
pub(super) fn burst(way: SenderKind, seed: u64) -> f64 {
    let cell = cell();
    let mut rng = Rng::from_seed(seed);
    let little = stream(ReferencePattern::Gop(10), LITTLE, LIMITED, &mut rng);
    let much = stream(ReferencePattern::Gop(10), OFFERED * 2, AWAY, &mut rng);
    let shifted = |frame: Frame| {
        let mut references = timeous::core::References::NONE;
        for reference in frame.meta.references.iter() {
            let _room = references.push(timeous::core::FrameId(reference.0 + little.len() as u32));
        }
        Frame { at: frame.at + LIMITED, meta: timeous::core::AduMeta { references, ..frame.meta }, ..frame }
    };
    let frames: Vec<Frame> = little.iter().copied().chain(much.into_iter().map(shifted)).collect();
    let source = Frames::new(frames, PACKET).with_latency(cell.deadline);
    let mut topology = Topology::new(&cell, seed, way, Rates::fixed(Rate::from_kbps(KBPS)).capacity(), source);
    let end = Instant::ZERO + BEGIN + LIMITED;
    let bytes_in = |topology: &Topology| topology.network.link(topology.link).counters().bytes_in;
    // The first frame at the full rate is captured at the end of that minute.
    topology.network.run_until(end.saturating_sub(Duration::from_millis(1)));
    let before = bytes_in(&topology);
    topology.network.run_until(end + cell.rtt);
    (bytes_in(&topology) - before) as f64 / cell.rate().bytes_in(cell.rtt) as f64
}
