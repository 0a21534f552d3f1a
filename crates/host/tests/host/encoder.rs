//! A live encoder that follows DBAT's advice, over DCCP through a link that falls to a third of its rate and recovers.

use std::collections::BTreeMap;

use timeous_choice::dbat::Dbat;
use timeous_cm::Kind;
use timeous_core::{
    AduMeta, AduSeq, Advice, Duration, Fate, FrameId, Instant, Priority, Rate, References, Rng, Thresholds,
};
use timeous_dccp::{Ccid, Config, Parity};
use timeous_host::{Application, Dccp, DccpSettings, Outlet, Refused, Sink, Stream, stamp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};

use crate::support::{Dumbbell, PORT, at, ms, remote};

const THIRD: Rate = Rate::from_kbps(400);
/// Times at which the link falls, recovers, and the test ends, in seconds.
const FALLS: u64 = 10;
const RETURNS: u64 = 20;
const ENDS: u64 = 30;
/// Latency from encoder to playout.
const LATENCY: Duration = Duration::from_millis(400);
const FRAME: Duration = Duration::from_millis(40);
/// Initial rate and bounds of the encoder, as in `timeous send --adapt`.
const START: Rate = Rate::from_kbps(600);
const RANGE: (Rate, Rate) = (Rate::from_kbps(100), Rate::from_kbps(4_000));
/// Maximum payload of a packet.
const PACKET: u64 = 1_100;
/// Frames between keyframes, unless one is requested.
const GROUP: u32 = 100;

/// Response of an encoder to the requested rate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Habit {
    /// Exactly the requested rate, from the next frame on.
    Exact,
    /// As x264 with a small VBV buffer (`adapt/x264.py`), measured frame by frame: 78 to 87 % of the requested rate. Increases take three
    /// frames to show, and decreases seven frames or so, with more than the requested rate meanwhile.
    X264 { share: f64, makes: f64, asked: [Rate; 3] },
}

impl Habit {
    fn x264(seed: u64) -> Self {
        let share = 0.78 + 0.09 * Rng::from_seed(seed + 1_000).unit();
        Self::X264 { share, makes: 0.0, asked: [START; 3] }
    }

    /// Returns a frame's size in bytes, and its variation.
    fn budget(&mut self, rate: Rate) -> (u64, f64) {
        match self {
            Self::Exact => (rate.bytes_in(FRAME), 0.5),
            Self::X264 { share, makes, asked } => {
                let least = asked.iter().copied().min().map_or(rate, |least| least.min(rate));
                *asked = [asked[1], asked[2], rate];
                let wanted = least.as_bps() as f64 * *share;
                *makes = if wanted < *makes { *makes + (wanted - *makes) / 7.0 } else { wanted };
                (Rate::from_bps(*makes as u64).bytes_in(FRAME), 0.3)
            }
        }
    }
}

/// An encoder with 25 frames a second, sized by the rate; keyframes are three times as large, and the others smaller. A keyframe is
/// requested after a lost frame, at most twice a second.
struct Encoder {
    rate: Rate,
    habit: Habit,
    begins: Duration,
    rng: Rng,
    next: Instant,
    frame: u32,
    group: u32,
    /// Bytes produced beyond the rate.
    debt: u64,
    asked: Option<Instant>,
    begun: bool,
    advised: Option<Advice>,
    /// Adopted rates, with their times.
    rates: Vec<(Instant, Rate)>,
    /// Frame of each packet.
    frames: BTreeMap<AduSeq, u32>,
}

impl Encoder {
    fn new(seed: u64, habit: Habit, begins: Duration) -> Self {
        Self {
            rate: START,
            habit,
            begins,
            rng: Rng::from_seed(seed),
            next: Instant::ZERO,
            frame: 0,
            group: 0,
            debt: 0,
            asked: None,
            begun: false,
            advised: None,
            rates: Vec::new(),
            frames: BTreeMap::new(),
        }
    }

