//! Tests of clients that lie about their packets: impossible claims are refused, possible ones gain no more than an
//! honest sender on a loss-free path has, and other users are not affected.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use timeous_cm::{
    ClientEvent, ClientId, CmError, Destination, FlowId, FlowSpec, Implausible, Loss, Manager, Update, User,
};
use timeous_core::{Duration, Instant, Rate};

const MTU: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);

fn host() -> Destination {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)).into()
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Adds a client with a flow of this user.
fn user(cm: &mut Manager, uid: u32) -> (ClientId, FlowId) {
    let client = cm.join();
    let flow = cm.open_for(at(0), client, FlowSpec::to(host().with_user(User(uid)), MTU)).unwrap();
    (client, flow)
}

/// Sends as much as allowed now; returns the number of bytes.
fn fill(cm: &mut Manager, now: Instant, flow: FlowId) -> u64 {
    let mut sent = 0;
    while cm.ask(now, flow).unwrap().is_some() {
        cm.notify(now, flow, MTU).unwrap();
        sent += MTU;
    }
    sent
}

fn implausible(result: Result<(), CmError>) -> Option<Implausible> {
    match result {
        Err(CmError::Implausible { what, .. }) => Some(what),
        _ => None,
    }
}

fn acked(bytes: u64, rtt: Duration) -> Update {
    Update { acked: bytes, rtt: Some(rtt), ..Update::default() }
}

#[test]
fn acknowledgements_before_a_propagation_time_are_refused() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    fill(&mut cm, at(0), flow);
    cm.update(at(100), flow, acked(4 * MTU, RTT)).unwrap();
    let sent = fill(&mut cm, at(100), flow);
    let before = cm.query(flow).unwrap();
    for millis in [100, 120, 147] {
        let result = cm.update(at(millis), flow, Update { acked: sent, ..Update::default() });
        let too_soon = Implausible::TooSoon { claimed: sent, possible: 0 };
        assert_eq!(implausible(result), Some(too_soon), "after {millis} ms");
        let lost = Update { lost: sent, ..Update::default() };
        assert!(implausible(cm.update(at(millis), flow, lost)).is_some(), "nor can it know of a loss");
    }
    assert_eq!(cm.query(flow).unwrap(), before);
    assert_eq!(cm.snapshot().macroflows[0].flows[0].refused, 6);
    cm.update(at(200), flow, Update { acked: sent, ..Update::default() }).unwrap();
}

#[test]
fn who_never_says_how_long_a_round_trip_is_gains_nothing_by_it() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    fill(&mut cm, at(0), flow);
    cm.update(at(100), flow, Update { acked: 4 * MTU, ..Update::default() }).unwrap();
    let sent = fill(&mut cm, at(100), flow);
    assert!(sent > 0);
    let again = cm.update(at(101), flow, Update { acked: sent, ..Update::default() });
    assert!(implausible(again).is_some(), "{again:?}");
}

#[test]
fn a_round_trip_below_what_the_host_itself_has_seen_of_the_path_is_refused() {
    let mut cm = Manager::default();
    let honest = cm.open(host(), MTU);
    fill(&mut cm, at(0), honest);
    cm.update(at(100), honest, acked(4 * MTU, RTT)).unwrap();
    let (_, liar) = user(&mut cm, 7);
    fill(&mut cm, at(200), liar);
    let result = cm.update(at(201), liar, acked(MTU, Duration::from_millis(1)));
    let floor = Duration::from_millis(48);
    assert_eq!(
        implausible(result),
        Some(Implausible::RoundTripTooShort { sample: Duration::from_millis(1), floor }),
        "half of it, less what a host takes"
    );
    cm.update(at(300), liar, acked(MTU, RTT)).unwrap();
}

