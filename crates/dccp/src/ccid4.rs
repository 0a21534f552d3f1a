//! What CCID 4 adds to CCID 3: TFRC for small packets (RFC 5622).

mod gap;
pub mod options;

pub(crate) use gap::Gap;

/// The segment size that the throughput equation reckons with, in bytes (RFC 5622 §5.3).
pub(crate) const NOMINAL_SEGMENT: u64 = 1_460;
/// What a packet's headers are taken for, in bytes (RFC 5622 §5).
pub(crate) const HEADER: u64 = 36;

/// What a loss interval of `data` packets counts for in the average: one that is `short`, of at most two round trips, is
/// divided by the packets that were lost in it (RFC 5622 §6.1).
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
