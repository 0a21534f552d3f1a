//! Two ends that connect, exchange data and close, over links good and bad.

use std::collections::BTreeSet;

use timeous_core::{Duration, Instant, Rate};
use timeous_dccp::{CloseReason, Config, Seq, State};

use crate::link::LinkConfig;
use crate::pair::{End, Pair};
use crate::source::Step;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// `count` ADUs of `len` bytes, all different, ready one every `interval`.
fn fill(end: &mut End, count: u64, len: usize, from: Instant, interval: Duration) {
    for n in 0..count {
        let mut bytes = n.to_be_bytes().to_vec();
        bytes.resize(len, n as u8);
        end.source.push(from + interval * n, bytes);
    }
}

/// What arrived came from the other end, and came once.
#[track_caller]
fn assert_delivered_once(from: &End, to: &End) {
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
fn exchange(pair: &mut Pair, count: u64, len: usize) {
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
    }
    assert_delivered_once(&pair.client, &pair.server);
    assert_delivered_once(&pair.server, &pair.client);
}

#[track_caller]
fn close_from_client(pair: &mut Pair) {
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
