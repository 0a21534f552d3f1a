//! Tests of determinism: one seed gives one run, whatever is recorded and whatever else the process runs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use timeous_core::{Duration, Instant};
use timeous_net::LinkConfig;
use timeous_net::link::{Distribution, Jitter, Loss};
use timeous_net::sim::{LinkId, Network, Sample, Scripted, Step};

use crate::world::{Plan, add_host, address, bad_links, link, millis, payload, plans, talk};

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct Bytes(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All that a run leaves behind.
#[derive(Debug, PartialEq)]
struct Traces {
    arrivals: Vec<(Instant, u64, Vec<u8>)>,
    journeys: Vec<Step>,
    captures: Vec<Vec<u8>>,
    samples: Vec<Sample>,
}

struct Run {
    network: Network<Scripted>,
    captures: Vec<Bytes>,
    sampled: Vec<LinkId>,
}

impl Run {
    /// With everything written down.
    fn new(plan: &Plan, seed: u64) -> Self {
        let mut run = Self::unwatched(plan, seed);
        run.watch();
        run
    }

    fn unwatched(plan: &Plan, seed: u64) -> Self {
        let (mut network, nodes, _) = plan.build(seed);
        talk(&mut network, plan, &nodes, 300, seed);
        Self { network, captures: Vec::new(), sampled: Vec::new() }
    }

    fn watch(&mut self) {
        self.sampled = self.network.links().map(|(id, _)| id).collect();
        self.network.record_journeys();
        for id in &self.sampled {
            let file = Bytes::default();
            self.network.capture(*id, file.clone()).unwrap();
            self.network.sample_link(*id, Duration::from_millis(3));
            self.captures.push(file);
        }
    }

    fn end(mut self) -> Traces {
        self.network.run_until(millis(5_000));
        self.network.finish_captures().unwrap();
        Traces {
            arrivals: arrivals(&self.network),
            journeys: self.network.take_journeys(),
            captures: self.captures.iter().map(|file| file.0.lock().unwrap().clone()).collect(),
            samples: self.sampled.iter().flat_map(|link| self.network.samples(*link).to_vec()).collect(),
        }
    }
}

fn arrivals(network: &Network<Scripted>) -> Vec<(Instant, u64, Vec<u8>)> {
    let all = network.hosts().flat_map(|(_, host)| host.arrivals());
    all.map(|arrival| (arrival.at, arrival.packet.id, arrival.packet.payload.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_seed_gives_the_same_run_whatever_is_written_down(plan in plans(bad_links()), seed: u64) {
        let first = Run::new(&plan, seed).end();
        let unwatched = Run::unwatched(&plan, seed).end();
        prop_assert_eq!(&unwatched.arrivals, &first.arrivals, "recorders change nothing");

        // Two at once, each a few milliseconds at a time, watched from some moment on.
        let (mut one, mut other) = (Run::new(&plan, seed), Run::unwatched(&plan, seed));
        for count in 0..300 {
            one.network.run_until(millis(count * 5));
            other.network.run_until(millis(count * 7));
            if count == 20 {
                other.watch();
            }
        }
        prop_assert_eq!(one.end(), first);
        prop_assert_eq!(other.end().arrivals, unwatched.arrivals);
    }

    #[test]
    fn a_link_elsewhere_changes_nothing(plan in plans(bad_links()), seed: u64) {
        let (mut network, nodes, links) = plan.build(seed);
        talk(&mut network, &plan, &nodes, 300, seed);
        network.run_until(millis(5_000));

        let (mut larger, nodes, _) = plan.build(seed);
        let more = [50, 51].map(|number| add_host(&mut larger, number));
        larger.connect(more[0], more[1], link(800, 1), link(800, 1));
        for link in links {
            larger.sample_link(link, Duration::from_millis(1));
        }
        talk(&mut larger, &plan, &nodes, 300, seed);
        for count in 0..50 {
            larger.with_host(more[0], |_, host| host.send_at(millis(7 * count), address(51), payload(200)));
        }
        larger.run_until(millis(5_000));
        prop_assert_eq!(larger.host(more[1]).arrivals().len(), 50);
        for ((_, host), (_, same)) in network.hosts().zip(larger.hosts()) {
            let times = |host: &Scripted| host.arrivals().iter().map(|arrival| arrival.at).collect::<Vec<_>>();
            prop_assert_eq!(times(host), times(same));
        }
        for ((_, link), (_, same)) in network.links().zip(larger.links()) {
            prop_assert_eq!(link.counters(), same.counters());
        }
    }
}

#[test]
fn another_seed_gives_another_run() {
    let mut runner = TestRunner::deterministic();
    let lossy = bad_links().prop_filter("some are lost", |config| config.loss.mean() > 0.1);
    let plan = plans(lossy).prop_filter("there is traffic", |plan| plan.links.len() > 20);
    let plan = plan.new_tree(&mut runner).unwrap().current();
    let traces = |seed| {
        let (mut network, nodes, _) = plan.build(seed);
        talk(&mut network, &plan, &nodes, 300, 1);
        network.run_until(millis(5_000));
        arrivals(&network)
    };
    assert_eq!(traces(7), traces(7));
    assert_ne!(traces(7), traces(8));
}

#[test]
fn a_seed_gives_these_losses_and_delays_on_every_machine() {
    let jitter = Jitter { spread: Duration::from_millis(5), distribution: Distribution::Heavy, reorders: true };
    let loss = Loss::Bernoulli { p: 0.2 };
    let mut network = Network::new(1);
    let (a, b) = (add_host(&mut network, 0), add_host(&mut network, 1));
    network.connect(a, b, LinkConfig { jitter, loss, ..link(800, 10) }, link(800, 10));
    for count in 0..20 {
        network.with_host(a, |_, host| host.send_at(millis(10 * count), address(1), payload(1_000)));
    }
    network.run_until(Instant::FAR_FUTURE);
    let arrived: Vec<_> = network.host(b).arrivals().iter().map(|arrival| arrival.packet.id).collect();
    assert_eq!(arrived, [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20]);
    assert_eq!(network.now().as_nanos(), 214_948_540);
}
