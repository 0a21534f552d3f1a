//! Packets on the emulated link, from the capture: counted by us, and checked by tshark.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use etherparse::Ipv4HeaderSlice;
use pcap_file::pcapng::{Block, PcapNgReader};
use timeous_dccp::{Body, Encapsulation, Header, Packet, PacketType};

use crate::machine::OURS;

const PROTOCOL: u8 = 33;

/// Packets that left the link in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) packets: u64,
    /// Sequence numbers of packets with application data.
    pub(crate) data: BTreeSet<u64>,
    /// Number of those that the receiver took for out of sync, and answered with a Sync (RFC 4340 §7.5.4).
    pub(crate) refused: u64,
    /// Packets that are not DCCP, or have a wrong checksum.
    pub(crate) malformed: u64,
}

/// Counts the packets from us, and those from Linux.
pub(crate) fn passed(capture: &Path) -> [Passed; 2] {
    const EGRESS: u32 = 1;
    let ours: IpAddr = OURS.parse().unwrap();
    let mut passed = [Passed::default(), Passed::default()];
    // Sequence numbers that Syncs acknowledge.
    let mut answered = [BTreeSet::new(), BTreeSet::new()];
    let mut reader = PcapNgReader::new(File::open(capture).unwrap()).unwrap();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(sighting) = block.unwrap() else { continue };
        let Ok(ip) = Ipv4HeaderSlice::from_slice(&sighting.data) else { continue };
        if ip.protocol().0 != PROTOCOL {
            continue;
        }
        let (source, destination) = (ip.source_addr().into(), ip.destination_addr().into());
        let from = usize::from(source != ours);
        let payload = &sighting.data[ip.slice().len()..usize::from(ip.total_len())];
        let parsed = Packet::parse(payload, Encapsulation::Native { source, destination });
        // A Sync counts when it was sent, whether or not it arrived.
        if let Ok(Packet { header: Header { body: Body::Sync { ack }, .. }, .. }) = &parsed {
            answered[1 - from].insert(ack.value());
        }
        if sighting.interface_id != EGRESS {
            continue;
        }
        passed[from].packets += 1;
        match parsed {
            Ok(packet) if matches!(packet.header.packet_type(), PacketType::Data | PacketType::DataAck) => {
                passed[from].data.insert(packet.header.seq.value());
            }
            Ok(_) => {}
            Err(_) => passed[from].malformed += 1,
        }
    }
    for (passed, answered) in passed.iter_mut().zip(&answered) {
        passed.refused = passed.data.intersection(answered).count() as u64;
    }
    passed
}

/// Returns tshark's warnings about packets from this address; `None` without tshark.
pub(crate) fn complaints(capture: &Path, from: &str) -> Option<Vec<String>> {
    let wrong = format!(
        "dccp && ip.src == {from} && (_ws.malformed || dccp.checksum.status != \"Good\" \
         || _ws.expert.severity >= \"Warning\" || dccp.option_reserved || dccp.option_unknown || dccp.option.len.bad)"
    );
    let mut command = Command::new("tshark");
    command.arg("-r").arg(capture).args(["-n", "-o", "dccp.check_checksum:TRUE", "-Y", &wrong]);
    command.args(["-T", "fields", "-e", "frame.number", "-e", "_ws.col.Info", "-e", "_ws.expert.message"]);
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
