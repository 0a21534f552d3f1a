//! Tests of retransmission: data is delivered once, and only peers that support it get retransmissions.

use std::collections::BTreeSet;

use timeous_core::{Duration, Instant};
use timeous_dccp::{Ccid, Config};

use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::transfer::fill;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn asking() -> Config {
    Config { repeats: true, ..Config::default() }
}

/// A pair that knows by 60 ADUs what round trips take.
fn measured() -> Pair {
    let mut pair = Pair::with(asking(), Config::default(), [LinkConfig::default(), LinkConfig::default()], 9);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 60, 200, now, MS * 20);
    pair.run_for(SEC * 3);
    pair
}

/// Sends 400 ADUs over `link`, repeating what is lost or overdue until it is acknowledged, and checks what came.
fn deliver(link: LinkConfig, ccid: Ccid, seed: u64) -> Pair {
    let config = asking().with_ccids(&[ccid]);
    let answering = Config::default().with_ccids(&[ccid]);
    let mut pair = Pair::with(config, answering, [link.clone(), link], seed);
    pair.connect();
    pair.run_for(SEC);
    assert!(pair.client.source.repeats, "a peer of ours takes repeats");
    assert!(!pair.server.source.repeats, "who does not ask for it does not get it");
    let now = pair.now;
    fill(&mut pair.client, 400, 500, now, MS * 5);
    let done = pair.run_until(SEC * 300, |pair| pair.server.received.len() == 400 && pair.client.source.is_empty());
    assert!(done, "seed {seed}: {} of 400 came", pair.server.received.len());
    // Whatever is still under way comes too late to be new.
    pair.run_for(SEC * 20);
    let numbers: BTreeSet<u64> =
        pair.server.received.iter().map(|bytes| u64::from_be_bytes(bytes[..8].try_into().unwrap())).collect();
    assert_eq!((numbers.len(), pair.server.received.len()), (400, 400), "seed {seed}: each once");
    for bytes in &pair.server.received {
        let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.len() == 500 && bytes[8..].iter().all(|&byte| byte == number as u8), "as it was sent");
    }
    pair
}

#[test]
fn each_adu_is_delivered_once_and_whole_whatever_the_link_does() {
    for seed in 0..12 {
        let ccid = if seed % 3 == 2 { Ccid::Ccid3 } else { Ccid::Ccid2 };
        let link = LinkConfig { loss: 0.1, duplicate: 0.05, reorder: 0.2, ..LinkConfig::default() };
        let pair = deliver(link, ccid, seed);
        let (sent, came) = (pair.client.connection.statistics(), pair.server.connection.statistics());
        assert!(sent.repeats_sent > 20 && came.data_received == 400, "{sent:?}");
        assert_eq!(came.violations(), 0);
    }
}

#[test]
fn without_loss_nothing_is_sent_again() {
    let pair = deliver(LinkConfig::default(), Ccid::Ccid2, 1);
    assert_eq!(pair.client.connection.statistics().repeats_sent, 0);
    assert_eq!(pair.server.connection.statistics().repeats_dropped, 0);
}

#[test]
fn a_copy_too_many_is_dropped_before_the_application() {
    // Acknowledgements get lost, so that what arrived is taken for overdue.
    let links = [LinkConfig::default(), LinkConfig { loss: 0.6, ..LinkConfig::default() }];
    let mut pair = Pair::with(asking(), Config::default(), links, 5);
    pair.connect();
    pair.run_for(SEC * 5);
    let now = pair.now;
    fill(&mut pair.client, 100, 200, now, MS * 40);
    assert!(pair.run_until(SEC * 600, |pair| pair.client.source.is_settled()));
    pair.run_for(SEC * 20);
    assert_eq!(pair.server.received.len(), 100);
    let came = pair.server.connection.statistics();
    assert!(came.repeats_dropped > 5, "{came:?}");
    assert_eq!(came.repeats_dropped, pair.client.connection.statistics().repeats_sent, "all of them for nothing");
}

