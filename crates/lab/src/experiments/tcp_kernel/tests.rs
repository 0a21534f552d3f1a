//! Small transfers to and from the kernel: the same bytes, whatever the path does. They need root.

use timeous::core::{Duration, Rate};
use timeous_engine::tun::{EcnMode, TcpConfig};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, CodelConfig, Jitter, Limit, Loss, QueueKind, Reorder};

use super::bed::Links;
use super::transfer::{Outcome, Plan, Stack, Way, transfer};
use crate::experiment::LabError;

const PATIENCE: Duration = Duration::from_secs(60);

fn link() -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(20_000)),
        delay: Duration::from_millis(2),
        queue: Limit::Packets(60),
        ..LinkConfig::default()
    }
}

fn plan(link: LinkConfig, way: Way) -> Plan<'static> {
    Plan {
        stack: Stack::Timeous,
        way,
        is_called: false,
        len: 300_000,
        links: Links { forward: link.clone(), back: link },
        seed: 3,
        tcp: TcpConfig::default(),
        patience: PATIENCE,
        capture: None,
    }
}

/// Transfers, unless the machine does not let us. `name` becomes part of a namespace's: keep it short.
fn transferred(name: &str, plan: &Plan<'_>) -> Option<Outcome> {
    match transfer(name, plan) {
        Ok(outcome) => Some(outcome.unwrap_or_else(|error| panic!("{name} {plan:?}: {error}"))),
        Err(error @ LabError::Machine(_)) => {
            assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{name} may not be skipped: {error}");
            eprintln!("SKIPPED {name}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same bytes both ways; the outcomes.
fn check(name: &str, link: LinkConfig) -> Option<[Outcome; 2]> {
    let one = |side: &str, way| {
        let outcome = transferred(&format!("{name}{side}"), &plan(link.clone(), way))?;
        assert!(outcome.same, "{name} {way:?}: other bytes than those that were sent");
        Some(outcome)
    };
    Some([one("r", Way::Right)?, one("l", Way::Left)?])
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
        let Some([there, back]) = check(name, LinkConfig { loss: Loss::Bernoulli { p }, ..link() }) else { return };
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
    for (name, way) in [("kcr", Way::Right), ("kcl", Way::Left)] {
        let plan = Plan { is_called: true, ..plan(link(), way) };
        let Some(outcome) = transferred(name, &plan) else { return };
        assert!(outcome.same, "{way:?}");
    }
}

/// The queue marks instead of dropping, and both stacks answer to it.
#[test]
fn marks_slow_both_stacks_down_without_a_loss() {
    let codel = CodelConfig { target: Duration::from_millis(2), interval: Duration::from_millis(20), ecn: true };
    let link = LinkConfig { kind: QueueKind::Codel(codel), queue: Limit::Packets(1_000), ..link() };
    let tcp = TcpConfig { ecn: EcnMode::Request, ..TcpConfig::default() };
    for (name, way) in [("ker", Way::Right), ("kel", Way::Left)] {
        let plan = Plan { len: 2_000_000, tcp: tcp.clone(), ..plan(link.clone(), way) };
        let Some(outcome) = transferred(name, &plan) else { return };
        assert!(outcome.same);
        let data = outcome.links[usize::from(way == Way::Left)];
        let ours = outcome.ours.expect("ours was there");
        assert!(data.marks > 0, "{data:?}");
        match way {
            Way::Right => assert!(ours.ecn_reductions > 0 && ours.timeouts == 0, "{ours:?}"),
            Way::Left => assert!(ours.ce_received > 0, "{ours:?}"),
        }
    }
}
