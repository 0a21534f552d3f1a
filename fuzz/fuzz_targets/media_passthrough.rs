//! RTP of several codecs that is damaged, and packets that carry it that are lost, reordered and changed: nothing panics, and what comes
//! out is RTP.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{Duration, Instant};
use timeous_media::container::RtpToTs;
use timeous_media::passthrough::{PassthroughPacketizer, PassthroughPlayout, PassthroughReader};
use timeous_media::ts::PACKET_LEN;
use timeous_media::{MediaDescription, Release};

/// Header extension of AV1 that tells layers.
const DESCRIPTOR: &str =
    "a=extmap:1 https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
const CODECS: [&str; 8] = ["H264", "H265", "VP8", "VP9", "AV1", "opus", "MPEG4-GENERIC", "unknown"];

#[derive(Arbitrary, Debug)]
struct Input {
    codecs: [u8; 2],
    /// Packets: stream, step of the number and presence of a descriptor, step of the timestamp, marker, payload behind it.
    packets: Vec<(bool, u8, u8, bool, Vec<u8>)>,
    /// Packets as they are.
    raw: Vec<Vec<u8>>,
    /// Fates of the packets on the connection: lost, kept for later, or with a byte changed.
    fates: Vec<(u8, u16, u8)>,
    mtu: u16,
}

fuzz_target!(|input: Input| {
    let streams = input.codecs.map(|codec| {
        let codec = CODECS[usize::from(codec) % CODECS.len()];
        let kind = if matches!(codec, "opus" | "MPEG4-GENERIC") { "audio" } else { "video" };
        MediaDescription::parse(&format!("m={kind} 5004 RTP/AVP 96\na=rtpmap:96 {codec}/90000\n{DESCRIPTOR}")).unwrap()
    });
    let descriptions = streams.clone();
    let mut reader = PassthroughReader::new(streams);
    let (mut numbers, mut timestamps) = ([0u16; 2], [0u32; 2]);
    let mut now = Instant::ZERO;
    let mut units = Vec::new();
    for (stream, step, ticks, marker, payload) in &input.packets {
        let at = usize::from(*stream);
        numbers[at] = numbers[at].wrapping_add(u16::from(*step % 4));
        timestamps[at] = timestamps[at].wrapping_add(u32::from(*ticks % 3) * 3_000);
        let mut packet = vec![0x80, 96 | if *marker { 0x80 } else { 0 }];
        packet.extend(numbers[at].to_be_bytes());
        packet.extend(timestamps[at].to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        let (element, payload) = payload.split_at(if *step & 4 == 0 { 0 } else { payload.len().min(60) });
        if !element.is_empty() {
            // An element with a header of two bytes (RFC 8285 §4.3).
            let mut extension = vec![1, element.len() as u8];
            extension.extend(element);
            extension.resize(extension.len().next_multiple_of(4), 0);
            packet[0] |= 0x10;
            packet.extend([0x10, 0, 0, (extension.len() / 4) as u8]);
            packet.extend(extension);
        }
        packet.extend(payload);
        now += Duration::from_millis(3);
        let _ = reader.push(now, at, &packet);
    }
    for packet in &input.raw {
        let _ = reader.push(now, 0, packet);
    }
    reader.handle_timeout(now + Duration::from_secs(1));
    while let Some(unit) = reader.next_unit() {
        units.push(unit);
    }
    let Ok(mut packetizer) = PassthroughPacketizer::new(usize::from(input.mtu), 1, 0xfff0, 0) else { return };
    let mut playout = PassthroughPlayout::new(Duration::from_millis(100), Release::Constant);
    let mut recorder = RtpToTs::new(&descriptions);
    let mut fates = input.fates.iter().cycle();
    let mut later = Vec::new();
    for unit in &units {
        now += Duration::from_millis(3);
        for (_, mut rtp) in packetizer.packetize(unit, now.as_nanos() / 11_111, false) {
            match fates.next().copied().unwrap_or((3, 0, 0)) {
                (0, ..) => {
                    packetizer.count_given_up(unit.stream);
                    continue;
                }
                (1, ..) => {
                    later.push(rtp);
                    continue;
                }
                (2, at, to) => {
                    let at = usize::from(at) % rtp.len();
                    rtp[at] = to;
                }
                _ => {}
            }
            let _ = playout.handle_packet(now, &rtp);
        }
        if let Some(rtp) = later.pop().filter(|_| later.len() > 3) {
            let _ = playout.handle_packet(now, &rtp);
        }
        while let Some(release) = playout.poll_release() {
            assert!(release.packets.iter().all(|packet| packet.len() >= 12));
            assert!(recorder.push(&release).len().is_multiple_of(PACKET_LEN));
        }
    }
    playout.handle_timeout(now + Duration::from_secs(1));
    playout.finish();
    assert!(!playout.holds_packets());
    assert!(recorder.finish().len().is_multiple_of(PACKET_LEN));
});