#[test]
fn the_end_of_a_burst_is_overdue_long_before_the_timeout() {
    let mut pair = measured();
    let before = pair.client.connection.statistics().repeats_sent;
    assert_eq!(before, 0);
    let sent: Instant = pair.now;
    pair.client.source.push(sent, vec![9; 100]);
    pair.links[0].lose_next();
    let came = pair.run_until(SEC, |pair| pair.server.received.len() == 61);
    assert!(came);
    let took = pair.now - sent;
    assert!(
        took < MS * 100,
        "a round trip of 40 ms, a quarter of it, an acknowledgement that waits 20, and the way: {took:?}"
    );
}

/// Found by `timeous-lab bloat`: in bursts of losses a stream was silent for a fifth of a second, at a round trip of 50 ms.
#[test]
fn where_all_of_a_window_is_lost_two_packets_more_say_so_long_before_the_timeout() {
    let mut pair = measured();
    let began = pair.now;
    pair.links[0].become_like(LinkConfig { loss: 1.0, ..LinkConfig::default() });
    fill(&mut pair.client, 500, 1_000, began, Duration::ZERO);
    pair.run_for(MS * 20);
    let window = pair.client.outstanding();
    pair.run_for(MS * 20);
    assert!(window >= 4_000 && pair.client.outstanding() == window, "the window is full: {window}");
    pair.links[0].become_like(LinkConfig::default());
    let came = pair.run_until(SEC, |pair| pair.server.received.len() == 62);
    let took = pair.now - began;
    assert!(came && took < MS * 120, "an acknowledgement that waits 20 ms, and the ways: {took:?}");
    pair.run_until(began + MS * 200 - pair.now, |pair| pair.client.connection.statistics().lost >= 4);
    let statistics = pair.client.connection.statistics();
    assert!(statistics.lost >= 4 && statistics.timeouts == 0, "{statistics:?}");
}

/// Found by `timeous-peer-trials`: while a stream said nothing, another flow filled the queue. Its timeouts were shorter than a round trip
/// from then on, and none was measured any more.
#[test]
fn a_path_that_others_have_filled_meanwhile_is_measured_anew() {
    let mut pair = Pair::with(asking(), Config::default(), [LinkConfig::default(), LinkConfig::default()], 9);
    pair.connect();
    let fill_at = |pair: &mut Pair, count| {
        let now = pair.now;
        fill(&mut pair.client, count, 200, now, MS * 20);
        pair.run_for(SEC * 3);
        let statistics = pair.client.connection.statistics();
        (statistics.timeouts, statistics.lost)
    };
    assert_eq!(fill_at(&mut pair, 60), (0, 0));
    pair.run_for(SEC * 7);
    pair.links[0].takes(MS * 400);
    assert_eq!(fill_at(&mut pair, 60), (0, 0), "it waits for a second after a pause");
    // Without one the timeout is false, and no more than one.
    pair.links[0].takes(MS * 1_500);
    assert_eq!(fill_at(&mut pair, 60).0, 1);
    pair.run_for(SEC * 3);
    assert_eq!(fill_at(&mut pair, 60).0, 1);
}

/// Found by `timeous-lab bloat`: the end of a group of frames was lost, and the next intra frame had left for 4 ms when the second timeout
/// took all of it for lost.
#[test]
fn what_leaves_after_a_timeout_has_all_of_the_next_to_be_heard_of() {
    let mut pair = Pair::new(LinkConfig::default(), 9);
    pair.connect();
    let now = pair.now;
    fill(&mut pair.client, 60, 200, now, MS * 20);
    pair.run_for(SEC * 2);
    let timeouts = |pair: &Pair| pair.client.connection.statistics().timeouts;
    let lost = pair.now;
    pair.client.source.push(lost, vec![9; 100]);
    pair.links[0].lose_next();
    assert!(pair.run_until(SEC, |pair| timeouts(pair) == 1));
    let timeout = pair.now - lost;
    pair.run_for(timeout - MS * 5);
    let now = pair.now;
    pair.client.source.push(now, vec![9; 100]);
    pair.run_for(SEC);
    assert_eq!((timeouts(&pair), pair.server.received.len()), (1, 61));
}
