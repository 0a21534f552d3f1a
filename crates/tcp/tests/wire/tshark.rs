//! tshark parses every kind of segment that this crate writes, without complaints.

use timeous_tcp::{Addresses, Flags, Header, Options, SackBlock, SackBlocks, Seq, Timestamps};

use crate::capture::{skip, tshark, wrapped};
use crate::codec::emit;

struct Sent {
    header: Header,
    options: Options,
    len: usize,
    packet: Vec<u8>,
}

fn addresses() -> [Addresses; 2] {
    let of = |source: &str, destination: &str| Addresses {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    };
    [of("192.0.2.1", "198.51.100.7"), of("2001:db8::1", "2001:db8:7::2")]
}

/// Every valid combination of options: the handshake's on a SYN, SACK blocks beyond an acknowledgement.
fn all_options(syn: bool, ack: Option<Seq>) -> Vec<Options> {
    let mut all = Vec::new();
    for bits in 0..(if syn { 8u32 } else { 2 }) {
        for blocks in 0..=(if ack.is_some() { SackBlocks::MAX } else { 0 }) {
            let mut options = Options {
                timestamps: (bits & 1 != 0).then_some(Timestamps { value: 0x8000_0001, echo: 77 }),
                // tshark expects an MSS on every SYN, as RFC 9293 §3.7.1 does.
                mss: syn.then_some(1_460),
                window_scale: (bits & 2 != 0).then_some(14),
                sack_permitted: bits & 4 != 0,
                sack: SackBlocks::default(),
            };
            if blocks <= options.room_for_sack() {
                let edge = |n: u32| ack.unwrap_or_default() + 20 * n;
                let block = |n: u32| SackBlock { left: edge(n) + 10, right: edge(n) + 19 };
                options.sack = (0..blocks as u32).map(block).collect();
                all.push(options);
            }
        }
    }
    all
}

/// Segments of all kinds; their sequence has no meaning.
fn all_segments() -> Vec<Sent> {
    let controls = [Flags::NONE, Flags::PSH, Flags::FIN, Flags::RST, Flags::ECE | Flags::CWR, Flags::SYN];
    let mut all: Vec<Sent> = Vec::new();
    for addresses in addresses() {
        for flags in controls {
            let syn = flags.contains(Flags::SYN);
            // Every segment acknowledges, except the first one and some resets, and no SYN of ours has data.
            let acks = [None, Some(Seq::new(9)), Some(Seq::new(u32::MAX - 30))];
            for ack in acks.into_iter().filter(|ack| ack.is_some() || syn || flags == Flags::RST) {
                for options in all_options(syn, ack) {
                    let len = if syn { 0 } else { [0, 1, 536][all.len() % 3] };
                    let port = 1_024 + all.len() as u16;
                    let seq = Seq::new(u32::MAX - all.len() as u32);
                    let header = Header { ack, flags, window: 512, ..Header::new(port, 5_000, seq) };
                    let segment = emit(&header, &options, &vec![0x55; len], addresses);
                    all.push(Sent { header, options, len, packet: wrapped(&segment, addresses) });
                }
            }
        }
    }
    all
}

fn write(packets: &[Sent], path: &std::path::Path) {
    let times = (0..).map(std::time::Duration::from_millis);
    crate::capture::write(times.zip(packets.iter().map(|sent| sent.packet.clone())), path);
}

/// Filter for complaints of tshark. It warns of every reset, so that warnings for resets are ignored.
const COMPLAINTS: &str = "_ws.malformed || ip.checksum.status == \"Bad\" || tcp.checksum.status != \"Good\" || !tcp \
    || (_ws.expert.severity >= \"Warning\" && tcp.flags.reset == 0) || tcp.option.len.invalid \
    || tcp.options.unknown";

fn expected(sent: &Sent) -> Vec<String> {
    let Sent { header, options, len, .. } = sent;
    let maybe = |value: Option<u32>| value.map(|value| value.to_string()).unwrap_or_default();
    let ack = if header.ack.is_some() { 0x10 } else { 0 };
    let list = |of: fn(&SackBlock) -> Seq| {
        options.sack.iter().map(|block| of(block).to_string()).collect::<Vec<_>>().join(",")
    };
    vec![
        header.source_port.to_string(),
        header.seq.to_string(),
        header.ack.unwrap_or_default().to_string(),
        format!("0x{:04x}", header.flags.bits() | ack),
        header.window.to_string(),
        len.to_string(),
        maybe(options.mss.map(u32::from)),
        maybe(options.window_scale.map(u32::from)),
        if options.sack_permitted { "0402".to_owned() } else { String::new() },
        maybe(options.timestamps.map(|timestamps| timestamps.value)),
        maybe(options.timestamps.map(|timestamps| timestamps.echo)),
        list(|block| block.left),
        list(|block| block.right),
    ]
}

#[test]
fn tshark_reads_every_combination_of_options() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sent = all_segments();
    write(&sent, file.path());
    let Some(complaints) =
        tshark(file.path(), false, COMPLAINTS, &["frame.number", "_ws.col.Info", "_ws.expert.message"])
    else {
        return skip("tshark_reads_every_combination_of_options");
    };
    assert!(complaints.is_empty(), "{complaints:?}");
    let fields = [
        "tcp.srcport",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.flags",
        "tcp.window_size_value",
        "tcp.len",
        "tcp.options.mss_val",
        "tcp.options.wscale.shift",
        "tcp.options.sack_perm",
        "tcp.options.timestamp.tsval",
        "tcp.options.timestamp.tsecr",
        "tcp.options.sack_le",
        "tcp.options.sack_re",
    ];
    let read = tshark(file.path(), false, "frame", &fields).unwrap();
    assert_eq!(read.len(), sent.len());
    for (read, sent) in read.iter().zip(&sent) {
        assert_eq!(read[..], expected(sent), "{:?} {:?}", sent.header, sent.options);
    }
}

#[test]
fn tshark_would_see_a_wrong_checksum() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut sent = all_segments();
    *sent[4].packet.last_mut().unwrap() ^= 1;
    write(&sent[..9], file.path());
    let Some(complaints) = tshark(file.path(), false, COMPLAINTS, &["frame.number"]) else {
        return skip("tshark_would_see_a_wrong_checksum");
    };
    assert_eq!(complaints, [["5"]]);
}
