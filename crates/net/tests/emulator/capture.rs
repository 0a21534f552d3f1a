//! Tests of captures: tshark reads them without complaint, with nanosecond times.

use timeous_core::{Duration, Ecn};
use timeous_net::capture::{Capture, Interface, UdpFlow, udp_overhead};

use crate::tools;

#[test]
fn a_capture_is_read_by_tshark_without_complaint() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut capture = Capture::create(file.path()).unwrap();
    let flow = |source: &str, destination: &str, ecn, ident| UdpFlow {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        ecn,
        ident,
    };
    let v4 = flow("127.0.0.1:40000", "127.0.0.1:9999", Ecn::Ect0, 7);
    let v6 = flow("[::1]:40000", "[::1]:9999", Ecn::Ce, 8);
    let time = Duration::from_nanos(1_700_000_000_123_456_789);
    capture.udp(Interface::Ingress, time, &v4, b"odd", None).unwrap();
    capture.udp(Interface::Ingress, time, &v4, b"", Some("dropped: queue full")).unwrap();
    capture.udp(Interface::Egress, time + Duration::from_nanos(1), &v6, &[0xff; 1_400], None).unwrap();
    capture.flush().unwrap();

    let fields = ["frame.interface_name", "frame.time_epoch", "frame.len", "ip.dsfield.ecn", "ipv6.tclass.ecn"];
    let fields = [&fields[..], &["ip.id", "udp.length", "frame.comment", "udp.checksum.status"]].concat();
    let Some(packets) = tools::tshark(file.path(), "frame", &fields) else {
        return tools::skip("a_capture_is_read_by_tshark_without_complaint", "tshark");
    };
    assert_eq!(
        packets,
        [
            ["ingress", "1700000000.123456789", "31", "2", "", "0x0007", "11", "", "1"],
            ["ingress", "1700000000.123456789", "28", "2", "", "0x0007", "8", "dropped: queue full", "1"],
            ["egress", "1700000000.123456790", "1448", "", "3", "", "1408", "", "1"],
        ]
    );
    tools::assert_no_complaint(file.path());
}

#[test]
fn a_payload_has_28_bytes_of_headers_over_ipv4_and_48_over_ipv6() {
    assert_eq!(udp_overhead(&"127.0.0.1:1".parse().unwrap()), 28);
    assert_eq!(udp_overhead(&"[::1]:1".parse().unwrap()), 48);
}

#[test]
fn families_do_not_mix() {
    let mut capture = Capture::new(Vec::new()).unwrap();
    let flow = UdpFlow {
        source: "127.0.0.1:1".parse().unwrap(),
        destination: "[::1]:1".parse().unwrap(),
        ecn: Ecn::NotEct,
        ident: 0,
    };
    assert!(capture.udp(Interface::Ingress, Duration::ZERO, &flow, b"x", None).is_err());
}

#[test]
fn tshark_would_complain_about_a_bad_checksum() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut capture = Capture::create(file.path()).unwrap();
    let packet = etherparse::PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64).udp(1, 2);
    let mut bytes = Vec::new();
    packet.write(&mut bytes, b"payload").unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    capture.ip(Interface::Ingress, Duration::ZERO, &bytes, None).unwrap();
    capture.flush().unwrap();
    match tools::tshark(file.path(), tools::COMPLAINTS, &["frame.number"]) {
        Some(complaints) => assert_eq!(complaints, [["1"]]),
        None => tools::skip("tshark_would_complain_about_a_bad_checksum", "tshark"),
    }
}
