//! Packet format: flow number, packet number, padding; and its acknowledgement.

const FLOW: usize = 4;
const HEADER: usize = FLOW + 8;

/// Encodes a packet of `len` bytes.
pub(super) fn packet(flow: u32, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(HEADER));
    bytes.extend(flow.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.resize(len.max(HEADER), 0);
    bytes
}

/// Encodes an acknowledgement for a flow.
pub(super) fn back(flow: u32, ack: &[u8]) -> Vec<u8> {
    [&flow.to_be_bytes(), ack].concat()
}

/// Splits off the flow number.
pub(super) fn split(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (flow, rest) = bytes.split_first_chunk::<FLOW>()?;
    Some((u32::from_be_bytes(*flow), rest))
}

/// Reads flow number and packet number.
pub(super) fn read(bytes: &[u8]) -> Option<(u32, u64)> {
    let (flow, rest) = split(bytes)?;
    Some((flow, u64::from_be_bytes(*rest.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = packet(7, 1 << 40, 100);
        assert_eq!((bytes.len(), read(&bytes)), (100, Some((7, 1 << 40))));
        assert_eq!(split(&back(7, b"ack")), Some((7, &b"ack"[..])));
        assert_eq!((read(&bytes[..11]), split(&bytes[..3])), (None, None));
    }
}
