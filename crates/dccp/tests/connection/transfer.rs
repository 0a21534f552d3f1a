//! Tests of transfers between two ends, over good and bad links: connect, exchange data, close.

use std::collections::BTreeSet;

use timeous_core::{Duration, Instant, Rate};
use timeous_dccp::{CloseReason, Config, Encapsulation, Seq, State};

use crate::link::LinkConfig;
use crate::pair::{End, Pair};
use crate::source::Step;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// `count` ADUs of `len` bytes, all different, ready one every `interval`.
pub(crate) fn fill(end: &mut End, count: u64, len: usize, from: Instant, interval: Duration) {
    for n in 0..count {
        let mut bytes = n.to_be_bytes().to_vec();
        bytes.resize(len, n as u8);
        end.source.push(from + interval * n, bytes);
    }
}

/// Checks that all received data were sent by the other end, and were delivered once.
#[track_caller]
pub(crate) fn assert_delivered_once(from: &End, to: &End) {
    let numbers: Vec<u64> =
        to.received.iter().map(|bytes| u64::from_be_bytes(bytes[..8].try_into().unwrap())).collect();
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "something was delivered twice");
    for (token, steps) in &from.source.fates {
        if steps.contains(&Step::Acked) {
            assert!(distinct.contains(token), "ADU {token} was acknowledged and not delivered");
        }
    }
}

#[track_caller]
pub(crate) fn exchange(pair: &mut Pair, count: u64, len: usize) {
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, count, len, now, Duration::ZERO);
    fill(&mut pair.server, count, len, now, Duration::ZERO);
    let all = |end: &End| {
        end.source.fates.values().filter(|steps| steps.len() == 3).count() as u64 == count && end.source.is_empty()
    };
    assert!(pair.run_until(SEC * 3_000, |pair| all(&pair.client) && all(&pair.server)), "not everything has its fate");
    for end in [&pair.client, &pair.server] {
        end.source.assert_one_fate_each();
        assert_eq!(end.source.fates.len() as u64, count);
        assert_eq!(end.outstanding(), 0, "each has its fate");
    }
    assert_delivered_once(&pair.client, &pair.server);
    assert_delivered_once(&pair.server, &pair.client);
}

#[test]
fn both_ends_measure_the_handshake() {
    let mut pair = Pair::new(LinkConfig { delay: MS * 75, ..LinkConfig::default() }, 1);
    pair.connect();
    for end in [&pair.client, &pair.server] {
        let rtt = end.connection.handshake_rtt().unwrap();
        assert!((MS * 150..MS * 160).contains(&rtt), "{rtt:?}");
    }
}

/// In UDP the checksum is zero and the driver gathers; natively the transport has to sum the payload up.
#[test]
fn payloads_may_be_left_apart() {
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    let native = Encapsulation::Native { source: here, destination: here };
    for (encapsulation, appended) in [(Encapsulation::Udp, 0), (native, 50)] {
        let config = Config { encapsulation, ..Config::default() };
        let link = LinkConfig::default();
        let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 4);
        pair.client.source.leaves_apart = true;
        exchange(&mut pair, 50, 700);
        assert_eq!(pair.client.source.appended, appended);
        assert_eq!(pair.server.received.len(), 50);
        assert!(pair.server.received.iter().all(|bytes| bytes.len() == 700));
        assert_eq!(pair.client.connection.statistics().bytes_sent, 50 * 700);
        assert_eq!(pair.server.connection.statistics().malformed, 0, "every checksum is right");
    }
}

#[track_caller]
pub(crate) fn close_from_client(pair: &mut Pair) {
    pair.client.connection.close(pair.now).unwrap();
    assert!(pair.run_until(SEC * 60, |pair| pair.client.closed.is_some() && pair.server.closed.is_some()));
    assert_eq!((pair.client.closed, pair.server.closed), (Some(CloseReason::Local), Some(CloseReason::Peer)));
}

