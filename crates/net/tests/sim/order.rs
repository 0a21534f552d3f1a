//! Test of simultaneous events: they happen in the order of their scheduling.

use timeous_core::Instant;
use timeous_net::LinkConfig;
use timeous_net::sim::{Host, Network, Packet};

use crate::world::{add_host, address, link, millis, payload};

#[test]
fn packets_that_arrive_at_one_moment_are_passed_on_as_they_were_sent() {
    let mut network = Network::new(1);
    let target = add_host(&mut network, 0);
    let router = network.add_router();
    network.connect(router, target, link(800, 1), link(800, 1));
    let senders: Vec<_> = (1..6).map(|number| add_host(&mut network, number)).collect();
    for sender in &senders {
        network.connect(*sender, router, link(800, 1), link(800, 1));
    }
    // All at 0 s over links that are alike: they reach the router at one moment.
    for sender in [3, 0, 4, 2, 1] {
        network.with_host(senders[sender], |now, host| host.send_at(now, address(0), payload(500)));
    }
    network.run_until(millis(1_000));
    let arrivals = network.host(target).arrivals();
    let from: Vec<_> = arrivals.iter().map(|arrival| arrival.packet.source).collect();
    assert_eq!(from, [4, 1, 5, 3, 2].map(address));
}

/// Rings at 10 ms, whatever else it was set to before.
struct Restless {
    due: Option<Instant>,
    rung: Option<Instant>,
}

impl Host for Restless {
    fn handle_packet(&mut self, _: Instant, _: Packet) {}
    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            assert_eq!(self.rung, None, "a timeout is told once");
            self.rung = Some(now);
            self.due = None;
        }
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<Packet> {
        None
    }
    fn poll_timeout(&mut self) -> Option<Instant> {
        self.due
    }
}

#[test]
fn a_timer_that_is_set_anew_rings_once_and_in_time() {
    let mut network = Network::new(1);
    let node = network.add_host(address(0).ip(), Restless { due: None, rung: None });
    for due in [Some(20), Some(10), None, Some(5), Some(30), Some(10)] {
        network.with_host(node, |_, host| host.due = due.map(millis));
    }
    network.run_until(millis(100));
    assert_eq!(network.host(node).rung, Some(millis(10)));
    // An overdue alarm rings at once, not in the past.
    network.with_host(node, |_, host| *host = Restless { due: Some(millis(1)), rung: None });
    network.run_until(millis(100));
    assert_eq!(network.host(node).rung, Some(millis(100)));
}

#[test]
fn a_host_in_a_box_is_a_host() {
    let mut network: Network<Box<dyn Host>> = Network::new(1);
    let a = network.add_host(address(0).ip(), Box::new(Restless { due: Some(millis(3)), rung: None }));
    let b = network.add_host(address(1).ip(), Box::new(timeous_net::sim::Scripted::new(address(1))));
    network.connect(a, b, LinkConfig::default(), LinkConfig::default());
    network.run_until(millis(1));
    assert_eq!(network.poll_timeout(), Some(millis(3)));
}

/// Never content.
struct Circle;

impl Host for Circle {
    fn handle_packet(&mut self, _: Instant, _: Packet) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant) -> Option<Packet> {
        None
    }
    fn poll_timeout(&mut self) -> Option<Instant> {
        Some(millis(7))
    }
}

#[test]
#[should_panic(expected = "asks for its timeout at @7ms again and again")]
fn a_host_that_never_lets_time_pass_is_found_out() {
    let mut network = Network::new(1);
    network.add_host(address(0).ip(), Circle);
    network.run_until(millis(10));
}
