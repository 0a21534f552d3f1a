//! Test of a simulated link's capture: tshark reads it.

use std::fs::File;
use std::net::SocketAddr;

use etherparse::{Ipv4Header, Ipv6Header, TcpHeader};
use timeous_core::{Duration, Ecn, Instant};
use timeous_net::LinkConfig;
use timeous_net::link::Limit;
use timeous_net::sim::{Network, Packet, Protocol, Scripted};

use crate::tshark::{assert_no_complaint, skip, tshark};
use crate::world::link;

fn segment(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut header = TcpHeader::new(source.port(), destination.port(), 7, 1_000);
    header.syn = true;
    header.checksum = match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let (source, destination) = (source.ip().octets(), destination.ip().octets());
            let ip = Ipv4Header::new(20, 64, etherparse::IpNumber::TCP, source, destination).unwrap();
            header.calc_checksum_ipv4(&ip, payload).unwrap()
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            let ip = Ipv6Header {
                source: source.ip().octets(),
                destination: destination.ip().octets(),
                ..Ipv6Header::default()
            };
            header.calc_checksum_ipv6(&ip, payload).unwrap()
        }
        _ => unreachable!("one family"),
    };
    [&header.to_bytes()[..], payload].concat()
}

#[test]
fn tshark_reads_a_simulated_capture() {
    let mut network = Network::new(1);
    let [a, b]: [SocketAddr; 2] = ["10.0.0.1:1111", "10.0.0.2:2222"].map(|text| text.parse().unwrap());
    let hosts = [a, b].map(|address| network.add_host(address.ip(), Scripted::new(address)));
    let config = LinkConfig { queue: Limit::Packets(1), ..link(800, 5) };
    let (forward, _) = network.connect(hosts[0], hosts[1], config.clone(), config);
    let file = tempfile::NamedTempFile::new().unwrap();
    network.capture(forward, File::create(file.path()).unwrap()).unwrap();

    let udp = |ecn, len| Packet::new(Protocol::Udp, a, b, ecn, vec![7; len]);
    let tcp = Packet::new(Protocol::Tcp, a, b, Ecn::NotEct, segment(a, b, &[]));
    network.with_host(hosts[0], |now, host| {
        host.send_packet_at(now, udp(Ecn::Ect0, 972));
        host.send_packet_at(now, tcp);
        host.send_packet_at(now, udp(Ecn::Ce, 3));
    });
    network.run_until(Instant::ZERO + Duration::from_secs(1));
    network.finish_captures().unwrap();

    let fields = ["frame.interface_name", "frame.time_epoch", "frame.len", "ip.dsfield.ecn", "ip.id", "ip.proto"];
    let fields = [&fields[..], &["frame.comment", "tcp.flags.syn", "tcp.checksum.status"]].concat();
    let Some(packets) = tshark(file.path(), "frame", &fields) else {
        return skip("tshark_reads_a_simulated_capture", "tshark");
    };
    let expected = [
        ["ingress", "0.000000000", "1000", "2", "0x0001", "17", "", "", ""],
        ["ingress", "0.000000000", "40", "0", "0x0002", "6", "", "1", "1"],
        ["ingress", "0.000000000", "31", "3", "0x0003", "17", "dropped: queue full", "", ""],
        ["egress", "0.015000000", "1000", "2", "0x0001", "17", "", "", ""],
        ["egress", "0.015400000", "40", "0", "0x0002", "6", "", "1", "1"],
    ];
    assert_eq!(packets, expected);
    assert_no_complaint(file.path());
}

#[test]
fn tshark_reads_ipv6() {
    let mut network = Network::new(1);
    let [a, b]: [SocketAddr; 2] = ["[2001:db8::1]:1111", "[2001:db8::2]:2222"].map(|text| text.parse().unwrap());
    let hosts = [a, b].map(|address| network.add_host(address.ip(), Scripted::new(address)));
    let (forward, _) = network.connect(hosts[0], hosts[1], link(800, 5), link(800, 5));
    let file = tempfile::NamedTempFile::new().unwrap();
    network.capture(forward, File::create(file.path()).unwrap()).unwrap();
    let tcp = Packet::new(Protocol::Tcp, a, b, Ecn::Ce, segment(a, b, b"odd"));
    let udp = Packet::new(Protocol::Udp, a, b, Ecn::Ect0, vec![1; 52]);
    network.with_host(hosts[0], |now, host| {
        host.send_packet_at(now, tcp);
        host.send_packet_at(now, udp);
    });
    network.run_until(Instant::ZERO + Duration::from_secs(1));
    network.finish_captures().unwrap();

    let fields = ["frame.interface_name", "frame.time_epoch", "frame.len", "ipv6.tclass.ecn", "tcp.checksum.status"];
    let Some(packets) = tshark(file.path(), "frame", &fields) else {
        return skip("tshark_reads_ipv6", "tshark");
    };
    let expected = [
        ["ingress", "0.000000000", "63", "3", "1"],
        ["ingress", "0.000000000", "100", "2", ""],
        ["egress", "0.005630000", "63", "3", "1"],
        ["egress", "0.006630000", "100", "2", ""],
    ];
    assert_eq!(packets, expected);
    assert_no_complaint(file.path());
}

#[test]
fn what_is_no_ip_packet_is_told_in_the_end() {
    let mut network = Network::new(1);
    let [a, b]: [SocketAddr; 2] = ["10.0.0.1:1", "[2001:db8::2]:2"].map(|text| text.parse().unwrap());
    let hosts = [a, b].map(|address| network.add_host(address.ip(), Scripted::new(address)));
    let (forward, _) = network.connect(hosts[0], hosts[1], link(800, 5), link(800, 5));
    network.capture(forward, std::io::sink()).unwrap();
    network.with_host(hosts[0], |now, host| host.send_at(now, b, vec![0; 10]));
    network.run_until(Instant::ZERO + Duration::from_secs(1));
    assert_eq!(network.host(hosts[1]).arrivals().len(), 1, "the run goes on");
    assert!(network.finish_captures().is_err());
}
