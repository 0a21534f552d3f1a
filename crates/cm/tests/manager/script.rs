//! Common parts of the scripted tests.

use std::net::{IpAddr, Ipv4Addr};

use timeous_cm::{ClientEvent, ClientId, Destination, FlowId, FlowSpec, Manager, Update};
use timeous_core::{Duration, Instant};

pub(crate) const MTU: u64 = 1_000;
pub(crate) const RTT: Duration = Duration::from_millis(100);

pub(crate) fn host() -> Destination {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)).into()
}

pub(crate) fn spec() -> FlowSpec {
    FlowSpec::to(host(), MTU)
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn acked(bytes: u64) -> Update {
    Update { acked: bytes, rtt: Some(RTT), ..Update::default() }
}

/// Sends full packets until no more are allowed now; returns their number.
pub(crate) fn fill(cm: &mut Manager, now: Instant, flow: FlowId) -> u64 {
    let mut sent = 0;
    while cm.ask(now, flow).unwrap().is_some() {
        cm.notify(now, flow, MTU).unwrap();
        sent += 1;
    }
    sent
}

/// The same, with time passing until `end`.
pub(crate) fn fill_until(cm: &mut Manager, now: Instant, end: Instant, flow: FlowId) -> u64 {
    let mut sent = fill(cm, now, flow);
    while let Some(due) = cm.poll_timeout().filter(|&due| due < end) {
        cm.handle_timeout(due);
        sent += fill(cm, due, flow);
    }
    sent
}

/// Runs rounds of a full window per round trip, all of it acknowledged; returns the time of their end.
pub(crate) fn grow(cm: &mut Manager, mut now: Instant, flow: FlowId, rounds: u32) -> Instant {
    for _ in 0..rounds {
        let sent = fill_until(cm, now, now + RTT, flow);
        now += RTT;
        for _ in 0..sent {
            cm.update(now, flow, acked(MTU)).unwrap();
        }
        if cm.has_grant(flow) {
            cm.notify(now, flow, 0).unwrap();
        }
    }
    now
}

/// All events of a client.
pub(crate) fn events(cm: &mut Manager, client: ClientId) -> Vec<ClientEvent> {
    std::iter::from_fn(|| cm.poll_client(client)).collect()
}
