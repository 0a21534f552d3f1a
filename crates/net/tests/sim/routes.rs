//! Property tests of routing, against a simple model.

use proptest::prelude::*;
use timeous_core::Duration;
use timeous_net::LinkConfig;
use timeous_net::sim::{Network, Passage, Step};

use crate::world::{Plan, add_host, address, link, millis, payload, plans};

/// Links, then nanoseconds: of a way, if there is one.
type Cost = Option<(u64, u64)>;

fn sum(a: Cost, b: Cost) -> Cost {
    let ((a_links, a_delay), (b_links, b_delay)) = (a?, b?);
    Some((a_links + b_links, a_delay + b_delay))
}

fn shorter(a: Cost, b: Cost) -> Cost {
    a.into_iter().chain(b).min()
}

/// Floyd and Warshall's algorithm; ways lead through routers only.
fn model(plan: &Plan) -> Vec<Vec<Cost>> {
    let nodes = plan.hosts + plan.routers;
    let mut costs = vec![vec![None; nodes]; nodes];
    for (node, row) in costs.iter_mut().enumerate() {
        row[node] = Some((0, 0));
    }
    for (from, to, config) in &plan.links {
        costs[*from][*to] = shorter(costs[*from][*to], Some((1, config.delay.as_nanos())));
    }
    for through in plan.hosts..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                let way = sum(costs[from][through], costs[through][to]);
                costs[from][to] = shorter(costs[from][to], way);
            }
        }
    }
    costs
}

fn delays() -> impl Strategy<Value = LinkConfig> + Clone {
    (0u64..20).prop_map(|delay| LinkConfig { delay: Duration::from_millis(delay), ..LinkConfig::default() })
}

proptest! {
    #[test]
    fn packets_take_the_shortest_way(plan in plans(delays())) {
        let (mut network, nodes, _) = plan.build(1);
        network.record_journeys();
        let pairs: Vec<_> = (0..plan.hosts).flat_map(|from| (0..plan.hosts).map(move |to| (from, to))).collect();
        let pairs: Vec<_> = pairs.into_iter().filter(|(from, to)| from != to).collect();
        for (from, to) in &pairs {
            network.with_host(nodes[*from], |now, host| host.send_at(now, address(*to), payload(100)));
        }
        network.run_until(millis(10_000));
        let costs = model(&plan);
        for (number, (from, to)) in pairs.iter().enumerate() {
            let steps: Vec<&Step> = network.journeys().iter().filter(|step| step.packet == number as u64 + 1).collect();
            let links = steps.iter().filter(|step| matches!(step.what, Passage::Entered(_))).count() as u64;
            let last = steps.last().unwrap();
            match costs[*from][*to] {
                Some((expected, delay)) => {
                    prop_assert_eq!(last.what, Passage::Delivered(nodes[*to]));
                    prop_assert_eq!((links, last.at.as_nanos()), (expected, delay));
                }
                None => prop_assert_eq!(last.what, Passage::Unroutable(nodes[*from])),
            }
        }
    }
}

#[test]
fn among_equal_ways_the_link_that_was_made_first_is_taken() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    let first = network.connect(a, b, link(800, 1), link(800, 1)).0;
    let second = network.connect(a, b, link(800, 1), link(800, 1)).0;
    network.with_host(a, |now, host| host.send_at(now, address(1), payload(100)));
    network.run_until(millis(10));
    assert_eq!(network.link(first).counters().packets_out, 1);
    assert_eq!(network.link(second).counters().packets_out, 0);
}

#[test]
fn a_static_route_goes_before_the_shortest_way_and_stays_when_links_are_added() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    let router = network.add_router();
    let short = network.connect(a, b, link(800, 1), link(800, 1)).0;
    let long = network.connect(a, router, link(800, 1), link(800, 1)).0;
    let send = |network: &mut Network<_>, until| {
        network.with_host(a, |now, host: &mut timeous_net::sim::Scripted| host.send_at(now, address(1), payload(100)));
        network.run_until(millis(until));
    };
    send(&mut network, 10);
    network.set_route(a, b, long);
    send(&mut network, 20);
    assert_eq!(network.tally().unroutable, 1, "the router knows no way on");
    network.connect(router, b, link(800, 1), link(800, 1));
    send(&mut network, 30);
    assert_eq!(network.link(short).counters().packets_out, 1);
    assert_eq!(network.link(long).counters().packets_out, 2);
    assert_eq!(network.host(b).arrivals().len(), 2);
}

#[test]
fn a_packet_that_goes_in_a_circle_expires() {
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    let routers = [network.add_router(), network.add_router()];
    network.connect(a, routers[0], link(800, 1), link(800, 1));
    let (forth, back) = network.connect(routers[0], routers[1], link(800, 1), link(800, 1));
    network.connect(routers[1], b, link(800, 1), link(800, 1));
    network.set_route(routers[1], b, back);
    network.with_host(a, |now, host| host.send_at(now, address(1), payload(100)));
    network.run_until(millis(1_000));
    assert_eq!((network.tally().expired, network.tally().delivered), (1, 0));
    let passed_on = network.link(forth).counters().packets_in + network.link(back).counters().packets_in;
    assert_eq!(passed_on, 64, "as often as a TTL of 64 allows");
    assert_eq!(network.under_way(), 0);
}

#[test]
fn hosts_pass_nothing_on() {
    let mut network = Network::new(1);
    let nodes = [0, 1, 2].map(|number| add_host(&mut network, number));
    let (first, _) = network.connect(nodes[0], nodes[1], link(800, 1), link(800, 1));
    network.connect(nodes[1], nodes[2], link(800, 1), link(800, 1));
    let send = |network: &mut Network<timeous_net::sim::Scripted>| {
        network.with_host(nodes[0], |now, host| host.send_at(now, address(2), payload(100)));
        let until = network.now() + Duration::from_millis(10);
        network.run_until(until);
    };
    send(&mut network);
    assert_eq!((network.tally().unroutable, network.link(first).counters().packets_in), (1, 0));
    network.set_route(nodes[0], nodes[2], first);
    send(&mut network);
    assert_eq!((network.tally().unroutable, network.link(first).counters().packets_in), (2, 1));
    assert!(network.host(nodes[1]).arrivals().is_empty());
}

#[test]
#[should_panic(expected = "10.0.0.1 is given to two hosts")]
fn two_hosts_do_not_share_an_address() {
    let mut network = Network::new(1);
    add_host(&mut network, 0);
    add_host(&mut network, 0);
}
