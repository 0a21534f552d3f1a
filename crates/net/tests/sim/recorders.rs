//! Tests of periodic samples, with expected values computed by hand.

use timeous_core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{CodelConfig, DropCause, Limit, Loss, QueueKind};
use timeous_net::sim::{Network, Passage, Sample, Step};

use crate::world::{add_host, address, link, millis, payload};

#[test]
fn a_queue_is_sampled_as_it_drains() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    let (forward, _) = network.connect(a, b, link(800, 100), link(800, 100));
    network.sample_link(forward, Duration::from_millis(20));
    // Ten milliseconds each, from 0 s on: one is being sent, and four wait.
    for _ in 0..5 {
        network.with_host(a, |now, host| host.send_at(now, address(1), payload(1_000)));
    }
    network.run_until(millis(70));
    network.run_until(millis(160));
    let sample = |at, queue_len: usize, delivered| Sample {
        at: millis(at),
        queue_len,
        queue_bytes: 1_000 * queue_len as u64,
        delivered,
        rate: Rate::from_bps(delivered * 8 * 50),
    };
    // At 20 ms the third begins to be sent. The first arrives at 110 ms.
    let expected = [(20, 2, 0), (40, 0, 0), (60, 0, 0), (80, 0, 0), (100, 0, 0), (120, 0, 2_000), (140, 0, 2_000)];
    let mut expected = expected.map(|(at, waiting, delivered)| sample(at, waiting, delivered)).to_vec();
    expected.push(sample(160, 0, 1_000));
    assert_eq!(network.samples(forward), expected);
}

#[test]
fn a_journey_ends_with_the_cause_of_a_drop() {
    let causes = |config: LinkConfig| {
        let mut network = Network::new(1);
        let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
        let (forward, _) = network.connect(a, b, config, link(800, 1));
        network.record_journeys();
        for _ in 0..3 {
            network.with_host(a, |now, host| host.send_at(now, address(1), payload(1_000)));
        }
        network.run_until(millis(100));
        let dropped = network.journeys().iter().filter_map(|step| match step.what {
            Passage::Dropped(link, cause) if link == forward => Some((step.packet, cause)),
            _ => None,
        });
        dropped.collect::<Vec<_>>()
    };
    let full = LinkConfig { queue: Limit::Packets(1), ..link(800, 1) };
    assert_eq!(causes(full), [(3, DropCause::QueueFull)]);
    let lossy = LinkConfig { loss: Loss::Bernoulli { p: 1.0 }, ..link(800, 1) };
    assert_eq!(causes(lossy), [1, 2, 3].map(|packet| (packet, DropCause::Loss)));
    assert_eq!(causes(link(800, 1)), []);
}

#[test]
fn what_a_queue_drops_on_the_way_out_has_its_place_in_the_journeys() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    let codel = CodelConfig { ecn: false, ..CodelConfig::default() };
    let config = LinkConfig { kind: QueueKind::Codel(codel), ..link(800, 300) };
    let (forward, _) = network.connect(a, b, config, link(800, 1));
    network.record_journeys();
    // Twice as much as passes.
    for count in 0..400 {
        network.with_host(a, |_, host| host.send_at(millis(5 * count), address(1), payload(1_000)));
    }
    network.run_until(millis(10_000));
    let dropped = |step: &&Step| step.what == Passage::Dropped(forward, DropCause::Early);
    let drops = network.journeys().iter().filter(dropped).count() as u64;
    assert_eq!(drops, network.link(forward).counters().queue_drops);
    assert!(drops > 10, "{drops}");
    assert!(network.journeys().is_sorted_by_key(|step| step.at));
    assert_eq!(network.under_way(), 0);
}
