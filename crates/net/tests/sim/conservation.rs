//! Property tests of packet conservation in a simulated network.

use std::collections::BTreeMap;

use proptest::prelude::*;
use timeous_net::sim::{Network, Passage, Scripted, Step};

use crate::world::{bad_links, millis, plans, talk};

/// Packets that links dropped or lost, and copies that they made.
fn at_links(network: &Network<Scripted>) -> (u64, u64) {
    let counters = network.links().map(|(_, link)| *link.counters());
    counters.fold((0, 0), |(gone, copies), link| (gone + link.queue_drops + link.losses, copies + link.duplicates))
}

fn check(network: &Network<Scripted>) -> Result<(), TestCaseError> {
    let tally = network.tally();
    let (gone, copies) = at_links(network);
    let accounted = tally.delivered + tally.unroutable + tally.expired + gone + network.under_way() as u64;
    prop_assert_eq!(tally.sent + copies, accounted);
    let arrived: usize = network.hosts().map(|(_, host)| host.arrivals().len()).sum();
    prop_assert_eq!(arrived as u64, tally.delivered);
    Ok(())
}

/// Whether a journey is one: each step follows from the one before, and the last is an end.
fn is_whole(steps: &[Step]) -> bool {
    let follows = |pair: &[Step]| match (pair[0].what, pair[1].what) {
        (Passage::Sent(_), next) => {
            matches!(next, Passage::Entered(_) | Passage::Unroutable(_) | Passage::Delivered(_))
        }
        (Passage::Entered(link), Passage::Left(same)) => link == same,
        (Passage::Entered(link), Passage::Dropped(same, _)) => link == same,
        (Passage::Left(_), next) => !matches!(next, Passage::Sent(_) | Passage::Left(_) | Passage::Dropped(..)),
        _ => false,
    };
    let ends = steps.last().is_some_and(|step| {
        let on_its_way = matches!(step.what, Passage::Sent(_) | Passage::Entered(_) | Passage::Left(_));
        !on_its_way
    });
    ends && matches!(steps[0].what, Passage::Sent(_)) && steps.windows(2).all(follows)
}

proptest! {
    #[test]
    fn what_is_sent_is_delivered_or_dropped_or_under_way(plan in plans(bad_links()), seed: u64) {
        let (mut network, nodes, _) = plan.build(seed);
        network.record_journeys();
        talk(&mut network, &plan, &nodes, 300, seed);
        for count in 0..20 {
            network.run_until(millis(50 * count));
            check(&network)?;
        }
        network.run_until(millis(60_000));
        check(&network)?;
        prop_assert_eq!(network.under_way(), 0, "nothing waits for ever");
        prop_assert_eq!(network.tally().sent, 300);

        prop_assert!(network.journeys().is_sorted_by_key(|step| step.at));
        let mut journeys: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for step in network.journeys() {
            journeys.entry(step.packet).or_default().push(*step);
        }
        let made_copies = at_links(&network).1 > 0;
        for (packet, steps) in journeys {
            prop_assert!(made_copies || is_whole(&steps), "packet {}: {:?}", packet, steps);
        }
    }
}