#[test]
fn a_loss_of_what_is_not_sent_yet_and_a_round_trip_of_hours_are_refused() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    fill(&mut cm, at(0), flow);
    let future = Update { lost: MTU, loss: Some((Loss::Transient, at(101))), ..Update::default() };
    let refused = implausible(cm.update(at(100), flow, future));
    assert_eq!(refused, Some(Implausible::LossInFuture { sent_at: at(101) }));
    let hours = Update { rtt: Some(Duration::from_secs(7_200)), ..Update::default() };
    assert!(matches!(implausible(cm.update(at(100), flow, hours)), Some(Implausible::RoundTripTooLong { .. })));
}

#[test]
fn a_flight_that_is_said_to_be_huge_leaves_no_larger_window() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    fill(&mut cm, at(0), flow);
    let before = cm.query(flow).unwrap().window;
    let huge = Update { lost: MTU, loss: Some((Loss::Transient, at(0))), beyond_gap: u64::MAX, ..Update::default() };
    cm.update(at(100), flow, huge).unwrap();
    assert!(cm.query(flow).unwrap().window <= before);
}

#[test]
fn to_close_and_to_open_again_acknowledges_nothing() {
    let mut cm = Manager::default();
    let (client, flow) = user(&mut cm, 7);
    let sent = fill(&mut cm, at(0), flow);
    cm.close(at(1), flow).unwrap();
    let spec = FlowSpec::to(host().with_user(User(7)), MTU);
    let again = cm.open_for(at(1), client, spec).unwrap();
    assert_eq!(fill(&mut cm, at(1), again), 0);
    assert_eq!(cm.query(again).unwrap().outstanding, sent);
    let due = cm.poll_timeout().unwrap();
    assert!(due >= at(1_000), "a timeout later: {due:?}");
    cm.handle_timeout(due);
    assert_eq!(cm.poll_client(client), Some(ClientEvent::Granted(again)));
}

#[test]
fn packets_that_no_flow_has_are_refused_granted_or_not() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    for bytes in [MTU + 1, u64::MAX] {
        let too_large = Err(CmError::TooLarge { flow, bytes, mtu: MTU });
        assert_eq!(cm.notify_unasked(at(0), flow, bytes), too_large);
        cm.ask(at(0), flow).unwrap();
        assert_eq!(cm.notify(at(0), flow, bytes), too_large);
    }
    assert_eq!(cm.query(flow).unwrap().outstanding, 0);
}

#[test]
fn flows_of_another_user_cannot_be_joined() {
    let mut cm = Manager::default();
    let ((_, a), (_, b)) = (user(&mut cm, 7), user(&mut cm, 8));
    let ours = cm.open(host(), MTU);
    for with in [b, ours] {
        assert_eq!(cm.merge(at(0), a, with), Err(CmError::Untrusted { flow: a, with }));
    }
}

/// Sends as much as allowed and claims its arrival at once, repeatedly.
fn fill_and_claim(cm: &mut Manager, now: Instant, flow: FlowId, rtt: Option<Duration>) -> u64 {
    let mut sent = 0;
    for _ in 0..1_000 {
        let more = fill(cm, now, flow);
        let outstanding = cm.query(flow).unwrap().outstanding;
        let claims = (0..64).map(|halves| outstanding >> halves).filter(|&bytes| bytes > 0);
        let believed =
            claims.map(|acked| cm.update(now, flow, Update { acked, rtt, ..Update::default() })).any(|r| r.is_ok());
        sent += more;
        if more == 0 && !believed {
            return sent;
        }
    }
    panic!("grants without end at {now:?}");
}

#[test]
fn who_acknowledges_at_once_gets_a_window_and_no_more_at_an_instant() {
    for rtt in [None, Some(Duration::ZERO), Some(Duration::from_nanos(1)), Some(RTT)] {
        let mut cm = Manager::default();
        let (_, flow) = user(&mut cm, 7);
        assert_eq!(fill_and_claim(&mut cm, at(0), flow, rtt), 4 * MTU, "{rtt:?}");
        assert!(cm.snapshot().macroflows[0].flows[0].refused > 0);
    }
}

