//! Tests of packet sizes: path MTU discovery, and ADUs larger than a packet.

use timeous::core::{Duration, Fate, Instant};
use timeous::{Arrival, Hints, Options, Receiver, Sender, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Loss, PacketLimit};

use crate::support::{PATIENCE, TestLink, both_ends, collect, fates, free_port, pause, stream};

/// A stream over a link that carries packets of these sizes, with 10 ms each way and some loss.
fn over(packets: PacketLimit, loss: f64, query: &str) -> (TestLink, Sender, Receiver) {
    let port = free_port();
    let delay = Duration::from_millis(10);
    let loss = if loss > 0.0 { Loss::Bernoulli { p: loss } } else { Loss::None };
    let config = LinkConfig { delay, loss, packets, ..LinkConfig::default() };
    let link = TestLink::to(port, config.clone(), config);
    let [(sender, _near), (_far, receiver)] = both_ends(link.near, port, query);
    (link, sender, receiver)
}

/// Keys of a stream without encryption and with it, and the bytes that encryption adds to a packet.
const SECURITY: [(&str, usize); 2] = [("", 0), ("&passphrase=between+us+two", 25)];

/// Waits until a packet carries this many bytes, and no more.
#[track_caller]
fn await_payload(sender: &Sender, payload: usize) {
    let end = clock::now() + PATIENCE;
    while sender.max_payload() != payload {
        assert!(clock::now() < end, "{} bytes, and not {payload}: {:?}", sender.max_payload(), sender.stats());
        pause(Duration::from_millis(5));
    }
}

#[test]
fn datagrams_of_seven_transport_packets_fit_by_default_and_arrive_from_the_first_on() {
    for query in ["", "&passphrase=between+us+two"] {
        let (mut sender, receiver) = stream(&format!("latency=9s&policy=deadline{query}"));
        let received = collect(receiver);
        for n in 0..50 {
            sender.send(&[n; 1_316], Hints::default()).unwrap();
        }
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{query}");
        let overhead = if query.is_empty() { 0 } else { 25 };
        // Cut datagrams that are still queued start the search for a larger size, which loopback bears.
        let end = clock::now() + PATIENCE;
        while sender.max_payload() < 1_500 - 28 - 64 - overhead {
            assert!(clock::now() < end, "{} bytes", sender.max_payload());
            pause(Duration::from_millis(5));
        }
        // Statistics are at most 50 ms old.
        pause(Duration::from_millis(100));
        let before = sender.stats();
        for n in 0..50 {
            sender.send(&[n; 1_316], Hints::default()).unwrap();
        }
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{query}");
        pause(Duration::from_millis(100));
        let after = sender.stats();
        let repeated = after.pkt_retrans_total - before.pkt_retrans_total;
        assert_eq!(after.pkt_sent_total - before.pkt_sent_total, 50 + repeated, "{query}: whole");
        sender.finish().unwrap();
        let received = received.join().unwrap();
        assert!(received.len() == 100 && received.iter().all(|bytes| bytes.len() == 1_316), "{query}");
    }
}

#[test]
fn the_size_of_the_path_is_found() {
    for (security, overhead) in SECURITY {
        for mtu in [1_280, 1_400, 1_500] {
            let query = format!("latency=5s&policy=deadline{security}");
            let (_link, sender, _receiver) = over(PacketLimit::Bytes(mtu), 0.0, &query);
            await_payload(&sender, mtu - 28 - 64 - overhead);
            assert_eq!(sender.stats().byte_mss as usize, mtu - 28 - overhead, "{security}");
        }
    }
}

#[test]
fn jumbo_frames_are_used_by_a_stream_that_has_data_for_them() {
    for (security, overhead) in SECURITY {
        let (_link, mut sender, receiver) =
            over(PacketLimit::Bytes(9_000), 0.0, &format!("latency=9s&policy=deadline{security}"));
        let received = collect(receiver);
        await_payload(&sender, 1_500 - 28 - 64 - overhead);
        sender.send(&[1; 8_000], Hints::default()).unwrap();
        await_payload(&sender, 9_000 - 28 - 64 - overhead);
        let whole = sender.max_payload();
        sender.send(&vec![2; whole], Hints::default()).unwrap();
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{security}");
        // Statistics are at most 50 ms old.
        pause(Duration::from_millis(100));
        let before = sender.stats();
        sender.send(&[3; 64_000], Hints::default()).unwrap();
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{security}");
        pause(Duration::from_millis(100));
        let after = sender.stats();
        let repeated = after.pkt_retrans_total - before.pkt_retrans_total;
        let packets = after.pkt_sent_total - before.pkt_sent_total - repeated;
        assert_eq!(packets, 8, "{security}: {whole} bytes in a packet");
        sender.finish().unwrap();
        assert_eq!(received.join().unwrap(), [vec![1; 8_000], vec![2; whole], vec![3; 64_000]], "{security}");
    }
}

