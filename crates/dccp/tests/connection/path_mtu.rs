//! Tests of path MTU discovery in virtual time.

use timeous_core::Duration;
use timeous_dccp::{Ccid, Config};

use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::source::Step;

const MS: Duration = Duration::from_millis(1);

/// A pair whose client searches for the path's size, over links that carry IP packets of `mtu` bytes.
fn pair(config: Config, mtu: usize, delay: Duration) -> Pair {
    let client = Config { largest: Some(8_972), ..config.clone() };
    let link = LinkConfig { delay, largest: mtu - 28, ..LinkConfig::default() };
    let mut pair = Pair::with(client, config, [link.clone(), link], 1);
    pair.connect();
    pair
}

#[test]
fn the_size_is_found_within_seconds_and_lost_probes_are_no_losses_of_data() {
    for ccid in [Ccid::Ccid2, Ccid::Ccid3, Ccid::Ccid4] {
        for mtu in [1_280, 1_400, 1_500, 9_000] {
            let mut pair = pair(Config::default().with_ccids(&[ccid]), mtu, MS * 20);
            for n in 0..400 {
                pair.client.source.push(pair.now + MS * 10 * n, vec![0; 1_000]);
            }
            pair.run_for(MS * 3_000);
            let size = mtu.min(1_500) - 28;
            assert_eq!(pair.client.connection.max_payload() + Config::HEADER_ROOM, size, "{ccid:?} over {mtu}");
            assert_eq!(pair.server.connection.max_payload() + Config::HEADER_ROOM, 1_200, "it does not search");
            pair.run_for(MS * 2_000);
            let statistics = pair.client.connection.statistics();
            assert_eq!(
                (statistics.lost, statistics.timeouts, statistics.black_holes),
                (0, 0, 0),
                "{ccid:?} over {mtu}"
            );
            assert_eq!(statistics.packet_size as usize, size);
            assert!(pair.client.connection.loss_event_rate().is_none_or(|rate| rate == 0.0), "{ccid:?} over {mtu}");
            assert_eq!(pair.server.connection.statistics().data_gaps, 0);
            assert_eq!(pair.client.source.count(Step::Acked), 400);
        }
    }
}

#[test]
fn a_black_hole_in_mid_stream_is_found_within_two_seconds_and_an_outage_is_none() {
    for ccid in [Ccid::Ccid2, Ccid::Ccid3] {
        for (delay, interval) in [(1, 5), (25, 10), (25, 100), (75, 20), (150, 40)] {
            for is_outage in [false, true] {
                let mut pair = pair(Config::default().with_ccids(&[ccid]), 1_500, MS * delay);
                pair.run_for(MS * 3_000);
                let mut arrived = 0;
                let mut silent = Duration::ZERO;
                let mut longest = Duration::ZERO;
                for round in 0..13_000 / interval {
                    if round * interval >= 3_000 && (round - 1) * interval < 3_000 {
                        pair.links[0].narrow(if is_outage { 0 } else { 1_252 });
                    }
                    if is_outage && round * interval >= 4_000 {
                        pair.links[0].narrow(1_472);
                    }
                    let payload = vec![0; pair.client.connection.max_payload()];
                    pair.client.source.push(pair.now, payload);
                    pair.run_for(MS * interval);
                    silent = if pair.server.received.len() > arrived { Duration::ZERO } else { silent + MS * interval };
                    arrived = pair.server.received.len();
                    longest = longest.max(silent);
                    let is_found = pair.client.connection.statistics().black_holes > 0;
                    assert!(is_outage || is_found || round * interval < 5_000, "{ccid:?}, {delay} ms");
                }
                let what = format!("{ccid:?}, {delay} ms, every {interval} ms, outage {is_outage}");
                let statistics = pair.client.connection.statistics();
                assert_eq!(statistics.black_holes, u64::from(!is_outage), "{what}");
                assert!(is_outage || longest < MS * 1_500, "{what}: {longest:?}");
                // Losses in a black hole are no reason to be slow after it.
                let sent = 13_000 / interval;
                assert!(is_outage || arrived as u64 > sent * 85 / 100, "{what}: {arrived} of {sent}");
                let size = if is_outage { 1_472 } else { 1_252 };
                assert_eq!(pair.client.connection.max_payload() + Config::HEADER_ROOM, size, "{what}");
            }
        }
    }
}

/// Sends packets of the largest size, one each 5 ms, while `change` changes the path each second; returns the longest silence.
fn stream(pair: &mut Pair, seconds: u64, mut change: impl FnMut(&mut Pair, u64)) -> Duration {
    let (mut heard_at, mut longest) = (pair.now, Duration::ZERO);
    for second in 0..seconds {
        change(pair, second);
        for _ in 0..200 {
            let arrived = pair.server.received.len();
            let payload = vec![0; pair.client.connection.max_payload()];
            pair.client.source.push(pair.now, payload);
            pair.run_for(MS * 5);
            if pair.server.received.len() > arrived {
                longest = longest.max(pair.now - heard_at);
                heard_at = pair.now;
            }
        }
    }
    longest.max(pair.now - heard_at)
}

