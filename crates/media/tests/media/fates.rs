//! Each frame has one fate: reports and missing frames add up to the sender's frames, in whatever order packets come.

use std::collections::BTreeSet;

use proptest::prelude::*;
use timeous_core::{Duration, Instant};
use timeous_media::{Frame, FrameFate, Packetizer, PacketizerConfig, Playout, PlayoutConfig, Release};

use crate::support::{Played, frames, let_time_pass};

const LATENCY: Duration = Duration::from_millis(200);
/// Frames of a run; the first and the last come whole and in time, so that their numbers bound the others'.
const FRAMES: usize = 40;

/// Arrival of a frame's packets.
#[derive(Clone, Copy, Debug)]
enum Happening {
    InTime,
    /// All packets come this many milliseconds late.
    Delayed(u64),
    /// No packet comes.
    Dropped,
    /// The first packet, which has the frame's number, never comes, and the others this late.
    Beheaded(u64),
    /// The last packet never comes.
    Cut,
    /// The first packet comes this late.
    HeadDelayed(u64),
    /// The last packet comes this late.
    TailDelayed(u64),
    /// Zeros in place of its slices, which cannot be read.
    Garbled,
}

use Happening::{Beheaded, Cut, Delayed, Dropped, Garbled, HeadDelayed, InTime, TailDelayed};

fn happening() -> impl Strategy<Value = Happening> {
    let late = || prop_oneof![Just(10u64), 150u64..450];
    prop_oneof![
        4 => Just(InTime),
        2 => late().prop_map(Delayed),
        2 => Just(Dropped),
        2 => late().prop_map(Beheaded),
        1 => Just(Cut),
        1 => late().prop_map(HeadDelayed),
        1 => late().prop_map(TailDelayed),
        1 => Just(Garbled),
    ]
}

/// Plays the frames, and checks that each has one fate.
fn check(happenings: &[Happening], release: Release) -> Result<Vec<FrameFate>, TestCaseError> {
    let mut arrivals = Vec::new();
    let sent = &frames()[..FRAMES];
    let config = PacketizerConfig { mtu: 400, descriptors: true, ..PacketizerConfig::default() };
    let mut packetizer = Packetizer::new(config).unwrap();
    for (index, frame) in sent.iter().enumerate() {
        let is_edge = index == 0 || index + 1 == FRAMES;
        let happening = if is_edge { InTime } else { happenings[index % happenings.len()] };
        let packets = packetizer.packetize(frame);
        let last = packets.len() - 1;
        for (at, mut adu) in packets.into_iter().enumerate() {
            let (is_first, is_last) = (at == 0, at == last);
            let delay = match happening {
                InTime => Some(0),
                Delayed(late) => Some(late),
                Dropped => None,
                Beheaded(late) => (!is_first).then_some(late),
                Cut => (!is_last).then_some(0),
                HeadDelayed(late) => Some(if is_first { late } else { 0 }),
                TailDelayed(late) => Some(if is_last { late } else { 0 }),
                Garbled => {
                    // The headers of RTP, of its extension (RFC 3550 §5.3.1), and of a fragment (RFC 6184 §5.8) stay.
                    let words = if adu.rtp[0] & 0x10 == 0 { 0 } else { 1 + usize::from(adu.rtp[15]) };
                    let payload = &mut adu.rtp[12 + 4 * words..];
                    let kept = 2.min(payload.len());
                    payload[kept..].fill(0);
                    Some(0)
                }
            };
            if let Some(delay) = delay {
                let at = Instant::ZERO + Duration::from_millis(30 + delay) + adu.handover;
                arrivals.push((at, adu.rtp));
            }
        }
    }
    arrivals.sort_by_key(|&(at, _)| at);
    let mut playout = Playout::new(PlayoutConfig::new(LATENCY).released(release));
    let mut played = Played::default();
    for (at, rtp) in &arrivals {
        let_time_pass(&mut playout, *at, &mut played);
        playout.handle_packet(*at, rtp).unwrap();
        played.take(&mut playout);
    }
    let_time_pass(&mut playout, Instant::from_nanos(u64::MAX / 2), &mut played);
    playout.finish();
    played.take(&mut playout);
    let fates: Vec<_> = played.reports.iter().map(|report| (report.ticks, report.fate)).collect();
    let missing = playout.stats().frames_missing;
    prop_assert_eq!(fates.len() as u64 + missing, FRAMES as u64, "{} missing, {:?}", missing, fates);
    let came = |frame: &Frame| played.report_of(frame.rtp_ticks).is_some();
    prop_assert_eq!(missing as usize, sent.iter().filter(|frame| !came(frame)).count());
    Ok(fates.into_iter().map(|(_, fate)| fate).collect())
}

/// Frames whose packets came too late or in part were counted as missing, too.
#[test]
fn frames_of_which_anything_came_are_not_missing() {
    let mut seen = BTreeSet::new();
    for happening in [Delayed(300), HeadDelayed(300), TailDelayed(300), Beheaded(0), Beheaded(300), Cut, Garbled] {
        for pattern in [&[happening][..], &[happening, InTime], &[happening, happening, Dropped]] {
            let fates = check(pattern, Release::Constant).unwrap_or_else(|error| panic!("{pattern:?}: {error}"));
            seen.extend(fates);
        }
    }
    assert_eq!(seen.len(), 5, "each fate occurs: {seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn each_frame_has_one_fate(
        happenings in proptest::collection::vec(happening(), FRAMES),
        release in prop_oneof![Just(Release::Constant), Just(Release::Immediate), Just(Release::AsTheyCome)],
    ) {
        check(&happenings, release)?;
    }
}
