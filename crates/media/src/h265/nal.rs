//! Header of a NAL unit (H.265 §7.3.1.2): type and temporal layer.

/// Length of a NAL unit's header in bytes.
pub(crate) const HEADER: usize = 2;
/// Types of NAL units (table 7-1).
pub(crate) const VPS: u8 = 32;
pub(crate) const SPS: u8 = 33;
pub(crate) const PPS: u8 = 34;
pub(crate) const AUD: u8 = 35;

/// Header of a NAL unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NalHeader {
    /// `nal_unit_type`.
    pub(crate) kind: u8,
    /// `nuh_layer_id`; zero for the base layer.
    pub(crate) layer: u8,
    /// `TemporalId`, from zero.
    pub(crate) temporal: u8,
}

impl NalHeader {
    /// Reads the first two bytes of a NAL unit.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let &[first, second, ..] = bytes else { return None };
        let layer = (first & 1) << 5 | second >> 3;
        Some(Self { kind: first >> 1 & 0x3f, layer, temporal: (second & 7).saturating_sub(1) })
    }

    /// Whether it is a slice of a picture.
    pub(crate) fn is_slice(self) -> bool {
        matches!(self.kind, 0..=9 | 16..=21)
    }

    /// Whether decoding can start at its picture (IRAP: BLA, IDR, CRA and reserved ones).
    pub(crate) fn is_irap(self) -> bool {
        (16..=23).contains(&self.kind)
    }

    /// Whether a picture begins with it after another one (§7.4.2.4.4): parameter sets, a delimiter, prefix SEI and what is reserved.
    /// A slice begins one if it says so itself.
    pub(crate) fn begins_picture(self) -> bool {
        matches!(self.kind, 32..=35 | 39 | 41..=44 | 48..=55)
    }

    /// Whether its picture is an instantaneous decoding refresh (IDR).
    pub(crate) fn is_idr(self) -> bool {
        matches!(self.kind, 19 | 20)
    }

    /// Whether its picture begins a new coded video sequence wherever it stands (IDR or BLA).
    pub(crate) fn begins_sequence(self) -> bool {
        (16..=20).contains(&self.kind)
    }

    /// Whether it is a leading picture (RADL, RASL), which precedes an IRAP picture in output order.
    pub(crate) fn is_leading(self) -> bool {
        (6..=9).contains(&self.kind)
    }

    /// Whether no picture of its temporal layer refers to it (sub-layer non-reference picture).
    pub(crate) fn is_sublayer_non_reference(self) -> bool {
        self.kind < 16 && self.kind.is_multiple_of(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_layers_are_told() {
        let header = |first: u8, second: u8| NalHeader::read(&[first, second]).unwrap();
        let idr = header(20 << 1, 1);
        assert!(idr.is_slice() && idr.is_irap() && idr.is_idr() && idr.begins_sequence());
        let cra = header(21 << 1, 1);
        assert!(cra.is_irap() && !cra.is_idr() && !cra.begins_sequence());
        let trail_n = header(0, 3);
        assert!(trail_n.is_slice() && trail_n.is_sublayer_non_reference() && trail_n.temporal == 2);
        assert!(!header(1 << 1, 1).is_sublayer_non_reference() && header(8 << 1, 1).is_leading());
        assert!(!header(SPS << 1, 1).is_slice() && NalHeader::read(&[0]).is_none());
        assert_eq!(header(1 << 1 | 1, 8 | 1).layer, 33);
    }
}