#[test]
fn round_trips_of_no_time_are_not_reckoned_with() {
    let mut cm = Manager::default();
    let (_, flow) = user(&mut cm, 7);
    fill(&mut cm, at(0), flow);
    cm.update(at(1), flow, acked(MTU, Duration::ZERO)).unwrap();
    assert_eq!(cm.query(flow).unwrap().min_rtt, Some(Duration::from_micros(10)));
}

#[test]
fn what_the_host_has_seen_of_a_short_path_binds_as_well() {
    let mut cm = Manager::default();
    let ours = cm.open(host(), MTU);
    fill(&mut cm, at(0), ours);
    cm.update(at(2), ours, acked(4 * MTU, Duration::from_millis(2))).unwrap();
    let (_, liar) = user(&mut cm, 7);
    let sent = fill(&mut cm, at(10), liar);
    let soon = at(10) + Duration::from_micros(400);
    let told = cm.update(soon, liar, acked(sent, Duration::from_micros(20)));
    assert_eq!(implausible(told), Some(Implausible::TooSoon { claimed: sent, possible: 0 }));
    cm.update(at(11), liar, acked(sent, Duration::from_micros(20))).unwrap();
}

/// Claim of a liar.
#[derive(Clone, Debug)]
struct Lie {
    after: u64,
    acked: u64,
    lost: u64,
    loss: Option<(Loss, u64)>,
    rtt: Option<u64>,
    beyond_gap: u64,
}

