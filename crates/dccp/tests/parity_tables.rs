//! Tables of the erasure code, in a process of their own: memory shows when they are built.

use std::fs;

/// Size of a page in KiB, as Linux counts memory on most machines; larger pages make the bounds below wider.
const PAGE: u64 = 4;
/// Lower bound of the tables' size in KiB: some 10 MB.
const TABLES: u64 = 4 << 10;

/// Returns the process's resident memory in KiB.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

#[test]
fn what_is_prepared_is_not_built_with_the_first_parity() {
    let before = resident();
    timeous_dccp::prepare_parity();
    let prepared = resident();
    assert!(prepared >= before + TABLES, "{before} to {prepared} KiB");
    // A block of a video frame, of which a quarter is lost.
    let shards: Vec<Vec<u8>> = (0..20).map(|n| vec![n; 1_024]).collect();
    let parity = reed_solomon_simd::encode(20, 5, &shards).unwrap();
    let left = shards.iter().enumerate().skip(5);
    let rebuilt = reed_solomon_simd::decode(20, 5, left, parity.iter().enumerate()).unwrap();
    assert_eq!(rebuilt[&3], shards[3]);
    assert!(resident() < prepared + TABLES / 2, "{before} to {prepared}, then {} KiB", resident());
}
