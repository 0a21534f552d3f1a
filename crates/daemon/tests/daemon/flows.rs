//! Tests of a well-behaved client: the calls of the Congestion Manager paper through the daemon.

use std::net::IpAddr;

use timeous_cm::Update;
use timeous_core::Duration;
use timeous_engine::clock;
use timeous_ipc::messages::Failure;
use timeous_ipc::{ClientError, Event, OpenFlow, Refusal};

use crate::sender::Sender;
use crate::support::{Host, late, next, pause, send_granted, view};

fn somewhere() -> IpAddr {
    IpAddr::from([192, 0, 2, 7])
}

#[test]
fn a_packet_is_asked_for_granted_sent_and_acknowledged() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to(somewhere(), 1_000)).unwrap();
    send_granted(&mut client, flow, 900);
    host.until("what was sent is outstanding", || client.query(flow).unwrap().outstanding == 900);
    pause(Duration::from_millis(10));
    let update = Update { acked: 900, rtt: Some(Duration::from_millis(10)), ..Update::default() };
    client.update(flow, update).unwrap();
    host.until("what was learnt is known", || client.query(flow).unwrap().srtt == update.rtt);
    assert_eq!(client.query(flow).unwrap().outstanding, 0);
    let seen = view(&mut client);
    assert_eq!((seen.macroflows.len(), seen.clients.len()), (1, 1));
    assert_eq!(seen.macroflows[0].totals.acked_bytes_total, 900);
    client.close(flow).unwrap();
    assert!(matches!(client.query(flow), Err(ClientError::Failed(Failure::UnknownFlow(_)))));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to(somewhere(), 1_000)).unwrap();
    client.notify(flow, 10).unwrap();
    assert!(matches!(next(&mut client), Event::Refused { why: Refusal::NotGranted, value: 10, .. }));
    client.update(flow, Update { acked: 99, ..Update::default() }).unwrap();
    assert!(matches!(next(&mut client), Event::Refused { why: Refusal::MoreThanSent, value: 99, .. }));
    let no_such = client.set_scheduler(flow, "lottery").unwrap_err();
    assert!(no_such.to_string().contains("round-robin"), "{no_such}");
    for name in ["weighted", "deadline", "round-robin"] {
        client.set_scheduler(flow, name).unwrap();
    }
    for name in ["newreno", "cubic", "aimd"] {
        client.set_controller(flow, name).unwrap();
    }
    assert!(client.set_controller(flow, "vegas").is_err());
    assert!(client.thresh(flow, 0.0, 1.0).is_err());
}

#[test]
fn a_flow_may_leave_its_macroflow_and_come_back() {
    let host = Host::start();
    let mut client = host.client();
    let [a, b] = [(); 2].map(|()| client.open(OpenFlow::to(somewhere(), 1_000)).unwrap());
    assert_eq!(view(&mut client).macroflows.len(), 1);
    client.split(b).unwrap();
    assert_eq!(view(&mut client).macroflows.len(), 2);
    client.merge(b, a).unwrap();
    let flows: Vec<_> = view(&mut client).macroflows.iter().map(|macroflow| macroflow.flows.len()).collect();
    assert_eq!(flows.iter().sum::<usize>(), 2);
    assert!(flows.contains(&2));
}

#[test]
fn a_rate_that_has_doubled_is_told() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to(somewhere(), 1_000)).unwrap();
    client.thresh(flow, 0.5, 2.0).unwrap();
    client.request_many(flow, 4).unwrap();
    let end = late();
    let mut sent = Vec::new();
    let told = loop {
        assert!(clock::now() < end, "nothing is told of the rate");
        match client.poll_event() {
            Some(Event::Granted(_)) => {
                client.notify(flow, 1_000).unwrap();
                client.request(flow).unwrap();
                sent.push(clock::now());
            }
            Some(Event::Changed(_, state)) if state.srtt.is_some() => break state,
            Some(_) => {}
            None => {
                client.wait(Some(clock::now() + Duration::from_millis(10)));
                let now = clock::now();
                for at in std::mem::take(&mut sent) {
                    let rtt = Some(now.saturating_since(at));
                    client.update(flow, Update { acked: 1_000, rtt, ..Update::default() }).unwrap();
                }
            }
        }
    };
    assert!(told.rate.as_bps() > 0);
}

#[test]
fn many_flows_of_one_client_take_turns() {
    let host = Host::start();
    let mut client = host.client();
    let flows: Vec<_> = (0..8).map(|_| client.open(OpenFlow::to(somewhere(), 1_000)).unwrap()).collect();
    let mut sender = Sender::new(&mut client, &flows, 1_000);
    sender.run(clock::now() + Duration::from_secs(1));
    assert!(sender.arrived() > 0 && !sender.lost);
    let seen = view(&mut client);
    let sent: Vec<_> = seen.macroflows[0].flows.iter().map(|flow| flow.totals.sent_bytes_total).collect();
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(most - least <= 3_000, "each a packet, then each its second: {sent:?}");
}

/// A delayed daemon learns of a packet and of its acknowledgement at the same time.
#[test]
fn feedback_that_comes_too_soon_counts_when_it_can_be_true() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to(somewhere(), 1_000)).unwrap();
    send_granted(&mut client, flow, 1_000);
    pause(Duration::from_millis(60));
    let rtt = Some(Duration::from_millis(60));
    client.update(flow, Update { acked: 1_000, rtt, ..Update::default() }).unwrap();
    host.until("the round trip is known", || client.query(flow).unwrap().srtt == rtt);
    send_granted(&mut client, flow, 1_000);
    client.update(flow, Update { acked: 1_000, ..Update::default() }).unwrap();
    host.until("it counts", || {
        assert!(client.poll_event().is_none(), "nothing is refused");
        view(&mut client).macroflows[0].totals.acked_bytes_total == 2_000
    });
    // Feedback for data that was never sent is not accepted later either.
    client.update(flow, Update { acked: 1_000, ..Update::default() }).unwrap();
    assert!(matches!(next(&mut client), Event::Refused { why: Refusal::MoreThanSent, .. }));
}
