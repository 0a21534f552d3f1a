//! Data Dropped option: received packets whose data did not reach the application (RFC 4340 §11.7).

use crate::seq::Seq;

/// Reason why a packet's data were dropped (RFC 4340 §11.7, table 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropCode {
    /// 0: protocol constraints, such as the state or the checksum coverage.
    ProtocolConstraints,
    /// 1: the application no longer listens.
    NotListening,
    /// 2: the receive buffer was full.
    ReceiveBuffer,
    /// 3: the data were corrupt.
    Corrupt,
    /// 4 to 6: not assigned.
    Reserved(u8),
    /// 7: the data were corrupt, and delivered all the same.
    DeliveredCorrupt,
}

impl DropCode {
    /// The number on the wire; three bits.
    pub const fn number(self) -> u8 {
        match self {
            Self::ProtocolConstraints => 0,
            Self::NotListening => 1,
            Self::ReceiveBuffer => 2,
            Self::Corrupt => 3,
            Self::Reserved(number) => number & 7,
            Self::DeliveredCorrupt => 7,
        }
    }

    /// Decodes the low three bits.
    pub const fn from_number(number: u8) -> Self {
        match number & 7 {
            0 => Self::ProtocolConstraints,
            1 => Self::NotListening,
            2 => Self::ReceiveBuffer,
            3 => Self::Corrupt,
            7 => Self::DeliveredCorrupt,
            other => Self::Reserved(other),
        }
    }
}

/// Consecutive packets whose data had the same fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropBlock {
    /// Newest packet of the range.
    pub newest: Seq,
    /// Oldest packet of the range; at most 127 before the newest.
    pub oldest: Seq,
    /// Fate of the data of those received; `None` if delivered as usual.
    pub code: Option<DropCode>,
}

/// Decodes the Data Dropped options of one packet with Acknowledgement Number `ack`; newest packets first.
///
/// Does not check against Ack Vectors or sent packets: a block that reaches back too far is invalid and must be ignored
/// (§11.7).
///
/// ```
/// use timeous_dccp::{Seq, options::{DropCode, drop_blocks}};
/// let vectors: [&[u8]; 1] = [&[0, 160, 3, 162]]; // the example of RFC 4340 §11.7
/// let dropped: Vec<_> = drop_blocks(Seq::new(100), vectors).filter(|block| block.code.is_some()).collect();
/// assert_eq!((dropped[0].newest, dropped[0].code), (Seq::new(99), Some(DropCode::ReceiveBuffer)));
/// ```
pub fn drop_blocks<'a>(ack: Seq, vectors: impl IntoIterator<Item = &'a [u8]>) -> impl Iterator<Item = DropBlock> {
    let mut newest = ack;
    vectors.into_iter().flatten().map(move |&byte| {
        let (code, more) = match byte {
            0x80.. => (Some(DropCode::from_number(byte >> 4)), byte & 0xf),
            _ => (None, byte),
        };
        let oldest = newest - u64::from(more);
        let block = DropBlock { newest, oldest, code };
        newest = oldest.prev();
        block
    })
}

/// Encodes a Data Dropped option for a packet with Acknowledgement Number `ack`: the fates of `dropped`, newest first,
/// all others being normal. Stops at `max_bytes`, or at a packet out of order.
pub fn encode_drops(ack: Seq, dropped: impl IntoIterator<Item = (Seq, DropCode)>, max_bytes: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut next = ack;
    for (seq, code) in dropped {
        if seq.is_after(next) {
            break;
        }
        let normal = next.distance_from(seq);
        let last =
            bytes.last_mut().filter(|last| normal == 0 && **last >> 4 == 8 | code.number() && **last & 0xf < 0xf);
        if let Some(last) = last {
            *last += 1;
        } else {
            let needed = normal.div_ceil(128) + 1;
            if needed > max_bytes.saturating_sub(bytes.len()) as u64 {
                break;
            }
            let (whole, rest) = (normal / 128, normal % 128);
            bytes.resize(bytes.len() + whole as usize, 0x7f);
            bytes.extend(rest.checked_sub(1).map(|more| more as u8));
            bytes.push(0x80 | code.number() << 4);
        }
        next = seq.prev();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seq(n: u64) -> Seq {
        Seq::new(n)
    }

    /// §11.7: "a Data Dropped option containing the decimal values 0,160,3,162". (The RFC counts packet 95 twice; the
    /// blocks themselves leave 94 to 92.)
    #[test]
    fn the_rfcs_example() {
        let block = |newest, oldest, code| DropBlock { newest: seq(newest), oldest: seq(oldest), code };
        let buffer = Some(DropCode::ReceiveBuffer);
        let expected = [block(100, 100, None), block(99, 99, buffer), block(98, 95, None), block(94, 92, buffer)];
        let bytes = [0, 160, 3, 162];
        assert_eq!(drop_blocks(seq(100), [&bytes[..]]).collect::<Vec<_>>(), expected);
        assert_eq!(drop_blocks(seq(100), [&bytes[..1], &[], &bytes[1..]]).collect::<Vec<_>>(), expected);
        let dropped = [99, 94, 93, 92].map(|n| (seq(n), DropCode::ReceiveBuffer));
        assert_eq!(encode_drops(seq(100), dropped, 253), bytes);
    }

    #[test]
    fn what_is_written_is_read() {
        let codes = (0..8).map(DropCode::from_number);
        // Across the wrap, with runs longer than a block and gaps longer than a block.
        let ack = seq(3);
        let offsets = [0, 1, 2, 130, 131, 132, 700].into_iter().chain(1_000..1_040).zip(codes.cycle());
        let dropped: Vec<(Seq, DropCode)> = offsets.map(|(back, code)| (ack - back, code)).collect();
        let same: Vec<(Seq, DropCode)> = (5..300).map(|back| (ack - back, DropCode::Corrupt)).collect();
        for dropped in [dropped, same] {
            let bytes = encode_drops(ack, dropped.iter().copied(), 253);
            let read: Vec<(Seq, DropCode)> = drop_blocks(ack, [bytes.as_slice()])
                .filter_map(|block| block.code.map(|code| (block, code)))
                .flat_map(|(block, code)| {
                    (0..=block.newest.distance_from(block.oldest)).map(move |back| (block.newest - back, code))
                })
                .collect();
            assert_eq!(read, dropped);
        }
    }

    #[test]
    fn runs_are_as_long_as_they_can_be() {
        let run = |length| (0..length).map(|back| (seq(1_000 - back), DropCode::Corrupt));
        assert_eq!(encode_drops(seq(1_000), run(16), 253), [0xbf]);
        assert_eq!(encode_drops(seq(1_000), run(17), 253), [0xbf, 0xb0]);
        assert_eq!(encode_drops(seq(1_128), run(1), 253), [0x7f, 0xb0]);
        assert_eq!(encode_drops(seq(1_129), run(1), 253), [0x7f, 0, 0xb0]);
    }

    #[test]
    fn it_stops_where_the_room_ends_or_the_order() {
        let code = DropCode::NotListening;
        assert_eq!(encode_drops(seq(9), [(seq(9), code), (seq(7), code)], 2), [0x90]);
        assert_eq!(encode_drops(seq(9), [(seq(9), code), (seq(7), code)], 3), [0x90, 0, 0x90]);
        assert_eq!(encode_drops(seq(9), [(seq(8), code), (seq(8), code)], 9), [0, 0x90]);
        assert_eq!(encode_drops(seq(9), [(seq(10), code)], 9), []);
        assert_eq!(encode_drops(seq(1 << 40), [(seq(0), code)], 253), [], "no memory for a hostile distance");
    }
}