    fn encode(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let (budget, varies) = self.habit.budget(self.rate);
        let own = self.group.is_multiple_of(GROUP);
        let bytes = if own {
            self.debt += 2 * budget;
            3 * budget
        } else {
            let less = self.debt.min(budget / 4);
            self.debt -= less;
            ((budget - less) as f64 * (1.0 + varies * (self.rng.unit() - 0.5))) as u64
        };
        self.frame += 1;
        self.group += 1;
        let mut meta = AduMeta {
            enqueued: now,
            deadline: Some(now + LATENCY),
            frame: FrameId(self.frame),
            priority: if own { Priority::HIGHEST } else { Priority::NORMAL },
            references: References::default(),
            ..AduMeta::default()
        };
        if !own {
            assert!(meta.references.push(FrameId(self.frame - 1)));
        }
        let mut left = bytes.max(stamp::LEN as u64);
        let mut packet = Vec::new();
        while left > 0 {
            let len = left.min(PACKET).max(stamp::LEN as u64);
            left = left.saturating_sub(len);
            stamp::write(outlet.next_seq(), len as usize, &mut packet);
            match outlet.send(meta, &packet) {
                Ok(seq) => _ = self.frames.insert(seq, self.frame),
                Err(Refused::Full) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

impl Application for Encoder {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if !std::mem::replace(&mut self.begun, true) {
            self.next = now + self.begins;
            outlet.set_rate(self.rate);
            self.rates.push((now, self.rate));
        }
        if let Some(advice) = self.advised.take() {
            self.rate = advice.rate.clamp(RANGE.0, RANGE.1);
            outlet.set_rate(self.rate);
            self.rates.push((now, self.rate));
        }
        while self.next <= now {
            self.encode(now, outlet);
            self.next += FRAME;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn on_fate(&mut self, now: Instant, _: AduSeq, fate: Fate) {
        if fate != Fate::Acked && self.asked.is_none_or(|asked| now.saturating_since(asked) >= ms(500)) {
            self.asked = Some(now);
            self.group = 0;
        }
    }

    fn on_advice(&mut self, _: Instant, advice: &Advice) {
        self.advised = Some(*advice);
    }
}

/// Results of a run, by the bounds of `timeous-demo adapt`.
#[derive(Debug)]
struct Found {
    /// Mean of the requested rate in the five seconds before the capacity drops.
    before: Rate,
    /// Time until the rate followed the drop, and three quarters of the return.
    down: Option<Duration>,
    up: Option<Duration>,
    /// Frames completed after their deadline, and the maximum delay beyond it.
    late: usize,
    worst: Duration,
    whole: usize,
    /// 95th percentile of the queued bytes, relative to `Max_Th`.
    p95: f64,
}

fn run(seed: u64, ccid: Ccid, kind: Kind, habit: Habit) -> Found {
    run_with(Parity::Off, seed, ccid, kind, habit)
}

fn run_with(parity: Parity, seed: u64, ccid: Ccid, kind: Kind, habit: Habit) -> Found {
    run_from(Duration::ZERO, parity, seed, ccid, kind, habit)
}

/// Runs as the tool does: with parity, and with a random phase of the frames.
fn run_like_the_tool(seed: u64, ccid: Ccid) -> Found {
    let begins = FRAME * Rng::from_seed(seed + 7_777).below(1_000) / 1_000;
    run_from(begins, Parity::Auto, seed, ccid, Kind::Live, Habit::x264(seed))
}

fn run_from(begins: Duration, parity: Parity, seed: u64, ccid: Ccid, kind: Kind, habit: Habit) -> Found {
    let third = THIRD.as_bps() / 1_000;
    let steps = format!("0 {}\n{FALLS} {third}\n{RETURNS} {}\n", third * 3, third * 3);
    let path = LinkConfig {
        capacity: Capacity::Trace(steps.parse().unwrap()),
        delay: ms(20),
        queue: Limit::Time(ms(100)),
        ..LinkConfig::default()
    };
    let mut net = Dumbbell::new(seed, 1, path);
    // More frequent reports, as in the library, so that expired data is known sooner.
    let reports = if parity == Parity::Off { 1 } else { 4 };
    let connection = Config { mps: 1_200, parity, reports, ..Config::default() }.with_ccids(&[ccid]);
    let settings = || DccpSettings { connection: connection.clone(), ..DccpSettings::default() };
    let listener = net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), settings(), Rng::from_seed(seed)))
    });
    let caller = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(kind);
        let stream = Stream::new(Encoder::new(seed, habit, begins))
            .choice(Box::new(Dbat::for_media()))
            .repair(Priority::HIGHEST);
        host.add(9_000, own, Dccp::caller(remote(1), stream, settings(), Rng::from_seed(seed + 100)))
    });
    let mut max = Vec::new();
    for millis in (100..=ENDS * 1_000).step_by(100) {
        net.network.run_until(at(millis));
        let look = |host: &mut timeous_host::Machine| {
            let state = host.agent_mut(caller).session_mut().and_then(|session| session.buffer());
            state.and_then(|state| state.thresholds)
        };
        max.push((at(millis), net.network.with_host(net.lefts[0], |_, host| look(host))));
    }
    let left = net.network.host(net.lefts[0]).agent(caller).session().unwrap();
    let right = net.network.host(net.rights[0]).agent(listener).session().unwrap();
    let encoder: &Encoder = left.application().unwrap();
    let (falls, returns, ends) = (at(FALLS * 1_000), at(RETURNS * 1_000), at(ENDS * 1_000));
    let rate_at = |when: Instant| encoder.rates.iter().take_while(|(at, _)| *at <= when).last().map(|(_, rate)| *rate);
    let mean = {
        let rates: Vec<u64> =
            (0..50).filter_map(|n| rate_at(at((FALLS - 5) * 1_000 + n * 100))).map(Rate::as_bps).collect();
        Rate::from_bps(rates.iter().sum::<u64>() / rates.len() as u64)
    };
    let first = |from: Instant, to: Instant, like: &dyn Fn(Rate) -> bool| {
        if rate_at(from).is_some_and(like) {
            return Some(Duration::ZERO);
        }
        let mut rates = encoder.rates.iter();
        rates.find(|(at, rate)| *at >= from && *at < to && like(*rate)).map(|(at, _)| *at - from)
    };
    let most = Rate::from_bps(mean.as_bps() / 4 * 3);
    let mut waits: BTreeMap<u32, (usize, Instant)> = BTreeMap::new();
    let mut done: BTreeMap<u32, Duration> = BTreeMap::new();
    for (seq, frame) in &encoder.frames {
        let enqueued = left.journal().adu(*seq).unwrap().meta.enqueued;
        waits.entry(*frame).or_insert((0, enqueued)).0 += 1;
    }
    for arrival in right.arrivals().list() {
        let Some(frame) = arrival.seq.and_then(|seq| encoder.frames.get(&seq)) else { continue };
        let (packets, captured) = waits.get_mut(frame).unwrap();
        *packets = packets.saturating_sub(1);
        if *packets == 0 {
            done.entry(*frame).or_insert(arrival.at - *captured);
        }
    }
    let mut shares: Vec<f64> = max
        .iter()
        .filter_map(|(at, thresholds): &(Instant, Option<Thresholds>)| {
            let queued: usize = left
                .journal()
                .adus()
                .iter()
                .filter(|adu| adu.meta.enqueued <= *at && !adu.meta.is_expired(*at))
                .filter(|adu| adu.left.first().map_or(adu.fate.is_none(), |left| left > at))
                .map(|adu| adu.len)
                .sum();
            Some(queued as f64 / (*thresholds)?.max as f64)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    Found {
        before: mean,
        down: first(falls, returns, &|rate| rate <= THIRD),
        up: first(returns, ends, &|rate| rate >= most),
        late: done.values().filter(|&&took| took > LATENCY).count(),
        worst: done.values().copied().max().unwrap_or_default(),
        whole: done.len(),
        p95: shares[(shares.len() * 95).div_ceil(100) - 1],
    }
}

#[test]
fn an_encoder_follows_a_link_that_falls_and_comes_back() {
    for seed in 1..=8 {
        let found = run(seed, Ccid::Ccid2, Kind::Aimd, Habit::Exact);
        println!("seed {seed}: {found:?}");
        assert!(found.before <= Rate::from_kbps(1_300), "the link has 1200 kbit/s: {found:?}");
        for took in [found.down, found.up] {
            assert!(took.is_some_and(|took| took <= ms(2_000)), "seed {seed}: {found:?}");
        }
        assert!(found.p95 <= 1.0, "seed {seed}: {found:?}");
        // Data queued on the path when the capacity drops is late, which cannot be foreseen.
        assert!(found.late <= 4 && found.worst <= LATENCY + ms(100), "seed {seed}: {found:?}");
        assert!(found.whole >= 600, "of 750: {found:?}");
    }
}

/// After the drop the path's queue is too long before an RTT sample shows it; the delivery rate of data in flight shows it sooner. Data
/// sent just before, such as most of a large frame, can still be late: that cannot be foreseen.
#[test]
fn what_waited_when_the_link_fell_does_not_leave_where_it_would_arrive_late() {
    for (ccid, seeds, most) in [(Ccid::Ccid2, 22, 2), (Ccid::Ccid3, 12, 1)] {
        let late: Vec<usize> = (1..=seeds).map(|seed| run(seed, ccid, Kind::Aimd, Habit::Exact).late).collect();
        assert!(late.iter().sum::<usize>() <= most, "{ccid:?}: {late:?}");
    }
}

/// CCID 3's receiver reports only once per round trip.
#[test]
fn an_encoder_over_ccid_3_follows_the_fall() {
    for seed in 1..=4 {
        let found = run(seed, Ccid::Ccid3, Kind::Aimd, Habit::Exact);
        println!("seed {seed}: {found:?}");
        assert!(found.before <= Rate::from_kbps(1_300), "{found:?}");
        assert!(found.down.is_some_and(|took| took <= ms(2_000)), "seed {seed}: {found:?}");
        assert!(found.up.is_some_and(|took| took <= ms(3_000)), "seed {seed}: {found:?}");
        assert!(found.p95 <= 1.0 && found.whole >= 600, "seed {seed}: {found:?}");
    }
}

/// x264 produces less than the requested rate, so that this rate never arrives. Regression: when that counted as a limit of the path, every
/// second recovery took longer.
#[test]
fn an_encoder_that_makes_less_than_it_is_asked_for_follows() {
    for (ccid, kind, seeds) in
        [(Ccid::Ccid2, Kind::Live, 8), (Ccid::Ccid2, Kind::Aimd, 4), (Ccid::Ccid3, Kind::Live, 8)]
    {
        let mut recovery = Duration::ZERO;
        for seed in 1..=seeds {
            let found = run(seed, ccid, kind, Habit::x264(seed));
            println!("{kind:?}, seed {seed}: {found:?}");
            // With CCID 3 four of 24 seeds took up to 2.3 s.
            let most = ms(if ccid == Ccid::Ccid3 { 2_500 } else { 2_000 });
            for took in [found.down, found.up] {
                assert!(took.is_some_and(|took| took <= most), "{ccid:?}, {kind:?}, seed {seed}: {found:?}");
            }
            recovery += found.up.unwrap_or_default();
            assert!(found.p95 <= 1.0 && found.whole >= 600, "{ccid:?}, {kind:?}, seed {seed}: {found:?}");
            assert!(found.late <= 1 && found.worst <= LATENCY + ms(50), "{ccid:?}, {kind:?}, seed {seed}: {found:?}");
        }
        assert!(recovery <= ms(1_500) * seeds, "{ccid:?}, {kind:?}: {recovery:?} for {seeds} seeds");
    }
}

/// As in the tool. Regression, found by `timeous-demo adapt`: over CCID 3 the rate counted as the path's capacity, parity filled the queue,
/// and frames were late in every second or third run. One frame of all may have been sent before the fall.
#[test]
fn parity_makes_hardly_a_frame_late() {
    for (ccid, seeds) in [(Ccid::Ccid2, 4), (Ccid::Ccid3, 12)] {
        let found = (1..=seeds).map(|seed| run_with(Parity::Auto, seed, ccid, Kind::Live, Habit::x264(seed)));
        let late: Vec<usize> = found.map(|found| found.late).collect();
        assert!(late.iter().sum::<usize>() <= 1, "{ccid:?}: {late:?}");
    }
}

/// Regression, found by `timeous-demo adapt`: a packet lost in a full queue was rebuilt from parity too late, in one of fifty runs over CCID
/// 2, and in one of eighteen over CCID 3, where parity filled the queue.
#[test]
fn what_parity_brings_comes_in_time() {
    for (ccid, seeds) in [(Ccid::Ccid2, [28, 55, 104, 121]), (Ccid::Ccid3, [37, 71, 124, 156])] {
        let late: Vec<usize> = seeds.into_iter().map(|seed| run_like_the_tool(seed, ccid).late).collect();
        assert_eq!(late, [0; 4], "{ccid:?}");
    }
}
