//! Tests of small transfers to and from the kernel: identical bytes on every path. They need root.

use std::net::{SocketAddrV4, TcpListener};
use std::thread;

use timeous::core::{Duration, Rate};
use timeous_engine::clock;
use timeous_net::Counters;
use timeous_net::LinkConfig;
use timeous_net::link::{CodelConfig, Jitter, Limit, Loss, QueueKind, Reorder};
use timeous_testbed::network::{Links, TestNetwork};
use timeous_testbed::tun::{EcnMode, TcpConfig, TcpStatistics};

use super::kernel;
use super::transfer::{Direction, Outcome, Plan, Stack, content, transfer};
use super::userspace::UserspaceConnection;
use crate::experiment::RunError;

const PATIENCE: Duration = Duration::from_secs(60);

fn link() -> LinkConfig {
    LinkConfig::with_delay(Duration::from_millis(2)).with_rate(Rate::from_kbps(20_000), Limit::Packets(60))
}

fn plan(link: LinkConfig, way: Direction) -> Plan<'static> {
    Plan {
        stack: Stack::Timeous,
        way,
        is_called: false,
        len: 300_000,
        links: Links { forward: link.clone(), back: link },
        seed: 3,
        tcp: TcpConfig::default(),
        corrupts: false,
        patience: PATIENCE,
        capture: None,
    }
}