#[test]
fn a_pair_connects_transfers_and_closes() {
    let mut pair = Pair::new(LinkConfig::default(), 1);
    exchange(&mut pair, 1_000, 500);
    assert_eq!(pair.client.source.count(Step::Lost), 0);
    assert_eq!(pair.server.received.len(), 1_000);
    let statistics = pair.client.connection.statistics();
    assert_eq!((statistics.violations(), statistics.syncs_sent, statistics.timeouts), (0, 0, 0));
    close_from_client(&mut pair);
    assert_eq!(pair.client.connection.state(), State::TimeWait);
    assert_eq!(pair.server.connection.state(), State::Closed);
    pair.run_for(SEC * 241);
    assert_eq!(pair.client.connection.state(), State::Closed);
    assert!(pair.client.connection.is_finished() && pair.server.connection.is_finished());
}

/// Loss, reordering and duplication all at once.
pub(crate) fn bad() -> LinkConfig {
    LinkConfig { loss: 0.03, duplicate: 0.02, reorder: 0.05, ..LinkConfig::default() }
}

#[test]
fn ten_thousand_adus_each_way_over_a_bad_link_have_one_fate_each() {
    let mut pair = Pair::new(bad(), 2);
    exchange(&mut pair, 10_000, 200);
    for end in [&pair.client, &pair.server] {
        let (lost, acked) = (end.source.count(Step::Lost), end.source.count(Step::Acked));
        assert_eq!(lost + acked, 10_000);
        assert!((100..1_200).contains(&lost), "{lost} lost of 10000, at 3 % loss and some reordering");
        assert!(end.connection.statistics().duplicates > 50);
    }
    close_from_client(&mut pair);
}

/// Found by `timeous-lab dbat-buffering`, by chance: what came after its timeout was under way for ever.
#[test]
fn whatever_comes_late_nothing_is_under_way_once_each_has_its_fate() {
    for seed in 0..60 {
        // Round trips of 40 ms that are 2 s at times: timeouts take for lost what comes.
        let link = LinkConfig { loss: 0.1, reorder: 0.1, delay: MS * 20, ..LinkConfig::default() };
        let mut pair = Pair::new(link.clone(), seed);
        pair.connect();
        for end in [&mut pair.client, &mut pair.server] {
            fill(end, 40, 200, pair.now, MS * 130);
        }
        for _ in 0..6 {
            pair.run_for(SEC);
            let slow = LinkConfig { delay: SEC * 2, ..link.clone() };
            pair.links.iter_mut().for_each(|way| way.become_like(slow.clone()));
            pair.run_for(MS * 300);
            pair.links.iter_mut().for_each(|way| way.become_like(link.clone()));
        }
        let settled = |end: &End| end.source.is_settled();
        assert!(pair.run_until(SEC * 300, |pair| settled(&pair.client) && settled(&pair.server)), "seed {seed}");
        // Late packets arrive by then.
        pair.run_for(SEC * 10);
        assert_eq!([pair.client.outstanding(), pair.server.outstanding()], [0, 0], "seed {seed}");
    }
}

#[test]
fn a_server_that_closes_leaves_timewait_to_its_client() {
    let mut pair = Pair::new(bad(), 3);
    exchange(&mut pair, 100, 200);
    pair.server.connection.close(pair.now).unwrap();
    assert_eq!(pair.server.connection.state(), State::CloseReq);
    assert!(pair.run_until(SEC * 60, |pair| pair.client.closed.is_some() && pair.server.closed.is_some()));
    assert_eq!((pair.client.closed, pair.server.closed), (Some(CloseReason::Peer), Some(CloseReason::Local)));
    assert_eq!(pair.client.connection.state(), State::TimeWait);
    assert_eq!(pair.server.connection.state(), State::Closed);
}

#[test]
fn a_server_may_hold_timewait_itself() {
    let server = Config { server_holds_timewait: true, ..Config::default() };
    let link = LinkConfig::default();
    let mut pair = Pair::with(Config::default(), server, [link.clone(), link], 4);
    exchange(&mut pair, 10, 200);
    pair.server.connection.close(pair.now).unwrap();
    pair.run_for(SEC);
    assert_eq!(pair.server.connection.state(), State::TimeWait);
    assert_eq!(pair.client.connection.state(), State::Closed);
    assert_eq!((pair.client.closed, pair.server.closed), (Some(CloseReason::Peer), Some(CloseReason::Local)));
}

