//! Tests of fates: each ADU gets exactly one, and it is true.

use timeous::core::{AduMeta, AduSeq, DropReason, Duration, Fate, Rate};
use timeous::{Arrival, Hints, PolicyName, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};

use crate::support::{TestLink, both_ends, collect, direct, fates, free_port, patience, stream};

const MS: Duration = Duration::from_millis(1);

#[test]
fn data_go_both_ways() {
    let port = free_port();
    let [(mut near_sender, mut near_receiver), (mut far_sender, mut far_receiver)] =
        both_ends(direct(port), port, "latency=5s&policy=deadline");
    for n in 0..50u8 {
        near_sender.send(&[n; 100], Hints::default()).unwrap();
        far_sender.send(&[100 + n; 100], Hints::default()).unwrap();
    }
    for (receiver, first) in [(&mut far_receiver, 0), (&mut near_receiver, 100)] {
        for n in first..first + 50 {
            let arrival = receiver.receive(patience()).unwrap();
            assert!(matches!(&arrival, Arrival::Data(data) if data.bytes == [n; 100]), "{n}: {arrival:?}");
        }
    }
    for sender in [&mut near_sender, &mut far_sender] {
        let fates = fates(sender);
        assert_eq!(fates.len(), 50);
        assert!(fates.values().all(|&fate| fate == Fate::Acked), "{fates:?}");
    }
}

#[test]
fn over_a_lossy_narrow_link_each_adu_has_one_fate_and_what_is_acked_has_come() {
    for policy in PolicyName::ALL.map(PolicyName::as_str) {
        let port = free_port();
        let forward = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(500)),
            delay: MS * 10,
            queue: Limit::Time(MS * 50),
            loss: Loss::Bernoulli { p: 0.05 },
            ..LinkConfig::default()
        };
        let back = LinkConfig { delay: MS * 10, loss: Loss::Bernoulli { p: 0.02 }, ..LinkConfig::default() };
        let link = TestLink::to(port, forward, back);
        // Other tests keep the engine of this process busy.
        let [(mut sender, _keep), (_other, receiver)] =
            both_ends(link.near, port, &format!("latency=300ms&policy={policy}&slots=1024&timeout=60s"));
        drop(_other);
        let received = collect(receiver);
        let mut next = clock::now();
        // 1.2 Mbit/s for a second: more than twice what the link carries.
        for n in 0..300u64 {
            sender.send(&[&n.to_be_bytes()[..], &[7; 492]].concat(), Hints::default()).unwrap();
            if n % 10 == 9 {
                next += MS * 33;
                while clock::now() < next {
                    sender.wait(Some(next));
                }
            }
        }
        let fates = fates(&mut sender);
        assert_eq!(fates.len(), 300, "{policy}");
        let stats = sender.finish().unwrap();
        let received: Vec<u64> =
            received.join().unwrap().iter().map(|bytes| u64::from_be_bytes(*bytes.first_chunk().unwrap())).collect();
        for (n, fate) in &fates {
            let came = received.contains(n);
            match fate {
                Fate::Acked => assert!(came, "{policy}: {n} is acked and has not come"),
                Fate::Dropped(reason) => assert!(!came, "{policy}: {n} was dropped ({reason:?}) and has come"),
                // Its acknowledgement may be what was lost.
                Fate::Lost => {}
            }
        }
        let dropped = fates.values().filter(|fate| matches!(fate, Fate::Dropped(_))).count();
        if policy == "fifo" {
            assert_eq!(dropped, 0, "a plain queue gives nothing up");
        } else {
            assert!(dropped > 50, "{policy}: {dropped} of 300 were given up on a link of half the rate");
        }
        assert_eq!(stats.pkt_snd_drop_total, dropped as u64);
        assert_eq!(stats.pkt_acked_total + stats.pkt_snd_loss_total + stats.pkt_snd_drop_total, 300);
    }
}

