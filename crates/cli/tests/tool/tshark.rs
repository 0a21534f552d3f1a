//! Wire format checked by tshark, on the capture of a real stream.
//!
//! tshark 4.0 cannot read DCCP in UDP: its dissector is registered for IP protocol 33 only, and `-d
//! udp.port==6511,dccp` is refused. It checks IP and UDP here; the same DCCP packets are rewrapped directly in IP, with
//! the checksum for that.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use etherparse::{IpNumber, Ipv4Header, NetSlice, SlicedPacket, TransportSlice};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use rustix::process::Signal;
use timeous_dccp::{Encapsulation, packet};

use crate::support::{DCCP_COMPLAINTS, Files, clip, emulate, free_port, skip, timeous};

/// Fields of the packets that `filter` selects; `None` without tshark.
fn tshark(capture: &str, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-r", capture, "-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    command.args(["-o", "dccp.check_checksum:TRUE", "-d", "udp.port==1-65535,data", "-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// Rewrites a capture without the UDP headers; returns the number of packets.
fn rewrap(capture: &str, native: &Path) -> usize {
    let mut reader = PcapNgReader::new(File::open(capture).unwrap()).unwrap();
    let mut writer = PcapNgWriter::new(File::create(native).unwrap()).unwrap();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options: vec![] };
    writer.write_pcapng_block(interface).unwrap();
    let mut count = 0;
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(sighting) = block.unwrap() else { continue };
        // Each packet is captured twice; use one.
        if sighting.interface_id != 0 {
            continue;
        }
        let sliced = SlicedPacket::from_ip(&sighting.data).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (sliced.net, sliced.transport) else {
            panic!("what passes the link is UDP over IPv4");
        };
        let (source, destination) = (ip.header().source_addr(), ip.header().destination_addr());
        let mut dccp = udp.payload().to_vec();
        assert_eq!(dccp[6..8], [0, 0], "in UDP the checksum of DCCP is zero (RFC 6773 §3.3)");
        let native = Encapsulation::Native { source: source.into(), destination: destination.into() };
        packet::finish(&mut dccp, 0, native).unwrap();
        let len = u16::try_from(dccp.len()).unwrap();
        let mut header = Ipv4Header::new(len, 64, IpNumber(33), source.octets(), destination.octets()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let data = [&header.to_bytes()[..], &dccp].concat();
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: sighting.timestamp,
            original_len: data.len() as u32,
            data: data.into(),
            options: vec![],
        };
        writer.write_pcapng_block(block).unwrap();
        count += 1;
    }
    count
}

#[test]
fn a_real_stream_is_read_without_complaint() {
    let files = Files::new();
    let (near, far) = (free_port(), free_port());
    let [capture, native] = ["link.pcapng", "native.pcapng"].map(|name| files.path(name));
    let source = files.write("clip.h264", &clip(60));
    let link = ["--rate", "1500k", "--delay", "10ms", "--loss", "4%", "--back-loss", "4%", "--capture", &capture];
    let mut link = emulate(near, far, &link);
    let mut receiver =
        timeous(&["recv", &format!("timeous://:{far}?latency=400ms&reconnect=off"), &files.path("out.h264")]);
    timeous(&["send", &source, &format!("timeous://127.0.0.1:{near}?latency=400ms&reconnect=off")]).ends_with(0);
    receiver.ends_with(0);
    link.signal(Signal::INT);
    link.ends_with(0);

    let wrong = "_ws.malformed || ip.checksum.status != \"Good\" || udp.checksum.status != \"Good\" || !udp \
                 || _ws.expert.severity >= \"Warning\"";
    let Some(complaints) = tshark(&capture, wrong, &["frame.number", "_ws.expert.message"]) else {
        return skip("a_real_stream_is_read_without_complaint", "tshark");
    };
    assert!(complaints.is_empty(), "{complaints:?}");
    for lens in tshark(&capture, "udp", &["ip.len", "udp.length"]).unwrap() {
        let [ip, udp] = [0, 1].map(|n: usize| lens[n].parse::<u32>().unwrap());
        assert_eq!(ip, udp + 20);
    }

    let count = rewrap(&capture, Path::new(&native));
    let complaints = tshark(&native, DCCP_COMPLAINTS, &["frame.number", "_ws.col.Info", "_ws.expert.message"]).unwrap();
    assert!(complaints.is_empty(), "{complaints:?}");
    let types: Vec<u8> =
        tshark(&native, "dccp", &["dccp.type"]).unwrap().iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(types.len(), count);
    let seen: BTreeSet<u8> = types.iter().copied().collect();
    // Request, Response, Data or DataAck, Ack, Close.
    assert!(
        [0, 1, 3, 6].iter().all(|kind| seen.contains(kind)) && (seen.contains(&2) || seen.contains(&4)),
        "{seen:?}"
    );
    assert!(types.iter().filter(|kind| matches!(kind, 2 | 4)).count() > 60, "every frame has a packet or more");
}
