//! RTP depacketizer: extracts NAL units from payloads (RFC 6184 §5.6–§5.8).

use super::annexb::{START_CODE, write};
use super::parameters::{nal_type, type_of};
use super::payload::{FU_A, FU_END, FU_START, STAP_A};
use super::slice::is_slice;
use crate::error::RtpError;

/// Type of a valid payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Single,
    Stap,
    Fragment {
        start: bool,
        end: bool,
    },
    /// Payload without data for a decoder: empty (keep-alive), or of a type left to applications.
    Nothing,
}

/// RTP payload that was checked against RFC 6184.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    shape: Shape,
    bytes: Vec<u8>,
}

fn broken(section: &'static str, what: &'static str) -> RtpError {
    RtpError::Payload { section, what }
}

impl Payload {
    /// Checks `bytes` and copies them.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, RtpError> {
        let shape = match bytes.first().map_or(0, |&first| type_of(first)) {
            0 | 30 | 31 => Shape::Nothing,
            1..=23 => Shape::Single,
            STAP_A => {
                check_aggregate(&bytes[1..])?;
                Shape::Stap
            }
            FU_A => check_fragment(bytes)?,
            _ => return Err(broken("5.4", "interleaved packets (packetization mode 2) are not supported")),
        };
        Ok(Self { shape, bytes: bytes.to_vec() })
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it starts an access unit: by a NAL unit that precedes slices, or by the slice with the first macroblock.
    pub(crate) fn starts_access_unit(&self) -> bool {
        match self.shape {
            Shape::Single => starts_with(&self.bytes),
            Shape::Stap => {
                // A prefix NAL unit precedes every slice, so that the slice itself decides.
                let mut nals = self.whole_nals().skip_while(|nal| type_of(nal[0]) == nal_type::PREFIX);
                nals.next().is_some_and(starts_with)
            }
            Shape::Fragment { start, .. } => start && starts(self.bytes[1] & 0x1f, self.bytes.get(2).copied()),
            Shape::Nothing => false,
        }
    }

    /// Whether it has part of a coded picture.
    pub(crate) fn has_slice(&self) -> bool {
        match self.shape {
            Shape::Fragment { .. } => is_slice(&[self.bytes[1]]),
            _ => self.whole_nals().any(is_slice),
        }
    }

    /// Whether it has part of a coded picture, or a parameter set.
    pub(crate) fn is_telling(&self) -> bool {
        self.has_slice() || self.parameter_sets().next().is_some()
    }

    /// Parameter sets that it holds completely.
    pub(crate) fn parameter_sets(&self) -> impl Iterator<Item = &[u8]> {
        self.whole_nals().filter(|nal| matches!(type_of(nal[0]), nal_type::SPS | nal_type::PPS))
    }

    /// Start of the first slice that begins in it.
    pub(crate) fn slice_start(&self) -> Option<Vec<u8>> {
        if let Shape::Fragment { start, .. } = self.shape {
            let header = unfragmented(&self.bytes);
            return (start && is_slice(&[header])).then(|| [&[header], &self.bytes[2..]].concat());
        }
        self.whole_nals().find(|nal| is_slice(nal)).map(<[u8]>::to_vec)
    }

    fn whole_nals(&self) -> impl Iterator<Item = &[u8]> {
        let (single, stap) = match self.shape {
            Shape::Single => (Some(self.bytes.as_slice()), &[][..]),
            Shape::Stap => (None, &self.bytes[1..]),
            Shape::Fragment { .. } | Shape::Nothing => (None, &[][..]),
        };
        single.into_iter().chain(aggregated(stap))
    }

    /// Whether it is of types that encoders use, with bits in order that H.264 requires.
    pub(crate) fn is_usual(&self) -> bool {
        let is_usual = |header: u8| header & 0x80 == 0 && matches!(type_of(header), 1 | 5..=9 | 12);
        match self.shape {
            Shape::Fragment { start, end } => {
                self.bytes[0] & 0x80 == 0
                    && self.bytes[1] & 0x20 == 0
                    && !(start && end)
                    && is_usual(type_of(self.bytes[1]))
            }
            Shape::Nothing => false,
            _ => self.bytes[0] & 0x80 == 0 && self.whole_nals().all(|nal| is_usual(nal[0])) && self.bytes.len() > 2,
        }
    }

    /// Appends its NAL units to a byte stream (Annex B), as far as they are in it.
    pub(crate) fn append_to(&self, annexb: &mut Vec<u8>) {
        match self.shape {
            Shape::Fragment { start: false, .. } => annexb.extend_from_slice(&self.bytes[2..]),
            Shape::Fragment { .. } => {
                annexb.extend_from_slice(&START_CODE);
                annexb.push(unfragmented(&self.bytes));
                annexb.extend_from_slice(&self.bytes[2..]);
            }
            _ => write(self.whole_nals(), annexb),
        }
    }

