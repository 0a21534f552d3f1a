//! Tests of impairments in flight: reordering, duplication, delay variation.

use super::*;

const DELAY: Duration = Duration::from_millis(50);

/// One packet a millisecond.
fn steady(link: &mut Link<u32>, count: u32) -> Vec<(Instant, u32)> {
    let mut arrivals = Vec::new();
    for packet in 0..count {
        let now = at(u64::from(packet));
        arrivals.extend(std::iter::from_fn(|| link.poll_deliver(now)));
        link.handle_packet(now, PACKET, packet);
    }
    while let Some(due) = link.poll_timeout() {
        arrivals.extend(link.poll_deliver(due));
    }
    arrivals
}

#[test]
fn what_overtakes_skips_the_delay() {
    let reorder = Reorder { share: 0.1, by: None };
    let mut link = link(LinkConfig { delay: DELAY, reorder, ..Default::default() });
    let arrivals = steady(&mut link, 20_000);
    let early = arrivals.iter().filter(|(arrival, packet)| *arrival == at(u64::from(*packet))).count();
    let late = arrivals.iter().filter(|(arrival, packet)| *arrival == at(u64::from(*packet)) + DELAY).count();
    assert_eq!(early + late, 20_000);
    // Five standard deviations of 42.
    assert!(early.abs_diff(2_000) < 212, "{early}");
    assert!(link.counters().reordered > 15_000, "whoever was overtaken: {:?}", link.counters());
}

#[test]
fn what_is_held_back_is_overtaken() {
    let reorder = Reorder { share: 0.05, by: Some(Duration::from_micros(3_500)) };
    let mut link = link(LinkConfig { delay: DELAY, reorder, ..Default::default() });
    let arrivals = steady(&mut link, 20_000);
    let held = |(arrival, packet): &&(Instant, u32)| *arrival > at(u64::from(*packet)) + DELAY;
    let count = arrivals.iter().filter(held).count();
    assert!(count.abs_diff(1_000) < 155, "{count}");
    // But for those that are held back together, whoever is held back is reordered, by three places.
    assert!(link.counters().reordered as f64 > 0.95 * count as f64, "{:?}", link.counters());
    let place = |packet: u32| arrivals.iter().position(|(_, other)| *other == packet).unwrap() as i64;
    let moved = arrivals.iter().filter(held).map(|(_, packet)| place(*packet) - i64::from(*packet));
    assert!((2.5..=3.0).contains(&(moved.sum::<i64>() as f64 / count as f64)));
}

#[test]
fn one_may_overtake_another_while_it_waits_for_the_transmitter() {
    // 10 ms of transmission, 50 ms under way: all that come at once overtake but the first, which does not.
    let reorder = Reorder { share: 0.5, by: None };
    let mut link = link(LinkConfig { capacity: fixed(800), delay: DELAY, reorder, ..Default::default() });
    let mut arrivals = Vec::new();
    for packet in 0..40 {
        link.handle_packet(Instant::ZERO, PACKET, packet);
    }
    while let Some(due) = link.poll_timeout() {
        // Only ever what is due now: a departure that was slept over would come out late.
        while let Some((arrival, packet)) = link.poll_deliver(due) {
            assert_eq!(arrival, due);
            arrivals.push((arrival, packet));
        }
    }
    assert_eq!(arrivals.len(), 40);
    for (arrival, packet) in &arrivals {
        let sent = at(10 * (u64::from(*packet) + 1));
        assert!(*arrival == sent || *arrival == sent + DELAY);
    }
}

#[test]
fn a_share_arrives_twice_and_is_counted() {
    let mut link = link(LinkConfig { delay: DELAY, duplicate: 0.02, ..Default::default() });
    let arrivals = steady(&mut link, 20_000);
    let twice = arrivals.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    assert_eq!(arrivals.len() as u64, 20_000 + twice);
    assert_eq!(link.counters().duplicates, twice);
    assert_eq!(link.counters().reordered, 0);
    assert!(twice.abs_diff(400) < 99, "{twice}");
}