/// Runs a transfer; `None` if the machine does not permit it. `name` becomes part of a namespace's
/// name: keep it short.
fn transferred(name: &str, plan: &Plan<'_>) -> Option<Outcome> {
    match transfer(name, plan) {
        Ok(outcome) => Some(outcome.unwrap_or_else(|error| panic!("{name} {plan:?}: {error}"))),
        Err(error @ RunError::Machine(_)) => {
            assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{name} may not be skipped: {error}");
            eprintln!("SKIPPED {name}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Checks for identical bytes in both directions; returns the outcomes.
fn check(name: &str, link: LinkConfig) -> Option<[Outcome; 2]> {
    let one = |side: &str, way| {
        let outcome = transferred(&format!("{name}{side}"), &plan(link.clone(), way))?;
        assert!(outcome.same, "{name} {way:?}: other bytes than those that were sent");
        Some(outcome)
    };
    Some([one("r", Direction::Right)?, one("l", Direction::Left)?])
}

#[test]
fn the_same_bytes_over_a_good_path() {
    if let Some([there, _]) = check("kg", link()) {
        let ours = there.ours.expect("ours was there");
        assert_eq!((ours.bytes_sent, ours.timeouts), (300_000, 0), "{ours:?}");
    }
}

#[test]
fn the_same_bytes_with_losses() {
    for (name, p) in [("k1", 0.01), ("k5", 0.05)] {
        let Some([there, back]) = check(name, link().with_loss(Loss::Bernoulli { p })) else { return };
        assert!(there.links[0].losses > 0 && back.links[1].losses > 0, "{:?} {:?}", there.links, back.links);
        let ours = there.ours.expect("ours was there");
        assert!(ours.retransmissions > 0, "{ours:?}");
    }
}

#[test]
fn the_same_bytes_in_another_order() {
    let reorder = Reorder { share: 0.05, by: Some(Duration::from_millis(3)) };
    let jitter = Jitter { spread: Duration::from_millis(1), reorders: true, ..Jitter::default() };
    let Some([there, back]) = check("ko", LinkConfig { reorder, jitter, ..link() }) else { return };
    assert!(there.links[0].reordered > 0 && back.links[1].reordered > 0);
}

#[test]
fn the_same_bytes_where_some_come_twice() {
    let Some([there, back]) = check("kd", LinkConfig { duplicate: 0.05, ..link() }) else { return };
    assert!(there.links[0].duplicates > 0 && back.links[1].duplicates > 0);
}

#[test]
fn the_kernel_calls_us() {
    for (name, way) in [("kcr", Direction::Right), ("kcl", Direction::Left)] {
        let plan = Plan { is_called: true, ..plan(link(), way) };
        let Some(outcome) = transferred(name, &plan) else { return };
        assert!(outcome.same, "{way:?}");
    }
}

/// The queue marks instead of dropping, and both stacks respond.
#[test]
fn marks_slow_both_stacks_down_without_a_loss() {
    let codel = CodelConfig { target: Duration::from_millis(2), interval: Duration::from_millis(20), ecn: true };
    let link = LinkConfig { kind: QueueKind::Codel(codel), queue: Limit::Packets(1_000), ..link() };
    let tcp = TcpConfig { ecn: EcnMode::Request, ..TcpConfig::default() };
    for (name, way) in [("ker", Direction::Right), ("kel", Direction::Left)] {
        let plan = Plan { len: 2_000_000, tcp: tcp.clone(), ..plan(link.clone(), way) };
        let Some(outcome) = transferred(name, &plan) else { return };
        assert!(outcome.same);
        let data = outcome.links[usize::from(way == Direction::Left)];
        let ours = outcome.ours.expect("ours was there");
        assert!(data.marks > 0, "{data:?}");
        match way {
            Direction::Right => assert!(ours.ecn_reductions > 0 && ours.timeouts == 0, "{ours:?}"),
            Direction::Left => assert!(ours.ce_received > 0, "{ours:?}"),
        }
    }
}

/// Sends a thin stream of ours to the kernel, a piece each 10 ms over a round trip of 24 ms, with
/// bundling; returns the counters of the link and of our end.
fn thin(name: &str, loss: Loss) -> Option<(Counters, TcpStatistics)> {
    let link = LinkConfig { delay: Duration::from_millis(12), loss, ..link() };
    let links = Links { back: link.clone().with_loss(Loss::None), forward: link };
    let network = match TestNetwork::make(name, &links, 5, None) {
        Ok(network) => network,
        Err(error) => {
            assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{name} may not be skipped: {error}");
            eprintln!("SKIPPED {name}: {error}");
            return None;
        }
    };
    let mut host = network.host(TcpConfig { bundling: true, ..TcpConfig::default() }, 5).unwrap();
    let to: SocketAddrV4 = "10.77.0.2:5000".parse().unwrap();
    let listener = network.right.within(|| TcpListener::bind(to)).unwrap().unwrap();
    let (content, deadline) = (content(5, 400 * 500), clock::now() + PATIENCE);
    let statistics = thread::scope(|scope| {
        let right = scope.spawn(|| kernel::receive(kernel::accept(&listener, deadline)?, &content, deadline));
        let mut ours = UserspaceConnection { host: &mut host, deadline, statistics: TcpStatistics::default() };
        let id = ours.connect(to).unwrap();
        for piece in content[..content.len() - 400].chunks(400) {
            assert_eq!(ours.host.write(id, piece).unwrap(), 400);
            let next = clock::now() + Duration::from_millis(10);
            while clock::now() < next {
                ours.host.wait(next).unwrap();
            }
        }
        ours.send(id, &content[content.len() - 400..]).unwrap();
        assert!(right.join().unwrap().unwrap().same, "{name}: other bytes than those that were sent");
        ours.statistics
    });
    Some((network.end().unwrap()[0], statistics))
}

#[test]
fn the_kernel_takes_what_a_thin_stream_carries_twice_and_what_that_hides_is_found() {
    let Some((_, ours)) = thin("kbg", Loss::None) else { return };
    assert!(ours.bundles > 50 && ours.hidden_losses * 20 <= ours.bundles, "{ours:?}");
    let Some((counted, ours)) = thin("kbl", Loss::Bernoulli { p: 0.05 }) else { return };
    assert!(counted.losses > 0 && ours.bundles > 50 && ours.hidden_losses > 0, "{counted:?} {ours:?}");
    // Each loss is found in one way or the other.
    assert!(2 * (ours.hidden_losses + ours.retransmissions) >= counted.losses, "{counted:?} {ours:?}");
}
