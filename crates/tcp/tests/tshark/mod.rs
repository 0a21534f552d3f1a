//! Captures for tshark: segments in IP packets, in a file.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use timeous_tcp::Addresses;

/// Wraps a segment in an IP packet.
pub(crate) fn wrapped(segment: &[u8], addresses: Addresses) -> Vec<u8> {
    let len = u16::try_from(segment.len()).unwrap();
    let ip = match (addresses.source, addresses.destination) {
        (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) => {
            let mut ip = Ipv4Header::new(len, 64, IpNumber::TCP, source.octets(), destination.octets()).unwrap();
            ip.header_checksum = ip.calc_header_checksum();
            ip.to_bytes().to_vec()
        }
        (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) => Ipv6Header {
            traffic_class: 0,
            flow_label: 0.try_into().unwrap(),
            payload_length: len,
            next_header: IpNumber::TCP,
            hop_limit: 64,
            source: source.octets(),
            destination: destination.octets(),
        }
        .to_bytes()
        .to_vec(),
        _ => unreachable!("both are of one family"),
    };
    [&ip, segment].concat()
}

/// Writes IP packets with their times since the beginning.
pub(crate) fn write(packets: impl IntoIterator<Item = (std::time::Duration, Vec<u8>)>, path: &Path) {
    let mut writer = PcapNgWriter::new(File::create(path).unwrap()).unwrap();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options: vec![] };
    writer.write_pcapng_block(interface).unwrap();
    for (timestamp, packet) in packets {
        let original_len = packet.len() as u32;
        let block =
            EnhancedPacketBlock { interface_id: 0, timestamp, original_len, data: packet.into(), options: vec![] };
        writer.write_pcapng_block(block).unwrap();
    }
}

/// Reports that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
pub(crate) fn skip(test: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs tshark");
    eprintln!("SKIPPED {test}: needs tshark");
}

/// Returns the named fields of the packets that `filter` selects; `None` without tshark. With `analyze`, tshark
/// analyses sequences of segments, otherwise each segment alone.
pub(crate) fn tshark(capture: &Path, analyze: bool, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    let analyze = format!("tcp.analyze_sequence_numbers:{}", if analyze { "TRUE" } else { "FALSE" });
    command.args(["-o", "tcp.relative_sequence_numbers:FALSE", "-o", &analyze]);
    // Random payload must not be taken for another protocol.
    command.args(["-d", "tcp.port==0-65535,data", "-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}
