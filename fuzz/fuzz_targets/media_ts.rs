//! A transport stream that is damaged, and RTP packets of it that are lost, reordered and changed: nothing panics, memory is bounded, and
//! what comes out is whole packets.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{Duration, Instant};
use timeous_media::Release;
use timeous_media::mp4::TsMp4Writer;
use timeous_media::ts::{ContinuousTimes, PACKET_LEN, TsPacketizer, TsPlayout, TsReader};

#[derive(Arbitrary, Debug)]
struct Input {
    /// Packets: PID, flags of the header, adaptation field, payload.
    packets: Vec<(u16, u8, u8, Vec<u8>)>,
    raw: Vec<u8>,
    chunk: u8,
    /// Fates of the RTP packets: lost, kept for later, or with a byte changed.
    fates: Vec<(u8, u16, u8)>,
    mtu: u16,
}

fuzz_target!(|input: Input| {
    let mut bytes = input.raw.clone();
    for (pid, flags, adaptation, payload) in &input.packets {
        let mut packet = [0xff; PACKET_LEN];
        // A few PIDs, among them those of tables.
        let pid = if pid & 1 == 0 { pid % 4 } else { 0x100 + pid % 4 };
        let [high, low] = pid.to_be_bytes();
        packet[..5].copy_from_slice(&[0x47, flags & 0x40 | high, low, *flags, *adaptation]);
        let at = 4 + usize::from(flags & 0x20 != 0) * (1 + usize::from(*adaptation));
        for (slot, byte) in packet.iter_mut().skip(at).zip(payload) {
            *slot = *byte;
        }
        bytes.extend(packet);
    }
    let mut reader = TsReader::new();
    let mut units = Vec::new();
    for chunk in bytes.chunks(usize::from(input.chunk) + 1) {
        if reader.push(chunk).is_err() {
            return;
        }
        if input.chunk & 1 == 0 {
            reader.flush();
        }
    }
    reader.finish();
    while let Some(unit) = reader.next_unit() {
        assert!(unit.packets.len().is_multiple_of(PACKET_LEN));
        units.push(unit);
    }
    let Ok(mut packetizer) = TsPacketizer::new(usize::from(input.mtu), 1, 0xfff0, 0) else { return };
    let mut playout = TsPlayout::new(Duration::from_millis(100), Release::Constant);
    let (mut continuous, mut recording) = (ContinuousTimes::default(), TsMp4Writer::default());
    let mut fates = input.fates.iter().cycle();
    let (mut later, mut now) = (Vec::new(), Instant::ZERO);
    for unit in &units {
        now += Duration::from_millis(3);
        for (_, mut rtp) in packetizer.packetize(unit, now.as_nanos() / 11_111, false) {
            match fates.next().copied().unwrap_or_default() {
                (0, ..) => continue,
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
            assert!(!release.packets.is_empty() && release.packets.len().is_multiple_of(PACKET_LEN));
            let release = continuous.push(release);
            assert!(release.packets.len().is_multiple_of(PACKET_LEN));
            let _ = recording.push(&release.packets);
            let _ = recording.take();
        }
    }
    playout.handle_timeout(now + Duration::from_secs(1));
    playout.finish();
    recording.finish();
    let came: u64 = playout.streams().map(|(_, counts)| counts.released).sum();
    assert!(came <= playout.stats().released);
    assert!(!playout.holds_packets());
});
