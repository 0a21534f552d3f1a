//! Property tests of DBAT: invariants for arbitrary arrivals, departures and path states.

use std::collections::VecDeque;

use proptest::prelude::*;
use timeous_choice::dbat::{Dbat, Delay, DropRule, Marking, Settings, Tuner};
use timeous_core::{
    AduMeta, AduSeq, Advice, Adviser, DropReason, Duration, FrameId, Instant, LateChoice, PathState, Priority, Queue,
    Rate,
};

const MARKED: Priority = Priority::HIGHEST;
/// Four of the longest delays in these tests: the time for which an old threshold applies.
const SPARED: Duration = Duration::from_millis(4 * 200);

#[derive(Debug)]
struct Packet {
    meta: AduMeta,
    len: usize,
    dropped: bool,
}

/// Queue that records the order in which packets are dropped.
#[derive(Debug, Default)]
struct Buffer {
    packets: VecDeque<Packet>,
    /// Indices dropped by the current call.
    given_up: Vec<usize>,
}

impl Queue for Buffer {
    fn len(&self) -> usize {
        self.packets.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.packets.get(index).filter(|packet| !packet.dropped).map(|packet| (&packet.meta, packet.len))
    }

    fn drop_at(&mut self, index: usize, _: DropReason) {
        self.packets[index].dropped = true;
        self.given_up.push(index);
    }
}

impl Buffer {
    fn bytes(&self) -> u64 {
        (0..self.len()).filter_map(|index| self.get(index)).map(|(_, len)| len as u64).sum()
    }

    /// Takes the oldest packet that was not dropped.
    fn leave(&mut self) -> Option<Packet> {
        while let Some(packet) = self.packets.pop_front() {
            if !packet.dropped {
                return Some(packet);
            }
        }
        None
    }
}

#[derive(Clone, Debug)]
enum Event {
    Arrive { packets: u8, len: u16, marked: bool },
    Leave(u8),
    Wait(u16),
    Path { kbps: u16, srtt: u16 },
    Rate(u16),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1..12u8, 1..1_500u16, any::<bool>()).prop_map(|(packets, len, marked)| Event::Arrive { packets, len, marked }),
        6 => (1..6u8).prop_map(Event::Leave),
        6 => (1..60u16).prop_map(Event::Wait),
        1 => (0..2_000u16, 10..400u16).prop_map(|(kbps, srtt)| Event::Path { kbps, srtt }),
        1 => (0..2_000u16).prop_map(Event::Rate),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let delay = prop_oneof![Just(Delay::RoundTrip), Just(Delay::OneWay), (1..200u64).prop_map(fixed)];
    let beyond = prop_oneof![Just(DropRule::OnlyMarked), Just(DropRule::Excess)];
    (delay, beyond, 0..50u64, 0..32u32, any::<(bool, bool, bool)>()).prop_map(
        |(delay, beyond, least, parts, (tell_of_room, measure, spare_what_remains))| Settings {
            delay,
            least_delay: Duration::from_millis(least),
            most: None,
            parts,
            beyond,
            ask_for_rate: false,
            spare_what_remains,
            tell_of_room,
            tell_of_lateness: measure,
            measure,
        },
    )
}

fn fixed(millis: u64) -> Delay {
    Delay::Fixed(Duration::from_millis(millis))
}

/// State of a run.
struct Run {
    dbat: Dbat,
    buffer: Buffer,
    settings: Settings,
    path: PathState,
    now: Instant,
    seq: u64,
    told: Vec<(Advice, Duration)>,
    /// `Max_Th` at the last call.
    bound: Option<u64>,
    /// Previous thresholds when the threshold fell, and when that was seen.
    left: Vec<(Instant, u64)>,
}

impl Run {
    fn new(settings: Settings) -> Self {
        let mut dbat = Dbat::new(settings, Marking::default());
        dbat.set_rate(Rate::from_kbps(320));
        let rtt = Some(Duration::from_millis(150));
        Self {
            dbat,
            buffer: Buffer::default(),
            settings,
            path: PathState { rate: Rate::from_kbps(300), srtt: rtt, min_rtt: rtt, ..PathState::default() },
            now: Instant::ZERO,
            seq: 0,
            told: Vec::new(),
            bound: None,
            left: Vec::new(),
        }
    }

    fn play(&mut self, event: &Event) {
        match *event {
            Event::Arrive { packets, len, marked } => (0..packets).for_each(|_| self.arrive(len.into(), marked)),
            Event::Leave(packets) => (0..packets).for_each(|_| self.pull()),
            Event::Wait(millis) => {
                self.now += Duration::from_millis(millis.into());
                self.watch();
            }
            Event::Path { kbps, srtt } => {
                (self.path.rate, self.path.srtt) =
                    (Rate::from_kbps(kbps.into()), Some(Duration::from_millis(srtt.into())));
            }
            Event::Rate(kbps) => self.dbat.set_rate(Rate::from_kbps(kbps.into())),
        }
    }

    fn arrive(&mut self, len: usize, marked: bool) {
        self.seq += 1;
        let priority = if marked { MARKED } else { Priority::NORMAL };
        let frame = FrameId(self.seq as u32 / 3);
        let meta = AduMeta { seq: AduSeq(self.seq), priority, frame, enqueued: self.now, ..AduMeta::default() };
        self.buffer.packets.push_back(Packet { meta, len, dropped: false });
    }

