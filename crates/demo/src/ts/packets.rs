//! Packets of a transport stream (ISO/IEC 13818-1 §2.4.3), as far as they are judged: counters, clock, PES packets.

use std::collections::BTreeMap;

/// Length of a packet.
pub(super) const PACKET: usize = 188;
/// PID of null packets.
const NULL_PID: u16 = 0x1FFF;

/// PES packet with a presentation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pes {
    pub(super) pid: u16,
    /// Presentation time in ticks of 90 kHz.
    pub(super) pts: u64,
    /// Bytes of its packets' payload, by which it is known to be whole.
    pub(super) bytes: usize,
    /// Offset of its last packet's last byte in the stream.
    pub(super) end: usize,
}

/// What is read from a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packets {
    pub(super) pes: Vec<Pes>,
    /// Packets whose counter does not follow that of the packet before.
    pub(super) continuity_errors: usize,
    /// Values of the program clock in 27 MHz ticks, with the offset of their packets' last bytes.
    pub(super) clocks: Vec<(u64, usize)>,
}

impl Packets {
    /// Reads a stream of whole packets.
    pub(super) fn read(stream: &[u8]) -> Self {
        let mut read = Self::default();
        let mut open: BTreeMap<u16, Pes> = BTreeMap::new();
        let mut counters: BTreeMap<u16, u8> = BTreeMap::new();
        for (packet, index) in stream.chunks_exact(PACKET).zip(1..) {
            let (pid, counter) = (u16::from_be_bytes([packet[1] & 0x1F, packet[2]]), packet[3] & 0x0F);
            if packet[0] != 0x47 || pid == NULL_PID {
                continue;
            }
            let end = index * PACKET - 1;
            if let Some(clock) = clock(packet) {
                read.clocks.push((clock, end));
            }
            let Some(payload) = payload(packet) else { continue };
            let before = counters.insert(pid, counter);
            // A packet may be repeated once (§2.4.3.3).
            let follows = |before: u8| counter == (before + 1) & 0x0F || counter == before;
            read.continuity_errors += usize::from(!before.is_none_or(follows));
            if packet[1] & 0x40 != 0 {
                read.pes.extend(open.remove(&pid));
                if let Some(pts) = pts(payload) {
                    open.insert(pid, Pes { pid, pts, bytes: payload.len(), end });
                }
            } else if let Some(pes) = open.get_mut(&pid) {
                (pes.bytes, pes.end) = (pes.bytes + payload.len(), end);
            }
        }
        read.pes.extend(open.into_values());
        read
    }
}

fn payload(packet: &[u8]) -> Option<&[u8]> {
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    packet.get(4 + adaptation..).filter(|_| packet[3] & 0x10 != 0)
}

/// Program clock reference (§2.4.3.5).
fn clock(packet: &[u8]) -> Option<u64> {
    if packet[3] & 0x20 == 0 || packet[4] < 7 || packet[5] & 0x10 == 0 {
        return None;
    }
    let [a, b, c, d, e, f] = [6, 7, 8, 9, 10, 11].map(|at| u64::from(packet[at]));
    Some((a << 25 | b << 17 | c << 9 | d << 1 | e >> 7) * 300 + ((e & 1) << 8 | f))
}

/// Presentation time of the PES packet that begins here (§2.4.3.7).
fn pts(payload: &[u8]) -> Option<u64> {
    match *payload {
        [0, 0, 1, _, _, _, _, flags, _, a, b, c, d, e, ..] if flags & 0x80 != 0 => {
            let [a, b, c, d, e] = [a, b, c, d, e].map(u64::from);
            Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Packet with a clock, and a PES packet that begins or goes on.
    pub(in crate::ts) fn packet(pid: u16, counter: u8, clock: u32, pts: Option<u32>) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let base = clock.to_be_bytes();
        let mut packet = vec![0x47, high | if pts.is_some() { 0x40 } else { 0 }, low, 0x30 | counter, 7, 0x10];
        // The clock's base has 33 bits.
        packet.extend([base[0] >> 1, base[0] << 7 | base[1] >> 1, base[1] << 7 | base[2] >> 1]);
        packet.extend([base[2] << 7 | base[3] >> 1, base[3] << 7 | 0x7E, 0]);
        if let Some(pts) = pts {
            packet.extend([0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0x21 | (pts >> 29) as u8 & 0x0E]);
            packet.extend([(pts >> 22) as u8, (pts >> 14) as u8 | 1, (pts >> 7) as u8, (pts << 1) as u8 | 1]);
        }
        packet.resize(PACKET, 0x55);
        packet
    }

    #[test]
    fn pes_packets_clocks_and_gaps_are_found() {
        let stream = [
            packet(0x100, 14, 90_000, Some(123_456_789)),
            packet(0x100, 15, 90_001, None),
            packet(0x101, 3, 90_002, Some(5)),
            packet(0x100, 0, 90_003, Some(7)),
            packet(0x100, 2, 90_004, None),
        ];
        let read = Packets::read(&stream.concat());
        assert_eq!(read.continuity_errors, 1, "from 0 to 2");
        assert_eq!(read.clocks[0], (90_000 * 300, PACKET - 1));
        let times: Vec<_> = read.pes.iter().map(|pes| (pes.pid, pes.pts, pes.end / PACKET)).collect();
        assert_eq!(times, [(0x100, 123_456_789, 1), (0x100, 7, 4), (0x101, 5, 2)]);
        assert_eq!(read.pes[0].bytes, 176 * 2);
    }
}
