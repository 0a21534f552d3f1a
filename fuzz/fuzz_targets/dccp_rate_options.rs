//! CCID 3 and 4 options from arbitrary bytes: parsing ends, and writing then parsing gives the same options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_dccp::ccid3::options::{
    MAX_INTERVALS, encode_loss_event_rate, encode_loss_intervals, loss_event_rate, loss_intervals, receive_rate,
};
use timeous_dccp::ccid4::options::{MAX_COUNTS, drop_counts, encode_drop_counts};
use timeous_dccp::options::MAX_OPTION_DATA;

fuzz_target!(|data: &[u8]| {
    let data = &data[..data.len().min(MAX_OPTION_DATA)];
    if let Some((skip, intervals)) = loss_intervals(data) {
        let intervals: Vec<_> = intervals.collect();
        assert!(!intervals.is_empty() && intervals.len() <= MAX_INTERVALS);
        let mut again = Vec::new();
        encode_loss_intervals(skip, &intervals, &mut again);
        assert_eq!(again, data);
    }
    if let Some(counts) = drop_counts(data) {
        let counts: Vec<u32> = counts.collect();
        assert!(!counts.is_empty() && counts.len() <= MAX_COUNTS);
        let mut again = Vec::new();
        encode_drop_counts(counts, &mut again);
        assert_eq!(again, data);
    }
    if let Some(p) = loss_event_rate(data) {
        assert!((0.0..=1.0).contains(&p));
        assert_eq!(encode_loss_event_rate(p), data, "an inverse of up to 32 bits survives a double");
    }
    assert_eq!(receive_rate(data).is_some(), data.len() == 4);
});
