//! Packet sizes of a path: datagrams of seven transport packets by default, and a path whose size falls.

use std::net::{Ipv4Addr, UdpSocket};

use timeous::clock;
use timeous::core::Duration;

use crate::support::{Files, PATIENCE, clip, emulate, free_port, is_free, sleep_until, timeous, until};

const PACKET: usize = 188;
/// Bytes in a datagram of seven packets, as encoders send it.
const DATAGRAM: usize = 7 * PACKET;
const PMT: u16 = 0x100;
const AUDIO: u16 = 0x101;

/// CRC-32 of a section (ISO/IEC 13818-1 annex A).
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 })
    })
}

/// Packet with the beginning of a payload, or the rest of it, of at most 184 bytes.
fn packet(pid: u16, begins: bool, counter: usize, payload: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut packet = vec![0x47, high | if begins { 0x40 } else { 0 }, low, 0x10 | counter as u8 & 0x0f];
    packet.extend(payload);
    packet.resize(PACKET, 0xff);
    packet
}

/// Tables of a program with one stream of sound.
fn tables(counter: usize) -> Vec<u8> {
    let section = |table: u8, body: &[u8]| {
        let mut section = vec![table, 0xb0, (body.len() + 9) as u8, 0, 1, 0xc1, 0, 0];
        section.extend(body);
        let crc = crc(&section);
        section.extend(crc.to_be_bytes());
        [&[0], &section[..]].concat()
    };
    let programs = packet(0, true, counter, &section(0, &[0, 1, 0xe1, 0]));
    let streams = packet(PMT, true, counter, &section(2, &[0xe1, 1, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0]));
    [programs, streams].concat()
}

/// Datagram of seven packets: one whole PES packet.
fn sound(number: usize) -> Vec<u8> {
    let mut pes = vec![0, 0, 1, 0xc0, 0, 0, 0x80, 0, 0];
    pes.extend(number.to_be_bytes());
    pes.extend((pes.len()..7 * (PACKET - 4)).map(|at| (at * 31 + number) as u8));
    let len = ((pes.len() - 6) as u16).to_be_bytes();
    pes[4..6].copy_from_slice(&len);
    let parts = pes.chunks(PACKET - 4).enumerate();
    parts.flat_map(|(at, part)| packet(AUDIO, at == 0, number * 7 + at, part)).collect()
}

/// Feeds the sender at `port` a datagram each 10 ms, with tables before every fiftieth, while `goes_on` with their number.
fn feed(port: u16, mut goes_on: impl FnMut(usize) -> bool) {
    let encoder = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut next = clock::now();
    for number in 0.. {
        if !goes_on(number) {
            return;
        }
        if number % 50 == 0 {
            encoder.send_to(&tables(number / 50), (Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        encoder.send_to(&sound(number), (Ipv4Addr::LOCALHOST, port)).unwrap();
        next += Duration::from_millis(10);
        sleep_until(next);
    }
}

#[test]
fn datagrams_of_seven_packets_arrive_with_their_sizes_and_bytes() {
    const COUNT: usize = 300;
    for security in ["", "&passphrase=between+us+two"] {
        let (near, far, input) = (free_port(), free_port(), free_port());
        let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        player.set_nonblocking(true).unwrap();
        let output = format!("udp://{}", player.local_addr().unwrap());
        let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency=3s&reconnect=off{security}"), &output]);
        receiver.until_it_says("listening");
        let _link = emulate(near, far, &["--delay", "10ms", "--back-delay", "10ms", "--loss", "1%", "--mtu", "1500"]);
        let (source, to) = (format!("udp://:{input}"), format!("timeous://127.0.0.1:{near}?latency=3s{security}"));
        let mut sender = timeous(&["send", &source, &to]);
        until("the sender listens", || !is_free(input));
        let (mut came, mut datagram) = (Vec::new(), [0; 2 * DATAGRAM]);
        let mut take = || {
            while let Ok(len) = player.recv(&mut datagram) {
                // The receiver repeats tables.
                if datagram[1..3] == [0x41, 1] {
                    came.push(datagram[..len].to_vec());
                }
            }
            came.last().cloned()
        };
        // The tool does not send packets that it reads before the receiver is connected.
        let (mut first, began) = (None, clock::now());
        feed(input, |number| {
            assert!(clock::now() - began < PATIENCE, "{}", sender.errors());
            take();
            if first.is_none() && sender.errors().contains("connected to") {
                first = Some(number);
            }
            first.is_none_or(|first| number < first + COUNT)
        });
        let numbers = first.unwrap()..first.unwrap() + COUNT;
        let last = sound(numbers.end - 1);
        until("the last datagram arrives", || take().as_ref() == Some(&last));
        assert!(came.len() >= COUNT, "{security}: {} of {COUNT}", came.len());
        for (datagram, number) in came.iter().rev().zip(numbers.rev()) {
            assert!(*datagram == sound(number), "{security}: the {number}th of {} bytes", datagram.len());
        }
        sender.stop();
        receiver.ends_with(0);
    }
}

#[test]
fn a_path_whose_size_falls_is_told_at_once() {
    let (near, far, input) = (free_port(), free_port(), free_port());
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let output = format!("udp://{}", player.local_addr().unwrap());
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?reconnect=off"), &output]);
    receiver.until_it_says("listening");
    let _link =
        emulate(near, far, &["--delay", "10ms", "--back-delay", "10ms", "--mtu", "1500", "--mtu-then", "3s,1280"]);
    let mut sender = timeous(&["send", &format!("udp://:{input}"), &format!("timeous://127.0.0.1:{near}")]);
    until("the sender listens", || !is_free(input));
    let began = clock::now();
    let may_go_on = || clock::now() - began < PATIENCE;
    feed(input, |number| number % 10 != 0 || may_go_on() && !sender.errors().contains("path MTU fell"));
    let text = sender.stop();
    assert!(text.contains("path MTU fell: packets to 127.0.0.1"), "{text}");
    receiver.ends_with(0);
}

#[test]
fn packets_of_h264_fill_what_the_path_carries() {
    let files = Files::new();
    let (source, journal) = (files.write("clip.h264", &clip(75)), files.path("journal.csv"));
    let (near, far) = (free_port(), free_port());
    let mut receiver =
        timeous(&["recv", &format!("timeous://:{far}?latency=3s&reconnect=off"), &files.path("out.h264")]);
    receiver.until_it_says("listening");
    let _link = emulate(near, far, &["--mtu", "1400"]);
    timeous(&["send", &source, &format!("timeous://127.0.0.1:{near}?latency=3s"), "--journal", &journal]).ends_with(0);
    receiver.ends_with(0);
    let rows = std::fs::read_to_string(journal).unwrap();
    let sizes = rows.lines().skip(1).map(|row| row.split(',').nth(4).unwrap().parse::<usize>().unwrap());
    // A packet of 1400 bytes holds 1308: the headers of IPv4 and UDP take 28, that of DCCP with its options 64. Slices are cut
    // into parts of about the same size.
    let largest = sizes.max().unwrap();
    assert!((1_200..=1_400 - 28 - 64).contains(&largest), "{largest}");
}
