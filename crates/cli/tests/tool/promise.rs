//! Deadline guarantee on the wire: no packet leaves after its deadline.

use std::collections::BTreeMap;
use std::fs::File;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcapng::{Block, PcapNgReader};
use rustix::process::Signal;
use timeous_dccp::{Encapsulation, Opt, Packet};

use crate::support::{Files, clip, emulate, free_port, timeous};

/// Row of the sender's journal: deadline (Unix time in nanoseconds) and fate.
struct Promise {
    deadline: u64,
    fate: String,
}

fn journal(path: &str) -> BTreeMap<u16, Promise> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let [sequence, deadline, fate] = ["rtp_sequence", "deadline", "fate"].map(column);
    let promise = |row: csv::StringRecord| {
        let promise = Promise { deadline: row[deadline].parse().unwrap(), fate: row[fate].to_owned() };
        (row[sequence].parse().unwrap(), promise)
    };
    reader.records().map(|row| promise(row.unwrap())).collect()
}

/// RTP packets that entered a link towards a port: Unix time in nanoseconds, sequence number.
#[derive(Default)]
struct LinkEntries {
    rtp: Vec<(u64, u16)>,
    /// Parity packets, with the newest RTP packet of their block.
    parity: Vec<(u64, u16)>,
}

fn entered(capture: &str, port: u16) -> LinkEntries {
    const INGRESS: u32 = 0;
    let mut reader = PcapNgReader::new(File::open(capture).unwrap()).unwrap();
    let mut found = LinkEntries::default();
    let mut by_seq = BTreeMap::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        if packet.interface_id != INGRESS {
            continue;
        }
        let at = packet.timestamp.as_nanos() as u64;
        let sliced = SlicedPacket::from_ip(&packet.data).unwrap();
        assert!(matches!(sliced.net, Some(NetSlice::Ipv4(_))));
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("a packet that is not UDP") };
        let dccp = Packet::parse(udp.payload(), Encapsulation::Udp).expect("what passes the link is DCCP");
        if udp.destination_port() == port && !dccp.payload.is_empty() && dccp.header.packet_type().carries_data() {
            let seq = dccp.header.seq.short();
            let back = dccp.options().find_map(|item| match item.unwrap().opt {
                Opt::Parity { back, .. } => Some(back),
                _ => None,
            });
            if let Some(back) = back {
                found.parity.extend(by_seq.get(&(seq - u32::from(back))).map(|&sequence| (at, sequence)));
            } else {
                // RTCP differs from RTP in the second byte (RFC 5761 §4).
                if (192..=223).contains(&dccp.payload[1]) {
                    continue;
                }
                let sequence = u16::from_be_bytes([dccp.payload[2], dccp.payload[3]]);
                by_seq.insert(seq, sequence);
                found.rtp.push((at, sequence));
            }
        }
    }
    found
}

fn nothing_leaves_late(policy: &str, link: &[&str]) {
    let files = Files::new();
    let (near, far) = (free_port(), free_port());
    let [capture, list, sink] = ["link.pcapng", "journal.csv", "out.h264"].map(|name| files.path(name));
    let source = files.write("clip.h264", &clip(180));
    let mut link = emulate(near, far, &[link, &["--capture", &capture]].concat());
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency=400ms&reconnect=off"), &sink]);
    let to = format!("timeous://127.0.0.1:{near}?latency=400ms&reconnect=off&policy={policy}");
    timeous(&["send", &source, &to, "--journal", &list]).ends_with(0);
    receiver.ends_with(0);
    link.signal(Signal::INT);
    link.ends_with(0);

    let journal = journal(&list);
    let LinkEntries { rtp: entered, parity } = entered(&capture, far);
    assert!(entered.len() > 100, "{policy}: only {} packets entered the link", entered.len());
    let given_up = journal.values().filter(|row| !matches!(row.fate.as_str(), "acked" | "lost")).count();
    assert!(given_up > 50, "{policy}: half of the rate leaves hardly anything to give up: {given_up}");
    for (at, sequence) in &entered {
        let promise = journal.get(sequence).expect("what is on the wire was handed over");
        let late = at.saturating_sub(promise.deadline);
        assert_eq!(late, 0, "{policy}: RTP packet {sequence} ({}) entered the link {late} ns late", promise.fate);
        assert!(
            matches!(promise.fate.as_str(), "acked" | "lost"),
            "{policy}: {sequence} left, but is {}",
            promise.fate
        );
    }
    for (at, newest) in parity {
        let late = at.saturating_sub(journal[&newest].deadline);
        assert_eq!(late, 0, "{policy}: parity up to RTP packet {newest} entered the link {late} ns late");
    }
    let left: Vec<u16> = entered.iter().map(|&(_, sequence)| sequence).collect();
    for (sequence, row) in &journal {
        let expected = matches!(row.fate.as_str(), "acked" | "lost");
        assert_eq!(left.contains(sequence), expected, "{policy}: RTP packet {sequence} is {}", row.fate);
    }
}

const HALF: [&str; 8] = ["--rate", "1150k", "--delay", "20ms", "--back-delay", "20ms", "--queue", "100ms"];

#[test]
fn nothing_enters_a_link_of_half_the_rate_after_its_deadline_whole_frames_given_up() {
    nothing_leaves_late("frames", &HALF);
}

#[test]
fn nothing_enters_a_link_of_half_the_rate_after_its_deadline_nor_is_repaired_too_late() {
    nothing_leaves_late("deadline", &[&HALF[..], &["--loss", "5%", "--seed", "3"]].concat());
}
