//! The Dropped Packets option (RFC 5622 §8.7).

/// 195: Dropped Packets.
pub const DROPPED_PACKETS: u8 = 195;
/// Maximum number of loss intervals in one option (§8.7).
pub const MAX_COUNTS: usize = 84;
/// Maximum count, in packets: 24 bits (§8.7).
const MAX_COUNT: u32 = 0xff_ffff;

/// Appends the data of an option: packets lost or marked in each loss interval, newest first, for at most
/// [`MAX_COUNTS`] intervals; greater counts are capped.
///
/// ```
/// use timeous_dccp::ccid4::options::{drop_counts, encode_drop_counts};
/// let mut data = Vec::new();
/// encode_drop_counts([1, 4, 1, 0], &mut data);
/// assert_eq!(data, [0, 0, 1, 0, 0, 4, 0, 0, 1, 0, 0, 0], "the example of RFC 5622 §8.7.1");
/// assert!(drop_counts(&data).unwrap().eq([1, 4, 1, 0]));
/// ```
pub fn encode_drop_counts(counts: impl IntoIterator<Item = u32>, data: &mut Vec<u8>) {
    for count in counts.into_iter().take(MAX_COUNTS) {
        data.extend_from_slice(&count.min(MAX_COUNT).to_be_bytes()[1..]);
    }
}

/// The counts in an option's data; `None` if they are not whole, or none.
pub fn drop_counts(data: &[u8]) -> Option<impl Iterator<Item = u32> + '_> {
    let (counts, rest) = data.as_chunks::<3>();
    (!counts.is_empty() && rest.is_empty())
        .then(|| counts.iter().map(|&[high, middle, low]| u32::from_be_bytes([0, high, middle, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_no_option() {
        assert!(drop_counts(&[]).is_none() && drop_counts(&[0, 0]).is_none() && drop_counts(&[0, 0, 1, 0]).is_none());
    }

    #[test]
    fn what_is_too_great_or_too_much_is_cut() {
        let mut data = Vec::new();
        encode_drop_counts([u32::MAX; 100], &mut data);
        assert_eq!(data.len(), 252);
        assert!(drop_counts(&data).unwrap().all(|count| count == MAX_COUNT));
    }
}
