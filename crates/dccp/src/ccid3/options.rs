//! CCID 3 options: Loss Event Rate, Loss Intervals, Receive Rate (RFC 4342 §8).

/// 192: Loss Event Rate (§8.5).
pub const LOSS_EVENT_RATE: u8 = 192;
/// 193: Loss Intervals (§8.6).
pub const LOSS_INTERVALS: u8 = 193;
/// 194: Receive Rate (§8.3).
pub const RECEIVE_RATE: u8 = 194;
/// Maximum number of loss intervals in one option (§8.6).
pub const MAX_INTERVALS: usize = 28;
/// Maximum length of a lossy part, in packets: 23 bits (§8.6.1).
pub const MAX_LOSSY: u32 = 0x7f_ffff;
/// Maximum length of a lossless part, and of the data length, in packets: 24 bits (§8.6.1).
pub const MAX_LENGTH: u32 = 0xff_ffff;

const NONCE: u32 = 0x80_0000;
/// Loss Event Rate value for no loss so far.
const NO_LOSS: u32 = u32::MAX;

/// One loss interval in the option's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossInterval {
    /// Packets of the lossless part, the later one; at most [`MAX_LENGTH`].
    pub lossless: u32,
    /// Packets of the lossy part, from the first lost or marked to the last; at most [`MAX_LOSSY`].
    pub lossy: u32,
    /// The ECN Nonce Echo of the lossless part.
    pub nonce: bool,
    /// Data packets in both, as the loss event rate counts them; at most [`MAX_LENGTH`].
    pub data: u32,
}

impl LossInterval {
    /// Packets in both parts.
    pub fn packets(&self) -> u64 {
        u64::from(self.lossless) + u64::from(self.lossy)
    }
}

/// Appends the data of a Loss Intervals option: Skip Length, and at most [`MAX_INTERVALS`] intervals, newest first.
/// Lengths that are too long are capped.
///
/// ```
/// use timeous_dccp::ccid3::options::{LossInterval, encode_loss_intervals, loss_intervals};
/// // The newest interval of the example of RFC 4342 §8.6.2.
/// let newest = LossInterval { lossless: 10, lossy: 1, nonce: true, data: 10 };
/// let mut data = Vec::new();
/// encode_loss_intervals(2, &[newest], &mut data);
/// assert_eq!(data, [2, 0, 0, 10, 128, 0, 1, 0, 0, 10]);
/// let (skip, mut intervals) = loss_intervals(&data).unwrap();
/// assert_eq!((skip, intervals.next()), (2, Some(newest)));
/// ```
pub fn encode_loss_intervals(skip: u8, intervals: &[LossInterval], data: &mut Vec<u8>) {
    data.push(skip);
    for interval in intervals.iter().take(MAX_INTERVALS) {
        let lossy = interval.lossy.min(MAX_LOSSY) | if interval.nonce { NONCE } else { 0 };
        for field in [interval.lossless.min(MAX_LENGTH), lossy, interval.data.min(MAX_LENGTH)] {
            data.extend_from_slice(&field.to_be_bytes()[1..]);
        }
    }
}

/// Parses the data of a Loss Intervals option into Skip Length and intervals; `None` if malformed or empty.
pub fn loss_intervals(data: &[u8]) -> Option<(u8, impl Iterator<Item = LossInterval> + '_)> {
    let (&skip, rest) = data.split_first()?;
    let (intervals, rest) = rest.as_chunks::<9>();
    let field = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
    let intervals = intervals.iter().map(move |bytes| {
        let lossy = field(&bytes[3..6]);
        LossInterval {
            lossless: field(&bytes[..3]),
            lossy: lossy & MAX_LOSSY,
            nonce: lossy & NONCE != 0,
            data: field(&bytes[6..]),
        }
    });
    (intervals.len() > 0 && rest.is_empty()).then_some((skip, intervals))
}

/// Encodes the data of a Loss Event Rate option for the rate `p`: its inverse, rounded up.
///
/// ```
/// use timeous_dccp::ccid3::options::{encode_loss_event_rate, loss_event_rate};
/// assert_eq!(encode_loss_event_rate(0.03), [0, 0, 0, 34]);
/// assert_eq!(encode_loss_event_rate(0.0), [255; 4]);
/// assert_eq!(loss_event_rate(&[0, 0, 0, 100]), Some(0.01));
/// assert_eq!(loss_event_rate(&[255; 4]), Some(0.0));
/// ```
pub fn encode_loss_event_rate(p: f64) -> [u8; 4] {
    // Avoids rounding up a whole number because of floating-point error.
    let whole = 1.0 - 4.0 * f64::EPSILON;
    let packets = if p > 0.0 { ((whole / p).ceil() as u32).min(NO_LOSS - 1) } else { NO_LOSS };
    packets.to_be_bytes()
}

