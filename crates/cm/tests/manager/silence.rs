//! Tests of clients that fall silent: hung, stopped, or sending into a black hole.

use timeous_cm::{ClientEvent, ClientId, FlowId, FlowSpec, Loss, Manager, Update};
use timeous_core::{Duration, Rate};

use super::script::*;

/// Round trip of the path, in milliseconds.
const WAY: u64 = 50;

/// Passes time up to `end` in milliseconds.
fn pass(cm: &mut Manager, end: u64) {
    while let Some(due) = cm.poll_timeout().filter(|&due| due <= at(end)) {
        cm.handle_timeout(due);
    }
    cm.handle_timeout(at(end));
}

/// Requests a packet, and sends it if there is a grant.
fn send(cm: &mut Manager, now: u64, flow: FlowId, client: ClientId) -> bool {
    if !cm.is_waiting(flow) {
        cm.request(at(now), flow).unwrap();
    }
    let granted = events(cm, client).contains(&ClientEvent::Granted(flow));
    if granted {
        cm.notify(at(now), flow, MTU).unwrap();
    }
    granted
}

fn ack(cm: &mut Manager, now: u64, flow: FlowId, packets: u64) {
    let rtt = Some(Duration::from_millis(WAY));
    cm.update(at(now), flow, Update { acked: packets * MTU, rtt, ..Update::default() }).unwrap();
}

/// Sends what is granted from `now` on for a number of round trips, all of it acknowledged; returns the time after.
fn flow_on(cm: &mut Manager, mut now: u64, rounds: u64, flow: FlowId, client: ClientId) -> u64 {
    for _ in 0..rounds {
        let mut sent = 0;
        for _ in 0..WAY {
            while send(cm, now, flow, client) {
                sent += 1;
            }
            now += 1;
            pass(cm, now);
        }
        ack(cm, now, flow, sent);
    }
    now
}

/// Sends a packet each millisecond, of which none is acknowledged, while it is granted; returns their number.
fn fill_window(cm: &mut Manager, now: &mut u64, flow: FlowId, client: ClientId) -> u64 {
    let mut sent = 0;
    while send(cm, *now, flow, client) {
        sent += 1;
        *now += 1;
        pass(cm, *now);
    }
    sent
}

#[test]
fn a_client_that_hangs_does_not_hold_the_window_of_another() {
    let mut cm = Manager::default();
    let (hung, other) = (cm.join(), cm.join());
    let spec = FlowSpec { destination: spec().destination.with_user(timeous_cm::User(1)), ..spec() };
    let (a, b) = (cm.open_for(at(0), hung, spec).unwrap(), cm.open_for(at(0), other, spec).unwrap());
    let mut now = flow_on(&mut cm, 0, 10, a, hung);
    // It fills the window, and stops.
    while cm.query(a).unwrap().outstanding + MTU <= cm.query(a).unwrap().window {
        send(&mut cm, now, a, hung);
        now += 1;
        pass(&mut cm, now);
    }
    cm.request(at(now), b).unwrap();
    now += 500;
    pass(&mut cm, now);
    assert_eq!(events(&mut cm, other), [], "the window is full");
    let end = now + 3_000;
    while !send(&mut cm, now, b, other) {
        assert!(now < end, "no grant");
        now += 10;
        pass(&mut cm, now);
    }
    // The other one goes on alone, and no later timeout of the hung one touches it.
    ack(&mut cm, now + WAY, b, 1);
    now = flow_on(&mut cm, now + WAY, 400, b, other);
    let window = cm.query(b).unwrap().window;
    assert!(window > 20 * MTU, "{window}");
    assert_eq!(cm.answered(b).unwrap().timeouts, 1);

    // It goes on, and reports what it had sent.
    ack(&mut cm, now, a, 1);
    assert!(cm.query(a).unwrap().window >= window);
}