#[test]
fn both_may_close_at_once() {
    for server_holds_timewait in [false, true] {
        let server = Config { server_holds_timewait, ..Config::default() };
        let link = LinkConfig::default();
        let mut pair = Pair::with(Config::default(), server, [link.clone(), link], 5);
        exchange(&mut pair, 10, 200);
        pair.client.connection.close(pair.now).unwrap();
        pair.server.connection.close(pair.now).unwrap();
        pair.run_for(SEC * 2);
        assert_eq!((pair.client.closed, pair.server.closed), (Some(CloseReason::Local), Some(CloseReason::Local)));
    }
}

#[test]
fn what_is_under_way_at_the_close_still_gets_its_fate() {
    let mut pair = Pair::new(bad(), 6);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 5_000, 400, now, Duration::ZERO);
    fill(&mut pair.server, 5_000, 400, now, Duration::ZERO);
    pair.run_for(SEC);
    close_from_client(&mut pair);
    for end in [&pair.client, &pair.server] {
        end.source.assert_one_fate_each();
        assert!(!end.source.is_empty(), "the close came in the middle");
        assert!(end.source.count(Step::Acked) > 50);
    }
    assert_delivered_once(&pair.client, &pair.server);
    assert_delivered_once(&pair.server, &pair.client);
}

#[test]
fn sequence_numbers_may_wrap_in_mid_transfer() {
    let at = |before: u64| Config { initial_seq: Some(Seq::new(Seq::MODULUS - before)), ..Config::default() };
    for before in [1, 2, 100, 700] {
        let mut pair = Pair::with(at(before), at(before + 1), [bad(), bad()], before);
        exchange(&mut pair, 1_000, 200);
        close_from_client(&mut pair);
    }
}

#[test]
fn features_are_negotiated_although_packets_are_lost() {
    use timeous_dccp::Feature;
    for seed in 0..40 {
        let link = LinkConfig { loss: 0.3, ..LinkConfig::default() };
        let client = Config { sequence_window: 300, connect_timeout: SEC * 3_600, ..Config::default() };
        let server = Config { sequence_window: 400, ecn: false, ..Config::default() };
        let mut pair = Pair::with(client, server, [link.clone(), link], seed);
        let open = |end: &End| end.connection.state() == State::Open;
        assert!(pair.run_until(SEC * 3_600, |pair| open(&pair.client) && open(&pair.server)), "seed {seed}");
        assert!(
            pair.run_until(SEC * 3_600, |pair| {
                !pair.client.connection.features().is_negotiating()
                    && !pair.server.connection.features().is_negotiating()
            }),
            "seed {seed}"
        );
        let (client, server) = (pair.client.connection.features(), pair.server.connection.features());
        for (here, there) in [(client, server), (server, client)] {
            for feature in Feature::ALL {
                assert_eq!(here.local(feature), there.remote(feature), "seed {seed}, {feature:?}");
            }
            assert_eq!((here.local(Feature::SendAckVector), here.local(Feature::SendNdpCount)), (1, 1));
        }
        assert_eq!((client.local(Feature::SequenceWindow), server.local(Feature::SequenceWindow)), (300, 400));
        assert_eq!((client.local(Feature::EcnIncapable), server.local(Feature::EcnIncapable)), (0, 1));
    }
}

#[test]
fn aimd_fills_a_link_with_a_short_queue() {
    let rate = Rate::from_kbps(1_000);
    let link = LinkConfig { delay: MS * 40, rate: Some(rate), queue: MS * 100, ..LinkConfig::default() };
    let mut pair = Pair::new(link, 7);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 20_000, 1_000, now, Duration::ZERO);
    pair.run_for(SEC * 60);
    let goodput = Rate::from_bytes_in(pair.server.connection.statistics().bytes_received, SEC * 60);
    assert!(goodput.as_bps() >= 800_000, "{goodput}");
    let statistics = pair.client.connection.statistics();
    let loss = statistics.lost as f64 / statistics.data_sent as f64;
    assert!(loss <= 0.02, "{loss}");
}

