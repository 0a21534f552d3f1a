//! CCID 4, TFRC for small packets: its differences from CCID 3 (RFC 5622).

mod gap;
pub mod options;

pub(crate) use gap::Gap;

/// Segment size in the throughput equation, in bytes (RFC 5622 §5.3).
pub(crate) const NOMINAL_SEGMENT: u64 = 1_460;
/// Assumed size of a packet's headers, in bytes (RFC 5622 §5).
pub(crate) const HEADER: u64 = 36;

/// Effective length of a loss interval of `data` packets: a `short` one, of at most two round trips, is divided by its
/// lost packets (RFC 5622 §6.1).
pub(crate) fn effective_length(data: f64, lost: u32, short: bool) -> f64 {
    if short { data / f64::from(lost.max(1)) } else { data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_intervals_are_divided_by_their_losses() {
        assert_eq!(effective_length(12.0, 4, true), 3.0);
        assert_eq!(effective_length(12.0, 4, false), 12.0);
        assert_eq!(effective_length(12.0, 0, true), 12.0);
    }
}
