//! TCP segment from arbitrary bytes: parsed or refused, and writing then parsing gives the same segment.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use timeous_tcp::{Addresses, Segment, WireError, segment};

fuzz_target!(|data: &[u8]| {
    let (source, destination) = match data.first().is_some_and(|byte| byte & 1 == 0) {
        true => (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])),
        false => (IpAddr::from([1u16; 8]), IpAddr::from([2u16; 8])),
    };
    let addresses = Addresses { source, destination };
    let Ok(read) = Segment::parse_trusted(data) else {
        assert!(!matches!(Segment::parse(data, addresses), Ok(_) | Err(WireError::Checksum)));
        return;
    };
    assert!(matches!(Segment::parse(data, addresses), Ok(_) | Err(WireError::Checksum)));
    assert_eq!(read.end().distance_from(read.header.seq), read.seq_len());
    assert!(read.options.window_scale.is_none_or(|shift| shift <= 14));
    let mut again = data.to_vec();
    let written = segment::begin(&read.header, &read.options, &mut again);
    // Only in crafted headers do options take less than whole words, so that they do not fit when written.
    let Ok(start) = written else {
        assert_eq!(again, data);
        assert!(read.options.len() > segment::MAX_OPTION_BYTES);
        return;
    };
    assert_eq!(start, data.len());
    again.extend_from_slice(read.payload);
    segment::finish(&mut again, start, addresses).unwrap();
    assert_eq!(Segment::parse(&again[start..], addresses), Ok(read));
});