#[test]
fn marks_do_what_losses_do_and_lose_nothing() {
    let rate = Rate::from_kbps(1_000);
    let link = LinkConfig {
        delay: MS * 40,
        rate: Some(rate),
        queue: MS * 300,
        mark_above: Some(MS * 50),
        ..LinkConfig::default()
    };
    let mut pair = Pair::new(link, 8);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 20_000, 1_000, now, Duration::ZERO);
    pair.run_for(SEC * 60);
    let statistics = pair.client.connection.statistics();
    assert_eq!(statistics.lost, 0);
    assert!(statistics.ce_acked > 10, "{statistics:?}");
    let goodput = Rate::from_bytes_in(pair.server.connection.statistics().bytes_received, SEC * 60);
    assert!(goodput.as_bps() >= 800_000, "{goodput}");
}

#[test]
fn one_way_data_keep_the_receivers_record_short() {
    let up = LinkConfig { loss: 0.01, ..LinkConfig::default() };
    let mut pair = Pair::with(Config::default(), Config::default(), [up, LinkConfig::default()], 9);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 5_000, 200, now, MS);
    // At this loss TCP would need more than eight seconds, too.
    pair.run_for(SEC * 12);
    let server = pair.server.connection.statistics();
    assert!(server.packets_sent > 2_000, "about one acknowledgement for two packets: {server:?}");
    // Header 24, options: had the client not acknowledged acknowledgements, the vectors would have grown to 253 bytes.
    let mean = pair.links[1].bytes as f64 / pair.links[1].sent as f64;
    assert!(mean < 60.0, "{mean} bytes an acknowledgement");
    assert_eq!(pair.client.source.count(Step::Acked) + pair.client.source.count(Step::Lost), 5_000);
}

#[test]
fn an_ack_path_that_loses_raises_the_ack_ratio() {
    use timeous_dccp::Feature;
    let up = LinkConfig::default();
    let down = LinkConfig { loss: 0.2, ..LinkConfig::default() };
    let mut pair = Pair::with(Config::default(), Config::default(), [up, down], 10);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 20_000, 500, now, Duration::ZERO);
    let mut greatest = 2;
    pair.run_until(SEC * 20, |pair| {
        greatest = greatest.max(pair.server.connection.features().remote(Feature::AckRatio));
        false
    });
    assert!(greatest > 2);
    pair.client.source.assert_one_fate_each();
}

#[test]
fn an_idle_connection_stays_open_and_a_dead_link_ends_it() {
    let mut pair = Pair::new(LinkConfig::default(), 11);
    exchange(&mut pair, 5, 100);
    pair.run_for(SEC * 3_600);
    assert_eq!(pair.client.connection.state(), State::Open, "silence is no fault when nothing is owed");
    let sent = pair.links[0].sent;
    pair.run_for(SEC * 3_600);
    assert_eq!(pair.links[0].sent, sent, "and costs nothing");

    pair.links[0] = crate::link::Link::new(LinkConfig { loss: 1.0, ..LinkConfig::default() }, 1);
    pair.client.source.push(pair.now, vec![1; 100]);
    let before = pair.now;
    assert!(pair.run_until(SEC * 100, |pair| pair.client.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::Timeout));
    assert!(pair.now - before <= SEC * 31);
    assert_eq!(pair.client.source.count(Step::Lost), 1);
}

#[test]
fn a_single_lost_packet_does_not_end_an_idle_connection() {
    let mut pair = Pair::new(LinkConfig::default(), 12);
    exchange(&mut pair, 5, 100);
    let good = std::mem::replace(
        &mut pair.links[0],
        crate::link::Link::new(LinkConfig { loss: 1.0, ..LinkConfig::default() }, 1),
    );
    pair.client.source.push(pair.now, vec![1; 100]);
    pair.run_for(MS * 50);
    pair.links[0] = good;
    pair.run_for(SEC * 300);
    assert_eq!(pair.client.closed, None);
    assert_eq!(pair.client.source.count(Step::Lost), 1);
    assert!(pair.client.connection.statistics().syncs_sent >= 1, "asked whether the peer lives");
}