#[test]
fn a_deadline_in_the_past_is_never_sent() {
    let (mut sender, receiver) = stream("latency=5s&policy=deadline");
    let received = collect(receiver);
    let past = clock::now().saturating_sub(MS);
    for n in 0..40u8 {
        let deadline = (n % 2 == 1).then_some(past);
        sender.send(&[n], Hints { deadline, ..Hints::default() }).unwrap();
    }
    let fates = fates(&mut sender);
    for (n, fate) in &fates {
        let expected = if n % 2 == 1 { Fate::Dropped(DropReason::Expired) } else { Fate::Acked };
        assert_eq!(*fate, expected, "{n}");
    }
    let stats = sender.finish().unwrap();
    assert_eq!((stats.pkt_snd_expired_total, stats.pkt_snd_loss_total), (20, 0), "expired is not lost");
    assert!(received.join().unwrap().iter().all(|bytes| bytes[0] % 2 == 0));
}

#[test]
fn what_was_pulled_back_and_rewritten_leaves_as_it_is_now() {
    let (mut sender, receiver) = stream("latency=5s&policy=deadline");
    let received = collect(receiver);
    let mut rewritten = 0;
    for round in 0..200u32 {
        for _ in 0..4 {
            sender.send(b"old", Hints::default()).unwrap();
        }
        let mut pulled = sender.ring().pull_back_all().unwrap();
        for place in 0..pulled.places() {
            let queued = pulled.queued(place).unwrap();
            pulled.rewrite(place, &queued.meta, &round.to_be_bytes()).unwrap();
            rewritten += 1;
        }
        pulled.release();
        // No later send wakes the engine instead.
        sender.notify();
        fates(&mut sender);
    }
    assert!(rewritten > 0, "the engine was always faster");
    sender.finish().unwrap();
    let received = received.join().unwrap();
    assert_eq!(received.len(), 800);
    assert!(received.iter().filter(|bytes| bytes.len() == 4).count() > 0);
}

/// The first answer was one of zeros, whatever had been sent.
#[test]
fn who_asks_once_for_statistics_hears_how_it_stands() {
    for transport in ["dccp", "tcp"] {
        let (mut sender, _receiver) = stream(&format!("latency=5s&policy=fifo&transport={transport}"));
        for n in 0..3 {
            sender.send(&[n; 100], Hints::default()).unwrap();
        }
        while sender.pending() > 0 {
            assert!(sender.wait(patience()), "{transport}: {:?}", sender.status());
            while sender.poll_delivery().is_some() {}
        }
        let stats = sender.stats();
        assert_eq!((stats.pkt_sent_total, stats.pkt_acked_total), (3, 3), "{transport}");
        assert!(stats.ms_rtt > 0.0, "{transport}");
    }
}

#[test]
fn a_packet_of_the_whole_mtu_is_sent_whatever_the_mtu() {
    for query in ["mtu=9000", "mtu=65000", "mtu=9000&transport=tcp"] {
        let (mut sender, receiver) = stream(&format!("latency=5s&policy=deadline&{query}"));
        let received = collect(receiver);
        let mtu: usize = query.trim_start_matches("mtu=").split('&').next().unwrap().parse().unwrap();
        let packet = vec![7; mtu - 64];
        for _ in 0..3 {
            sender.send(&packet, Hints::default()).unwrap_or_else(|error| panic!("{query}: {error}"));
        }
        let fates = fates(&mut sender);
        assert!(fates.values().all(|&fate| fate == Fate::Acked), "{query}: {fates:?}");
        sender.finish().unwrap();
        let received = received.join().unwrap();
        assert!(received.len() == 3 && received.iter().all(|bytes| *bytes == packet), "{query}");
    }
}

#[test]
fn adus_enqueued_through_the_ring_are_pending_until_their_fates_were_polled() {
    let (mut sender, receiver) = stream("latency=5s&policy=deadline");
    let received = collect(receiver);
    sender.send(b"first", Hints::default()).unwrap();
    for seq in 10..13 {
        let meta = AduMeta { seq: AduSeq(seq), enqueued: clock::now(), ..AduMeta::default() };
        sender.ring().enqueue(&meta, b"by the ring").unwrap();
    }
    assert_eq!(sender.pending(), 4);
    sender.notify();
    let until = patience();
    while sender.pending() > 0 && until.is_some_and(|until| clock::now() < until) {
        sender.wait(until);
        while sender.poll_delivery().is_some() {}
    }
    assert_eq!(sender.pending(), 0);
    sender.finish().unwrap();
    assert_eq!(received.join().unwrap().len(), 4);
}
