//! Tests of parity: lost data is rebuilt and delivered once; a peer that lies about it gains nothing.

use timeous_core::{Duration, Instant, Rng};
use timeous_dccp::{Body, Config, Feature, Opt, Parity, Seq, Side};

use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::script::Timeline;
use crate::source::Step;
use crate::transfer::assert_delivered_once;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Sends 600 ADUs of different lengths, one each 20 ms, which a window that follows the losses lets through, without
/// any retransmission.
fn deliver(asking: Config, answering: Config, loss: f64, seed: u64) -> Pair {
    let reorder = if loss > 0.0 { 0.02 } else { 0.0 };
    let link = LinkConfig { loss, reorder, duplicate: 0.02, ..LinkConfig::default() };
    let repeats = asking.repeats;
    let back = LinkConfig { loss: 0.0, ..link.clone() };
    let mut pair = Pair::with(asking, answering, [link, back], seed);
    pair.client.source.stays_lost = !repeats;
    pair.connect();
    pair.run_for(SEC);
    let from: Instant = pair.now;
    for n in 0..600_u64 {
        let mut bytes = n.to_be_bytes().to_vec();
        bytes.resize(100 + (n * 37 % 900) as usize, n as u8);
        pair.client.source.push(from + MS * 20 * n, bytes);
    }
    pair.run_for(SEC * 60);
    assert_eq!(pair.client.source.waiting(), 0, "seed {seed}");
    pair
}

#[track_caller]
fn assert_as_sent(pair: &Pair) {
    assert_delivered_once(&pair.client, &pair.server);
    for bytes in &pair.server.received {
        let n = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(bytes.len(), 100 + (n * 37 % 900) as usize);
        assert!(bytes[8..].iter().all(|&byte| byte == n as u8));
    }
}

fn always() -> Config {
    Config { parity: Parity::Always, ..Config::default() }
}

#[test]
fn what_was_lost_is_rebuilt_and_delivered_once() {
    for seed in 0..4 {
        let pair = deliver(always(), Config::default(), 0.04, seed);
        assert_as_sent(&pair);
        let (sent, came) = (pair.client.connection.statistics(), pair.server.connection.statistics());
        assert!(came.rebuilt > 5 && sent.parity_sent > came.rebuilt, "seed {seed}: {came:?}");
        assert_eq!(came.data_received as usize, pair.server.received.len(), "parity is no data");
        assert_eq!(came.violations(), 0);
        // Data lost before the first loss statistics, and little else.
        assert!(sent.data_sent - came.data_received < 6, "seed {seed}: {sent:?} {came:?}");
    }
}

/// Found by `timeous-lab bloat`: a group of frames was given up for a packet that parity had brought.
#[test]
fn what_was_rebuilt_has_come_as_far_as_its_source_is_told() {
    for seed in 0..4 {
        let pair = deliver(always(), Config::default(), 0.04, seed);
        let (sent, came) = (pair.client.connection.statistics(), pair.server.connection.statistics());
        assert!(came.rebuilt > 5 && sent.lost > came.rebuilt, "seed {seed}: for congestion control it is lost");
        let missing = sent.data_sent - came.data_received;
        assert_eq!(pair.client.source.count(Step::Lost) as u64, missing, "seed {seed}");
        pair.client.source.assert_one_fate_each();
    }
}

/// Beside an acknowledgement, or a checksum, the parity of the longest data in the widest block would not fit into a packet.
#[test]
fn what_is_as_long_as_can_be_is_rebuilt_where_acknowledgements_go_along() {
    for data_checksum in [false, true] {
        let link = LinkConfig { loss: 0.04, delay: MS * 2, ..LinkConfig::default() };
        let config = Config { data_checksum, ..always() };
        let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 5);
        pair.client.source.stays_lost = true;
        pair.server.source.stays_lost = true;
        pair.connect();
        pair.run_for(SEC);
        let from = pair.now;
        for n in 0..3_000_u64 {
            for end in [&mut pair.client, &mut pair.server] {
                let mut bytes = n.to_be_bytes().to_vec();
                bytes.resize(end.connection.max_payload(), n as u8);
                end.source.push(from + MS * n / 4, bytes);
            }
        }
        pair.run_for(SEC * 60);
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            assert_delivered_once(from, to);
            let (sent, came) = (from.connection.statistics(), to.connection.statistics());
            assert_eq!((sent.data_sent, sent.data_dropped, came.violations()), (3_000, 0, 0));
            assert!(came.rebuilt > 50 && sent.data_sent - came.data_received < 6, "{sent:?} {came:?}");
        }
    }
}

#[test]
fn where_nothing_is_lost_nothing_is_added() {
    let pair = deliver(always(), Config::default(), 0.0, 1);
    assert_eq!(pair.client.connection.statistics().parity_sent, 0);
    assert_eq!(pair.server.received.len(), 600);
}

#[test]
fn what_is_sent_again_and_what_is_rebuilt_are_one() {
    let pair = deliver(Config { repeats: true, ..always() }, Config::default(), 0.04, 3);
    assert_as_sent(&pair);
    assert_eq!(pair.server.received.len(), 600, "what could not be rebuilt came again");
    assert!(pair.server.connection.statistics().repeats_dropped > 0, "the sender does not know what was rebuilt");
}

/// A server that takes parity, and a peer that has lost data 2 of 0 to 3.
fn receiver() -> (Timeline, u64) {
    let mut line = Timeline::open_server();
    let change = Opt::Change { side: Side::R, feature: Feature::TakeRepeats.number(), values: &[2] };
    let ack: Seq = line.connection.initial_sequence_numbers().0;
    line.send_with(Body::Ack { ack }, &[change], b"");
    let first = line.peer_seq();
    assert_eq!(line.connection.features().local(Feature::TakeRepeats), 2, "it was asked for");
    for n in [0, 1, 3] {
        line.send_at(first + n, Body::Data, &[], &[n as u8; 10]);
    }
    (line, first)
}

#[test]
fn parity_that_is_not_what_it_says_changes_nothing() {
    let mut rng = Rng::from_seed(8);
    for _ in 0..40 {
        let (mut line, first) = receiver();
        for n in 0..100 {
            let mut random = |below: u64| rng.below(below);
            let map: Vec<u8> = (0..1 + random(8)).map(|_| random(256) as u8).collect();
            let shard = vec![random(256) as u8; random(64) as usize];
            let (back, index, of) = (random(8) as u16, random(4) as u8, random(6) as u8);
            line.send_at(first + 4 + n, Body::Data, &[Opt::Parity { back, index, of, map: &map }], &shard);
        }
        let statistics = line.connection.statistics();
        assert_eq!(statistics.data_received, 3 + statistics.rebuilt);
        assert!(statistics.rebuilt <= statistics.parity_received, "nothing comes of nothing");
        assert!(line.connection.flow().is_some(), "and the connection lives");
    }
}

#[test]
fn parity_before_anybody_asked_for_it_is_an_option_unknown() {
    let mut line = Timeline::open_server();
    line.send_with(Body::Data, &[Opt::Parity { back: 0, index: 0, of: 1, map: &[1] }], b"data");
    assert_eq!(line.connection.statistics().data_received, 1);
}