#[test]
fn a_black_hole_takes_ever_fewer_packets_and_the_client_hears_of_its_rate() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    let mut now = flow_on(&mut cm, 0, 10, flow, client);
    let began = now;
    cm.thresh(flow, 0.5, 2.0).unwrap();
    let (mut times, mut told) = (Vec::new(), Vec::new());
    // It sends by its own clock, 4 Mbit/s, whatever it is granted; nothing arrives.
    while now < began + 60_000 {
        pass(&mut cm, now);
        cm.notify_unasked(at(now), flow, MTU).unwrap();
        for event in events(&mut cm, client) {
            if let ClientEvent::Changed(_, state) = event {
                told.push((now, state.rate));
            }
        }
        if cm.query(flow).unwrap().outstanding <= MTU {
            times.push(now - began);
        }
        now += 2;
    }
    assert!(told.first().is_some_and(|&(at, _)| at - began < 3_000), "{told:?}");
    let last: Rate = told.last().unwrap().1;
    assert!(last <= Rate::from_kbps(320), "two packets a round trip: {last}");
    assert!((4..=6).contains(&times.len()), "timeouts that double: {times:?}");
    let state = cm.query(flow).unwrap();
    assert!(state.window <= 2 * MTU, "{state:?}");
}

#[test]
fn feedback_that_comes_late_takes_the_timeout_back() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    let mut now = flow_on(&mut cm, 0, 10, flow, client);
    let window = cm.query(flow).unwrap().window;
    let sent = fill_window(&mut cm, &mut now, flow, client);
    assert!(sent > 3);
    pass(&mut cm, now + 4_000);
    let silent = cm.query(flow).unwrap();
    assert!((silent.outstanding, silent.window <= 2 * MTU) == (0, true), "{silent:?}");
    // The process was stopped, and goes on.
    ack(&mut cm, now + 4_000, flow, sent);
    let state = cm.query(flow).unwrap();
    // Without a burst (RFC 4015 §3.2, step 9).
    assert!(state.outstanding == 0 && state.window >= window / 3, "{state:?}, {window} before");
    let more = Update { acked: 1, ..Update::default() };
    assert!(cm.update(at(now + 4_000), flow, more).is_err(), "no more than was sent");
}

#[test]
fn bytes_that_a_timeout_counted_as_lost_cannot_be_reported_long_after_feedback_has_come_again() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    let mut now = flow_on(&mut cm, 0, 10, flow, client);
    let sent = fill_window(&mut cm, &mut now, flow, client);
    assert!(sent > 3);
    now += 4_000;
    pass(&mut cm, now);
    // Some of it is reported, and later what is sent then.
    ack(&mut cm, now, flow, 1);
    pass(&mut cm, now + 1_000);
    ack(&mut cm, now + 1_000, flow, 1);
    now = flow_on(&mut cm, now + 1_000, 100, flow, client);
    let before = cm.query(flow).unwrap();
    let late = Update { acked: (sent - 2) * MTU, ..Update::default() };
    assert!(cm.update(at(now), flow, late).is_err(), "ten seconds later");
    assert_eq!(cm.query(flow).unwrap().window, before.window);
    // A later timeout has a time of its own.
    let sent = fill_window(&mut cm, &mut now, flow, client);
    pass(&mut cm, now + 8_000);
    ack(&mut cm, now + 8_000, flow, sent);
}

#[test]
fn feedback_every_two_seconds_is_no_silence_and_the_hosts_own_flows_are_not_watched() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    let own = cm.open(spec().destination, MTU);
    cm.notify_unasked(at(0), own, MTU).unwrap();
    let (mut now, mut sent) = (0, 0);
    for _ in 0..20 {
        let end = now + 2_000;
        while now < end {
            pass(&mut cm, now);
            sent += u64::from(send(&mut cm, now, flow, client));
            now += 10;
        }
        pass(&mut cm, now);
        ack(&mut cm, now, flow, sent);
        sent = 0;
    }
    assert_eq!(cm.answered(flow).unwrap().timeouts, 0);
    pass(&mut cm, now + 600_000);
    assert_eq!(cm.query(own).unwrap().outstanding, MTU);
}

