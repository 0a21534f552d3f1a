//! Tests of pairs with rate-based congestion control: CCID 3 and 4, also mixed with CCID 2.

use timeous_core::{Duration, Rate};
use timeous_dccp::{Ccid, Config};

use crate::link::{Link, LinkConfig};
use crate::pair::{End, Pair};
use crate::source::Step;
use crate::transfer::{bad, close_from_client, exchange, fill};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn pair(up: Ccid, down: Ccid, link: &LinkConfig, seed: u64) -> Pair {
    let client = Config { ccids: vec![up], peer_ccids: vec![down], ..Config::default() };
    let server = Config::default().with_ccids(&Ccid::ALL);
    Pair::with(client, server, [link.clone(), link.clone()], seed)
}

/// One direction alone, bulk data for `time`: what arrived a second.
fn bulk(pair: &mut Pair, len: usize, time: Duration) -> Rate {
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 400_000, len, now, Duration::ZERO);
    pair.run_for(time);
    Rate::from_bytes_in(pair.server.connection.statistics().bytes_received, time)
}

fn no_violations(end: &End) {
    let statistics = end.connection.statistics();
    assert_eq!((statistics.violations(), statistics.rates_capped), (0, 0), "{:?}", end.connection.last_implausible());
}

#[test]
fn every_mix_of_ccids_transfers_with_one_fate_each() {
    for up in Ccid::ALL {
        for down in Ccid::ALL {
            let mut pair = pair(up, down, &LinkConfig::default(), 1);
            exchange(&mut pair, 300, 500);
            for end in [&pair.client, &pair.server] {
                assert_eq!(end.source.count(Step::Lost), 0, "{up} up, {down} down");
                assert_eq!(end.connection.statistics().timeouts, 0, "{up} up, {down} down");
                no_violations(end);
            }
            close_from_client(&mut pair);
        }
    }
}

#[test]
fn over_a_bad_link_each_adu_has_one_fate_with_every_mix() {
    for (seed, (up, down)) in
        [(Ccid::Ccid3, Ccid::Ccid3), (Ccid::Ccid2, Ccid::Ccid3), (Ccid::Ccid4, Ccid::Ccid2), (Ccid::Ccid4, Ccid::Ccid3)]
            .into_iter()
            .enumerate()
    {
        let mut pair = pair(up, down, &bad(), seed as u64);
        exchange(&mut pair, 2_000, 200);
        for end in [&pair.client, &pair.server] {
            let lost = end.source.count(Step::Lost);
            assert!(
                (20..300).contains(&lost),
                "{up} up, {down} down: {lost} lost of 2000, at 3 % loss and some reordering"
            );
            let statistics = end.connection.statistics();
            assert_eq!(statistics.implausible, 0, "{:?}", end.connection.last_implausible());
        }
        close_from_client(&mut pair);
    }
}

#[test]
fn a_rate_fills_a_link_with_a_short_queue() {
    let rate = Rate::from_kbps(1_000);
    let link = LinkConfig { delay: MS * 40, rate: Some(rate), queue: MS * 100, ..LinkConfig::default() };
    let mut pair = pair(Ccid::Ccid3, Ccid::Ccid3, &link, 7);
    let goodput = bulk(&mut pair, 1_000, SEC * 60);
    assert!(goodput.as_bps() >= 800_000, "{goodput}");
    let statistics = pair.client.connection.statistics();
    let loss = statistics.lost as f64 / statistics.data_sent as f64;
    assert!(loss <= 0.02, "{loss}");
    assert!(pair.client.connection.loss_event_rate().is_some_and(|p| p > 0.0 && p < 0.02));
    no_violations(&pair.client);
}

#[test]
fn at_a_given_loss_the_rate_is_the_equations() {
    use timeous_cm::tfrc::equation;
    let link = LinkConfig { delay: MS * 50, loss: 0.02, ..LinkConfig::default() };
    let mut pair = pair(Ccid::Ccid3, Ccid::Ccid3, &link, 3);
    let goodput = bulk(&mut pair, 1_000, SEC * 120).as_bps() as f64;
    let expected = equation::rate(1_000, MS * 100, 0.02).as_bps() as f64;
    assert!((0.6..1.7).contains(&(goodput / expected)), "{goodput} of {expected}");
}

