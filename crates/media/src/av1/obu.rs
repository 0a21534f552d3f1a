//! Open bitstream units (OBUs): headers, layers, and variable-length numbers (AV1 §4.10.5, §5.3).

/// Header: extension, size field.
pub(crate) const EXTENSION: u8 = 0x04;
pub(crate) const SIZE: u8 = 0x02;

/// Types of units (§6.2.2) that tell what a frame is.
pub(crate) const SEQUENCE_HEADER: u8 = 1;
pub(crate) const FRAME_HEADER: u8 = 3;
pub(crate) const FRAME: u8 = 6;

/// Header of a unit, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obu<'a> {
    pub(crate) kind: u8,
    pub(crate) temporal: u8,
    pub(crate) spatial: u8,
    /// Payload, as far as it is there.
    pub(crate) payload: &'a [u8],
}

impl<'a> Obu<'a> {
    /// Reads a unit that may be cut off.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&first, mut rest) = bytes.split_first()?;
        let (mut temporal, mut spatial) = (0, 0);
        if first & EXTENSION != 0 {
            let (&byte, after) = rest.split_first()?;
            (temporal, spatial, rest) = (byte >> 5, byte >> 3 & 3, after);
        }
        if first & SIZE != 0 {
            let size = leb128(&mut rest)?;
            rest = &rest[..size.min(rest.len())];
        }
        Some(Self { kind: first >> 3 & 0x0f, temporal, spatial, payload: rest })
    }
}

/// Number of variable length; the bytes behind it are left.
pub(crate) fn leb128(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in 0..8 {
        let (&byte, after) = bytes.split_first()?;
        *bytes = after;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_layers_and_size() {
        let unit = Obu::read(&[0x36, 0x28, 2, 0x10, 0x20, 0x30]).unwrap();
        assert_eq!((unit.kind, unit.temporal, unit.spatial, unit.payload), (FRAME, 1, 1, &[0x10, 0x20][..]));
        assert_eq!(Obu::read(&[0x30, 7]).unwrap().payload, [7], "without a size, all that follows");
        assert_eq!(Obu::read(&[0x34]), None);
        assert_eq!(leb128(&mut &[0x80, 0x01][..]), Some(128));
        assert_eq!(leb128(&mut &[0x80][..]), None);
    }
}
