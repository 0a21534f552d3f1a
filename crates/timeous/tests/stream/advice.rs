//! Tests of rate advice to a source: spare capacity, an overfull buffer, a blocked path; other policies give none.

use timeous::core::{Advice, Duration, Instant, Rate, Reason};
use timeous::{Hints, Sender, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};

use crate::support::{PATIENCE, TestLink, both_ends, collect, free_port, stream};

const INTERVAL: Duration = Duration::from_millis(20);

/// Sends at `rate` until it is advised as `wanted`; that advice.
fn advised(sender: &mut Sender, rate: Rate, wanted: impl Fn(&Advice) -> bool) -> Advice {
    let end = clock::now() + PATIENCE;
    sender.set_rate(rate);
    let mut next = clock::now();
    loop {
        if let Some(advice) = sender.poll_advice().filter(&wanted) {
            return advice;
        }
        assert!(clock::now() < end, "nobody was told; {:?}", sender.stats());
        if clock::now() < next {
            sender.wait(Some(next));
            continue;
        }
        next += INTERVAL;
        for packet in vec![0; rate.bytes_in(INTERVAL) as usize].chunks(1_000) {
            // A full ring is what it is about.
            let _full = sender.send(packet, Hints::default());
        }
        while sender.poll_delivery().is_some() {}
    }
}

#[test]
fn room_and_its_lack_are_told_and_stand_in_the_statistics() {
    let port = free_port();
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(400)),
        delay: Duration::from_millis(10),
        queue: Limit::Time(Duration::from_millis(50)),
        ..LinkConfig::default()
    };
    let link = TestLink::to(port, forward, LinkConfig::default());
    let [(mut sender, _kept), (_other, receiver)] = both_ends(link.near, port, "policy=dbat&latency=2s&repair=off");
    let received = collect(receiver);
    let slow = Rate::from_kbps(100);
    let room = advised(&mut sender, slow, |advice| advice.reason == Reason::Room);
    assert!(room.stream == slow && room.rate > slow && room.queued <= room.thresholds.max, "{room:?}");
    let fast = Rate::from_kbps(1_200);
    let full = advised(&mut sender, fast, |advice| advice.stream == fast && advice.reason != Reason::Room);
    assert!(full.rate < fast && full.average > full.thresholds.middle(), "{full:?}");
    // 100 ms of what it hands over.
    assert_eq!(full.thresholds.max, 2 * full.thresholds.min);
    assert!(full.thresholds.min >= 15_000, "{full:?}");
    let end = clock::now() + PATIENCE;
    while sender.stats().mbps_advised_rate.is_none_or(|rate| rate >= 1.2) {
        assert!(clock::now() < end, "{:?}", sender.stats());
        sender.wait(Some(clock::now() + INTERVAL));
    }
    let stats = sender.stats();
    assert_eq!(stats.mbps_source_rate, Some(1.2));
    assert!(stats.byte_snd_buf_max_th >= Some(30_000) && stats.byte_snd_buf_average > Some(0), "{stats:?}");
    sender.finish().unwrap();
    assert!(!received.join().unwrap().is_empty());
}

#[test]
fn a_source_is_told_while_nothing_passes() {
    let port = free_port();
    let mut link = TestLink::to(port, LinkConfig::default(), LinkConfig::default());
    let [(mut sender, _kept), _other] = both_ends(link.near, port, "policy=dbat&latency=20s&timeout=60s");
    let rate = Rate::from_kbps(300);
    advised(&mut sender, rate, |advice| advice.reason == Reason::Room);
    link.cut();
    // The window is used up, and then nothing leaves: retransmission timeouts alone let single packets go.
    let mut told: Vec<Instant> = Vec::new();
    while told.len() < 6 {
        told.push(advised(&mut sender, rate, |advice| advice.reason == Reason::Overfull).at);
    }
    assert!(told.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_millis(100)), "{told:?}");
    assert!(told[5] - told[0] < Duration::from_secs(10), "{told:?}");
}

#[test]
fn other_policies_advise_nothing() {
    let (mut sender, _receiver) = stream("policy=frames");
    sender.set_rate(Rate::from_kbps(10));
    for _ in 0..50 {
        sender.send(&[0; 1_000], Hints::default()).unwrap();
    }
    crate::support::fates(&mut sender);
    assert_eq!(sender.poll_advice(), None);
    assert_eq!(sender.stats().byte_snd_buf_average, None);
}