#[test]
fn a_pause_without_data_in_flight_is_no_silence() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    let now = flow_on(&mut cm, 0, 10, flow, client);
    // Everything is acknowledged; the next packet leaves two seconds later, and its acknowledgement comes in time.
    while cm.query(flow).unwrap().outstanding > 0 {
        ack(&mut cm, now, flow, 1);
    }
    for pause in (1..8).map(|n| n * 1_500) {
        pass(&mut cm, now + pause);
        send(&mut cm, now + pause, flow, client);
        pass(&mut cm, now + pause + 1_000);
        ack(&mut cm, now + pause + 1_000, flow, 1);
    }
    assert_eq!(cm.answered(flow).unwrap().timeouts, 0);
}

/// Two flows of the host's own transports; the receiver of the first is stopped, that of the second is there.
#[test]
fn probes_to_a_receiver_that_is_gone_cost_the_flows_to_others_one_reduction() {
    let mut cm = Manager::default();
    let (gone, other) = (cm.open(spec().destination, MTU), cm.open(spec().destination, MTU));
    let shared = cm.macroflow_of(other).unwrap();
    let ask = |cm: &mut Manager, now, flow| {
        let granted = cm.ask(at(now), flow).unwrap().is_some();
        if granted {
            cm.notify(at(now), flow, MTU).unwrap();
        }
        granted
    };
    let mut now = 0;
    // Both are heard.
    while now < 1_000 {
        let sent = [gone, other].map(|flow| (flow, u64::from(ask(&mut cm, now, flow))));
        now += WAY;
        pass(&mut cm, now);
        sent.into_iter().for_each(|(flow, packets)| ack(&mut cm, now, flow, packets));
    }
    // The first sends all that it may from now on, and reports a timeout that backs off.
    let (mut under_way, mut denied) = (0, 0);
    let mut timeout = (now + 1_000, 1_000);
    let mut sent_at = now;
    while now < 60_000 {
        while ask(&mut cm, now, gone) {
            under_way += MTU;
            sent_at = now;
        }
        if now >= timeout.0 && under_way > 0 {
            let loss = Some((Loss::Persistent, at(sent_at)));
            cm.update(at(now), gone, Update { lost: under_way, loss, ..Update::default() }).unwrap();
            timeout = (now + 2 * timeout.1, 2 * timeout.1);
            under_way = 0;
        }
        let granted = ask(&mut cm, now, other);
        denied += u64::from(!granted && now > 2_100);
        now += WAY;
        pass(&mut cm, now);
        if cm.query(other).unwrap().outstanding > 0 && granted {
            ack(&mut cm, now, other, 1);
        }
    }
    assert_eq!(denied, 0, "of a packet each {WAY} ms");
    assert!(cm.macroflow_of(gone).unwrap() != shared);
    let answered = cm.answered(other).unwrap();
    assert_eq!((answered.losses, answered.timeouts), (1, 0));
    // It goes on.
    ack(&mut cm, now, gone, under_way / MTU);
    assert_eq!(cm.macroflow_of(gone), cm.macroflow_of(other));
    assert_eq!(cm.macroflow_of(other).unwrap(), shared);
}

#[test]
fn a_path_that_carries_nobodys_data_is_congested_for_all() {
    let mut cm = Manager::default();
    let flows = [cm.open(spec().destination, MTU), cm.open(spec().destination, MTU)];
    for flow in flows {
        cm.notify_unasked(at(0), flow, MTU).unwrap();
    }
    pass(&mut cm, WAY);
    for flow in flows {
        ack(&mut cm, WAY, flow, 1);
        cm.notify_unasked(at(WAY), flow, MTU).unwrap();
    }
    for flow in flows {
        let loss = Some((Loss::Persistent, at(WAY)));
        cm.update(at(1_100), flow, Update { lost: MTU, loss, ..Update::default() }).unwrap();
    }
    assert_eq!(cm.macroflow_of(flows[0]), cm.macroflow_of(flows[1]));
    let state = cm.query(flows[0]).unwrap();
    assert_eq!((state.window, cm.answered(flows[0]).unwrap().timeouts), (MTU, 1), "{state:?}");
}
