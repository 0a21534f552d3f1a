//! Tests of reassembly, and of its bounds.

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn written(number: u32, offset: u16, total: u16, bytes: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], &offset.to_be_bytes(), &total.to_be_bytes(), bytes].concat()
}

fn add(
    reassembly: &mut Reassembly,
    now: Instant,
    (number, offset, total): (u32, u16, u16),
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let written = written(number, offset, total, bytes);
    reassembly.add(now, Fragment::parse(&written).unwrap())
}

#[test]
fn an_adu_is_whole_in_any_order_and_others_may_come_between() {
    let mut all = Reassembly::default();
    assert_eq!(add(&mut all, at(0), (7, 4, 6), b"ef"), None);
    assert_eq!(add(&mut all, at(0), (8, 0, 4), b"12"), None);
    assert_eq!(add(&mut all, at(0), (7, 0, 6), b"ab"), None);
    assert_eq!(add(&mut all, at(0), (7, 2, 6), b"cd"), Some(b"abcdef".to_vec()));
    assert_eq!(add(&mut all, at(0), (8, 2, 4), b"34"), Some(b"1234".to_vec()));
    assert_eq!((all.open.len(), all.bytes), (0, 0));
}

#[test]
fn what_cannot_be_a_part_is_none() {
    for payload in [&b"1234567"[..], &written(1, 0, 4, b""), &written(1, 3, 4, b"ab"), &written(1, u16::MAX, 0, b"a")] {
        assert!(Fragment::parse(payload).is_none(), "{payload:?}");
    }
}

#[test]
fn parts_that_overlap_or_disagree_make_no_adu() {
    let mut all = Reassembly::default();
    add(&mut all, at(0), (1, 0, 6), b"abcd");
    assert_eq!(add(&mut all, at(0), (1, 2, 6), b"cdef"), None);
    assert_eq!(all.open.len(), 0, "it will never be whole");
    add(&mut all, at(0), (2, 0, 6), b"abc");
    assert_eq!(add(&mut all, at(0), (2, 3, 5), b"de"), None, "of another length");
    assert_eq!(add(&mut all, at(0), (2, 0, 6), b"xyz"), None, "twice the same");
    assert_eq!(add(&mut all, at(0), (2, 3, 6), b"def"), Some(b"abcdef".to_vec()));
    assert_eq!(all.bytes, 0);
}

#[test]
fn parts_of_adus_that_never_end_take_bounded_memory() {
    for (len, step) in [(1, 1), (1_400, 1), (60_000, 1), (1, 50), (1_400, 1_000_000)] {
        let (mut all, bytes) = (Reassembly::default(), vec![0; len]);
        for n in 0..20_000_u32 {
            add(&mut all, at(0), (n.wrapping_mul(step) / 4, (n % 4) as u16, u16::MAX), &bytes);
            let real: usize = all.open.values().map(Incomplete::cost).sum();
            assert_eq!(real, all.bytes);
            assert!(all.bytes <= MAX_BYTES && all.open.len() <= MAX_ADUS as usize, "{} of {len} bytes", all.open.len());
        }
    }
}

#[test]
fn an_adu_that_stays_incomplete_is_given_up() {
    let mut all = Reassembly::default();
    add(&mut all, at(0), (1, 0, 6), b"abc");
    add(&mut all, at(10_001), (2, 0, 6), b"abc");
    assert_eq!(all.open.len(), 1);
    assert_eq!(add(&mut all, at(10_001), (1, 3, 6), b"def"), None);
}