#[test]
fn a_path_whose_size_changes_each_second_interrupts_a_stream_twice_at_most() {
    for ccid in [Ccid::Ccid2, Ccid::Ccid3] {
        let mut pair = pair(Config::default().with_ccids(&[ccid]), 1_500, MS * 20);
        pair.run_for(MS * 1_000);
        let longest = stream(&mut pair, 60, |pair, second| {
            pair.links[0].narrow(if second % 2 == 0 { 1_472 } else { 1_252 });
        });
        assert!(longest < MS * 500, "{ccid:?}: {longest:?}");
        let statistics = pair.client.connection.statistics();
        assert_eq!((statistics.black_holes, statistics.packet_size), (2, 1_200), "{ccid:?}");
        assert!(statistics.acked > 11_500, "{ccid:?}: {statistics:?}");
    }
}

#[test]
fn a_path_that_drops_large_packets_at_random_gets_smaller_ones() {
    for ccid in [Ccid::Ccid2, Ccid::Ccid3] {
        for share in [0.3, 0.6, 0.9] {
            let mut pair = pair(Config::default().with_ccids(&[ccid]), 1_500, MS * 20);
            pair.run_for(MS * 1_000);
            let large_loss = (1_300, share);
            pair.links[0].become_like(LinkConfig { large_loss, ..LinkConfig::default() });
            let longest = stream(&mut pair, 60, |_, _| {});
            let statistics = pair.client.connection.statistics();
            assert!(longest < MS * 1_500, "{ccid:?}, {share}: {longest:?}");
            assert!(matches!(statistics.black_holes, 1..=2), "{ccid:?}, {share}: {statistics:?}");
            assert!(statistics.packet_size < 1_300, "{ccid:?}, {share}: {statistics:?}");
        }
    }
}

#[test]
fn a_size_below_what_every_host_takes_is_kept() {
    let config = Config { mps: 200, largest: Some(200), ..Config::default() };
    let links = [(); 2].map(|()| LinkConfig { largest: 200, ..LinkConfig::default() });
    let mut pair = Pair::with(config.clone(), config, links, 1);
    pair.connect();
    let payload = pair.client.connection.max_payload();
    assert_eq!(payload, 200 - Config::HEADER_ROOM);
    for n in 0..100 {
        pair.client.source.push(pair.now + MS * 10 * n, vec![0; payload]);
    }
    pair.run_for(MS * 3_000);
    assert_eq!(pair.client.source.count(Step::Acked), 100);
    assert_eq!(pair.links[0].dropped + pair.links[1].dropped, 0);
}

/// Number of black holes found in 200 streams of 30 s with independent losses.
fn black_holes_found(loss: f64) -> u64 {
    let found = |seed| {
        let client = Config { largest: Some(8_972), ..Config::default() };
        let lossy = LinkConfig { delay: MS * 20, loss, largest: 1_472, ..LinkConfig::default() };
        let mut pair = Pair::with(
            client,
            Config::default(),
            [lossy, LinkConfig { delay: MS * 20, ..LinkConfig::default() }],
            seed,
        );
        pair.connect();
        for n in 0..6_000 {
            pair.client.source.push(pair.now + MS * 5 * n, vec![0; 1_400]);
        }
        pair.run_for(MS * 30_000);
        let statistics = pair.client.connection.statistics();
        assert!(statistics.lost > 30, "{statistics:?}");
        statistics.black_holes
    };
    (1..=200).map(found).sum()
}

#[test]
fn a_stream_with_losses_keeps_its_packet_size() {
    let mut pair = pair(Config::default(), 1_500, MS * 20);
    pair.run_for(MS * 1_000);
    let lossy = LinkConfig { loss: 0.1, largest: 1_472, ..LinkConfig::default() };
    pair.links[0].become_like(lossy);
    for n in 0..6_000 {
        pair.client.source.push(pair.now + MS * 5 * n, vec![0; 1_400]);
    }
    pair.run_for(MS * 40_000);
    let statistics = pair.client.connection.statistics();
    assert!(statistics.lost > 100, "{statistics:?}");
    assert!(statistics.black_holes <= 1 && statistics.packet_size == 1_472, "{statistics:?}");
}

#[test]
fn random_losses_are_no_black_hole() {
    assert_eq!(black_holes_found(0.03), 0);
    // 79 with one large probe in each round.
    let found = black_holes_found(0.1);
    assert!(found < 30, "{found}");
}

/// Every fourth packet is small, and passes.
#[test]
fn a_black_hole_is_one_loss_event_though_small_packets_pass() {
    let rate = |black_hole: bool| {
        let mut pair = pair(Config::default().with_ccids(&[Ccid::Ccid3]), 1_500, MS * 40);
        pair.run_for(MS * 2_000);
        for n in 0..2_000 {
            if n == 400 && black_hole {
                pair.links[0].narrow(1_252);
            }
            let largest = pair.client.connection.max_payload();
            pair.client.source.push(pair.now, vec![0; if n % 4 == 0 { 300 } else { largest }]);
            pair.run_for(MS * 5);
        }
        let statistics = pair.client.connection.statistics();
        assert_eq!(statistics.black_holes, u64::from(black_hole));
        (pair.client.connection.loss_event_rate().unwrap_or(0.0), statistics.acked)
    };
    let ((none, all), (p, acked)) = (rate(false), rate(true));
    assert_eq!(none, 0.0);
    // One loss event: the rate is that of the packets since and before.
    assert!(p < 1.0 / 400.0 && acked > all * 85 / 100, "{p}, {acked} of {all}");
}