    /// Lets time pass without sending.
    fn watch(&mut self) {
        if self.dbat.poll_timeout().is_some_and(|due| due <= self.now) {
            let before = self.buffer.bytes();
            self.dbat.watch(self.now, &self.path, &self.buffer);
            self.note_bound();
            self.told.extend(self.dbat.poll_advice().map(|advice| (advice, self.path.srtt.unwrap())));
            assert_eq!(self.buffer.bytes(), before, "a look gives nothing up");
            assert!(self.dbat.poll_timeout().is_some_and(|due| due > self.now), "it would be looked at for ever");
        }
    }

    /// Runs the policy and sends one packet.
    fn pull(&mut self) {
        self.buffer.given_up.clear();
        self.dbat.choose(self.now, &self.path, &mut self.buffer);
        self.told.extend(self.dbat.poll_advice().map(|advice| (advice, self.path.srtt.unwrap())));
        self.note_bound();
        self.check();
        let overfull = self.is_beyond(self.most());
        if let Some(packet) = self.buffer.leave()
            && overfull
            && self.settings.beyond == DropRule::OnlyMarked
        {
            assert_eq!(packet.meta.priority, MARKED, "only marked packets go");
        }
    }

    fn is_beyond(&self, most: u64) -> bool {
        self.dbat.state().thresholds.is_some_and(|_| self.dbat.state().average > most)
    }

    fn note_bound(&mut self) {
        let bound = self.dbat.state().thresholds.map(|thresholds| thresholds.max);
        self.left.extend(self.bound.filter(|&before| Some(before) > bound).map(|before| (self.now, before)));
        self.bound = bound;
    }

    /// Largest old threshold that may still apply at this time.
    fn spared(&self, at: Instant) -> u64 {
        let lately = |left: Instant| left <= at && at.saturating_since(left) <= SPARED;
        let left = self.left.iter().filter(|&&(left, _)| self.settings.spare_what_remains && lately(left));
        left.map(|&(_, max)| max).max().unwrap_or(0)
    }

    /// Maximum queue length allowed now.
    fn most(&self) -> u64 {
        self.bound.map_or(u64::MAX, |bound| bound.max(self.spared(self.now)))
    }

    fn check(&self) {
        let given_up = &self.buffer.given_up;
        assert!(
            given_up.is_empty() || self.is_beyond(self.bound.unwrap_or(u64::MAX)),
            "nothing is given up within the thresholds"
        );
        assert!(given_up.is_sorted(), "the oldest first");
        for &place in given_up {
            assert_ne!(self.buffer.packets[place].meta.priority, MARKED, "a marked one never goes for another");
        }
        let keep = self.most();
        if self.is_beyond(keep) && self.settings.beyond == DropRule::Excess {
            let unmarked = (0..self.buffer.len())
                .filter_map(|index| self.buffer.get(index))
                .filter(|(meta, _)| meta.priority != MARKED)
                .count();
            assert!(self.buffer.bytes() <= keep || unmarked == 0, "the excess is gone");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn marked_packets_go_and_advice_comes_at_most_once_a_round_trip(
        settings in settings(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut run = Run::new(settings);
        events.iter().for_each(|event| run.play(event));
        for pair in run.told.windows(2) {
            let ((before, _), (advice, rtt)) = (pair[0], pair[1]);
            prop_assert!(advice.at - before.at > rtt, "{before:?}, then {advice:?}");
        }
        for (advice, _) in &run.told {
            use timeous_core::Reason::{Filling, Late, Overfull, Room};
            let thresholds = advice.thresholds;
            prop_assert_eq!(thresholds.max, 2 * thresholds.min);
            match advice.reason {
                Filling => {
                    let most = thresholds.max.max(run.spared(advice.at));
                    prop_assert!((thresholds.middle() + 1..=most).contains(&advice.average));
                }
                Overfull => prop_assert!(advice.average > thresholds.max),
                Late => prop_assert!(settings.tell_of_lateness),
                Room => prop_assert!(advice.average < thresholds.min && settings.tell_of_room),
                other => prop_assert!(false, "a reason without a rule: {other:?}"),
            }
            let stream = advice.stream.as_bps();
            let rate = advice.rate.as_bps();
            if advice.reason == Room {
                prop_assert!(rate > stream && rate <= stream + stream / 4 && Some(advice.rate) <= advice.path);
            } else {
                prop_assert!(rate <= stream && rate >= stream / 2, "{advice:?}");
            }
        }
    }

    #[test]
    fn each_arrival_moves_the_average_towards_the_queue(
        parts in 0..32u32,
        arrivals in prop::collection::vec((2..200_000u64, 1..1_500u64), 1..100),
    ) {
        let mut tuner = Tuner::new(Settings { parts, ..Settings::PAPER });
        for (queued, len) in arrivals {
            let before = tuner.average();
            tuner.arrived(Instant::ZERO, queued, len);
            let after = tuner.average();
            prop_assert!(after >= before.min(queued) && after <= before.max(queued), "{before} -> {after}, {queued}");
            let wanted = before as f64 + (queued as f64 - before as f64) / f64::from(parts.max(1));
            prop_assert!((after as f64 - wanted).abs() <= 2.0, "{before} -> {after}, wanted {wanted}");
        }
    }

    #[test]
    fn a_queue_that_stays_is_the_average_in_the_end(queued in 1..1_000_000u64) {
        let mut tuner = Tuner::new(Settings::PAPER);
        for n in 1..=40 {
            tuner.arrived(Instant::ZERO, queued, 1);
            let gap = queued as f64 * 0.875f64.powi(n);
            prop_assert!((queued as f64 - tuner.average() as f64 - gap).abs() <= 1.0);
        }
    }
}