/// Parses a Loss Event Rate option into a rate from 0 to 1; `None` if its length is wrong or its value is zero.
pub fn loss_event_rate(data: &[u8]) -> Option<f64> {
    match u32::from_be_bytes(data.try_into().ok()?) {
        0 => None,
        NO_LOSS => Some(0.0),
        packets => Some(1.0 / f64::from(packets)),
    }
}

/// Parses a Receive Rate option, in bytes per second; `None` if its length is wrong.
pub fn receive_rate(data: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(data.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The whole example of RFC 4342 §8.6.2.
    const EXAMPLE: [u8; 37] = [
        2, 0, 0, 10, 128, 0, 1, 0, 0, 10, 0, 0, 8, 0, 0, 5, 0, 0, 10, 0, 0, 8, 0, 0, 1, 0, 0, 8, 0, 0, 10, 128, 0, 0,
        0, 0, 15,
    ];

    #[test]
    fn the_rfcs_example_is_read_as_the_rfc_says() {
        let (skip, intervals) = loss_intervals(&EXAMPLE).unwrap();
        let intervals: Vec<LossInterval> = intervals.collect();
        let interval = |lossless, lossy, nonce, data| LossInterval { lossless, lossy, nonce, data };
        let expected =
            [interval(10, 1, true, 10), interval(8, 5, false, 10), interval(8, 1, false, 8), interval(10, 0, true, 15)];
        assert_eq!((skip, intervals.as_slice()), (2, expected.as_slice()));
        let mut again = Vec::new();
        encode_loss_intervals(skip, &intervals, &mut again);
        assert_eq!(again, EXAMPLE);
    }

    #[test]
    fn what_is_not_whole_is_no_option() {
        for len in [0, 1, 9, 11, 18] {
            assert!(loss_intervals(&EXAMPLE[..len]).is_none(), "{len}");
        }
        assert!(loss_event_rate(&[0; 4]).is_none() && loss_event_rate(&[1; 3]).is_none());
        assert!(receive_rate(&[0; 5]).is_none());
    }

    #[test]
    fn whole_packets_in_a_loss_event_rate_come_back_as_they_were() {
        for packets in [1, 3, 49, 0xff77_ffff, NO_LOSS - 1, NO_LOSS] {
            let p = loss_event_rate(&u32::to_be_bytes(packets)).unwrap();
            assert_eq!(encode_loss_event_rate(p), packets.to_be_bytes());
        }
    }

    proptest! {
        #[test]
        fn intervals_come_back_as_they_were(
            skip: u8,
            fields in prop::collection::vec((0..=MAX_LENGTH, 0..=MAX_LOSSY, any::<bool>(), 0..=MAX_LENGTH), 1..=MAX_INTERVALS),
        ) {
            let intervals: Vec<LossInterval> = fields
                .into_iter()
                .map(|(lossless, lossy, nonce, data)| LossInterval { lossless, lossy, nonce, data })
                .collect();
            let mut data = Vec::new();
            encode_loss_intervals(skip, &intervals, &mut data);
            prop_assert!(data.len() <= crate::options::MAX_OPTION_DATA);
            let (got, again) = loss_intervals(&data).unwrap();
            prop_assert_eq!((got, again.collect::<Vec<_>>()), (skip, intervals));
        }

        #[test]
        fn a_loss_event_rate_comes_back_no_higher_than_it_was(p in 1e-9..1.0_f64) {
            let back = loss_event_rate(&encode_loss_event_rate(p)).unwrap();
            prop_assert!(back <= p * (1.0 + 1e-12) && 1.0 / back - 1.0 / p < 1.0 + 1e-6, "{} {}", p, back);
        }

        #[test]
        fn whatever_the_bytes_say_they_are_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..=253)) {
            if let Some((skip, intervals)) = loss_intervals(&data) {
                let intervals: Vec<LossInterval> = intervals.collect();
                let mut again = Vec::new();
                encode_loss_intervals(skip, &intervals, &mut again);
                prop_assert_eq!(&again, &data);
            }
        }
    }
}
