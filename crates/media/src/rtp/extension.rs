//! RTP header extension with one-byte headers (RFC 8285 §4.2): finds an element, and writes one.

/// Profile of one-byte header extensions.
const ONE_BYTE_HEADERS: u16 = 0xbede;
/// Identifiers with a meaning of their own: padding, and the end of the elements.
const PADDING: u8 = 0;
const END: u8 = 15;

/// Writes an extension of one element, of 1 to 16 bytes: its profile and its bytes.
pub(crate) fn write(identifier: u8, data: &[u8]) -> (u16, Vec<u8>) {
    let mut bytes = vec![identifier << 4 | (data.len() - 1) as u8];
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    (ONE_BYTE_HEADERS, bytes)
}

/// Returns the data of an element, if it is there; others are skipped.
pub(crate) fn find(wanted: u8, profile: u16, mut bytes: &[u8]) -> Option<&[u8]> {
    if profile != ONE_BYTE_HEADERS {
        return None;
    }
    while let Some((&header, rest)) = bytes.split_first() {
        match (header >> 4, usize::from(header & 0x0f) + 1) {
            (PADDING, _) => bytes = rest,
            (END, _) => return None,
            (identifier, len) => {
                let (data, after) = rest.split_at_checked(len)?;
                if identifier == wanted {
                    return Some(data);
                }
                bytes = after;
            }
        }
    }
    None
}
