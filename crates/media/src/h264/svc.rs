//! Temporal layers of H.264, by the extension of NAL unit headers for SVC (H.264 §G.7.3.1.1, RFC 6190 §1.1.3).

/// NAL unit types with that extension: prefix, and slice of an upper layer (H.264 table 7-1).
const PREFIX: u8 = 14;
const EXTENDED_SLICE: u8 = 20;
/// `svc_extension_flag`; otherwise the extension is that of another kind.
const SVC: u8 = 0x80;

/// Temporal layer that a NAL unit tells.
pub(crate) fn temporal_layer(nal: &[u8]) -> Option<u8> {
    let &[first, second, _, fourth, ..] = nal else { return None };
    (matches!(first & 0x1f, PREFIX | EXTENDED_SLICE) && second & SVC != 0).then_some(fourth >> 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_units_tell_the_layer() {
        assert_eq!(temporal_layer(&[0x6e, 0xc0, 0x80, 0x47]), Some(2));
        assert_eq!(temporal_layer(&[0x6e, 0x40, 0x80, 0x47]), None, "of another extension");
        assert_eq!(temporal_layer(&[0x61, 0xc0, 0x80, 0x47]), None, "a slice of the base");
        assert_eq!(temporal_layer(&[0x6e, 0xc0]), None);
    }
}
