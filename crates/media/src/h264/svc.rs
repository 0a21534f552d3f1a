//! Layers of H.264, by the extension of NAL unit headers for SVC (H.264 §G.7.3.1.1, RFC 6190 §1.1.3).

/// NAL unit types with that extension: prefix, and slice of an upper layer (H.264 table 7-1).
const PREFIX: u8 = 14;
pub(crate) const EXTENDED_SLICE: u8 = 20;
/// `svc_extension_flag`; otherwise the extension is that of another kind.
const SVC: u8 = 0x80;

/// Extension of a NAL unit header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SvcHeader {
    /// `dependency_id` and `quality_id`: each layer refers to lower ones only, by the first and then by the second.
    pub(crate) spatial: u8,
    pub(crate) temporal: u8,
    pub(crate) is_idr: bool,
    /// Whether it refers to no lower layer of its picture.
    pub(crate) is_independent: bool,
}

impl SvcHeader {
    /// Reads the header of a NAL unit that has the extension.
    pub(crate) fn read(nal: &[u8]) -> Option<Self> {
        let &[first, second, third, fourth, ..] = nal else { return None };
        let is_such = matches!(first & 0x1f, PREFIX | EXTENDED_SLICE) && second & SVC != 0;
        is_such.then_some(Self {
            spatial: third & 0x7f,
            temporal: fourth >> 5,
            is_idr: second & 0x40 != 0,
            is_independent: third & 0x80 != 0,
        })
    }
}

/// Temporal layer that a NAL unit tells.
pub(crate) fn temporal_layer(nal: &[u8]) -> Option<u8> {
    SvcHeader::read(nal).map(|header| header.temporal)
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

    #[test]
    fn slices_of_upper_layers_tell_which_and_what_they_refer_to() {
        let header = |second, third| SvcHeader::read(&[0x74, second, third, 0x27]);
        let of = |spatial, is_idr, is_independent| Some(SvcHeader { spatial, temporal: 1, is_idr, is_independent });
        assert_eq!(header(0xc0, 0x10), of(0x10, true, false));
        assert_eq!(header(0x80, 0xa1), of(0x21, false, true));
    }
}