#[test]
fn nobody_there_is_a_timeout() {
    let link = LinkConfig { loss: 1.0, ..LinkConfig::default() };
    let mut pair = Pair::new(link, 13);
    assert!(pair.run_until(SEC * 61, |pair| pair.client.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::Timeout));
    // At 0, 1, 3, 7, 15, 31 s, and the final Reset.
    assert_eq!(pair.links[0].sent, 7);
    assert_eq!(pair.server.connection.state(), State::Listen);
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    let mut pair = Pair::new(LinkConfig::default(), 14);
    pair.connect();
    pair.client.source.push(pair.now, Vec::new());
    pair.run_for(SEC);
    assert_eq!(pair.server.received, [Vec::new()]);
    assert_eq!(pair.client.source.count(Step::Acked), 1);
}

#[test]
fn what_does_not_fit_is_passed_over_and_a_shorter_path_makes_less_fit() {
    let mut pair = Pair::new(LinkConfig::default(), 15);
    pair.connect();
    let fits = pair.client.connection.max_payload();
    pair.client.source.push(pair.now, vec![0; 1_400]);
    pair.client.source.push(pair.now, vec![0; fits]);
    pair.run_for(SEC);
    pair.client.connection.path_mtu_exceeded(800);
    pair.client.connection.path_mtu_exceeded(1_000);
    assert_eq!(pair.client.connection.max_payload(), fits - 400);
    pair.client.source.push(pair.now, vec![0; fits]);
    pair.client.source.push(pair.now, vec![0; fits - 400]);
    pair.run_for(SEC);
    assert_eq!(pair.server.received.iter().map(Vec::len).collect::<Vec<_>>(), [fits, fits - 400]);
    pair.client.source.assert_one_fate_each();
}

#[test]
fn a_source_that_breaks_its_promise_costs_nothing() {
    let mut pair = Pair::new(LinkConfig::default(), 16);
    pair.connect();
    pair.client.source.false_promises = 50;
    (0..50).for_each(|_| pair.settle());
    assert_eq!(pair.client.source.false_promises, 0);
    pair.client.source.push(pair.now, vec![7; 10]);
    pair.run_for(SEC);
    assert_eq!(pair.server.received.len(), 1);
    pair.client.source.assert_one_fate_each();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut pair = Pair::new(bad(), 77);
        exchange(&mut pair, 300, 100);
        (pair.now, *pair.client.connection.statistics(), *pair.server.connection.statistics())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_client_that_comes_back_from_a_crash_cleans_its_server_up() {
    let mut pair = Pair::new(LinkConfig::default(), 17);
    exchange(&mut pair, 20, 100);
    let mut rng = timeous_core::Rng::from_seed(18);
    let target = *pair.client.connection.target();
    pair.client.connection = timeous_dccp::Connection::connect(pair.now, Config::default(), target, &mut rng);
    pair.run_for(MS * 500);
    let packet_error = timeous_dccp::ResetReason::packet_error(8);
    assert_eq!(pair.server.closed, Some(CloseReason::Reset(packet_error)), "the third example of RFC 4340 §7.5.6");
    assert_eq!(pair.client.connection.state(), State::Request);
}

#[test]
fn the_sequence_window_grows_with_the_rate() {
    use timeous_dccp::Feature;
    // 500 packets to a round trip, and a window of 100 to start with.
    let rate = Rate::from_kbps(20_000);
    let link = LinkConfig { delay: MS * 100, rate: Some(rate), queue: MS * 100, ..LinkConfig::default() };
    let config = Config { sequence_window: 100, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 20);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 40_000, 1_000, now, Duration::ZERO);
    pair.run_for(SEC * 15);
    let (client, server) = (&pair.client.connection, &pair.server.connection);
    assert!(client.features().local(Feature::SequenceWindow) >= 2_048);
    assert_eq!((client.statistics().sequence_invalid, server.statistics().sequence_invalid), (0, 0));
    let goodput = Rate::from_bytes_in(server.statistics().bytes_received, SEC * 15);
    assert!(goodput.as_bps() >= 12_000_000, "{goodput}");
}

