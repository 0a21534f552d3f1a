//! Tests of the limits per user.

use std::net::IpAddr;

use timeous_ipc::messages::{Failure, Reason, Resource};
use timeous_ipc::{Client, ClientError, ConnectError, OpenFlow};

use crate::streams::{local, spec};
use crate::support::Host;

#[test]
fn a_client_gets_as_many_flows_as_there_are_places_and_places_come_back() {
    let host = Host::start();
    let mut client = host.client();
    let to = OpenFlow::to(IpAddr::from([192, 0, 2, 1]), 1_000);
    let flows: Vec<_> = (0..256).map(|_| client.open(to).unwrap()).collect();
    let over = client.open(to).unwrap_err();
    assert!(
        matches!(over, ClientError::Failed(Failure::OverLimit { resource: Resource::Flows, limit: 256 })),
        "{over:?}"
    );
    client.close(flows[7]).unwrap();
    client.open(to).unwrap();
}

#[test]
fn a_user_gets_so_many_clients() {
    let host = Host::start();
    let mut clients: Vec<_> = (0..40).map(|_| host.client()).collect();
    let crowded = Client::connect(host.options());
    assert!(matches!(crowded, Err(ConnectError::Refused(Reason::Crowded))), "{crowded:?}");
    clients.pop();
    host.until("there is room again", || Client::connect(host.options()).is_ok());
}

#[test]
fn a_user_gets_so_much_memory_for_rings_and_so_many_streams() {
    let host = Host::start();
    let mut client = host.client();
    let (_, at) = client.listen(local(), spec()).unwrap();
    let mut large = spec();
    large.slots = 8_192;
    assert!(matches!(client.connect_stream(at, large), Err(ClientError::Failed(Failure::Invalid(_)))));
    large.slots = 4_096;
    let mut rings = Vec::new();
    let refused = loop {
        match client.connect_stream(at, large) {
            Ok(ring) => rings.push(ring),
            Err(ClientError::Failed(failure)) => break failure,
            Err(error) => panic!("{error}"),
        }
        assert!(rings.len() < 64);
    };
    assert!(matches!(refused, Failure::OverLimit { resource: Resource::RingBytes, .. }), "{refused:?}");
    drop(rings);
    host.until("memory comes back", || client.connect_stream(at, large).is_ok());
    let mut streams = Vec::new();
    let refused = loop {
        match client.connect_stream(at, spec()) {
            Ok(stream) => streams.push(stream),
            Err(ClientError::Failed(failure)) => break failure,
            Err(error) => panic!("{error}"),
        }
        assert!(streams.len() <= 64);
    };
    assert!(matches!(refused, Failure::OverLimit { resource: Resource::Streams, limit: 64 }), "{refused:?}");
}
