//! Tests of departure and arrival times, with expected values computed by hand.

use timeous_core::{Duration, Instant};
use timeous_net::sim::{Network, Passage, Scripted};

use crate::world::{add_host, address, link, millis, payload};

#[test]
fn packets_cross_a_chain_of_links_in_the_time_that_was_reckoned_by_hand() {
    let mut network = Network::new(1);
    let ends = [0, 1].map(|number| (address(number).ip(), Scripted::new(address(number))));
    let [first, last] = ends;
    let chain = network.chain(first, last, &[link(800, 10), link(400, 20), link(1_600, 5)]);
    network.record_journeys();
    network.with_host(chain.first, |now, host| {
        host.send_at(now, address(1), payload(1_000));
        host.send_at(now, address(1), payload(1_000));
    });
    network.run_until(millis(1_000));

    // 10 ms to send and 10 to cross; 20 and 20; 5 and 5. The second is sent behind the first, and waits 10 ms more at
    // the link in the middle.
    let arrivals: Vec<_> = network.host(chain.last).arrivals().iter().map(|arrival| arrival.at).collect();
    assert_eq!(arrivals, [millis(70), millis(90)]);
    let [one, two, three] = [0, 1, 2].map(|place| chain.links[place].0);
    let second: Vec<_> =
        network.journeys().iter().filter(|step| step.packet == 2).map(|step| (step.at, step.what)).collect();
    let expected = [
        (0, Passage::Sent(chain.first)),
        (0, Passage::Entered(one)),
        (30, Passage::Left(one)),
        (30, Passage::Entered(two)),
        (80, Passage::Left(two)),
        (80, Passage::Entered(three)),
        (90, Passage::Left(three)),
        (90, Passage::Delivered(chain.last)),
    ];
    assert_eq!(second, expected.map(|(at, what)| (millis(at), what)));
    assert_eq!(network.now(), millis(1_000));
}

#[test]
fn the_bottleneck_of_a_dumbbell_is_shared() {
    let mut network = Network::new(1);
    let host = |number| (address(number), (address(number).ip(), Scripted::new(address(number))));
    let hosts: Vec<_> = (0..4).map(host).collect();
    let mut hosts = hosts.into_iter().map(|(_, host)| host);
    let left: Vec<_> = hosts.by_ref().take(2).collect();
    let shape = network.dumbbell(left, hosts, &link(8_000, 1), link(800, 10), link(8_000, 10));
    for (from, to) in [(0, 2), (1, 3)] {
        network.with_host(shape.left[from], |now, host| host.send_at(now, address(to), payload(1_000)));
    }
    network.run_until(millis(100));
    // 1 + 1 ms to the router, 10 + 10 over the bottleneck, 1 + 1 to the host; the second waits for the first.
    assert_eq!(network.host(shape.right[0]).arrivals()[0].at, millis(24));
    assert_eq!(network.host(shape.right[1]).arrivals()[0].at, millis(34));
    assert_eq!(network.link(shape.bottleneck.0).counters().packets_out, 2);
    assert_eq!(network.link(shape.bottleneck.1).counters().packets_in, 0);
    assert_eq!(shape.access.len(), 4);
    assert_eq!(network.tally().events, 2 * (3 + 3), "three links and three nodes each");
}

#[test]
fn a_packet_to_oneself_crosses_no_link() {
    let mut network = Network::new(1);
    let node = add_host(&mut network, 0);
    network.with_host(node, |_, host| host.send_at(millis(3), address(0), payload(100)));
    network.run_until(millis(3));
    assert_eq!(network.host(node).arrivals()[0].at, millis(3));
    assert_eq!(network.tally().delivered, 1);
}

#[test]
fn a_run_stops_where_it_is_told_to() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    network.connect(a, b, link(800, 10), link(800, 10));
    for count in 0..5 {
        network.with_host(a, |_, host| host.send_at(millis(100 * count), address(1), payload(1_000)));
    }
    assert!(!network.run_while(millis(1_000), |network| network.host(b).arrivals().len() < 3));
    assert_eq!(network.now(), millis(220), "the third was sent at 200 ms, and took 20");
    assert_eq!(network.poll_timeout(), Some(millis(300)));
    assert!(network.run_while(millis(300), |_| true), "everything up to 300 ms is done");
    assert_eq!((network.now(), network.tally().sent), (millis(300), 4));
    let (link, _) = network.links().next().unwrap();
    network.sample_link(link, Duration::from_millis(50));
    network.run_until(Instant::FAR_FUTURE);
    assert_eq!(network.host(b).arrivals().len(), 5);
    assert_eq!(network.poll_timeout(), None);
    assert_eq!(network.now(), millis(420), "the last moment at which something happened");
    assert_eq!(network.samples(link).len(), 2, "at 350 and at 400 ms");
}