/// Only the answer to the newest Change counts: a new Change in every round trip of slow start never succeeded. And a
/// Confirm delayed by a round trip arrives when the window that it confirms is too small again.
#[test]
fn both_ends_keep_in_step_while_the_rate_doubles() {
    // In kbit/s and milliseconds: 500 to 1 500 packets to a round trip, beside what the queue takes.
    for (kbps, delay, queue) in [(20_000, 100, 100), (60_000, 150, 20), (100_000, 40, 200), (200_000, 30, 30)] {
        // With a small window of its own the client holds back; with a large one, nothing spares the server's.
        for window in [100, 8_192] {
            let rate = Some(Rate::from_kbps(kbps));
            let link = LinkConfig { delay: MS * delay, rate, queue: MS * queue, ..LinkConfig::default() };
            let client = Config { sequence_window: window, ..Config::default() };
            let server = Config { sequence_window: 100, ..Config::default() };
            let mut pair = Pair::with(client, server, [link.clone(), link], 23);
            pair.connect();
            let now = pair.now;
            fill(&mut pair.client, 10_000, 1_000, now, Duration::ZERO);
            pair.run_for(SEC * 4);
            let ends = [&pair.client.connection, &pair.server.connection];
            let invalid = ends.map(|end| end.statistics().sequence_invalid);
            assert_eq!(invalid, [0, 0], "{kbps} kbit/s, {delay} ms, a window of {window}");
            assert!(ends[1].features().local(timeous_dccp::Feature::SequenceWindow) >= 1_024);
        }
    }
}

#[test]
fn an_outage_of_many_round_trips_is_recovered_from() {
    let config = Config { sequence_window: 32, silence: SEC * 60, ..Config::default() };
    let link = LinkConfig::default();
    let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 21);
    exchange(&mut pair, 50, 100);
    // No packet from the client reaches the server for twelve seconds.
    let good = std::mem::replace(
        &mut pair.links[0],
        crate::link::Link::new(LinkConfig { loss: 1.0, ..LinkConfig::default() }, 1),
    );
    let now = pair.now;
    fill(&mut pair.client, 200, 100, now, MS);
    for _ in 0..120 {
        // A peer that talks keeps this end sending acknowledgements into the void.
        pair.server.source.push(pair.now, vec![9; 100]);
        pair.server.source.push(pair.now, vec![9; 100]);
        pair.run_for(MS * 100);
    }
    pair.links[0] = good;
    pair.run_for(SEC * 40);
    let before = pair.server.received.len();
    pair.client.source.push(pair.now, vec![1; 100]);
    pair.run_for(SEC * 10);
    pair.client.source.push(pair.now, vec![2; 100]);
    pair.run_for(SEC * 10);
    assert!(pair.server.received.len() > before, "{:?}", pair.server.connection.statistics());
    assert_eq!((pair.client.closed, pair.server.closed), (None, None));
    pair.client.source.assert_one_fate_each();
    pair.server.source.assert_one_fate_each();
}

#[test]
fn a_server_that_keeps_alive_outlives_a_pause_but_not_its_client() {
    let server = Config { keep_alive: Some(SEC * 15), ..Config::default() };
    let link = LinkConfig::default();
    let mut pair = Pair::with(Config::default(), server, [link.clone(), link], 22);
    exchange(&mut pair, 5, 100);
    let asked = pair.server.connection.statistics().syncs_sent;
    pair.run_for(SEC * 150);
    assert_eq!(pair.server.connection.state(), State::Open);
    assert_eq!(pair.server.connection.statistics().syncs_sent - asked, 9, "one for each 15 s and a round trip");
    pair.links[0] = crate::link::Link::new(LinkConfig { loss: 1.0, ..LinkConfig::default() }, 1);
    assert!(pair.run_until(SEC * 46, |pair| pair.server.closed.is_some()));
    assert_eq!(pair.server.closed, Some(CloseReason::Timeout));
}
