//! Initial congestion windows.

/// Initial window of RFC 3390, as required by RFC 4341 §5 for DCCP: about 4 kB, for packets of at most `mtu` bytes.
///
/// ```
/// assert_eq!(timeous_cm::controller::initial::rfc3390(1_460), 4_380);
/// ```
pub fn rfc3390(mtu: u64) -> u64 {
    (4 * mtu).min((2 * mtu).max(4_380))
}

/// Initial window of RFC 6928 §2, as in most TCPs now: ten packets, in bytes, for packets of at most `mtu` bytes.
///
/// ```
/// assert_eq!(timeous_cm::controller::initial::rfc6928(1_460), 14_600);
/// ```
pub fn rfc6928(mtu: u64) -> u64 {
    (10 * mtu).min((2 * mtu).max(14_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_packets_are_counted_and_large_ones_limited_in_bytes() {
        assert_eq!((rfc3390(500), rfc3390(1_460), rfc3390(3_000)), (2_000, 4_380, 6_000));
        assert_eq!((rfc6928(536), rfc6928(1_448), rfc6928(4_000), rfc6928(8_960)), (5_360, 14_480, 14_600, 17_920));
    }
}
