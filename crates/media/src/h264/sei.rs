//! SEI messages (supplemental enhancement information, H.264 annex D): recovery points.

use h264_reader::rbsp::{BitRead, BitReader};

use super::bits::payload_of;

/// Payload type of a recovery point message (§D.1.1).
const RECOVERY_POINT: u32 = 6;

/// Bytes of an SEI NAL unit that are searched for messages.
const MAX_SEI: usize = 64 << 10;

/// Recovery point (§D.2.8): a decoder may start with the picture that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecoveryPoint {
    /// `recovery_frame_cnt`: reference frames until pictures are correct.
    pub(crate) frames: u32,
    /// `broken_link_flag`: references of leading pictures were cut off by an editor of the stream.
    pub(crate) broken_link: bool,
}

/// Returns the recovery point in an SEI NAL unit.
pub(crate) fn recovery_point(nal: &[u8]) -> Option<RecoveryPoint> {
    let payload = payload_of(nal, MAX_SEI);
    let mut rest = payload.as_slice();
    // The rest are trailing bits.
    while rest.len() > 2 {
        let kind = sum(&mut rest)?;
        let size = usize::try_from(sum(&mut rest)?).ok()?;
        let message = rest.get(..size.min(rest.len()))?;
        if kind == RECOVERY_POINT {
            let mut bits = BitReader::new(message);
            let frames = bits.read_ue("recovery_frame_cnt").ok()?;
            bits.skip(1, "exact_match_flag").ok()?;
            let broken_link = bits.read_bit("broken_link_flag").ok()?;
            return Some(RecoveryPoint { frames, broken_link });
        }
        rest = &rest[message.len()..];
    }
    None
}

/// Reads a number coded as a sum of bytes, of which only the last is not 255 (§7.3.2.3.1).
fn sum(rest: &mut &[u8]) -> Option<u32> {
    let mut total = 0u32;
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        total = total.saturating_add(byte.into());
        if byte != 0xff {
            return Some(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_point_is_found_behind_other_messages() {
        // User data of 300 bytes, then recovery_frame_cnt 4 (00101), exact, no broken link, changing_slice_group 0.
        let mut nal = vec![0x06, 5, 0xff, 45];
        nal.extend([7; 300]);
        nal.extend([6, 1, 0b0010_1100, 0x80]);
        assert_eq!(recovery_point(&nal), Some(RecoveryPoint { frames: 4, broken_link: false }));
    }

    #[test]
    fn a_broken_link_is_seen() {
        assert_eq!(
            recovery_point(&[0x06, 6, 1, 0b1110_0100, 0x80]),
            Some(RecoveryPoint { frames: 0, broken_link: true })
        );
    }

    #[test]
    fn other_and_torn_messages_are_no_recovery_points() {
        for nal in [&[0x06][..], &[0x06, 6], &[0x06, 6, 1], &[0x06, 5, 3, 6, 1, 0x80, 0x80], &[0x06, 0xff, 0xff, 0xff]]
        {
            assert_eq!(recovery_point(nal), None);
        }
    }
}
