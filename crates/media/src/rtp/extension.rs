//! RTP header extension with headers of one or two bytes (RFC 8285 §4.2, §4.3): finds an element, and writes one.

/// Profile of one-byte header extensions.
const ONE_BYTE_HEADERS: u16 = 0xbede;
/// Profile of two-byte header extensions, without the bits that are an application's.
const TWO_BYTE_HEADERS: u16 = 0x1000;
const OF_APPLICATION: u16 = 0x000f;
/// Most bytes of an element behind a header of one byte.
const MAX_SHORT: usize = 16;
/// Identifiers with a meaning of their own: padding, and the end of the elements.
const PADDING: u8 = 0;
const END: u8 = 15;

/// Writes an extension of one element, of 1 to 255 bytes: its profile and its bytes.
pub(crate) fn write(identifier: u8, data: &[u8]) -> (u16, Vec<u8>) {
    let (profile, mut bytes) = if data.len() > MAX_SHORT {
        (TWO_BYTE_HEADERS, vec![identifier, data.len() as u8])
    } else {
        (ONE_BYTE_HEADERS, vec![identifier << 4 | (data.len() - 1) as u8])
    };
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    (profile, bytes)
}

/// Returns the data of an element, if it is there; others are skipped.
pub(crate) fn find(wanted: u8, profile: u16, mut bytes: &[u8]) -> Option<&[u8]> {
    let is_short = profile == ONE_BYTE_HEADERS;
    if !is_short && profile & !OF_APPLICATION != TWO_BYTE_HEADERS {
        return None;
    }
    while let Some((&first, rest)) = bytes.split_first() {
        let (identifier, len, rest) = match (first, rest.split_first()) {
            (PADDING, _) => {
                bytes = rest;
                continue;
            }
            _ if is_short => (first >> 4, usize::from(first & 0x0f) + 1, rest),
            (_, Some((&len, rest))) => (first, len.into(), rest),
            (_, None) => return None,
        };
        // The elements end with either; the length that stands beside padding is ignored (RFC 8285 §4.2).
        if is_short && matches!(identifier, PADDING | END) {
            return None;
        }
        let (data, after) = rest.split_at_checked(len)?;
        if identifier == wanted {
            return Some(data);
        }
        bytes = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_any_length_are_written_and_found() {
        for len in [1, 16, 17, 255] {
            let data = vec![7; len];
            let (profile, bytes) = write(3, &data);
            assert!(bytes.len().is_multiple_of(4) && (profile == ONE_BYTE_HEADERS) == (len <= MAX_SHORT));
            assert_eq!((find(3, profile, &bytes), find(2, profile, &bytes)), (Some(&data[..]), None));
        }
        // Padding, an element without data, padding, and the wanted one (RFC 8285 §4.3).
        let several = [0, 9, 0, 0, 3, 2, 5, 6, 4, 1];
        assert_eq!(find(3, TWO_BYTE_HEADERS | 5, &several), Some(&[5, 6][..]));
        assert_eq!([find(4, TWO_BYTE_HEADERS, &several), find(3, 0x2000, &several)], [None; 2], "cut off, and unknown");
    }

    #[test]
    fn padding_with_a_length_ends_the_elements_of_short_headers() {
        let find = |bytes: &[u8]| find(3, ONE_BYTE_HEADERS, bytes).map(<[u8]>::to_vec);
        assert_eq!(find(&[0x20, 9, 0, 0, 0x31, 5, 6]), Some(vec![5, 6]), "padding");
        assert_eq!([find(&[0x01, 9, 9, 0x30, 5]), find(&[0xf0, 9, 0x30, 5])], [None, None]);
    }
}
