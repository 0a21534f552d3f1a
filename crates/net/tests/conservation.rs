//! What holds for every link and every load: packets are conserved, keep their order and the rate.

use proptest::prelude::*;
use timeous_core::{Duration, Instant, Rate, Rng};
use timeous_net::link::{Capacity, Limit, Loss, RateTrace};
use timeous_net::{Direction, Link, LinkConfig, Path, Verdict};

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

fn configs() -> impl Strategy<Value = LinkConfig> {
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
    (capacities(), 0u64..200, limits, losses).prop_map(|(capacity, millis, queue, loss)| LinkConfig {
        capacity,
        delay: Duration::from_millis(millis),
        queue,
        loss,
    })
}

/// Gaps in microseconds and lengths in bytes.
fn loads() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((prop_oneof![Just(0), 0u64..100_000], 0usize..1_600), 1..120)
}

fn assert_conserved(link: &Link<(u64, usize)>) -> Result<(), TestCaseError> {
    let counters = link.counters();
    let gone = counters.queue_drops + counters.losses + counters.packets_out;
    prop_assert_eq!(counters.packets_in, gone + (link.queue_len() + link.in_flight()) as u64);
    Ok(())
}

/// Runs the load, polling each `poll_every` packets, then takes out what still arrives; gives the arrivals.
fn run(link: &mut Link<(u64, usize)>, load: &[(u64, usize)], poll_every: usize) -> Vec<(Instant, (u64, usize))> {
    let mut now = Instant::ZERO;
    let mut arrivals = Vec::new();
    for (number, (gap, len)) in load.iter().enumerate() {
        now += Duration::from_micros(*gap);
        link.handle_packet(now, *len, (number as u64, *len));
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
    fn packets_are_conserved_and_keep_their_order(config in configs(), load in loads(), seed: u64) {
        let mut link = Link::new(config, Rng::from_seed(seed));
        let mut now = Instant::ZERO;
        let mut queued = Vec::new();
        let mut delivered = Vec::new();
        for (number, (gap, len)) in load.iter().enumerate() {
            now += Duration::from_micros(*gap);
            if link.handle_packet(now, *len, (number as u64, *len)) == Verdict::Queued {
                queued.push(number as u64);
            }
            assert_conserved(&link)?;
            if let Some((arrival, packet)) = link.poll_deliver(now) {
                prop_assert!(arrival <= now);
                delivered.push(packet.0);
            }
            assert_conserved(&link)?;
        }
        while let Some(due) = link.poll_timeout() {
            delivered.extend(link.poll_deliver(due).map(|(_, packet)| packet.0));
            assert_conserved(&link)?;
        }
        // What a rate of zero holds back for ever is the tail.
        prop_assert_eq!(&delivered[..], &queued[..delivered.len()]);
        prop_assert_eq!(queued.len() - delivered.len(), link.queue_len() + link.in_flight());
    }

    #[test]
    fn departures_are_at_least_a_transmission_apart(
        rate in rates(), load in loads(), millis in 0u64..50, queue in 1usize..50,
    ) {
        let delay = Duration::from_millis(millis);
        let config = LinkConfig { capacity: Capacity::Fixed(rate), delay, queue: Limit::Packets(queue), loss: Loss::None };
        let arrivals = run(&mut Link::new(config, Rng::from_seed(0)), &load, 3);
        for pair in arrivals.windows(2) {
            let (gap, len) = (pair[1].0 - pair[0].0, pair[1].1.1);
            // `time_for` rounds down, an exact departure up: between two of them a nanosecond may be missing.
            prop_assert!(gap + Duration::from_nanos(1) >= rate.time_for(len as u64), "{gap:?} for {len}");
        }
        // Over the whole run nothing is missing: never more bytes than the rate carries.
        let bytes: u64 = arrivals.iter().skip(1).map(|(_, (_, len))| *len as u64).sum();
        let (first, last) = (arrivals[0].0, arrivals[arrivals.len() - 1].0);
        prop_assert!(last - first + Duration::from_nanos(1) >= rate.time_for(bytes));
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
        for (number, (gap, len)) in load.iter().enumerate() {
            now += Duration::from_micros(*gap);
            path.handle_packet(now, Direction::ALL[number % 2], *len, number);
        }
        let mut last = Instant::ZERO;
        while let Some(due) = path.poll_timeout() {
            let (direction, arrival, number) = path.poll_deliver(due).expect("what is due arrives");
            prop_assert_eq!(direction, Direction::ALL[number % 2]);
            prop_assert!(arrival == due && arrival >= last);
            last = arrival;
        }
    }
}