#[test]
fn small_packets_get_more_with_ccid_4_and_never_more_than_a_hundred_a_second() {
    // By the equation 4.4 packets a second, and 1460 / 136 times as many.
    let link = LinkConfig { delay: MS * 200, loss: 0.1, ..LinkConfig::default() };
    let rates = [Ccid::Ccid3, Ccid::Ccid4].map(|ccid| bulk(&mut pair(ccid, ccid, &link, 5), 100, SEC * 120).as_bps());
    assert!(rates[1] > rates[0] * 3, "{rates:?}");
    assert!((16_000..65_000).contains(&rates[1]), "{rates:?}: 47 packets a second, of which nine in ten arrive");
    let clear = LinkConfig { delay: MS * 5, ..LinkConfig::default() };
    let mut pair = pair(Ccid::Ccid4, Ccid::Ccid4, &clear, 5);
    bulk(&mut pair, 100, SEC * 30);
    let sent = pair.client.connection.statistics().data_sent;
    assert!((2_700..=3_010).contains(&sent), "{sent} in 30 s");
}

#[test]
fn marks_slow_a_rate_down_and_lose_nothing() {
    let link = LinkConfig {
        delay: MS * 40,
        rate: Some(Rate::from_kbps(1_000)),
        queue: MS * 400,
        mark_above: Some(MS * 50),
        ..LinkConfig::default()
    };
    let mut pair = pair(Ccid::Ccid3, Ccid::Ccid3, &link, 8);
    let goodput = bulk(&mut pair, 1_000, SEC * 60);
    let statistics = pair.client.connection.statistics();
    assert_eq!(statistics.lost, 0);
    assert!(statistics.ce_acked > 10, "{statistics:?}");
    assert!(goodput.as_bps() >= 800_000, "{goodput}");
}

#[test]
fn a_dead_path_slows_the_rate_down_and_then_ends_the_connection() {
    let link = LinkConfig { rate: Some(Rate::from_kbps(4_000)), queue: MS * 50, ..LinkConfig::default() };
    let mut pair = pair(Ccid::Ccid3, Ccid::Ccid3, &link, 9);
    let goodput = bulk(&mut pair, 1_000, SEC * 5);
    assert!(goodput > Rate::from_kbps(1_000), "{goodput}");
    let flow = pair.client.connection.flow().unwrap();
    let before = pair.client.cm.query(flow).unwrap().rate;
    pair.links.iter_mut().for_each(Link::cut);
    pair.run_for(SEC * 5);
    let after = pair.client.cm.query(flow).unwrap().rate;
    assert!(after.as_bps() < before.as_bps() / 100, "{before} to {after}");
    assert!(pair.run_until(SEC * 60, |pair| pair.client.closed.is_some()));
    pair.client.source.assert_one_fate_each();
}

#[test]
fn a_stream_below_its_rate_is_sent_as_it_comes() {
    // 30 frames a second of 4 packets each, 960 kbit/s, over a path that has ten times as much.
    let link =
        LinkConfig { delay: MS * 30, rate: Some(Rate::from_kbps(10_000)), queue: MS * 100, ..LinkConfig::default() };
    for ccid in [Ccid::Ccid3, Ccid::Ccid2] {
        let mut pair = pair(ccid, ccid, &link, 10);
        pair.connect();
        let start = pair.now + SEC;
        for frame in 0..600_u64 {
            for _ in 0..4 {
                pair.client.source.push(start + Duration::from_nanos(frame * 33_333_333), vec![0; 1_000]);
            }
        }
        pair.run_for(SEC * 22);
        let received = pair.server.connection.statistics().data_received;
        assert_eq!(received, 2_400, "{ccid}: all, without a queue at the end");
    }
}
