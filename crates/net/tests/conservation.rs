//! Property tests of links under any load: conservation of packets, order and rate.

use proptest::prelude::*;
use timeous_core::{Duration, Ecn, Instant, Rate, Rng};
use timeous_net::link::{
    Capacity, CodelConfig, Distribution, Jitter, Limit, Loss, QueueKind, RateTrace, RedConfig, Reorder,
};
use timeous_net::{Direction, Link, LinkConfig, Markable, Path, Verdict};

/// A packet of which every other one can be marked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Numbered {
    number: usize,
    len: usize,
    marked: bool,
}

impl Numbered {
    fn new(number: usize, len: usize) -> Self {
        Self { number, len, marked: false }
    }
}

impl Markable for Numbered {
    fn ecn(&self) -> Ecn {
        match (self.marked, self.number % 2) {
            (true, _) => Ecn::Ce,
            (false, 0) => Ecn::Ect0,
            (false, _) => Ecn::NotEct,
        }
    }

    fn mark(&mut self) {
        assert_eq!(self.ecn(), Ecn::Ect0, "only what is capable and not marked yet is marked");
        self.marked = true;
    }
}

fn rates() -> impl Strategy<Value = Rate> {
    (1_000u64..50_000_000).prop_map(Rate::from_bps)
}

fn capacities() -> impl Strategy<Value = Capacity> {
    let steps = prop::collection::vec((1u64..400, prop_oneof![Just(Rate::ZERO), rates()]), 1..6);
    let traces = (rates(), steps, any::<bool>()).prop_map(|(first, steps, repeats)| {
        let mut start = Duration::ZERO;
        let mut all = vec![(start, first)];
        for (millis, rate) in steps {
            start += Duration::from_millis(millis);
            all.push((start, rate));
        }
        let trace = RateTrace::new(all).unwrap();
        Capacity::Trace(if repeats { trace.repeating(start + Duration::from_millis(7)).unwrap() } else { trace })
    });
    prop_oneof![Just(Capacity::Unlimited), rates().prop_map(Capacity::Fixed), traces]
}

/// Links that keep the order and drop packets only when full or at random.
fn plain() -> impl Strategy<Value = LinkConfig> {
    let limits = prop_oneof![
        (0usize..40).prop_map(Limit::Packets),
        (0u64..40_000).prop_map(Limit::Bytes),
        (0u64..300).prop_map(|millis| Limit::Time(Duration::from_millis(millis))),
    ];
    let losses = prop_oneof![
        Just(Loss::None),
        (0.0..1.0f64).prop_map(|p| Loss::Bernoulli { p }),
        (0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64)
            .prop_map(|(p, r, bad_loss, good_loss)| Loss::GilbertElliott { p, r, bad_loss, good_loss }),
    ];
    let bursts = prop_oneof![Just(0), 0u64..20_000];
    (capacities(), bursts, 0u64..200, limits, losses).prop_map(|(capacity, burst, millis, queue, loss)| LinkConfig {
        capacity,
        burst,
        delay: Duration::from_millis(millis),
        queue,
        loss,
        ..LinkConfig::default()
    })
}

/// All configurations of a link.
fn configs() -> impl Strategy<Value = LinkConfig> {
    let red = (0.0..0.5f64, 0.5..1.0f64, 0.0..1.0f64, 0.0..1.0f64, any::<bool>())
        .prop_map(|(min, max, max_p, weight, ecn)| QueueKind::Red(RedConfig { min, max, max_p, weight, ecn }));
    let codel = (0u64..50, 1u64..200, any::<bool>()).prop_map(|(target, interval, ecn)| {
        let (target, interval) = (Duration::from_millis(target), Duration::from_millis(interval));
        QueueKind::Codel(CodelConfig { target, interval, ecn })
    });
    let distributions = prop_oneof![Just(Distribution::Uniform), Just(Distribution::Normal), Just(Distribution::Heavy)];
    let jitters =
        (prop_oneof![Just(0), 0u64..100], distributions, any::<bool>()).prop_map(|(millis, distribution, reorders)| {
            Jitter { spread: Duration::from_millis(millis), distribution, reorders }
        });
    let shares = || prop_oneof![Just(0.0), 0.0..1.0f64];
    let reorders = (shares(), prop::option::of((0u64..100).prop_map(Duration::from_millis)))
        .prop_map(|(share, by)| Reorder { share, by });
    let kinds = prop_oneof![Just(QueueKind::DropTail), red, codel];
    (plain(), kinds, jitters, reorders, shares()).prop_map(|(plain, kind, jitter, reorder, duplicate)| LinkConfig {
        kind,
        jitter,
        reorder,
        duplicate,
        ..plain
    })
}

/// Gaps in microseconds and lengths in bytes.
fn loads() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((prop_oneof![Just(0), 0u64..100_000], 0usize..1_600), 1..120)
}

fn assert_conserved(link: &Link<Numbered>) -> Result<(), TestCaseError> {
    let counters = link.counters();
    let gone = counters.queue_drops + counters.losses + counters.packets_out;
    let inside = (link.queue_len() + link.in_flight()) as u64;
    prop_assert_eq!(counters.packets_in + counters.duplicates, gone + inside);
    Ok(())
}

