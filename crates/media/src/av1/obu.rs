//! Open bitstream units (OBUs): headers, layers, and variable-length numbers (AV1 §4.10.5, §5.3).

/// Header: extension, size field.
const EXTENSION: u8 = 0x04;
const SIZE: u8 = 0x02;

/// Types of units (§6.2.2).
pub(crate) const SEQUENCE_HEADER: u8 = 1;
pub(crate) const TEMPORAL_DELIMITER: u8 = 2;
pub(crate) const FRAME_HEADER: u8 = 3;
pub(crate) const FRAME: u8 = 6;
pub(crate) const TILE_LIST: u8 = 8;
pub(crate) const PADDING: u8 = 15;

/// Start code of units in a transport stream, and headers of a temporal delimiter without and with a size, which is zero.
const START_CODE: [u8; 3] = [0, 0, 1];
const DELIMITER_ALONE: u8 = TEMPORAL_DELIMITER << 3;
const DELIMITER_SIZED: u8 = DELIMITER_ALONE | SIZE;

/// Header of a unit, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obu<'a> {
    pub(crate) kind: u8,
    pub(crate) has_extension: bool,
    pub(crate) temporal: u8,
    pub(crate) spatial: u8,
    /// Payload, as far as it is there.
    pub(crate) payload: &'a [u8],
}

impl<'a> Obu<'a> {
    /// Reads a unit that may be cut off.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (obu, size) = Self::head(bytes)?;
        Some(Self { payload: &obu.payload[..size.min(obu.payload.len())], ..obu })
    }

    /// Splits off the first of several units (§5.2); one without a size lasts until the end. `None`: it is cut off.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (obu, size) = Self::head(bytes)?;
        let (payload, after) = obu.payload.split_at_checked(size)?;
        Some((Self { payload, ..obu }, after))
    }

    /// Unit with all bytes behind its header, and the size of its payload.
    fn head(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (&first, mut rest) = bytes.split_first()?;
        let has_extension = first & EXTENSION != 0;
        let (mut temporal, mut spatial) = (0, 0);
        if has_extension {
            let (&byte, after) = rest.split_first()?;
            (temporal, spatial, rest) = (byte >> 5, byte >> 3 & 3, after);
        }
        let size = if first & SIZE != 0 { leb128(&mut rest)? } else { rest.len() };
        Some((Self { kind: first >> 3 & 0x0f, has_extension, temporal, spatial, payload: rest }, size))
    }

    /// The unit without a size field, as RTP packets carry it.
    pub(crate) fn without_size(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind << 3];
        if self.has_extension {
            bytes[0] |= EXTENSION;
            bytes.push(self.temporal << 5 | self.spatial << 3);
        }
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

/// Units of a temporal unit, or of several, up to one that is cut off.
pub(crate) fn units(mut bytes: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    std::iter::from_fn(move || {
        let (obu, after) = Obu::split(bytes)?;
        bytes = after;
        Some(obu)
    })
}

/// Bytes of each unit of a temporal unit, with its header; the last one may be cut off.
pub(crate) fn split_up(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let after = Obu::split(bytes).map_or(&[][..], |(_, after)| after);
        let (unit, rest) = bytes.split_at(bytes.len() - after.len());
        bytes = rest;
        (!unit.is_empty()).then_some(unit)
    })
}

/// Whether bytes begin with a temporal delimiter, as every temporal unit does (§7.5): in the low-overhead format, or behind a start code
/// (Carriage of AV1 in MPEG-2 TS).
pub(crate) fn begins_temporal_unit(bytes: &[u8]) -> bool {
    let unit = bytes.strip_prefix(&START_CODE).unwrap_or(bytes);
    matches!(unit, [DELIMITER_ALONE, ..] | [DELIMITER_SIZED, 0, ..])
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
        assert_eq!(unit.without_size(), [0x34, 0x28, 0x10, 0x20]);
        assert_eq!(leb128(&mut &[0x80, 0x01][..]), Some(128));
        assert_eq!(leb128(&mut &[0x80][..]), None);
    }

    #[test]
    fn units_are_split_up_to_one_that_is_cut_off() {
        let kinds = |bytes: &[u8]| units(bytes).map(|unit| (unit.kind, unit.payload.len())).collect::<Vec<_>>();
        assert_eq!(
            kinds(&[0x12, 0, 0x0a, 1, 9, 0x30, 7, 8]),
            [(TEMPORAL_DELIMITER, 0), (SEQUENCE_HEADER, 1), (FRAME, 2)]
        );
        assert_eq!(kinds(&[0x12, 0, 0x32, 3, 1]), [(TEMPORAL_DELIMITER, 0)]);
        assert_eq!(kinds(&[0x32, 0xff]), []);
    }
}
