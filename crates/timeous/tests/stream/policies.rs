//! Tests of the policies by name.

use timeous::core::{Duration, Fate, Rate, SubStream};
use timeous::{DropReason, Hints, PolicyName, Sender, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};

use crate::support::{TestLink, both_ends, collect, fates, free_port, stream};

#[test]
fn every_policy_opens_and_sends_by_its_name_over_each_transport() {
    for policy in PolicyName::ALL {
        for transport in ["dccp", "tcp", "auto"] {
            let (mut sender, receiver) =
                stream(&format!("latency=9s&policy={}&transport={transport}", policy.as_str()));
            assert_eq!(sender.options().chooses_by(), policy);
            let received = collect(receiver);
            for n in 0..20u8 {
                sender.send(&[n], Hints::default()).unwrap();
            }
            let fates = fates(&mut sender);
            assert!(fates.len() == 20 && fates.values().all(|&fate| fate == Fate::Acked), "{policy:?}: {fates:?}");
            sender.finish().unwrap();
            assert!(received.join().unwrap().into_iter().eq((0..20).map(|n| vec![n])), "{policy:?} {transport}");
        }
    }
}

/// Sends ADUs of `layers` layers of 500 bytes each 10 ms over a link of 400 kbit/s, for three seconds. Returns the
/// fates of each layer.
fn layered(query: &str, layers: u8) -> Vec<Vec<Fate>> {
    let port = free_port();
    let delay = Duration::from_millis(10);
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(400)),
        delay,
        queue: Limit::Time(Duration::from_millis(100)),
        ..LinkConfig::default()
    };
    let link = TestLink::to(port, forward, LinkConfig { delay, ..LinkConfig::default() });
    let [(mut sender, _near), (_far, receiver)] = both_ends(link.near, port, query);
    let received = collect(receiver);
    let mut next = clock::now();
    for _ in 0..300 {
        let deadline = Some(next + sender.options().latency);
        for layer in 0..layers {
            let hints = Hints { substream: SubStream(layer), deadline, ..Hints::default() };
            sender.send(&[layer; 500], hints).unwrap();
        }
        next += Duration::from_millis(10);
        wait_until(&sender, next);
    }
    let mut by_layer = vec![Vec::new(); usize::from(layers)];
    for (seq, fate) in fates(&mut sender) {
        by_layer[(seq % u64::from(layers)) as usize].push(fate);
    }
    sender.finish().unwrap();
    received.join().unwrap();
    by_layer
}

fn wait_until(sender: &Sender, at: timeous::core::Instant) {
    while clock::now() < at {
        sender.wait(Some(at));
    }
}

fn count(fates: &[Fate], of: Fate) -> usize {
    fates.iter().filter(|&&fate| fate == of).count()
}

#[test]
fn layers_gives_the_path_to_the_base_layer_first() {
    // The link carries one layer of four.
    let acked: Vec<_> = layered("latency=1s&policy=layers", 4).iter().map(|fates| count(fates, Fate::Acked)).collect();
    assert!(acked[0] > 150 && acked[0] > 3 * acked[3], "acknowledged by layer: {acked:?}");
}

#[test]
fn dbat_drops_for_its_threshold_only_what_is_not_marked() {
    for overfull in ["unmarked", "excess"] {
        let query = format!("latency=2s&policy=dbat&marked=layer:0&overfull={overfull}&maxth=16k");
        let fates = layered(&query, 4);
        let dropped: Vec<_> = fates.iter().map(|fates| count(fates, Fate::Dropped(DropReason::Policy))).collect();
        assert!(dropped[0] == 0 && dropped[1] > 50, "dropped by layer, {overfull}: {dropped:?}");
    }
}
