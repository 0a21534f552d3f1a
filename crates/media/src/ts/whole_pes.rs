//! Whole PES packets of a transport stream, each put together from its units.

use std::collections::BTreeMap;

use super::stream::StreamKind;
use super::unit::TsUnit;

/// Most bytes that wait for the ends of their PES packets, of all PIDs. Chosen by us, as of a picture elsewhere: more takes memory.
const MAX_WAITING: usize = 16 << 20;

/// Puts PES packets together from units, as a player gets them.
#[derive(Clone, Debug, Default)]
pub struct WholePes {
    /// Transport packets of PES packets that have not ended, by PID.
    open: BTreeMap<u16, Vec<u8>>,
    bytes: usize,
}

impl WholePes {
    /// Transport packets of the PES packet that ends with this unit, or of one that is a clock alone. `None`: more of it comes, or more
    /// waited than memory allows, and it was left out.
    pub fn push(&mut self, unit: &TsUnit) -> Option<Vec<u8>> {
        let pid = unit.stream.pid;
        let is_clock = unit.stream.kind == StreamKind::Clock;
        if is_clock && !self.open.contains_key(&pid) {
            return Some(unit.packets.clone()).filter(|packets| !packets.is_empty());
        }
        if unit.first == 0 && !is_clock {
            self.bytes -= self.open.insert(pid, Vec::new()).map_or(0, |left| left.len());
        }
        // Without its beginning a PES packet is of no use. A clock within it keeps its place.
        let open = self.open.get_mut(&pid)?;
        open.extend_from_slice(&unit.packets);
        self.bytes += unit.packets.len();
        if self.bytes > MAX_WAITING {
            (self.open, self.bytes) = (BTreeMap::new(), 0);
        }
        if is_clock || !unit.last {
            return None;
        }
        let packets = self.open.remove(&pid)?;
        self.bytes -= packets.len();
        Some(packets).filter(|packets| !packets.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ts::{PACKET_LEN, TsReader, TsStream};

    /// Unit of a PES packet in one transport packet.
    fn unit() -> TsUnit {
        let mut packet = [0xff; PACKET_LEN];
        packet[..13].copy_from_slice(&[0x47, 0x41, 1, 0x10, 0, 0, 1, 0xe0, 0, 178, 0x80, 0, 0]);
        let mut reader = TsReader::new();
        reader.push(&packet.repeat(5)).unwrap();
        reader.finish();
        reader.next_unit().unwrap()
    }

    /// Found by reading: packets with a clock alone left before the PES packet around them, whose clock is earlier.
    #[test]
    fn a_clock_within_a_pes_packet_keeps_its_place() {
        let whole = TsUnit { packets: vec![1; PACKET_LEN], first: 0, last: true, ..unit() };
        let begin = TsUnit { last: false, ..whole.clone() };
        let stream = TsStream { kind: StreamKind::Clock, ..whole.stream };
        let clock = TsUnit { packets: vec![2; PACKET_LEN], stream, ..whole.clone() };
        let end = TsUnit { packets: vec![3; PACKET_LEN], first: 1, ..whole.clone() };
        let mut pes = WholePes::default();
        assert_eq!(pes.push(&clock), Some(clock.packets.clone()), "none is open");
        assert_eq!([&begin, &clock].map(|unit| pes.push(unit)), [None, None]);
        assert_eq!(pes.push(&end), Some([begin.packets, clock.packets, end.packets.clone()].concat()));
        assert_eq!(pes.push(&end), None, "its beginning is missing");
        assert_eq!((pes.open.len(), pes.bytes), (0, 0));
    }

    #[test]
    fn what_never_ends_takes_bounded_memory() {
        let mut pes = WholePes::default();
        let large = TsUnit { packets: vec![0; PACKET_LEN * 10_000], last: false, ..unit() };
        for pid in 0..40 {
            let stream = TsStream { pid, ..large.stream };
            pes.push(&TsUnit { stream, ..large.clone() });
            assert!(pes.bytes <= MAX_WAITING && pes.open.values().map(Vec::len).sum::<usize>() == pes.bytes);
        }
    }
}