    /// Whether it has part of an IDR picture.
    pub(crate) fn is_idr(&self) -> bool {
        match self.shape {
            Shape::Fragment { .. } => type_of(self.bytes[1]) == nal_type::IDR,
            _ => self.whole_nals().any(|nal| type_of(nal[0]) == nal_type::IDR),
        }
    }
}

fn starts_with(nal: &[u8]) -> bool {
    nal.first().is_some_and(|&header| starts(type_of(header), nal.get(1).copied()))
}

/// Whether a NAL unit starts an access unit. `first_mb_in_slice` is zero exactly if coded as the bit 1 (H.264 §9.1).
fn starts(kind: u8, body: Option<u8>) -> bool {
    match kind {
        nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR => body.is_some_and(|byte| byte & 0x80 != 0),
        nal_type::SEI..=nal_type::AUD | nal_type::SUBSET_SPS..=nal_type::RESERVED_18 => true,
        _ => false,
    }
}

/// Checks that a STAP-A has a whole NAL unit; trailing bytes are ignored.
fn check_aggregate(rest: &[u8]) -> Result<(), RtpError> {
    let whole = aggregated(rest).next();
    whole.map(|_| ()).ok_or(broken("5.7.1", "a STAP-A holds no whole NAL unit"))
}

/// Checks an FU-A. One with both start and end bit violates §5.8, but is accepted.
fn check_fragment(bytes: &[u8]) -> Result<Shape, RtpError> {
    let &[_, header, _, ..] = bytes else { return Err(broken("5.8", "an FU-A holds nothing")) };
    if !(1..=23).contains(&type_of(header)) {
        return Ok(Shape::Nothing);
    }
    Ok(Shape::Fragment { start: header & FU_START != 0, end: header & FU_END != 0 })
}

/// Header of the NAL unit that an FU-A belongs to: F and NRI of the first byte, type of the second.
fn unfragmented(bytes: &[u8]) -> u8 {
    (bytes[0] & 0xe0) | type_of(bytes[1])
}

/// Whole NAL units of a STAP-A, without types that no decoder needs.
fn aggregated(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let next = move || {
        let (size, after) = rest.split_first_chunk()?;
        let (nal, more) = after.split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
        rest = more;
        Some(nal)
    };
    let nals = std::iter::from_fn(next);
    nals.filter(|nal| nal.first().is_some_and(|&header| (1..=23).contains(&type_of(header))))
}

/// NAL units of all payloads of an access unit, in order; `None` if fragments are inconsistent.
pub(crate) fn assemble<'a>(payloads: impl Iterator<Item = &'a Payload>) -> Option<Vec<Vec<u8>>> {
    let mut nals: Vec<Vec<u8>> = Vec::new();
    let mut open = false;
    for payload in payloads {
        let bytes = &payload.bytes;
        match payload.shape {
            Shape::Fragment { start, end } => {
                if start && open {
                    return None;
                }
                // "the receiver SHOULD discard all following fragmentation units" of a NAL unit without its start (RFC 6184 §5.8).
                if !start && !open {
                    continue;
                }
                let header = unfragmented(bytes);
                if start {
                    nals.push(vec![header]);
                }
                let nal = nals.last_mut().filter(|nal| nal[0] == header)?;
                nal.extend_from_slice(&bytes[2..]);
                open = !end;
            }
            Shape::Nothing => {}
            _ if open => return None,
            Shape::Single => nals.push(bytes.clone()),
            Shape::Stap => nals.extend(aggregated(&bytes[1..]).map(<[u8]>::to_vec)),
        }
    }
    (!open).then_some(nals)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found with a camera that sent a stray fragment before each picture: none could be read.
    #[test]
    fn a_fragment_without_its_start_is_left_out() {
        let parse = |bytes: &[u8]| Payload::parse(bytes).unwrap();
        let stray = parse(&[0x5c, 0x41, 9, 9]);
        let slice = [parse(&[0x5c, 0x81, 0x88]), parse(&[0x5c, 0x01, 7]), parse(&[0x5c, 0x41, 8])];
        assert_eq!(assemble([&stray].into_iter().chain(&slice)), Some(vec![vec![0x41, 0x88, 7, 8]]));
        assert_eq!(assemble(slice.iter().take(2)), None, "its end is missing");
        assert_eq!(assemble([&slice[0], &slice[0], &slice[2]].into_iter()), None, "a start within another");
    }

    #[test]
    fn a_prefix_nal_unit_begins_no_access_unit_by_itself() {
        let starts = |bytes: &[u8]| Payload::parse(bytes).unwrap().starts_access_unit();
        let (prefix, first, second) = ([0x6e, 0x80, 0, 0], [0x41, 0x80], [0x41, 0x40]);
        let stap = |slice: [u8; 2]| [&[0x78, 0, 4][..], &prefix, &[0, 2], &slice].concat();
        assert!(!starts(&prefix));
        assert!(starts(&first) && !starts(&second));
        assert!(starts(&stap(first)) && !starts(&stap(second)));
        assert!(starts(&[0x09, 0xf0]));
    }
}