/// Runs the load, polling each `poll_every` packets and when it is due, then takes out what still arrives; gives the
/// arrivals.
fn run(link: &mut Link<Numbered>, load: &[(u64, usize)], poll_every: usize) -> Vec<(Instant, Numbered)> {
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    for (number, (gap, len)) in load.iter().enumerate() {
        now += Duration::from_micros(*gap);
        while let Some(due) = link.poll_timeout().filter(|due| *due < now) {
            arrivals.extend(link.poll_deliver(due));
        }
        link.handle_packet(now, *len, Numbered::new(number, *len));
        if number % poll_every == 0 {
            arrivals.extend(std::iter::from_fn(|| link.poll_deliver(now)));
        }
    }
    while let Some(due) = link.poll_timeout() {
        arrivals.extend(link.poll_deliver(due));
    }
    arrivals
}

proptest! {
    #[test]
    fn packets_are_conserved(config in configs(), load in loads(), seed: u64) {
        let (reorders, duplicates) = (config.reorder.share > 0.0 || config.jitter.reorders, config.duplicate > 0.0);
        let mut link = Link::new(config, Rng::from_seed(seed));
        let mut now = Instant::ZERO;
        let mut delivered = Vec::new();
        for (number, (gap, len)) in load.iter().enumerate() {
            now += Duration::from_micros(*gap);
            link.handle_packet(now, *len, Numbered::new(number, *len));
            assert_conserved(&link)?;
            if let Some((arrival, packet)) = link.poll_deliver(now) {
                prop_assert!(arrival <= now);
                delivered.push((arrival, packet));
            }
            assert_conserved(&link)?;
        }
        while let Some(due) = link.poll_timeout() {
            delivered.extend(link.poll_deliver(due));
            assert_conserved(&link)?;
        }
        prop_assert!(reorders || delivered.windows(2).all(|pair| pair[0].1.number <= pair[1].1.number));
        prop_assert!(duplicates || link.counters().duplicates == 0);
        prop_assert!(delivered.windows(2).all(|pair| pair[0].0 <= pair[1].0) || reorders);
        let marked = delivered.iter().filter(|(_, packet)| packet.marked).count() as u64;
        let counters = link.counters();
        prop_assert!(marked <= counters.marks + counters.duplicates);
        if link.in_flight() == 0 {
            prop_assert!(marked >= counters.marks);
        }
    }

    #[test]
    fn plain_links_keep_the_order_and_drop_only_on_the_way_in(config in plain(), load in loads(), seed: u64) {
        let mut link = Link::new(config, Rng::from_seed(seed));
        let mut now = Instant::ZERO;
        let mut queued = Vec::new();
        for (number, (gap, len)) in load.iter().enumerate() {
            now += Duration::from_micros(*gap);
            if link.handle_packet(now, *len, Numbered::new(number, *len)) == Verdict::Queued {
                queued.push(number);
            }
        }
        let mut delivered = Vec::new();
        while let Some(due) = link.poll_timeout() {
            delivered.extend(link.poll_deliver(due).map(|(_, packet)| packet.number));
        }
        // Packets held back for ever by a rate of zero are the last ones.
        prop_assert_eq!(&delivered[..], &queued[..delivered.len()]);
        prop_assert_eq!(queued.len() - delivered.len(), link.queue_len() + link.in_flight());
    }

    #[test]
    fn never_more_than_the_rate_and_the_bucket(
        rate in rates(), load in loads(), millis in 0u64..50, queue in 1usize..50, burst in prop_oneof![Just(0), 0u64..9_000],
    ) {
        let delay = Duration::from_millis(millis);
        let (capacity, queue) = (Capacity::Fixed(rate), Limit::Packets(queue));
        let config = LinkConfig { capacity, burst, delay, queue, ..LinkConfig::default() };
        let arrivals = run(&mut Link::new(config, Rng::from_seed(0)), &load, 3);
        // Within any stretch of the run: bytes beyond the first packet are what the rate carries and what was saved up.
        for first in 0..arrivals.len() {
            let mut bytes = 0;
            for last in first + 1..arrivals.len() {
                bytes += arrivals[last].1.len as u64;
                // `time_for` rounds down, an exact departure up: between two of them a nanosecond may be missing.
                let time = arrivals[last].0 - arrivals[first].0 + Duration::from_nanos(1);
                prop_assert!(time >= rate.time_for(bytes.saturating_sub(burst)), "{time:?} for {bytes}");
            }
        }
    }

    #[test]
    fn how_often_it_is_polled_changes_nothing(config in configs(), load in loads(), seed: u64, every in 1usize..50) {
        let run = |every| run(&mut Link::new(config.clone(), Rng::from_seed(seed)), &load, every);
        prop_assert_eq!(run(1), run(every));
    }

    #[test]
    fn a_path_delivers_in_the_order_of_time(forward in configs(), back in configs(), load in loads(), seed: u64) {
        let mut path = Path::new(forward, back, &mut Rng::from_seed(seed));
        let mut now = Instant::ZERO;
        let mut last = Instant::ZERO;
        for (number, (gap, len)) in load.iter().enumerate() {
            now += Duration::from_micros(*gap);
            path.handle_packet(now, Direction::ALL[number % 2], *len, Numbered::new(number, *len));
        }
        // While packets overtake each other, what was sent before `now` may have arrived then, at any time.
        while let Some((direction, arrival, packet)) = path.poll_deliver(now) {
            prop_assert_eq!(direction, Direction::ALL[packet.number % 2]);
            prop_assert!(arrival <= now && arrival >= last);
            last = arrival;
        }
        while let Some(due) = path.poll_timeout() {
            while let Some((direction, arrival, packet)) = path.poll_deliver(due) {
                prop_assert_eq!(direction, Direction::ALL[packet.number % 2]);
                prop_assert_eq!(arrival, due);
            }
        }
    }
}