/// The delays of many packets, in spreads around the mean.
fn deviations(distribution: Distribution) -> Vec<f64> {
    let jitter = Jitter { spread: Duration::from_millis(1), distribution, reorders: true };
    let mut link = link(LinkConfig { delay: DELAY, jitter, ..Default::default() });
    let arrivals = steady(&mut link, 20_000);
    assert!(link.counters().reordered > 0 || distribution == Distribution::Uniform);
    let delay = |(arrival, packet): &(Instant, u32)| (*arrival - at(u64::from(*packet))).as_nanos() as f64;
    arrivals.iter().map(|arrival| (delay(arrival) - 50e6) / 1e6).collect()
}

#[test]
fn delays_vary_as_their_distribution_says() {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;

    let uniform = deviations(Distribution::Uniform);
    assert!(mean(&uniform).abs() < 0.02 && (square(&uniform) - 1.0 / 3.0).abs() < 0.02);
    assert!(uniform.iter().all(|value| value.abs() <= 1.0));

    let normal = deviations(Distribution::Normal);
    assert!(mean(&normal).abs() < 0.03 && (square(&normal) - 1.0).abs() < 0.06);
    let within = normal.iter().filter(|value| value.abs() < 1.0).count() as f64 / 20_000.0;
    assert!((within - 0.683).abs() < 0.02, "{within}");

    let heavy = deviations(Distribution::Heavy);
    assert!(heavy.iter().all(|value| (0.0..=100.0).contains(value)));
    // P(x > 1) = 1/4, P(x > 9) = 1/100.
    let beyond = |limit: f64| heavy.iter().filter(|value| **value > limit).count() as f64 / 20_000.0;
    assert!((beyond(1.0) - 0.25).abs() < 0.02 && (beyond(9.0) - 0.01).abs() < 0.004);
}

#[test]
fn without_reordering_jitter_keeps_the_order_and_never_undercuts_the_departure() {
    let jitter = Jitter { spread: Duration::from_millis(80), distribution: Distribution::Normal, reorders: false };
    let mut link = link(LinkConfig { delay: DELAY, jitter, ..Default::default() });
    let arrivals = steady(&mut link, 5_000);
    assert!(arrivals.windows(2).all(|pair| pair[0].1 < pair[1].1 && pair[0].0 <= pair[1].0));
    assert!(arrivals.iter().all(|(arrival, packet)| *arrival >= at(u64::from(*packet))));
    assert_eq!(link.counters().reordered, 0);
}

#[test]
fn what_is_lost_does_not_depend_on_the_rest() {
    let losses = |change: fn(&mut LinkConfig)| {
        let mut config = LinkConfig { loss: Loss::Bernoulli { p: 0.1 }, ..Default::default() };
        change(&mut config);
        let mut link = Link::new(config, Rng::from_seed(9));
        let lost = |packet: &u32| link.handle_packet(at(0), PACKET, *packet) == Verdict::Dropped(DropCause::Loss);
        (0..1_000).filter(lost).collect::<Vec<u32>>()
    };
    let plain = losses(|_| {});
    assert_eq!(losses(|config| config.duplicate = 0.3), plain);
    assert_eq!(losses(|config| config.reorder = Reorder { share: 0.3, by: None }), plain);
    assert_eq!(losses(|config| config.kind = QueueKind::Red(RedConfig::default())), plain);
}

#[test]
fn variations_are_read_and_refused() {
    let jitter = |spread, distribution, reorders| Ok(Jitter { spread, distribution, reorders });
    let five = Duration::from_millis(5);
    assert_eq!("5ms".parse(), jitter(five, Distribution::Uniform, false));
    assert_eq!("5ms,normal".parse(), jitter(five, Distribution::Normal, false));
    assert_eq!("5ms, heavy, reorder".parse(), jitter(five, Distribution::Heavy, true));
    for text in ["", "5", "5ms,bell", "5ms,", "normal"] {
        assert!(text.parse::<Jitter>().is_err(), "{text}");
    }
    assert_eq!("1%".parse(), Ok(Reorder { share: 0.01, by: None }));
    assert_eq!("1%,10ms".parse(), Ok(Reorder { share: 0.01, by: Some(Duration::from_millis(10)) }));
    for text in ["", "1", "1%,", "1%,10", "10ms"] {
        assert!(text.parse::<Reorder>().is_err(), "{text}");
    }
}