fn lies() -> impl Strategy<Value = Vec<Lie>> {
    let loss = prop_oneof![Just(Loss::None), Just(Loss::Transient), Just(Loss::Ecn), Just(Loss::Persistent)];
    let amount = prop_oneof![Just(0u64), 0u64..20_000, Just(u64::MAX)];
    let lie = (
        0u64..30,
        amount.clone(),
        amount.clone(),
        prop::option::weighted(0.1, (loss, 0u64..3_000)),
        // At least half of the path's RTT, within the host's delay: lower claims are refused.
        prop::option::of(0u64..3_000),
        amount,
    )
        .prop_map(|(after, acked, lost, loss, rtt, beyond_gap)| Lie { after, acked, lost, loss, rtt, beyond_gap });
    prop::collection::vec(lie, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// The host's own flow has measured an RTT of 100 ms. A liar to the same host claims arbitrary values; an honest
    /// flow on another manager has no losses and an RTT of 48 ms, the best that a liar can make the host believe.
    #[test]
    fn no_lies_make_more_of_a_window_than_a_path_without_losses_does(lies in lies()) {
        let mut cm = Manager::default();
        let ours = cm.open(host(), MTU);
        fill(&mut cm, at(0), ours);
        cm.update(at(100), ours, acked(4 * MTU, RTT)).unwrap();
        let untouched = cm.query(ours).unwrap();
        let (_, liar) = user(&mut cm, 7);
        let mut now = at(200);
        let (mut sent, mut believed) = (0, 0);
        for lie in lies {
            sent += fill(&mut cm, now, liar);
            now += Duration::from_millis(lie.after);
            while let Some(due) = cm.poll_timeout().filter(|&due| due <= now) {
                cm.handle_timeout(due);
            }
            let update = Update {
                acked: lie.acked,
                lost: lie.lost,
                loss: lie.loss.map(|(loss, sent_at)| (loss, at(sent_at))),
                rtt: lie.rtt.map(Duration::from_millis),
                recovering: false,
                beyond_gap: lie.beyond_gap,
                overtaken_by: lie.rtt.map_or(Duration::ZERO, Duration::from_millis),
                path_rtt: lie.rtt.map(Duration::from_millis),
                slow_receiver: false,
            };
            let before = cm.query(liar).unwrap();
            match cm.update(now, liar, update) {
                Ok(()) => believed += update.acked,
                Err(error) => {
                    prop_assert!(implausible(Err(error)).is_some());
                    prop_assert_eq!(cm.query(liar).unwrap(), before, "what is refused changes nothing");
                }
            }
            let path = cm.query(liar).unwrap();
            prop_assert!(believed <= sent);
            // Slow start adds the acknowledged bytes, and nothing adds more.
            prop_assert!(path.window <= 4 * MTU + believed, "{path:?} after {believed} bytes");
            // In n half round trips all windows together are at most (2^n - 1) times the first.
            let rounds = now.saturating_since(at(200)).as_nanos() / Duration::from_millis(46).as_nanos();
            let most = (4 * MTU).saturating_mul(2u64.saturating_pow(rounds as u32 + 1));
            prop_assert!(sent <= most, "{sent} sent in {rounds} rounds");
            prop_assert_eq!(cm.query(ours).unwrap(), untouched, "the others do not feel it");
        }
    }

    /// On an unknown path a liar's claims are bounded: nothing at the instant of sending, and over time one doubling
    /// per 7.5 us (the minimum feedback delay less the granularity of the ledger) and the rate of the fastest network.
    #[test]
    fn whatever_is_claimed_what_is_granted_within_a_time_is_bounded(
        steps in prop::collection::vec((0u64..40_000, prop::option::of(0u64..100_000)), 1..12),
    ) {
        let mut cm = Manager::default();
        let (_, liar) = user(&mut cm, 7);
        let (mut now, mut sent) = (at(0), 0);
        for (after, rtt) in steps {
            sent += fill_and_claim(&mut cm, now, liar, rtt.map(Duration::from_nanos));
            let rounds = now.as_nanos() / 7_500;
            let carried = now.as_nanos() * 100;
            prop_assert!(sent <= 4 * MTU + 2 * carried, "{sent} bytes within {now:?}");
            prop_assert!(sent <= (4 * MTU).saturating_mul(2u64.saturating_pow(rounds as u32 + 1)), "{sent} within {now:?}");
            now += Duration::from_nanos(after);
        }
    }
}

/// Runs three users that send as much as allowed over a loss-free path. Each `period` the first two report congestion,
/// and so does the third if it is honest; acknowledgements take a round trip.
fn share(cm: &mut Manager, flows: [FlowId; 3], from: u64, tells: [bool; 3]) -> [u64; 3] {
    let (mut sent, mut under_way) = ([0; 3], [0; 3]);
    for round in 0..40 {
        let now = at(from + 100 * round);
        flows.iter().for_each(|&flow| cm.request_many(now, flow, 300).unwrap());
        // Packets sent in the first half are acknowledged in this round, the others in the next.
        let mut acked = std::mem::take(&mut under_way);
        for step in 0..98 {
            let now = now + Duration::from_millis(step);
            cm.handle_timeout(now);
            for (n, &flow) in flows.iter().enumerate() {
                while cm.has_grant(flow) {
                    cm.notify(now, flow, MTU).unwrap();
                    *(if step < 50 { &mut acked[n] } else { &mut under_way[n] }) += MTU;
                    sent[n] += MTU;
                }
            }
        }
        for (n, &flow) in flows.iter().enumerate() {
            let loss = (round % 4 == 3 && tells[n]).then_some((Loss::Transient, now));
            let update = Update { acked: acked[n], rtt: Some(RTT), loss, ..Update::default() };
            cm.update(now + Duration::from_millis(99), flow, update).unwrap();
        }
    }
    for (flow, acked) in flows.into_iter().zip(under_way) {
        cm.update(at(from + 4_060), flow, Update { acked, rtt: Some(RTT), ..Update::default() }).unwrap();
    }
    sent
}

#[test]
fn who_alone_meets_no_congestion_has_no_more_than_the_others() {
    let mut cm = Manager::default();
    let flows = [7, 8, 9].map(|uid| user(&mut cm, uid).1);
    // Until slow start has left the others' goodput average.
    for from in [0, 4_100] {
        share(&mut cm, flows, from, [true, true, false]);
    }
    let [one, two, liar] = share(&mut cm, flows, 8_200, [true, true, false]);
    assert!(liar <= (one + two) / 2 * 21 / 20, "{liar} beside {one} and {two}");
    assert!(liar > one / 2, "held, not starved: {liar} beside {one}");
    let free = share(&mut cm, flows, 12_300, [true, true, true])[2];
    let [one, two, third] = share(&mut cm, flows, 16_400, [true, true, true]);
    assert!(third * 10 > (one + two) * 4 && free > 0, "who tells is free: {third} beside {one} and {two}");
}

#[test]
fn one_other_user_proves_nothing_but_the_host_does() {
    let run = |others: [Destination; 2]| {
        let mut cm = Manager::default();
        let client = cm.join();
        let others = others.map(|to| cm.open_for(at(0), client, FlowSpec::to(to, MTU)).unwrap());
        let (_, liar) = user(&mut cm, 9);
        let flows = [others[0], others[1], liar];
        for from in [0, 4_100] {
            share(&mut cm, flows, from, [true, true, false]);
        }
        let [one, two, liar] = share(&mut cm, flows, 8_200, [true, true, false]);
        liar as f64 / ((one + two) as f64 / 2.0)
    };
    let of = |uid| host().with_user(User(uid));
    assert!(run([of(7), of(8)]) <= 1.05);
    assert!(run([of(7), of(7)]) > 2.0, "one user may be anything, and have any number of flows");
    assert!(run([host(), host().with_dscp(46)]) <= 1.6, "the host takes it from the wire");
    let own = run([of(9), of(9)]);
    assert!((0.95..=1.05).contains(&own), "nobody holds himself: a macroflow's flows take turns, {own}");
}

#[test]
fn who_is_held_is_free_when_the_others_want_nothing_more_for_a_second() {
    let mut cm = Manager::default();
    let flows = [7, 8, 9].map(|uid| user(&mut cm, uid).1);
    share(&mut cm, flows, 0, [true, true, false]);
    let held = cm.query(flows[2]).unwrap().rate;
    for &flow in &flows[..2] {
        cm.close(at(4_070), flow).unwrap();
    }
    let mut rate_at = |millis| {
        fill(&mut cm, at(millis), flows[2]);
        cm.update(at(millis + 100), flows[2], acked(0, RTT)).unwrap();
        cm.query(flows[2]).unwrap().rate
    };
    assert_eq!(rate_at(4_100), held, "a moment frees nobody");
    assert_eq!(rate_at(4_800), held);
    assert!(rate_at(5_200) > held);
}

/// Regression, found by `cm-host --real`: who filled the link's queue first kept the others from their first acknowledgement for good, and
/// was not held, as nothing was known of their round trips.
#[test]
fn who_has_never_had_an_acknowledgement_is_a_witness_all_the_same() {
    let mut cm = Manager::default();
    let [one, two, liar] = [7, 8, 9].map(|uid| user(&mut cm, uid).1);
    for second in 0..20 {
        let now = at(1_000 * second);
        cm.handle_timeout(now);
        for flow in [one, two] {
            cm.request_many(now, flow, 10).unwrap();
            let mut lost = 0;
            while cm.has_grant(flow) {
                cm.notify(now, flow, MTU).unwrap();
                lost += MTU;
            }
            let told = Update { lost, loss: (lost > 0).then_some((Loss::Persistent, now)), ..Update::default() };
            cm.update(now + Duration::from_millis(900), flow, told).unwrap();
        }
        let sent = fill(&mut cm, now, liar);
        cm.update(now + Duration::from_millis(900), liar, acked(sent, RTT)).unwrap();
    }
    let (held, others) = (cm.query(liar).unwrap().rate, cm.query(one).unwrap().srtt);
    assert_eq!(others, None);
    assert_eq!(held, Rate::from_bytes_in(MTU, Duration::from_secs(1)), "a packet in a second: held, not stopped");
}
