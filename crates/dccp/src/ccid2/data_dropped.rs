//! Data Dropped options: packets that arrived, and whose data the receiver had no room for (RFC 4340 §11.7).

use crate::seq::Seq;

/// "Receive Buffer": the one Drop Code that says something about the sender's rate (RFC 4340 §11.7.2, RFC 4341 §5.2).
const RECEIVE_BUFFER: u8 = 2;

/// The stretches of packets, newest and oldest, that one option reports as dropped for want of room; `newest` is the
/// packet that its first block speaks of. Gives also where the next option begins.
pub(crate) fn overrun(mut newest: Seq, option: &[u8], into: &mut Vec<(Seq, Seq)>) -> Seq {
    for &block in option {
        // A Drop Block is 1, three bits of code, four of run length; a Normal Block 0 and seven bits of run length.
        let is_drop = block & 0x80 != 0;
        let run = u64::from(if is_drop { block & 0x0f } else { block & 0x7f });
        let oldest = newest - run;
        if is_drop && (block >> 4) & 7 == RECEIVE_BUFFER {
            into.push((newest, oldest));
        }
        newest = oldest.prev();
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_from_the_newest_packet_back() {
        let mut dropped = Vec::new();
        // Two normal, three dropped for want of room, one for corruption, one for want of room.
        let next = overrun(Seq::new(100), &[0x01, 0xa2, 0xb0, 0xa0], &mut dropped);
        let seq = Seq::new;
        assert_eq!(dropped, [(seq(98), seq(96)), (seq(94), seq(94))]);
        assert_eq!(next, seq(93));
    }
}