#[test]
fn adus_of_every_length_arrive_over_a_path_of_jumbo_frames_and_a_longer_one_is_refused() {
    for (security, _) in SECURITY {
        let query = format!("latency=9s&policy=deadline{security}");
        let (_link, mut sender, receiver) = over(PacketLimit::Bytes(9_000), 0.01, &query);
        let received = collect(receiver);
        let lens = [0, 1, 2, 1_315, 1_316, 1_407, 1_408, 1_409, 8_907, 8_908, 8_909, 65_534, 65_535];
        for len in lens.into_iter().chain(lens) {
            sender.send(&vec![len as u8; len], Hints::default()).unwrap();
        }
        assert_eq!(Options::MAX_ADU, 65_535);
        sender.send(&[0; 65_536], Hints::default()).expect_err("it is too long");
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{security}");
        sender.finish().unwrap();
        let mut received = received.join().unwrap();
        received.sort_by_key(Vec::len);
        let sent = lens.into_iter().flat_map(|len| [vec![len as u8; len], vec![len as u8; len]]);
        assert!(received.into_iter().eq(sent), "{security}");
    }
}

#[test]
fn a_path_below_the_least_size_of_ip_carries_what_the_bound_allows() {
    // Paths of 400 bytes: 508 bytes, which IPv4 hosts must take, do not pass.
    let (_link, mut sender, receiver) = over(PacketLimit::Bytes(400), 0.0, "latency=9s&policy=deadline&mtu=372");
    let received = collect(receiver);
    for n in 0..20 {
        sender.send(&[n; 5_000], Hints::default()).unwrap();
    }
    assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "{:?}", sender.stats());
    sender.finish().unwrap();
    assert!(received.join().unwrap().into_iter().eq((0..20).map(|n| vec![n; 5_000])));
}

#[test]
fn adus_of_64_kb_arrive_whole_over_every_transport() {
    for query in ["", "&passphrase=between+us+two", "&transport=tcp", "&transport=tcp&passphrase=between+us+two"] {
        let (mut sender, receiver) = stream(&format!("latency=20s&policy=deadline{query}"));
        let received = collect(receiver);
        let adu = |n: u8, len: usize| (0..len).map(|at| (at % 251) as u8 ^ n).collect::<Vec<u8>>();
        let lens = [Options::MAX_ADU, 64_000, 10, 5_000, Options::MAX_ADU, 1_137, 30_000];
        for (n, len) in lens.into_iter().enumerate() {
            sender.send(&adu(n as u8, len), Hints::default()).unwrap();
        }
        let fates = fates(&mut sender);
        assert!(fates.len() == lens.len() && fates.values().all(|&fate| fate == Fate::Acked), "{query}: {fates:?}");
        sender.finish().unwrap();
        let mut received = received.join().unwrap();
        received.sort_by_key(|bytes| lens.iter().enumerate().position(|(n, &len)| *bytes == adu(n as u8, len)));
        assert_eq!(received.iter().map(Vec::len).collect::<Vec<_>>(), lens, "{query}");
        assert!(received.iter().enumerate().all(|(n, bytes)| *bytes == adu(n as u8, lens[n])), "{query}");
    }
}

#[test]
fn adus_of_64_kb_arrive_whole_at_two_per_cent_loss_and_each_has_one_fate() {
    for query in ["", "&passphrase=between+us+two"] {
        let (_link, mut sender, receiver) =
            over(PacketLimit::Bytes(1_500), 0.02, &format!("latency=20s&policy=deadline{query}"));
        let received = collect(receiver);
        for n in 0..20 {
            sender.send(&[n; 64_000], Hints::default()).unwrap();
        }
        let fates = fates(&mut sender);
        assert_eq!(fates.len(), 20, "{query}: {fates:?}");
        assert!(fates.values().all(|&fate| fate == Fate::Acked), "{query}: {fates:?}");
        assert!(sender.stats().pkt_retrans_total > 0, "{query}");
        sender.finish().unwrap();
        let mut received = received.join().unwrap();
        received.sort();
        assert!(received.into_iter().eq((0..20).map(|n| vec![n; 64_000])), "{query}");
    }
}

#[test]
fn a_path_that_begins_to_swallow_large_packets_interrupts_a_stream_for_less_than_two_seconds() {
    for query in ["", "&passphrase=between+us+two"] {
        let limit = PacketLimit::Changes { first: 1_500, at: Duration::from_secs(3), then: 1_280 };
        let (_link, mut sender, mut receiver) = over(limit, 0.0, &format!("latency=500ms{query}"));
        let (began, mut last, mut longest) = (clock::now(), None::<Instant>, Duration::ZERO);
        let end = began + PATIENCE;
        while sender.stats().path_black_holes_total == 0
            || last.is_none_or(|last| last < began + Duration::from_secs(6))
        {
            assert!(clock::now() < end, "{query}: {:?}", sender.stats());
            // The queue is full only if nothing leaves.
            let _full = sender.send(&[1; 1_316], Hints::default());
            while sender.poll_delivery().is_some() {}
            let next = clock::now() + Duration::from_millis(10);
            while let Some(Arrival::Data(arrival)) = receiver.poll_receive().unwrap() {
                assert_eq!(arrival.bytes.len(), 1_316);
                longest = longest.max(last.map_or(Duration::ZERO, |last| arrival.at.saturating_since(last)));
                last = Some(arrival.at);
            }
            pause(next.saturating_since(clock::now()));
        }
        await_payload(&sender, 1_280 - 28 - 64 - if query.is_empty() { 0 } else { 25 });
        assert!(longest < Duration::from_secs(2), "{query}: {longest:?} without a datagram");
    }
}
